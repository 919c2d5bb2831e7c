"""Members of classic groups with an instance id: they may be away for a while, and come back as somebody else."""

from __future__ import annotations

from typing import Any

import pytest

from goqueue.machines.groups.classic.values import Leaver, Protocol
from goqueue.model.topic import TopicPartition
from tests.unit.machines.groups.classic.classic_kit import (
    OPEN_MS,
    RANGE,
    REBALANCE_MS,
    SESSION_MS,
    Stage,
    settle,
    stable,
)
from tests.unit.machines.groups.classic.consumer_bytes import assignment, subscription

FIRST = assignment(TopicPartition("orders", 0))
SECOND = assignment(TopicPartition("orders", 1))


def one_static(**fields: Any) -> Stage:
    """Return a stage with a stable group: `a` leads, and `b` has the instance id `two`."""
    stage = Stage()
    stage.join(new_id="a", **fields)
    stage.join(new_id="b", instance_id="two", **fields)
    stage.pass_ms(OPEN_MS)
    settle(stage)
    return stage


def test_a_static_member_needs_no_second_join_for_its_id() -> None:
    stage = Stage()
    ticket = stage.join(new_id="a", instance_id="one", needs_known_id=True)
    stage.pass_ms(OPEN_MS)
    assert stage.joined(ticket).member_id == "a"


def test_a_static_member_comes_back_without_a_round() -> None:
    stage = one_static()
    back = stage.join(new_id="b2", instance_id="two")
    assert (stage.joined(back).member_id, stage.joined(back).generation) == ("b2", 1)
    assert (stage.joined(back).leader, stage.joined(back).is_assigned) == ("a", True)
    assert stage.state == "Stable"
    assert stage.synced(stage.sync("b2", instance_id="two")) == SECOND
    assert stage.told(stage.heartbeat("a"), stage.heartbeat("b2", instance_id="two")) == ["ok", "ok"]


def test_the_former_self_of_a_static_member_is_fenced() -> None:
    stage = one_static()
    stage.join(new_id="b2", instance_id="two")
    assert stage.told(
        stage.heartbeat("b", instance_id="two"),
        stage.sync("b", instance_id="two"),
        stage.join("b", instance_id="two"),
        stage.heartbeat("b"),
    ) == ["instance_fenced"] * 3 + ["unknown_member"]
    assert stage.results(stage.leave(Leaver("b", "two"))) == ["instance_fenced"]
    assert stage.state == "Stable"


def test_an_instance_id_that_nobody_has_is_unknown() -> None:
    stage = stable("a")
    assert (
        stage.told(
            stage.heartbeat("a", instance_id="one"),
            stage.sync("a", instance_id="one"),
            stage.join("a", instance_id="one"),
        )
        == ["unknown_member"] * 3
    )
    assert stage.results(stage.leave(Leaver("", "one"), Leaver("a", "one"))) == ["unknown_member"] * 2


def test_a_static_leader_comes_back_as_leader() -> None:
    stage = Stage()
    stage.join(new_id="a", instance_id="one")
    stage.join(new_id="b")
    stage.pass_ms(OPEN_MS)
    settle(stage)
    back = stage.join(new_id="a2", instance_id="one")
    assert (stage.joined(back).leader, stage.joined(back).is_assigned) == ("a2", True)
    assert {view.member_id for view in stage.joined(back).members} == {"a2", "b"}
    late = stage.sync("a2", {"a2": b"everything"}, instance_id="one")
    assert stage.synced(late) == FIRST


def test_what_a_sticky_member_says_of_its_partitions_makes_no_round_when_it_comes_back() -> None:
    owned = (TopicPartition("orders", 1),)
    said = (Protocol("cooperative-sticky", subscription("orders", owned=owned, user_data=b"sticky")),)
    stage = one_static(protocols=said)
    back = stage.join(
        new_id="b2", instance_id="two", protocols=(Protocol("cooperative-sticky", subscription("orders", owned=())),)
    )
    assert stage.joined(back).generation == 1
    assert stage.state == "Stable"


@pytest.mark.parametrize(
    "protocols",
    [
        (Protocol("range", subscription("audit")),),
        (Protocol("sticky", subscription("orders")), Protocol("range", b"something else")),
    ],
    ids=["other topics", "what cannot be read"],
)
def test_a_static_member_that_comes_back_to_read_something_else_begins_a_round(protocols: tuple[Protocol, ...]) -> None:
    stage = one_static()
    back = stage.join(new_id="b2", instance_id="two", protocols=protocols)
    assert stage.told(back) == ["waits"]
    stage.join("a")
    assert stage.joined(back).generation == 2
    assert stage.known.rebalances[-1].reason == "member b2 came back as instance two"


def test_a_static_member_that_comes_back_without_the_protocol_in_use_begins_a_round() -> None:
    empty = (Protocol("range", b""), Protocol("roundrobin", b""))
    stage = one_static(protocols=empty, protocol_type="others")
    back = stage.join(new_id="b2", instance_id="two", protocols=empty[1:], protocol_type="others")
    assert stage.told(back) == ["waits"]
    stage.join("a", protocols=empty, protocol_type="others")
    assert stage.joined(back).protocol == "roundrobin"


def test_a_lonely_static_member_may_come_back_with_another_type_of_protocol() -> None:
    stage = stable("a", instance_id="one")
    back = stage.join(new_id="a2", instance_id="one", protocol_type="connect")
    assert stage.joined(back).protocol_type == "connect"


def test_whoever_waits_as_the_former_self_is_told() -> None:
    stage = one_static()
    joining = stage.join("b", instance_id="two", protocols=(Protocol("range", subscription("audit")),))
    back = stage.join(new_id="b2", instance_id="two")
    assert stage.told(joining, back) == ["instance_fenced", "waits"]
    stage.join("a")
    assert stage.told(back) == ["ok"]
    syncing = stage.sync("b2", instance_id="two")
    again = stage.join(new_id="b3", instance_id="two")
    assert stage.told(syncing, again) == ["instance_fenced", "waits"]
    assert stage.state == "PreparingRebalance"


def test_a_newcomer_that_starts_again_within_its_first_round_takes_its_own_place() -> None:
    stage = Stage()
    first = stage.join(new_id="a", instance_id="one")
    second = stage.join(new_id="a2", instance_id="one")
    stage.pass_ms(OPEN_MS)
    assert stage.told(first, second) == ["instance_fenced", "ok"]
    assert set(stage.known.members) == {"a2"}


def test_a_static_member_may_be_away_during_a_round() -> None:
    stage = one_static(session_timeout_ms=60_000)
    c, a = stage.join(new_id="c"), stage.join("a")
    stage.pass_ms(REBALANCE_MS)
    assert stage.told(a, c) == ["ok", "ok"]
    assert {view.member_id for view in stage.joined(a).members} == {"a", "b", "c"}
    settle(stage)
    back = stage.join(new_id="b2", instance_id="two")
    assert stage.joined(back).generation == 2


def test_a_static_member_that_is_away_for_longer_than_its_session_is_given_up() -> None:
    stage = one_static()
    stage.pass_ms(SESSION_MS // 2)
    stage.heartbeat("a")
    stage.pass_ms(SESSION_MS // 2)
    assert set(stage.known.members) == {"a"}
    back = stage.join(new_id="b2", instance_id="two")
    stage.join("a")
    assert stage.joined(back).generation == 2


def all_away() -> Stage:
    """Return a stage with a round that only its static members, `a` and `b`, could end, and both are away."""
    stage = Stage()
    stage.join(new_id="a", instance_id="one", session_timeout_ms=60_000)
    stage.join(new_id="b", instance_id="two", session_timeout_ms=90_000)
    stage.join(new_id="c", session_timeout_ms=60_000)
    stage.pass_ms(OPEN_MS)
    settle(stage)
    asked = stage.join(new_id="d")
    stage.leave("d")
    assert stage.told(asked) == ["unknown_member"]
    return stage


def test_static_members_that_are_all_away_keep_their_places_until_their_sessions_are_over() -> None:
    stage = all_away()
    stage.pass_ms(REBALANCE_MS)
    assert (stage.state, set(stage.known.members)) == ("PreparingRebalance", {"a", "b"})
    assert stage.told(stage.heartbeat("c", generation=1)) == ["unknown_member"]
    stage.pass_ms(60_000 - REBALANCE_MS)
    assert (stage.state, set(stage.known.members)) == ("PreparingRebalance", {"b"})
    stage.pass_ms(30_000)
    assert (stage.state, stage.known.leader, stage.known.protocol) == ("Empty", "", None)


def test_a_round_that_waited_for_those_who_are_away_goes_on_with_whoever_comes_back() -> None:
    stage = all_away()
    stage.pass_ms(REBALANCE_MS)
    back = stage.join(new_id="b2", instance_id="two", session_timeout_ms=90_000)
    assert stage.told(back) == ["waits"]
    again = stage.join("a", instance_id="one", session_timeout_ms=60_000)
    assert stage.told(back, again) == ["ok", "ok"]
    assert (stage.generation, set(stage.known.members)) == (2, {"a", "b2"})


def test_whoever_comes_back_alone_waits_for_the_other_no_longer_than_its_session() -> None:
    stage = all_away()
    stage.pass_ms(REBALANCE_MS)
    back = stage.join(new_id="b2", instance_id="two", session_timeout_ms=90_000)
    stage.pass_ms(60_000 - REBALANCE_MS - 1)
    assert stage.told(back) == ["waits"]
    stage.pass_ms(1)
    assert (stage.told(back), set(stage.known.members)) == (["ok"], {"b2"})


def test_static_members_that_are_away_are_waited_for_after_a_restart_too() -> None:
    stage = all_away()
    stage.pass_ms(REBALANCE_MS)
    stage.restart(is_compacted=True)
    stage.pass_ms(59_999)
    assert (stage.state, set(stage.known.members)) == ("PreparingRebalance", {"a", "b"})
    stage.pass_ms(30_001)
    assert stage.state == "Empty"


def test_a_static_member_can_be_made_to_leave_by_its_instance_id_alone() -> None:
    stage = one_static()
    assert stage.results(stage.leave(Leaver("", "two"))) == ["ok"]
    assert set(stage.known.members) == {"a"}
    assert stage.told(stage.join("a")) == ["ok"]


def test_a_static_member_with_its_id_is_like_any_other() -> None:
    stage = one_static()
    again = stage.join("b", instance_id="two")
    assert stage.joined(again).generation == 1
    assert stage.state == "Stable"


# -- what a restart of the broker leaves


@pytest.mark.parametrize("is_compacted", [False, True])
def test_members_go_on_after_a_restart(is_compacted: bool) -> None:
    stage = stable("a", "b")
    stage.restart(is_compacted=is_compacted)
    assert stage.state == "Stable"
    assert stage.told(stage.heartbeat("a"), stage.heartbeat("b")) == ["ok", "ok"]
    assert stage.synced(stage.sync("b")) == SECOND
    stage.pass_ms(SESSION_MS)
    assert stage.state == "Empty"


def test_after_a_restart_a_generation_is_never_given_again() -> None:
    stage = stable("a")
    stage.leave("a")
    stage.restart()
    ticket = stage.join(new_id="b")
    stage.pass_ms(OPEN_MS)
    assert stage.joined(ticket).generation == 3


def test_a_group_whose_last_member_left_is_empty_after_a_restart_though_somebody_was_about_to_join() -> None:
    stage = stable("a")
    stage.join(new_id="b", needs_known_id=True)
    stage.leave("a")
    left_ms = stage.now.wall_ms
    assert stage.state == "PreparingRebalance"
    stage.restart()
    assert (stage.state, stage.known.leader, stage.known.protocol) == ("Empty", "", None)
    assert stage.known.emptied_ms == left_ms
    ticket = stage.join(new_id="c")
    stage.pass_ms(OPEN_MS)
    assert stage.joined(ticket).generation == 2


def test_what_a_member_left_behind_is_assigned_after_a_restart_too() -> None:
    stage = stable("a", "b")
    stage.leave("b")
    stage.restart()
    assert stage.told(stage.heartbeat("a")) == ["rebalance_in_progress"]
    again = stage.join("a")
    assert (stage.joined(again).generation, len(stage.joined(again).members)) == (2, 1)


def test_a_generation_that_was_not_assigned_is_not_continued_after_a_restart() -> None:
    stage = Stage()
    stage.join(new_id="a")
    stage.pass_ms(OPEN_MS)
    stage.restart()
    assert stage.told(stage.sync("a", {"a": FIRST}), stage.heartbeat("a")) == ["rebalance_in_progress"] * 2
    assert stage.joined(stage.join("a")).generation == 2


def test_a_round_that_only_newcomers_began_is_forgotten_by_a_restart() -> None:
    stage = stable("a", "b")
    stage.join(new_id="c")
    stage.restart()
    assert stage.told(stage.heartbeat("a"), stage.join("c")) == ["ok", "unknown_member"]


def test_a_static_member_that_changes_what_it_reads_is_heard_after_a_restart() -> None:
    stage = one_static()
    audit = (Protocol("range", subscription("audit")),)
    stage.join(new_id="b2", instance_id="two", protocols=audit)
    stage.restart()
    again = stage.join("b2", instance_id="two", protocols=audit)
    assert stage.told(again) == ["waits"]
    stage.join("a", protocols=RANGE)
    assert stage.joined(again).generation == 2

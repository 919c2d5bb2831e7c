"""Classic groups: who joins which generation, who assigns, and who is told what, as transcripts."""

from __future__ import annotations

import pytest

from goqueue.errors import MemberIdRequired
from goqueue.machines.groups.classic.values import LeaderView, Leaver, Protocol
from goqueue.model.topic import TopicPartition
from tests.unit.machines.groups.classic.classic_kit import (
    OPEN_MS,
    RANGE,
    REBALANCE_MS,
    SESSION_MS,
    Stage,
    all_joined,
    settle,
    stable,
)
from tests.unit.machines.groups.classic.consumer_bytes import assignment, subscription

FIRST = assignment(TopicPartition("orders", 0))
SECOND = assignment(TopicPartition("orders", 1))


# -- the first round


def test_the_life_of_a_group() -> None:
    stage = Stage()
    a, b = all_joined(stage, "a", "b")
    assert stage.told(a, b) == ["ok", "ok"]
    assert stage.state == "CompletingRebalance"
    assert (stage.joined(a).generation, stage.joined(a).leader, stage.joined(a).protocol) == (1, "a", "range")
    assert stage.joined(a).members == tuple(LeaderView(each, None, RANGE[0].metadata) for each in "ab")
    assert (stage.joined(b).generation, stage.joined(b).leader, stage.joined(b).members) == (1, "a", ())

    waiting = stage.sync("b")
    assert stage.told(waiting) == ["waits"]
    leading = stage.sync("a", {"a": FIRST, "b": SECOND})
    assert (stage.synced(leading), stage.synced(waiting)) == (FIRST, SECOND)
    assert stage.state == "Stable"
    assert stage.told(stage.heartbeat("a"), stage.heartbeat("b")) == ["ok", "ok"]

    assert stage.results(stage.leave("b")) == ["ok"]
    assert stage.state == "PreparingRebalance"
    assert stage.told(stage.heartbeat("a")) == ["rebalance_in_progress"]
    again = stage.join("a")
    assert (stage.joined(again).generation, len(stage.joined(again).members)) == (2, 1)
    stage.sync("a", {"a": FIRST})
    assert stage.results(stage.leave("a")) == ["ok"]
    assert (stage.state, stage.generation) == ("Empty", 3)


def test_the_first_round_stays_open_a_little_for_those_who_start_together() -> None:
    stage = Stage()
    tickets = [stage.join(new_id="a")]
    for member in "bcd":
        stage.pass_ms(OPEN_MS - 1)
        tickets.append(stage.join(new_id=member))
    assert stage.told(*tickets) == ["waits"] * 4
    stage.pass_ms(OPEN_MS - 1)
    assert stage.told(*tickets) == ["waits"] * 4
    stage.pass_ms(1)
    assert stage.told(*tickets) == ["ok"] * 4
    assert {stage.joined(ticket).generation for ticket in tickets} == {1}


def test_the_first_round_is_not_kept_open_for_ever() -> None:
    stage = Stage()
    first = stage.join(new_id="a")
    for number in range(29):
        stage.pass_ms(100)
        stage.join(new_id=f"b{number}")
    assert stage.told(first) == ["waits"]
    stage.pass_ms(99)
    stage.join(new_id="late")
    assert stage.told(first) == ["waits"]
    stage.pass_ms(1)
    assert stage.told(first) == ["ok"]
    assert len(stage.known.members) == 31


def test_somebody_who_joins_a_group_at_work_waits_for_its_members_only() -> None:
    stage = stable("a", "b")
    c = stage.join(new_id="c")
    assert stage.told(c) == ["waits"]
    a, b = stage.join("a"), stage.join("b")
    assert stage.told(a, b, c) == ["ok"] * 3
    assert {stage.joined(ticket).generation for ticket in (a, b, c)} == {2}
    assert {view.member_id for view in stage.joined(a).members} == {"a", "b", "c"}


def test_an_empty_group_begins_again_with_the_next_generation() -> None:
    stage = stable("a")
    stage.leave("a")
    (ticket,) = all_joined(stage, "b")
    assert stage.joined(ticket).generation == 3


# -- ids of members


def test_a_new_member_has_to_join_with_the_id_that_it_is_given() -> None:
    stage = Stage()
    asked = stage.join(new_id="a", needs_known_id=True)
    told = stage.answers[asked]
    assert isinstance(told, MemberIdRequired)
    assert told.member_id == "a"
    assert stage.state == "Empty"
    ticket = stage.join("a", needs_known_id=True)
    stage.pass_ms(OPEN_MS)
    assert stage.joined(ticket).member_id == "a"


def test_an_id_that_nobody_was_given_is_unknown() -> None:
    stage = Stage()
    assert stage.told(stage.join("made-up")) == ["unknown_member"]
    assert stage.group is None
    stage = stable("a")
    assert stage.told(stage.join("made-up")) == ["unknown_member"]
    assert stage.state == "Stable"


def test_a_round_waits_for_whoever_was_given_an_id() -> None:
    stage = stable("a")
    stage.join(new_id="b", needs_known_id=True)
    assert stage.state == "Stable"
    c = stage.join(new_id="c")
    a = stage.join("a")
    assert stage.told(a, c) == ["waits", "waits"]
    b = stage.join("b", needs_known_id=True)
    assert stage.told(a, b, c) == ["ok"] * 3


def test_an_id_that_does_not_come_back_is_given_up() -> None:
    stage = Stage()
    stage.join(new_id="b", needs_known_id=True)
    a = stage.join(new_id="a")
    stage.pass_ms(SESSION_MS - 1)
    assert stage.told(a) == ["waits"]
    stage.pass_ms(1)
    assert stage.told(a) == ["ok"]
    assert stage.told(stage.join("b", needs_known_id=True)) == ["unknown_member"]


# -- rounds


def test_members_that_do_not_join_again_in_time_are_left_behind() -> None:
    stage = stable("a", "b", session_timeout_ms=60_000)
    c = stage.join(new_id="c")
    stage.join("a")
    stage.pass_ms(REBALANCE_MS - 1)
    assert stage.told(c) == ["waits"]
    stage.pass_ms(1)
    assert stage.told(c) == ["ok"]
    assert set(stage.known.members) == {"a", "c"}
    assert stage.told(stage.heartbeat("b", generation=1)) == ["unknown_member"]


def test_a_silent_member_is_given_up_and_the_others_are_called() -> None:
    stage = stable("a", "b")
    stage.pass_ms(SESSION_MS - 1)
    stage.heartbeat("a")
    assert stage.state == "Stable"
    stage.pass_ms(1)
    assert stage.state == "PreparingRebalance"
    assert stage.told(stage.heartbeat("a"), stage.heartbeat("b")) == ["rebalance_in_progress", "unknown_member"]
    stage.join("a")
    settle(stage)
    assert stage.known.rebalances[-1].reason == "member b was silent for 10 s"


def test_whoever_waits_for_the_end_of_a_round_is_not_silent() -> None:
    stage = stable("a", "b")
    a = stage.join("a")
    for _ in range(3):
        stage.pass_ms(SESSION_MS // 2)
        stage.heartbeat("b")
    assert stage.told(a) == ["waits"]
    b = stage.join("b")
    assert stage.told(a, b) == ["ok", "ok"]


def test_whoever_waits_for_the_leader_is_not_silent() -> None:
    stage = Stage()
    all_joined(stage, "a", "b")
    waiting = stage.sync("b")
    for _ in range(3):
        stage.pass_ms(SESSION_MS // 2)
        stage.heartbeat("a")
    assert stage.told(waiting) == ["waits"]
    stage.sync("a", {"b": SECOND})
    assert stage.synced(waiting) == SECOND
    stage.pass_ms(SESSION_MS - 1)
    assert "b" in stage.known.members
    stage.pass_ms(1)
    assert "b" not in stage.known.members


def test_whoever_waited_for_a_leader_that_went_has_time_to_join_again() -> None:
    stage = Stage()
    all_joined(stage, "a", "b")
    waiting = stage.sync("b")
    stage.pass_ms(SESSION_MS)
    assert stage.told(waiting) == ["rebalance_in_progress"]
    stage.pass_ms(SESSION_MS - 1)
    again = stage.join("b")
    assert stage.joined(again).leader == "b"


def test_those_who_do_not_ask_for_their_assignment_are_given_up() -> None:
    stage = Stage()
    all_joined(stage, "a", "b", "c")
    waiting = stage.sync("b")
    for _ in range(4):
        assert stage.told(waiting) == ["waits"]
        stage.pass_ms(REBALANCE_MS // 4)
        stage.heartbeat("a")
        stage.heartbeat("c")
    assert stage.told(waiting) == ["rebalance_in_progress"]
    assert set(stage.known.members) == {"b"}
    stage.join("b")
    late = "did not ask for its assignment in time"
    assert stage.known.rebalances[-1].reason == f"member a {late}; member c {late}"


def test_a_round_calls_those_who_wait_for_the_leader() -> None:
    stage = Stage()
    all_joined(stage, "a", "b")
    waiting = stage.sync("b")
    stage.join(new_id="c")
    assert stage.told(waiting) == ["rebalance_in_progress"]
    assert stage.told(stage.sync("a", {"a": FIRST})) == ["rebalance_in_progress"]


def test_a_member_that_joins_or_asks_twice_is_answered_twice() -> None:
    stage = stable("a", "b")
    first = stage.join("a")
    second = stage.join("a")
    assert stage.told(first, second) == ["rebalance_in_progress", "waits"]
    stage.join("b")
    assert stage.told(second) == ["ok"]
    first, second = stage.sync("b"), stage.sync("b")
    assert stage.told(first, second) == ["rebalance_in_progress", "waits"]
    stage.sync("a", {"b": SECOND})
    assert stage.synced(second) == SECOND


def test_a_member_whose_reply_was_lost_is_told_the_generation_again() -> None:
    stage = Stage()
    all_joined(stage, "a", "b")
    a, b = stage.join("a"), stage.join("b")
    assert (stage.joined(a).generation, len(stage.joined(a).members)) == (1, 2)
    assert (stage.joined(b).generation, len(stage.joined(b).members)) == (1, 0)
    settle(stage)
    b = stage.join("b")
    assert stage.joined(b).generation == 1
    assert stage.state == "Stable"
    assert stage.synced(stage.sync("b")) == SECOND


def test_a_leader_that_joins_again_begins_a_round() -> None:
    stage = stable("a", "b")
    stage.join("a", reason="metadata has changed")
    assert stage.state == "PreparingRebalance"
    stage.join("b")
    assert stage.known.rebalances[-1].reason == "member a metadata has changed"
    assert stage.known.leader == "a"


@pytest.mark.parametrize("is_stable", [False, True])
def test_a_member_that_reads_other_topics_begins_a_round(is_stable: bool) -> None:
    stage = Stage()
    all_joined(stage, "a", "b")
    if is_stable:
        settle(stage)
    stage.join("b", protocols=(Protocol("range", subscription("audit")),))
    assert stage.state == "PreparingRebalance"
    a = stage.join("a")
    assert [view.metadata for view in stage.joined(a).members] == [subscription("audit"), RANGE[0].metadata]


def test_another_leads_when_the_leader_does_not_come() -> None:
    stage = stable("a", "b", "c")
    stage.leave("a")
    c, b = stage.join("c"), stage.join("b")
    assert (stage.joined(b).leader, stage.joined(c).leader) == ("c", "c")
    assert len(stage.joined(c).members) == 2


# -- those who are late, or strangers


def test_strangers_and_old_generations_change_nothing() -> None:
    stage = Stage()
    assert stage.told(stage.sync("a"), stage.heartbeat("a")) == ["unknown_member"] * 2
    stage = stable("a", "b")
    before = stage.known
    for generation in (0, 2, -1):
        assert (
            stage.told(
                stage.sync("a", {"a": b"mine"}, generation=generation), stage.heartbeat("a", generation=generation)
            )
            == ["stale_generation"] * 2
        )
    assert stage.told(stage.sync("z"), stage.heartbeat("z"), stage.heartbeat("")) == ["unknown_member"] * 3
    assert stage.results(stage.leave("z", "")) == ["unknown_member"] * 2
    assert stage.group is before


def test_a_leader_that_comes_late_with_its_assignments_does_not_change_them() -> None:
    stage = stable("a", "b")
    late = stage.sync("a", {"a": b"all"})
    assert stage.synced(late) == FIRST
    assert stage.known.members["b"].assignment == SECOND


# -- leaving


def test_each_leaver_has_a_result_of_its_own() -> None:
    stage = stable("a", "b", "c")
    ticket = stage.leave(Leaver("a", reason="shut down"), "z", "c")
    assert stage.results(ticket) == ["ok", "unknown_member", "ok"]
    b = stage.join("b")
    assert stage.joined(b).leader == "b"
    assert stage.known.rebalances[-1].reason == "member a left: shut down; member c left"


def test_one_who_waits_and_leaves_is_told_so() -> None:
    stage = stable("a", "b")
    joining, joining_again = stage.join(new_id="c"), stage.join("a")
    assert stage.results(stage.leave("c", "a")) == ["ok", "ok"]
    assert stage.told(joining, joining_again) == ["unknown_member"] * 2
    stage.join("b")
    assert set(stage.known.members) == {"b"}


def test_one_who_waits_for_the_leader_and_leaves_is_told_so() -> None:
    stage = Stage()
    all_joined(stage, "a", "b")
    waiting = stage.sync("b")
    stage.leave("b")
    assert stage.told(waiting) == ["unknown_member"]


def test_an_id_that_was_given_out_can_be_given_back() -> None:
    stage = Stage()
    stage.join(new_id="b", needs_known_id=True)
    a = stage.join(new_id="a")
    stage.pass_ms(OPEN_MS)
    assert stage.told(a) == ["waits"]
    assert stage.results(stage.leave("b")) == ["ok"]
    assert stage.told(a) == ["ok"]


def test_the_last_one_to_be_missed_ends_the_round_by_leaving() -> None:
    stage = stable("a", "b")
    c, a = stage.join(new_id="c"), stage.join("a")
    stage.leave("b")
    assert stage.told(a, c) == ["ok", "ok"]

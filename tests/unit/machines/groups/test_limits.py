"""How much may be said to a group, and that whatever is let in can be stored at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.errors import CommitTooLarge, GroupFull, GroupRequestTooLarge
from goqueue.machines.decision import KeyedRecord, Now
from goqueue.machines.groups.classic.joining import join
from goqueue.machines.groups.classic.records import changes
from goqueue.machines.groups.classic.values import ClassicGroup, ClassicMember, Join, Leaver, Protocol, weighed
from goqueue.machines.groups.commands import CommitOffsets
from goqueue.machines.groups.consumer.values import JOIN_EPOCH, ConsumerGroup, ConsumerHeartbeat, ConsumerMember
from goqueue.machines.groups.limits import (
    ASSIGNMENT_BYTES_MAX,
    ASSIGNMENTS_BYTES_MAX,
    MEMBERS_MAX,
    NAME_BYTES_MAX,
    PENDING_MAX,
    PENDING_MAX_MS,
    PROTOCOLS_BYTES_MAX,
    PROTOCOLS_MAX,
    SUBSCRIPTION_BYTES_MAX,
    check_commit,
    check_heartbeat,
)
from goqueue.machines.groups.offsets import CommittedOffset, NewOffset, OffsetTable
from goqueue.model.topic import TopicPartition
from tests.unit.machines.groups.classic.classic_kit import NAME, OPEN_MS, RANGE, SESSION_MS, Stage, all_joined, stable

BATCH_BYTES_MAX = 64 * 1024 * 1024
NOW = Now(1_700_000_000_000, 50_000)
NAMES = st.text(max_size=80) | st.just("\x01" * 80) | st.just("😀" * 80)


def stored_bytes(records: Iterable[KeyedRecord]) -> int:
    return sum(len(record.key) + len(record.value or b"") for record in records)


# -- what a member of a classic group may say


@pytest.mark.parametrize(
    "fields",
    [
        {"instance_id": "i" * (NAME_BYTES_MAX + 1)},
        {"client_id": "ü" * (NAME_BYTES_MAX // 2 + 1)},
        {"protocol_type": "t" * (NAME_BYTES_MAX + 1)},
        {"protocols": (Protocol("p" * (NAME_BYTES_MAX + 1), b""),)},
        {"protocols": tuple(Protocol(str(number), b"") for number in range(PROTOCOLS_MAX + 1))},
        {"protocols": (Protocol("a", bytes(PROTOCOLS_BYTES_MAX)), Protocol("b", b"x"))},
    ],
    ids=["instance id", "client id", "type", "name of a protocol", "many protocols", "long metadata"],
)
def test_a_member_that_says_too_much_is_refused_and_leaves_no_trace(fields: dict[str, Any]) -> None:
    stage = Stage()
    assert stage.told(stage.join(new_id="a", **fields)) == ["group_request_too_large"]
    assert stage.group is None


def test_a_member_may_say_as_much_as_is_allowed() -> None:
    stage = Stage()
    protocols = [Protocol("range", bytes(PROTOCOLS_BYTES_MAX))]
    protocols += [Protocol(str(number), b"") for number in range(PROTOCOLS_MAX - 1)]
    ticket = stage.join(new_id="a" * NAME_BYTES_MAX, client_id="c" * NAME_BYTES_MAX, protocols=tuple(protocols))
    stage.pass_ms(OPEN_MS)
    assert stage.told(ticket) == ["ok"]


def test_a_long_reason_is_cut_and_nobody_is_refused_for_it() -> None:
    stage = stable("a", "b")
    stage.leave(Leaver("b", reason="because " * 100_000))
    stage.join("a")
    assert len(stage.known.rebalances[-1].reason) == 500


def test_assignments_that_are_too_large_are_refused_and_the_leader_may_bring_others() -> None:
    stage = Stage()
    all_joined(stage, "a", "b", "c", "d")
    waiting = stage.sync("b")
    part = bytes(ASSIGNMENTS_BYTES_MAX // 4)
    refused = [
        stage.sync("a", {"a": bytes(ASSIGNMENT_BYTES_MAX + 1)}),
        stage.sync("a", {"a": part, "b": part, "c": part, "d": part + b"x"}),
        stage.sync("a", {f"stranger {number}": part for number in range(5)}),
    ]
    assert stage.told(*refused, waiting) == ["group_request_too_large"] * 3 + ["waits"]
    stage.sync("a", dict.fromkeys("abcd", part))
    assert stage.synced(waiting) == part


def test_no_more_members_are_sent_away_than_there_can_be() -> None:
    stage = stable("a")
    assert stage.told(stage.leave(*(str(number) for number in range(MEMBERS_MAX + 1)))) == ["group_request_too_large"]
    assert stage.state == "Stable"


# -- what a classic group may hold


def crowd(count: int) -> ClassicGroup:
    members = {str(number): ClassicMember(id=str(number), protocols=RANGE) for number in range(count)}
    return ClassicGroup(
        name=NAME, generation=1, protocol_type="consumer", protocol="range", leader="0", members=members
    )


def newcomer(**fields: Any) -> Join:
    return Join(group=NAME, member_id="", new_id="new", protocol_type="consumer", protocols=RANGE, **fields)


def test_a_group_takes_no_more_members_than_it_may_have() -> None:
    assert join(crowd(MEMBERS_MAX - 1), newcomer(), 1, NOW).group.round is not None
    for command in (newcomer(), newcomer(needs_known_id=True), newcomer(instance_id="i")):
        with pytest.raises(GroupFull):
            join(crowd(MEMBERS_MAX), command, 1, NOW)
    again = replace(newcomer(), member_id="7")
    assert join(crowd(MEMBERS_MAX), again, 1, NOW).answers


def test_no_more_ids_are_given_out_than_can_be_waited_for() -> None:
    stage = Stage()
    given = [stage.join(new_id=f"n{number}", needs_known_id=True) for number in range(PENDING_MAX)]
    assert set(stage.told(*given)) == {"member_id_required"}
    assert stage.told(stage.join(new_id="late", needs_known_id=True)) == ["group_full"]
    assert stage.told(stage.join("n0")) == ["waits"]
    assert stage.told(stage.join(new_id="late", needs_known_id=True)) == ["member_id_required"]


def test_an_id_is_kept_for_a_minute_whatever_the_session() -> None:
    stage = Stage()
    stage.join(new_id="a", needs_known_id=True, session_timeout_ms=1_800_000)
    waiting = stage.join(new_id="b", session_timeout_ms=1_800_000, rebalance_timeout_ms=1_800_000)
    stage.pass_ms(PENDING_MAX_MS - 1)
    assert stage.told(waiting) == ["waits"]
    stage.pass_ms(1)
    assert stage.told(waiting, stage.join("a")) == ["ok", "unknown_member"]


def test_members_that_say_too_much_together_are_refused_and_the_others_go_on() -> None:
    stage = Stage()
    large = (Protocol("range", bytes(100_000)),)
    tickets = [stage.join(new_id=f"m{number}", protocols=large) for number in range(100)]
    told = stage.told(*tickets)
    joined = told.count("waits")
    assert told == ["waits"] * joined + ["group_full"] * (100 - joined)
    assert 40 < joined < 80
    stage.pass_ms(OPEN_MS)
    assert len(stage.known.members) == joined
    assert stage.told(stage.join("m0", protocols=(Protocol("range", bytes(900_000)),))) == ["group_full"]
    assert stage.told(stage.join("m0", protocols=large)) == ["ok"]


def test_all_that_a_group_lets_in_fits_well_into_a_batch() -> None:
    stage = Stage()
    large = (Protocol("range", bytes(PROTOCOLS_BYTES_MAX - 100)),)
    count = 0
    while stage.told(stage.join(new_id=f"m{count}", protocols=large)) == ["waits"]:
        count += 1
    stage.pass_ms(OPEN_MS)
    generation = stored_bytes(stage.records)
    share = bytes(ASSIGNMENTS_BYTES_MAX // count)
    for member in [*list(stage.known.members)[1:], stage.known.leader]:
        stage.sync(member, dict.fromkeys(stage.known.members, share))
    assert stage.state == "Stable"
    assigned = stored_bytes(stage.records) - generation
    assert 4_000_000 < generation < assigned < BATCH_BYTES_MAX / 4


def test_a_group_is_as_full_after_a_restart_as_before() -> None:
    stage = Stage()
    large = (Protocol("range", bytes(PROTOCOLS_BYTES_MAX)),)
    count = 0
    while stage.told(stage.join(new_id=f"m{count}", protocols=large)) == ["waits"]:
        count += 1
    stage.pass_ms(OPEN_MS)
    stage.sync(stage.known.leader, {})
    stage.restart()
    assert stage.told(stage.join(new_id="one more", protocols=large)) == ["group_full"]
    assert stage.told(stage.join(new_id="one more", protocols=RANGE)) == ["waits"]
    stage.pass_ms(10 * SESSION_MS)


@given(NAMES, NAMES, NAMES | st.none(), st.lists(st.tuples(NAMES, st.binary(max_size=50)), max_size=5))
def test_a_member_is_never_stored_in_more_bytes_than_it_was_counted_with(
    group: str, name: str, instance_id: str | None, protocols: list[tuple[str, bytes]]
) -> None:
    said = tuple(Protocol(*each) for each in protocols)
    member = weighed(group, ClassicMember(id=name, instance_id=instance_id, client_id=name, protocols=said))
    before = ClassicGroup(name=group, generation=1)
    records = changes(before, replace(before, members={name: member}))
    assert stored_bytes(records) <= member.stored_bytes


# -- what a member may say whose broker assigns


def subscribed(topics: frozenset[str], **fields: Any) -> ConsumerHeartbeat:
    return ConsumerHeartbeat(group="g", member_id="m", epoch=JOIN_EPOCH, topics=topics, **fields)


LONG = frozenset({"t" * (SUBSCRIPTION_BYTES_MAX - 20)})
TOO_LONG = frozenset({"t" * SUBSCRIPTION_BYTES_MAX})


@pytest.mark.parametrize(
    "command",
    [
        subscribed(TOO_LONG),
        subscribed(frozenset(str(number) for number in range(200_000))),
        subscribed(frozenset({"\x01" * (SUBSCRIPTION_BYTES_MAX // 5)})),
        subscribed(frozenset("t"), pattern="p" * SUBSCRIPTION_BYTES_MAX),
        subscribed(frozenset("t"), instance_id="i" * (NAME_BYTES_MAX + 1)),
        subscribed(frozenset("t"), rack_id="r" * (NAME_BYTES_MAX + 1)),
        subscribed(frozenset("t"), assignor="a" * (NAME_BYTES_MAX + 1)),
        replace(subscribed(frozenset("t")), member_id="m" * (NAME_BYTES_MAX + 1)),
    ],
    ids=["a long name", "many names", "escaped", "pattern", "instance id", "rack id", "assignor", "member id"],
)
def test_a_heartbeat_that_says_too_much_is_refused(command: ConsumerHeartbeat) -> None:
    with pytest.raises(GroupRequestTooLarge):
        check_heartbeat(command, None)
    check_heartbeat(subscribed(LONG), None)


def test_a_group_whose_broker_assigns_takes_no_more_than_it_may_hold() -> None:
    few = {str(number): ConsumerMember(id=str(number), topics=LONG) for number in range(15)}
    check_heartbeat(subscribed(LONG), ConsumerGroup(name="g", members=few))
    full = {str(number): ConsumerMember(id=str(number), topics=LONG) for number in range(16)}
    for known in (full, {**full, "m": ConsumerMember(id="m")}):
        with pytest.raises(GroupFull):
            check_heartbeat(subscribed(LONG), ConsumerGroup(name="g", members=known))
    many = {str(number): ConsumerMember(id=str(number)) for number in range(MEMBERS_MAX)}
    with pytest.raises(GroupFull):
        check_heartbeat(subscribed(frozenset()), ConsumerGroup(name="g", members=many))
    check_heartbeat(replace(subscribed(frozenset()), member_id="7"), ConsumerGroup(name="g", members=many))


def test_a_heartbeat_with_nothing_new_is_let_through_however_full_the_group_is() -> None:
    full = {str(number): ConsumerMember(id=str(number), topics=TOO_LONG) for number in range(20)}
    alive = ConsumerHeartbeat(group="g", member_id="7", epoch=3)
    check_heartbeat(alive, ConsumerGroup(name="g", members=full))


# -- commits


def commit(count: int, metadata: str = "", group: str = "g") -> CommitOffsets:
    one = NewOffset(TopicPartition("orders", 7), CommittedOffset(1 << 60, 1 << 30, metadata, 1 << 50))
    return CommitOffsets(group=group, offsets=[one] * count)


@pytest.mark.parametrize(
    ("most", "more"),
    [
        (commit(80_000), commit(120_000)),
        (commit(7_000, group="g" * 1000), commit(9_000, group="g" * 1000)),
        (commit(256, "\x01" * 4096), commit(257, "\x01" * 4096)),
    ],
    ids=["many offsets", "a long name", "metadata"],
)
def test_a_commit_may_bring_no_more_than_fits_well_into_a_batch(most: CommitOffsets, more: CommitOffsets) -> None:
    check_commit(most)
    assert stored_bytes(OffsetTable().commit(most.group, most.offsets)) < BATCH_BYTES_MAX / 4
    with pytest.raises(CommitTooLarge):
        check_commit(more)

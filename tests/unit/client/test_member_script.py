"""How long a member waits for messages that begins at the end: not before it knows where that is."""

from __future__ import annotations

import pytest

from goqueue.client import Call, GroupPartition, PartitionOffset, StartAt
from goqueue.client.acts import Acts
from goqueue.client.group_values import CooperativeMembership
from goqueue.client.groups import GroupPage
from goqueue.client.member_script import ConsumerOptions, MemberScript, Reading
from goqueue.errors import GoQueueError, LogOffline, OffsetOutOfRange
from goqueue.testing import ManualClock, SeededEntropy

ZERO, ONE = GroupPartition("t", 0), GroupPartition("t", 1)
HEARTBEAT_S = 3.0


def joined(*assigned: GroupPartition, **options: object) -> MemberScript:
    """Return a member that has these partitions."""
    given: ConsumerOptions = {"auto_commit_s": None, **options}  # type: ignore[typeddict-item]
    script = MemberScript("g", given, ManualClock(now_ms=0), SeededEntropy(7))
    script.subscribe(["t"])
    joining = script.attend()
    next(joining)
    with pytest.raises(StopIteration):
        joining.send(membership(*assigned))
    return script


def membership(*assigned: GroupPartition) -> CooperativeMembership:
    return CooperativeMembership(
        member_id="m",
        generation=1,
        state="stable",
        assigned=assigned,
        revoke=(),
        heartbeat_interval_ms=round(HEARTBEAT_S * 1000),
    )


def page(number: int, offsets: dict[GroupPartition, int], *errors: tuple[GroupPartition, GoQueueError]) -> GroupPage:
    told = [PartitionOffset(each.topic, each.partition, offset) for each, offset in offsets.items()]
    return GroupPage([], told, number, is_rebalancing=False, errors=errors)


def waited(script: MemberScript, reply: GroupPage, wait_s: float = 60.0) -> float:
    """Poll, take what comes, and return how long the broker was to wait."""
    acts: Acts[Reading | None] = script.read(500, script.deadline(wait_s))
    call: Call[GroupPage] = next(acts)
    with pytest.raises(StopIteration) as ended:
        acts.send(reply)
    assert script.take(ended.value.value) == ([] if wait_s <= call.wait_s else None)
    return call.wait_s


def test_a_member_that_begins_at_the_end_waits_once_it_knows_where_that_is() -> None:
    script = joined(ZERO, ONE, start_at=StartAt.LATEST)
    assert waited(script, page(1, {ZERO: 10, ONE: 7})) == 0
    assert waited(script, page(2, {})) == HEARTBEAT_S
    assert waited(script, page(3, {}), wait_s=1.0) == 1.0


def test_a_member_that_begins_with_the_oldest_message_waits_at_once() -> None:
    assert waited(joined(ZERO), page(1, {ZERO: 10})) == HEARTBEAT_S


def test_a_partition_that_cannot_be_begun_is_asked_for_only_now_and_then() -> None:
    script = joined(ZERO, ONE, start_at=StartAt.LATEST)
    offline = (ONE, LogOffline("its disk is broken"))
    assert waited(script, page(1, {ZERO: 10}, offline)) == 0
    assert waited(script, page(2, {}, offline)) == 0.5
    assert waited(script, page(3, {ONE: 3})) == 0.5
    assert waited(script, page(4, {})) == HEARTBEAT_S


def test_what_was_astray_is_told_until_the_poll_returns() -> None:
    script = joined(ZERO)
    astray = OffsetOutOfRange(50, start=0, end=3)
    waited(script, page(1, {ZERO: 0}, (ZERO, astray)))
    waited(script, page(2, {}), wait_s=0.0)
    assert script.errors == {ZERO: astray}
    waited(script, page(3, {}), wait_s=0.0)
    assert script.errors == {}

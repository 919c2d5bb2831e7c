"""Messages for a member of a group: from all its partitions, each from where the member has got to.

A poll goes the way of every fetch (`fetch`), where it is admitted and counted. It brings messages, committed ones
unless asked otherwise, of partitions that are the member's when it begins and still are when it ends; those from which
messages came last have to wait until others had their turn. With auto-commit, what earlier polls brought is committed
before anything is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from goqueue.broker.admission import Caller, operation
from goqueue.broker.groups.members import Standing, member_of
from goqueue.broker.groups.membership import commit_offsets
from goqueue.broker.groups.positions import MemberPositions, Position, Positions
from goqueue.broker.messages.fetch import Fetch, Fetched, FetchTarget, FetchTerms
from goqueue.broker.messages.reading import Polls, ReadRequest, opened
from goqueue.errors import (
    Conflict,
    Corrupt,
    GoQueueError,
    OffsetOutOfRange,
    StaleMemberEpoch,
    UnknownTopic,
    UnstableOffsets,
)
from goqueue.machines.groups.commands import CommitOffsets
from goqueue.machines.groups.consumer.values import ConsumerGroup
from goqueue.machines.groups.offsets import CommittedOffset, NewOffset
from goqueue.model.start_at import StartAt
from goqueue.model.topic import TopicPartition
from goqueue.records.reader import Record
from goqueue.runtime.partition import Partition
from goqueue.runtime.waiters import hand_over, turns

if TYPE_CHECKING:
    from goqueue.broker.groups.service import GroupService
    from goqueue.machines.groups.machine import GroupMachine


# What cannot be read now, and may be soon, is looked at again after this time: nobody tells when it has changed.
_LOOK_AGAIN_S = 0.1


class Poll(NamedTuple):
    """What a member asks for; `seen` is the number of the last poll whose messages it has, None for all of them.

    `seeks` is where to go on in single partitions, if they are the member's, instead of where it has got to.
    """

    group: str
    member_id: str
    epoch: int
    limit: int = 100
    wait_ms: int = 0
    bytes_max: int = 1024 * 1024
    start_at: StartAt = StartAt.EARLIEST
    is_auto_commit: bool = False
    seen: int | None = None
    seeks: Sequence[tuple[TopicPartition, int]] = ()
    is_committed_only: bool = True


class Polled(NamedTuple):
    """What a member got: messages by partition, where it goes on, and what could not be read.

    OffsetOutOfRange tells that there is nothing where it was to go on, and that it has begun anew (`start_at`).
    `next_offsets` is what to commit once the messages are done: of all partitions of which that was not told yet, also
    without messages. If it `has_forgotten`, nothing is known of the polls before: a member that knows where it was says
    so by seeks, and is answered at once.
    """

    number: int
    standing: Standing
    records: Mapping[TopicPartition, Sequence[Record]]
    next_offsets: Mapping[TopicPartition, int]
    errors: Mapping[TopicPartition, GoQueueError]
    has_forgotten: bool


async def poll_group(groups: GroupService, caller: Caller, polls: Polls, positions: Positions, poll: Poll) -> Polled:
    """Return messages of the partitions that a member has; waits for the first one if asked to.

    UnknownMember or StaleMemberEpoch if it is no member in that epoch, or stops being one while it waits. A later poll
    of the same member ends an earlier one with Conflict.
    """
    poll = poll._replace(bytes_max=min(poll.bytes_max, groups.core.options.fetch_bytes_max))
    await admit(groups, caller, poll)
    mine = positions.of(poll.group, poll.member_id, partial(_is_member, groups))
    turn = mine.begin(poll.seen)
    check_turn = partial(_check_turn, groups, poll, mine, turn)
    if poll.is_auto_commit:
        await _commit(groups, caller, mine, poll, check_turn)
    _seek(groups, mine, poll)
    loop = asyncio.get_running_loop()
    has_forgotten = bool(poll.seen) and poll.seen == mine.known_from
    # Messages may be waiting at a place that only the member knows.
    deadline = loop.time() + (0 if has_forgotten else poll.wait_ms / 1000)
    errors: dict[TopicPartition, GoQueueError] = {}
    look_again = loop.time() + _LOOK_AGAIN_S
    while True:
        machine = await groups.machine(poll.group)
        check_turn()
        if loop.time() >= look_again:
            errors = {each: error for each, error in errors.items() if not error.retriable}
            look_again = loop.time() + _LOOK_AGAIN_S
        wanted = _plan(groups, machine, mine, poll, errors)
        is_passing = any(error.retriable for error in errors.values())
        wait_ms = max(ceil((min(deadline, look_again if is_passing else deadline) - loop.time()) * 1000), 0)
        fetched = await _fetch(groups, caller, polls, mine, wanted, poll._replace(wait_ms=wait_ms))
        check_turn()
        # Whatever was taken away while this poll waited is somebody else's by now.
        standing = _current(groups, poll)
        mine.keep(standing.member)
        own = [(each, result) for each, result in fetched if each in standing.member.assigned]
        records = _take(mine, own, wanted, poll, errors)
        if records or loop.time() >= deadline or polls.is_closed:
            break
        # What was read may all be of aborted transactions, and there may be much of it: others have a turn in between.
        await turns(1)
    next_offsets = mine.tell()
    return Polled(mine.number, standing, records, next_offsets, {**mine.astray, **errors}, has_forgotten)


@operation("groups.poll", on="group", at="poll.group")
async def admit(groups: GroupService, caller: Caller, poll: Poll) -> None:
    """Raise what keeps a member from polling; all that its group has decided so far is durable at return."""
    _current(groups, poll)
    await groups.machine(poll.group)


def _current(groups: GroupService, poll: Poll) -> Standing:
    standing = member_of(groups, poll.group, poll.member_id)
    epoch = standing.member.epoch
    if epoch != poll.epoch:
        raise StaleMemberEpoch(
            f"member {poll.member_id!r} is in generation {epoch}, not {poll.epoch}", hint="join again"
        )
    return standing


def _check_turn(groups: GroupService, poll: Poll, mine: MemberPositions, turn: int) -> None:
    if mine.turn != turn:
        # Whoever has left, or was sent away, hears that: it can join again.
        _current(groups, poll)
        raise Conflict("the member has begun another poll, or joined again", hint="poll one at a time")


def _is_member(groups: GroupService, group: str, member_id: str) -> bool:
    try:
        machine = groups.peek(group)
    except GoQueueError:
        return False
    found = None if machine is None else machine.find(group)
    return isinstance(found, ConsumerGroup) and member_id in found.members


def _seek(groups: GroupService, mine: MemberPositions, poll: Poll) -> None:
    """Go on elsewhere in the partitions that the poll says, if they are the member's."""
    member = _current(groups, poll).member
    for each, offset in poll.seeks:
        # What is wrong with a topic is told for each partition when it is read.
        with suppress(UnknownTopic):
            if each in member.assigned:
                mine.start(each, Position(groups.topics.topic(each.topic).topic.id, offset), is_committed=False)


async def _commit(
    groups: GroupService, caller: Caller, mine: MemberPositions, poll: Poll, check_turn: Callable[[], None]
) -> None:
    """Commit what the member has seen; partitions that it cannot commit are not its own any more."""
    offsets = mine.uncommitted()
    if not offsets:
        return
    command = CommitOffsets(
        group=poll.group,
        offsets=[NewOffset(each, CommittedOffset(offset)) for each, offset in offsets.items()],
        member_id=poll.member_id,
        epoch=poll.epoch,
    )
    refusals = await commit_offsets(groups, caller, command)
    check_turn()
    for (each, offset), refusal in zip(offsets.items(), refusals, strict=True):
        if refusal is None:
            mine.committed[each] = offset
        else:
            mine.forget(each)


def _plan(
    groups: GroupService,
    machine: GroupMachine,
    mine: MemberPositions,
    poll: Poll,
    errors: dict[TopicPartition, GoQueueError],
) -> Mapping[TopicPartition, FetchTarget]:
    """Return where to read, in the order in which partitions have their turn; what cannot be read is an error."""
    member = _current(groups, poll).member
    mine.watched = member.assigned
    mine.keep(member)
    wanted: dict[TopicPartition, FetchTarget] = {}
    for each in mine.in_turn(member.assigned):
        try:
            if each not in errors:
                wanted[each] = _wanted(groups, machine, mine, each, poll)
        except GoQueueError as error:
            errors[each] = error
    return wanted


def _wanted(
    groups: GroupService,
    machine: GroupMachine,
    mine: MemberPositions,
    each: TopicPartition,
    poll: Poll,
) -> FetchTarget:
    topic = groups.topics.topic(each.topic)
    partition = topic.partition(each.partition)
    if partition.gone is not None:
        raise partition.gone
    offset = mine.find(each, topic.topic.id)
    if offset is None:
        if machine.offsets.is_pending(poll.group, each):
            raise UnstableOffsets(f"a transaction is about to change the offset of {each.topic}-{each.partition}")
        committed = machine.offsets.find(poll.group, each)
        offset = _start(partition, poll) if committed is None else committed.offset
        mine.start(each, Position(topic.topic.id, offset), is_committed=committed is not None)
    start, end = partition.log.start_offset, partition.log.end_offset
    if not start <= offset <= end:
        astray = OffsetOutOfRange(offset, start=start, end=end)
        offset = _start(partition, poll)
        mine.start(each, Position(topic.topic.id, offset), is_committed=False)
        mine.astray[each] = astray
    return FetchTarget(partition, offset, poll.bytes_max)


def _start(partition: Partition, poll: Poll) -> int:
    if poll.start_at is StartAt.EARLIEST:
        return partition.log.start_offset
    # Not behind the messages of open transactions, if nobody could have seen them yet.
    return partition.last_stable_offset if poll.is_committed_only else partition.high_watermark


async def _fetch(
    groups: GroupService,
    caller: Caller,
    polls: Polls,
    mine: MemberPositions,
    wanted: Mapping[TopicPartition, FetchTarget],
    poll: Poll,
) -> Iterable[tuple[TopicPartition, Fetched]]:
    arrived: asyncio.Future[Sequence[Fetched]] = asyncio.get_running_loop().create_future()
    terms = FetchTerms(wait_ms=poll.wait_ms, bytes_max=poll.bytes_max, is_committed_only=poll.is_committed_only)
    fetch = Fetch(groups.messages, caller, list(wanted.values()), terms, partial(hand_over, arrived))
    mine.end_wait = fetch.finish_now
    try:
        polls.begin(fetch)
        return list(zip(wanted, await arrived, strict=True))
    finally:
        polls.end(fetch)
        if mine.end_wait == fetch.finish_now:
            mine.end_wait = None


def _take(
    mine: MemberPositions,
    fetched: Iterable[tuple[TopicPartition, Fetched]],
    wanted: Mapping[TopicPartition, FetchTarget],
    poll: Poll,
    errors: dict[TopicPartition, GoQueueError],
) -> Mapping[TopicPartition, Sequence[Record]]:
    """Open what was read of partitions that are still the member's, up to the limits, and go on behind it."""
    taken: dict[TopicPartition, Sequence[Record]] = {}
    messages_left, bytes_left = poll.limit, poll.bytes_max
    for each, result in fetched:
        position = mine.now.get(each)
        if result.error is not None:
            errors[each] = result.error
        if position is None or not result.data or messages_left <= 0 or bytes_left <= 0:
            continue
        partition = wanted[each].partition
        assert isinstance(partition, Partition)
        reading = ReadRequest(limit=messages_left, bytes_max=bytes_left)
        try:
            records, offset = opened(partition, result, position.offset, reading)
        except Corrupt as error:
            errors[each] = error.without_frames()
            continue
        mine.move(each, offset)
        if records:
            taken[each] = records
            messages_left -= len(records)
            bytes_left -= sum(len(record.key or b"") + len(record.value or b"") for record in records)
    mine.served(taken)
    return taken

"""Moving the offsets of a group: where to, what that means, and then doing it.

A plan looks at everything and changes nothing; carrying it out commits exactly what the plan says. Nobody is moved
who reads: the group must have no members.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from goqueue.broker.admission import Caller, operation
from goqueue.broker.groups.membership import set_offsets
from goqueue.broker.messages.offsets import NO_OFFSET, find_offset
from goqueue.errors import GoQueueError, GroupNotEmpty, InconsistentProtocol, UnknownGroup, UnknownMember
from goqueue.machines.groups.commands import CommitOffsets
from goqueue.machines.groups.kinds import is_in_use
from goqueue.machines.groups.offsets import CommittedOffset, NewOffset
from goqueue.model.group_name import check_group_name
from goqueue.model.groups import ResetTarget
from goqueue.model.topic import TopicPartition

if TYPE_CHECKING:
    from goqueue.broker.groups.service import GroupService
    from goqueue.runtime.partition import Partition


class Reset(NamedTuple):
    """Offsets to move. `topics` and `partitions` are added up; without both, all that the group has offsets for.

    An offset beyond what a partition holds becomes the nearest one that it holds; a time behind the last message is
    its end. What `other_group` has no offset for stays as it is.
    """

    group: str
    target: ResetTarget
    offset: int = 0
    timestamp_ms: int = 0
    other_group: str = ""
    topics: Sequence[str] | None = None
    partitions: Sequence[TopicPartition] | None = None


class Move(NamedTuple):
    """Where the offset of a partition is, None if there is none, and where it goes; or why it cannot.

    `end` is where the partition ends: what is before it and not before `after` is unread then.
    """

    partition: TopicPartition
    before: int | None
    after: int = NO_OFFSET
    end: int = NO_OFFSET
    error: GoQueueError | None = None

    @property
    def skipped(self) -> int:
        """How many offsets are never read, unless they are moved back."""
        return 0 if self.before is None or self.error is not None else max(self.after - self.before, 0)

    @property
    def read_again(self) -> int:
        """How many offsets are read a second time."""
        return 0 if self.before is None or self.error is not None else max(self.before - self.after, 0)

    @property
    def unread(self) -> int:
        """How many offsets are to be read then."""
        return 0 if self.error is not None else max(self.end - self.after, 0)


async def plan_reset(groups: GroupService, caller: Caller, reset: Reset) -> Sequence[Move]:
    """Return what a reset would do to each partition, by topics and partitions; changes nothing."""
    scope = await look_up_scope(groups, caller, reset)
    return [await _planned(groups, caller, reset, each, known) for each, known in sorted(scope.items())]


async def reset_offsets(groups: GroupService, caller: Caller, reset: Reset) -> Sequence[Move]:
    """Move the offsets of a group without members, and return what was done; GroupNotEmpty if it has members."""
    moves = await plan_reset(groups, caller, reset)
    refusals = await carry_out(groups, caller, reset.group, [move for move in moves if move.error is None])
    return [move._replace(error=refusals.get(move.partition, move.error)) for move in moves]


class _Known(NamedTuple):
    """The offset that a group has, and that of the group it follows."""

    own: int | None
    other: int | None


@operation("groups.plan_reset", on="group", at="reset.group")
async def look_up_scope(groups: GroupService, caller: Caller, reset: Reset) -> Mapping[TopicPartition, _Known]:
    """Return the partitions that a reset is about, with the offsets that are known of them."""
    if groups.queues.find(reset.group) is not None:
        raise InconsistentProtocol(
            f"{reset.group!r} is a queue group, which has no offsets to move",
            hint="goqueue queue seek and POST /queues/{group}/seek move queue groups",
        )
    own = _offsets(groups, reset.group)
    other = _offsets(groups, reset.other_group) if reset.target is ResetTarget.GROUP else {}
    if reset.target is ResetTarget.GROUP and not other:
        raise UnknownGroup(f"group {reset.other_group!r} has no offsets").about(reset.other_group)
    if reset.topics is None and reset.partitions is None:
        wanted = set(other if reset.target is ResetTarget.GROUP else own)
        if not wanted:
            hint = "name the topics to give it some"
            raise UnknownGroup(f"group {reset.group!r} has no offsets", hint=hint).about(reset.group)
    else:
        wanted = set(reset.partitions or ())
        for topic in reset.topics or ():
            count = len(groups.topics.topic(topic).partitions)
            wanted.update(TopicPartition(topic, index) for index in range(count))
    if reset.target is ResetTarget.GROUP:
        wanted &= other.keys()
    return {each: _Known(own.get(each), other.get(each)) for each in wanted}


def _offsets(groups: GroupService, group: str) -> Mapping[TopicPartition, int]:
    check_group_name(group)
    machine = groups.peek(group)
    found = {} if machine is None else machine.offsets.of_group(group)
    return {each: value.offset for each, value in found.items()}


async def _planned(groups: GroupService, caller: Caller, reset: Reset, each: TopicPartition, known: _Known) -> Move:
    try:
        partition = groups.topics.topic(each.topic).partition(each.partition)
        after = await _offset(groups, caller, reset, partition, known)
    except GoQueueError as error:
        return Move(each, known.own, error=error)
    start, end = partition.log.start_offset, partition.high_watermark
    return Move(each, known.own, min(max(after, start), end), end)


async def _offset(groups: GroupService, caller: Caller, reset: Reset, partition: Partition, known: _Known) -> int:
    match reset.target:
        case ResetTarget.EARLIEST:
            return partition.log.start_offset
        case ResetTarget.LATEST:
            # Not behind the messages of open transactions: nobody could have seen them yet.
            return partition.last_stable_offset
        case ResetTarget.OFFSET:
            return reset.offset
        case ResetTarget.TIME:
            found = await find_offset(groups.messages, caller, partition.topic, partition.index, reset.timestamp_ms)
            return partition.last_stable_offset if found.offset == NO_OFFSET else found.offset
        case ResetTarget.GROUP:
            assert known.other is not None
            return known.other


@operation("groups.reset_offsets", on="group")
async def carry_out(
    groups: GroupService, caller: Caller, group: str, moves: Sequence[Move]
) -> Mapping[TopicPartition, GoQueueError]:
    """Commit what was planned; return what was refused."""
    machine = groups.peek(group)
    if machine is not None and is_in_use(machine.find(group)):
        raise _not_empty(group)
    offsets = [NewOffset(move.partition, CommittedOffset(move.after)) for move in moves]
    if not offsets:
        return {}
    try:
        refusals = await set_offsets(groups, CommitOffsets(group=group, offsets=offsets))
    except UnknownMember:
        # Somebody has joined in between.
        raise _not_empty(group) from None
    return {move.partition: refusal for move, refusal in zip(moves, refusals, strict=True) if refusal is not None}


def _not_empty(group: str) -> GroupNotEmpty:
    return GroupNotEmpty(f"group {group!r} has members, who would go on where they are", hint="stop them first")

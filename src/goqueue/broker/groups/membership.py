"""Groups: members, what they read, and how far they are.

The machine of the group (`machines/groups/machine`) decides about membership. Here names are checked, and offsets are
compared with the partitions that they belong to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from goqueue.broker.admission import Caller, operation
from goqueue.broker.topics.private import require_public
from goqueue.errors import (
    GoQueueError,
    InconsistentProtocol,
    InvalidSessionTimeout,
    OffsetMetadataTooLarge,
    StaleMemberEpoch,
    UnknownMember,
    UnknownTopic,
    UnstableOffsets,
)
from goqueue.machines.groups.classic.values import Heartbeat, Join, Joined, Leave, Sync, Synced
from goqueue.machines.groups.commands import CommitOffsets, DeleteGroup, DeleteOffsets
from goqueue.machines.groups.consumer.values import JOIN_EPOCH, ConsumerGroup, ConsumerHeartbeat, ConsumerReply
from goqueue.machines.groups.kinds import Group
from goqueue.machines.groups.limits import check_commit, check_heartbeat
from goqueue.machines.groups.offsets import CommittedOffset
from goqueue.model.group_name import check_group_name
from goqueue.model.groups import METADATA_BYTES_MAX
from goqueue.model.topic import TopicPartition
from goqueue.runtime.partition import Partition

if TYPE_CHECKING:
    from goqueue.broker.groups.service import GroupService


@operation("groups.join", on="group", at="command.group")
async def join_group(groups: GroupService, caller: Caller, command: Join) -> Joined:
    """Join a classic group; returns when the round is over that makes the caller a member."""
    check_group_name(command.group)
    require_no_queue(groups, command.group)
    _check_session(groups, command.session_timeout_ms)
    joined: Joined = await groups.submit(command.group, command)
    return joined


def _check_session(groups: GroupService, session_timeout_ms: int) -> None:
    shortest, longest = (
        groups.core.options.group_min_session_timeout_ms,
        groups.core.options.group_max_session_timeout_ms,
    )
    if not shortest <= session_timeout_ms <= longest:
        raise InvalidSessionTimeout(
            f"a session of {session_timeout_ms} ms is not allowed, but one of {shortest} to {longest} ms",
            hint="see group_min_session_timeout_ms and group_max_session_timeout_ms of the broker",
        )


@operation("groups.sync", on="group", at="command.group")
async def sync_group(groups: GroupService, caller: Caller, command: Sync) -> Synced:
    """Return the assignment of a member, once the leader has brought it."""
    check_group_name(command.group)
    synced: Synced = await groups.submit(command.group, command)
    return synced


@operation("groups.heartbeat", on="group", at="command.group")
async def heartbeat(groups: GroupService, caller: Caller, command: Heartbeat) -> None:
    """Keep a member of a classic group alive; RebalanceInProgress calls it to join again."""
    check_group_name(command.group)
    await groups.submit(command.group, command)


@operation("groups.leave", on="group", at="command.group")
async def leave_group(groups: GroupService, caller: Caller, command: Leave) -> Sequence[GoQueueError | None]:
    """Let members of a classic group go; returns an error or None for each."""
    check_group_name(command.group)
    results: Sequence[GoQueueError | None] = await groups.submit(command.group, command)
    return results


@operation("groups.consumer_heartbeat", on="group", at="command.group")
async def consumer_heartbeat(groups: GroupService, caller: Caller, command: ConsumerHeartbeat) -> ConsumerReply:
    """Join, stay in or leave a group whose broker assigns, and learn what is assigned."""
    check_group_name(command.group)
    if command.epoch == JOIN_EPOCH:
        require_no_queue(groups, command.group)
    machine = groups.peek(command.group)
    group = machine.find(command.group) if machine is not None else None
    check_heartbeat(command, group if isinstance(group, ConsumerGroup) else None)
    require_public(command.topics or ())
    reply: ConsumerReply = await groups.submit(command.group, command)
    return reply


# -- offsets


@operation("groups.commit", on="group", at="command.group")
async def commit_offsets(groups: GroupService, caller: Caller, command: CommitOffsets) -> Sequence[GoQueueError | None]:
    """Set offsets of a group, durably; returns an error or None for each."""
    return await set_offsets(groups, command)


async def set_offsets(groups: GroupService, command: CommitOffsets) -> Sequence[GoQueueError | None]:
    """Set offsets as `commit_offsets` does, for operations that have more to do."""
    check_group_name(command.group)
    require_no_queue(groups, command.group)
    refusals = [_refusal(groups, each.partition, each.value) for each in command.offsets]
    if any(refusals):
        wanted = [each for each, refusal in zip(command.offsets, refusals, strict=True) if refusal is None]
        command = replace(command, offsets=wanted)
    check_commit(command)
    results = iter(await groups.submit(command.group, command))
    return [next(results) if refusal is None else refusal for refusal in refusals]


def _refusal(groups: GroupService, partition: TopicPartition, value: CommittedOffset) -> GoQueueError | None:
    if not 0 <= partition.partition < groups.topics.partition_count(partition.topic):
        return UnknownTopic(f"there is no partition {partition.partition} of a topic {partition.topic!r}")
    if len(value.metadata.encode("utf-8", "surrogateescape")) > METADATA_BYTES_MAX:
        return OffsetMetadataTooLarge(f"metadata of an offset may have {METADATA_BYTES_MAX} bytes")
    return None


class OffsetReader(NamedTuple):
    """Who asks for offsets of a group whose broker assigns: a member, by its epoch."""

    member_id: str
    epoch: int


@operation("groups.offsets", on="group")
async def fetch_offsets(
    groups: GroupService,
    caller: Caller,
    group: str,
    partitions: Sequence[TopicPartition] | None = None,
    *,
    reader: OffsetReader | None = None,
    needs_stable: bool = False,
) -> Mapping[TopicPartition, CommittedOffset | GoQueueError | None]:
    """Return offsets of a group, all of them unless partitions are named.

    With `needs_stable`, those that an open transaction is about to change are UnstableOffsets instead.
    """
    check_group_name(group)
    machine = await groups.machine(group)
    if reader is not None:
        _check_reader(group, machine.find(group), reader)
    wanted = list(machine.offsets.of_group(group)) if partitions is None else partitions
    found: dict[TopicPartition, CommittedOffset | GoQueueError | None] = {}
    for each in wanted:
        if needs_stable and machine.offsets.is_pending(group, each):
            found[each] = UnstableOffsets(f"a transaction is about to change the offset of {each.topic}")
        else:
            found[each] = machine.offsets.find(group, each)
    return found


def _check_reader(name: str, group: Group | None, reader: OffsetReader) -> None:
    """Refuse a member of a group whose broker assigns, if it is not up to date: it might ask for another's."""
    if not isinstance(group, ConsumerGroup):
        return
    member = group.members.get(reader.member_id)
    if member is None:
        raise UnknownMember(f"group {name!r} has no member {reader.member_id!r}", hint="join again")
    if member.epoch != reader.epoch:
        raise StaleMemberEpoch(f"member {member.id} is in epoch {member.epoch}, not {reader.epoch}")


@operation("groups.delete_offsets", on="group")
async def delete_offsets(
    groups: GroupService, caller: Caller, group: str, partitions: Sequence[TopicPartition]
) -> Sequence[GoQueueError | None]:
    """Forget offsets of a group; returns an error or None for each."""
    check_group_name(group)
    results: Sequence[GoQueueError | None] = await groups.submit(group, DeleteOffsets(group, partitions))
    return results


@operation("groups.delete", on="group")
async def delete_group(groups: GroupService, caller: Caller, group: str) -> None:
    """Forget a group without members, and its offsets."""
    check_group_name(group)
    require_no_queue(groups, group, "goqueue queue delete and DELETE /queues/{group} forget queue groups")
    await groups.submit(group, DeleteGroup(group))


# -- looking


class Listed(NamedTuple):
    """A group by name; without a group, there are only offsets."""

    name: str
    group: Group | None


class Listing(NamedTuple):
    """Groups in order of their names; if it `is_complete`, all of them."""

    groups: Sequence[Listed]
    is_complete: bool


@operation("groups.list", on="cluster")
async def list_groups(groups: GroupService, caller: Caller) -> Listing:
    """Return all groups, as far as they can be told."""
    found = [Listed(name, machine.find(name)) for machine in groups.machines for name in machine.names()]
    return Listing(sorted(found, key=lambda listed: listed.name), knows_all_groups(groups))


def knows_all_groups(groups: GroupService) -> bool:
    """Tell whether all logs of groups can be used; if not, there may be groups of which nothing can be told."""
    opened = groups.topics.by_name.get(groups.topic)
    logs = [partition.log for partition in opened.partitions if isinstance(partition, Partition)] if opened else []
    return groups.is_whole and not any(log.fault for log in logs)


@operation("groups.describe", on="group")
async def find_group(groups: GroupService, caller: Caller, name: str) -> Listed | None:
    """Return a group with its members as they are now; None if nothing is known of it."""
    check_group_name(name)
    machine = groups.peek(name)
    if machine is None:
        return None
    group = machine.find(name)
    return Listed(name, group) if group is not None or machine.offsets.has(name) else None


def require_no_queue(groups: GroupService, name: str, hint: str = "use another name") -> None:
    """Raise InconsistentProtocol if a name is that of a queue group; the hint says what to do then."""
    queues = groups.queues.peek(name)
    if queues is not None and queues.find(name) is not None:
        raise InconsistentProtocol(f"{name!r} is a queue group, and no stream group", hint=hint)

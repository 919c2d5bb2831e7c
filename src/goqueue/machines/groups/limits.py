"""Limits on the size of groups and of requests to them.

The changes of a decision are stored as one batch, and all other requests wait while it is built and written. So the
largest decision about a group, a new generation or a new assignment of all its members, stays well below a quarter of
the 64 MiB that the log of groups takes. Binary values are stored in base64, a third longer than they are:

    all members, without their assignments        GROUP_BYTES_MAX                    8 MiB
    their assignments                             4/3 of ASSIGNMENTS_BYTES_MAX       4 MiB
    a commit: keys and numbers                    COMMIT_BYTES_MAX                   8 MiB
    a commit: metadata, all of it escaped         6 times COMMIT_METADATA_BYTES_MAX  6 MiB

A request beyond a limit is refused before anything is decided; retries cannot help.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from goqueue.errors import CommitTooLarge, GroupFull, GroupRequestTooLarge
from goqueue.machines.groups.classic.values import Join, Leave, Sync
from goqueue.machines.groups.commands import CommitOffsets
from goqueue.machines.groups.consumer.values import JOIN_EPOCH, ConsumerGroup, ConsumerHeartbeat

_KIB = 1024
_MIB = 1024 * _KIB

MEMBERS_MAX = 10_000
GROUP_BYTES_MAX = 8 * _MIB

NAME_BYTES_MAX = 1_100
"""For each name of a member: an id of 255 characters and a number fits."""
PROTOCOLS_MAX = 32
PROTOCOLS_BYTES_MAX = _MIB
"""For the metadata of all protocols of a member."""
ASSIGNMENT_BYTES_MAX = _MIB
ASSIGNMENTS_BYTES_MAX = 3 * _MIB
SUBSCRIPTION_BYTES_MAX = 512 * _KIB

PENDING_MAX = 1_000
"""How many member ids may be handed out and not used yet."""
PENDING_MAX_MS = 60_000
NEWCOMER_MAX_MS = 300_000
"""How long a consumer that is not a member yet may wait for the end of a round."""

COMMIT_BYTES_MAX = 8 * _MIB
COMMIT_METADATA_BYTES_MAX = _MIB
_OFFSET_BYTES = 80


def check_join(command: Join) -> None:
    """Refuse a member of a classic group with too many protocols or too much metadata."""
    protocols = command.protocols
    if len(protocols) > PROTOCOLS_MAX:
        raise GroupRequestTooLarge(f"a member may name {PROTOCOLS_MAX} protocols, not {len(protocols)}")
    names = (command.protocol_type, *(each.name for each in protocols))
    _check_names(command.member_id, command.new_id, command.instance_id, command.client_id, *names)
    said = sum(len(each.metadata) for each in protocols)
    if said > PROTOCOLS_BYTES_MAX:
        raise GroupRequestTooLarge(
            f"the protocols of a member have {said} bytes of metadata", hint=f"{PROTOCOLS_BYTES_MAX} are allowed"
        )


def check_sync(command: Sync) -> None:
    """Refuse assignments that are too large, each or together."""
    sizes = [len(each) for each in command.assignments.values()]
    if max(sizes, default=0) > ASSIGNMENT_BYTES_MAX:
        raise GroupRequestTooLarge(
            f"a member is assigned {max(sizes)} bytes", hint=f"{ASSIGNMENT_BYTES_MAX} are allowed"
        )
    if sum(sizes) > ASSIGNMENTS_BYTES_MAX:
        raise GroupRequestTooLarge(
            f"all members together are assigned {sum(sizes)} bytes", hint=f"{ASSIGNMENTS_BYTES_MAX} are allowed"
        )


def check_leave(command: Leave) -> None:
    """Refuse to remove more members than a group can have."""
    if len(command.leavers) > MEMBERS_MAX:
        raise GroupRequestTooLarge(f"{len(command.leavers)} members are to leave", hint=f"{MEMBERS_MAX} are allowed")


def check_heartbeat(command: ConsumerHeartbeat, group: ConsumerGroup | None) -> None:
    """Refuse a member of a consumer group with too large a subscription, or that exceeds a limit of the group."""
    _check_names(command.member_id, command.instance_id, command.rack_id, command.client_id, command.assignor)
    said = _subscription_bytes(command.topics, command.pattern)
    if said > SUBSCRIPTION_BYTES_MAX:
        raise GroupRequestTooLarge(
            f"a member subscribes with {said} bytes of names", hint=f"{SUBSCRIPTION_BYTES_MAX} are allowed"
        )
    if group is None or not (said or command.epoch == JOIN_EPOCH):
        return
    count = len(group.members) - (command.member_id in group.members)
    if command.epoch == JOIN_EPOCH and count >= MEMBERS_MAX:
        raise GroupFull(f"group {command.group!r} has {count} members")
    if (count + 1) * SUBSCRIPTION_BYTES_MAX <= GROUP_BYTES_MAX:
        return
    others = (member for member in group.members.values() if member.id != command.member_id)
    if said + sum(_subscription_bytes(each.topics, each.pattern) for each in others) > GROUP_BYTES_MAX:
        raise GroupFull(f"the members of group {command.group!r} subscribe to more than can be stored at once")


def check_commit(command: CommitOffsets) -> None:
    """Refuse a commit that is too large to be stored at once."""
    group_bytes = _size(command.group)
    stored = sum(_OFFSET_BYTES + group_bytes + _size(each.partition.topic) for each in command.offsets)
    metadata = sum(_size(each.value.metadata) for each in command.offsets)
    if stored > COMMIT_BYTES_MAX or metadata > COMMIT_METADATA_BYTES_MAX:
        raise CommitTooLarge(
            f"a commit brings {len(command.offsets)} offsets and {metadata} bytes of metadata",
            hint="commit fewer at a time",
        )


def _check_names(*names: str | None) -> None:
    for name in names:
        if name is not None and _size(name) > NAME_BYTES_MAX:
            raise GroupRequestTooLarge(f"{name[:40]!r}... is longer than {NAME_BYTES_MAX} bytes")


def _subscription_bytes(topics: Iterable[str] | None, pattern: str | None) -> int:
    """Return the stored size of a subscription."""
    said = (list(topics or ()), pattern)
    return len(msgspec.json.encode(said)) if topics or pattern else 0


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))

"""Members of share groups fetch messages, and say what became of those that they have.

A share group is the queue group of its name: what is here is another way to receive and to settle. Settings of the
group hold as they do for every other consumer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from goqueue.broker.admission import Caller, operation
from goqueue.broker.presence import Presence
from goqueue.broker.queues.start_positions import ensure_group, ensure_partitions, require_topic
from goqueue.broker.share_groups.acks import AckResults, Acks, settle_shares
from goqueue.broker.share_groups.leases import Shared, ShareTerms, Sources, lease_shares
from goqueue.broker.share_groups.service import FINAL_EPOCH, OPENING_EPOCH, SharePartition, ShareSession
from goqueue.errors import (
    GoQueueError,
    GroupRequestTooLarge,
    Invalid,
    InvalidShareSessionEpoch,
    ShareSessionNotFound,
)
from goqueue.machines.groups.limits import NAME_BYTES_MAX
from goqueue.machines.groups.share.members import MemberKey
from goqueue.machines.queues.group import QueueGroup
from goqueue.model.group_name import check_group_name
from goqueue.runtime.partition import Partition

if TYPE_CHECKING:
    from goqueue.broker.share_groups.service import ShareGroupService


class ShareRequest(NamedTuple):
    """One request of a session: which one it is, what it says about messages, and where it looks from now on."""

    key: MemberKey
    epoch: int
    acks: Acks
    added: Sequence[SharePartition] = ()
    forgotten: Sequence[SharePartition] = ()


class ShareFetched(NamedTuple):
    """What a request has brought: messages, or what is wrong with a partition, and what has become of acks."""

    acked: AckResults
    shared: Mapping[SharePartition, Shared]
    faults: Mapping[SharePartition, GoQueueError]
    lease_ms: int


async def share_fetch(
    share_groups: ShareGroupService, caller: Caller, turn: ShareRequest, terms: ShareTerms, presence: Presence
) -> ShareFetched:
    """Carry out a request of a session; waits for messages if there are none. Nobody who has left gets any."""
    session, acked, sources = await begin_fetch(share_groups, caller, turn, presence)
    if turn.epoch == FINAL_EPOCH or terms.limit <= 0:
        return ShareFetched(acked, {}, sources.faults, sources.group.settings.visibility_ms)
    shared = await lease_shares(share_groups, session, sources, terms, presence)
    return ShareFetched(acked, shared, sources.faults, sources.group.settings.visibility_ms)


@operation("shares.fetch", on="queue", at="turn.key.group")
async def begin_fetch(
    share_groups: ShareGroupService, caller: Caller, turn: ShareRequest, presence: Presence
) -> tuple[ShareSession, AckResults, Sources]:
    """Open, continue or close a session, settle what it says, and find its partitions."""
    _check_key(turn.key)
    if turn.epoch == OPENING_EPOCH:
        if turn.acks:
            raise Invalid("nothing is leased under a session that is being opened, so nothing can be acknowledged")
        await ensure_group(share_groups.queues, turn.key.group)
        session = await share_groups.open(turn.key, presence)
        group = await ensure_group(share_groups.queues, turn.key.group)
    else:
        session, group = await _resume(share_groups, turn, presence)
    acked = await settle_shares(share_groups, session, turn.acks)
    if turn.epoch == FINAL_EPOCH:
        await share_groups.close_session(turn.key)
        return session, acked, Sources(group, {}, {})
    faults = _change(share_groups, session, turn)
    return session, acked, await _sources(share_groups, session, group, faults)


@operation("shares.acknowledge", on="queue", at="turn.key.group")
async def share_acknowledge(
    share_groups: ShareGroupService,
    caller: Caller,
    turn: ShareRequest,
    presence: Presence,
) -> tuple[AckResults, int]:
    """Settle what a session says; return what has failed, and how long a lease lasts."""
    _check_key(turn.key)
    if turn.epoch == OPENING_EPOCH:
        raise InvalidShareSessionEpoch("a session is opened by a fetch")
    session, group = await _resume(share_groups, turn, presence)
    acked = await settle_shares(share_groups, session, turn.acks)
    if turn.epoch == FINAL_EPOCH:
        await share_groups.close_session(turn.key)
    return acked, group.settings.visibility_ms


async def _resume(
    share_groups: ShareGroupService,
    turn: ShareRequest,
    presence: Presence,
) -> tuple[ShareSession, QueueGroup]:
    """Return the session whose next request this is, and its group; only whoever opens a session makes the group."""
    session = share_groups.resume_session(turn.key, turn.epoch, presence)
    group = share_groups.queues.find(turn.key.group)
    if group is None:
        await share_groups.close_session(turn.key)
        raise ShareSessionNotFound(f"group {turn.key.group!r} was deleted", hint="open a session with epoch 0")
    return session, group


def _check_key(key: MemberKey) -> None:
    check_group_name(key.group)
    if not key.member_id:
        raise Invalid("a member of a share group brings an id of its own")
    if len(key.member_id.encode("utf-8", "surrogateescape")) > NAME_BYTES_MAX:
        raise GroupRequestTooLarge(f"the id of a member may have {NAME_BYTES_MAX} bytes")


# -- where a session looks


def _change(
    share_groups: ShareGroupService,
    session: ShareSession,
    turn: ShareRequest,
) -> dict[SharePartition, GoQueueError]:
    """Have a session look at other partitions; return what is wrong with those that are not there."""
    faults = {}
    for place in turn.added:
        if place in session.partitions:
            continue
        try:
            opened = share_groups.topics.topic_by_id(place.topic_id)
            require_topic(share_groups.queues, opened.topic.name)
            opened.partition(place.partition)
        except GoQueueError as error:
            # It is told once: what is not kept cannot become too much.
            faults[place] = error
            continue
        session.partitions[place] = None
    for place in turn.forgotten:
        session.partitions.pop(place, None)
    return faults


async def _sources(
    share_groups: ShareGroupService,
    session: ShareSession,
    group: QueueGroup,
    faults: dict[SharePartition, GoQueueError],
) -> Sources:
    """Return the partitions of a session that can be used; the group has begun with each of them, if it is there."""
    by_topic: dict[object, list[SharePartition]] = {}
    for place in session.partitions:
        by_topic.setdefault(place.topic_id, []).append(place)
    found: dict[SharePartition, Partition] = {}
    for places in by_topic.values():
        try:
            opened = share_groups.topics.topic_by_id(places[0].topic_id)
            usable = {each.index: each for each in await ensure_partitions(share_groups.queues, group, [opened])}
        except GoQueueError as error:
            faults |= dict.fromkeys(places, error)
            continue
        for place in places:
            if place.partition in usable:
                found[place] = usable[place.partition]
            else:
                faults[place] = _fault(share_groups, place)
    session.turn = (session.turn + 1) % max(len(found), 1)
    order = list(found)
    # What comes first today comes last tomorrow.
    order = [*order[session.turn :], *order[: session.turn]]
    return Sources(group, {place: found[place] for place in order}, faults)


def _fault(share_groups: ShareGroupService, place: SharePartition) -> GoQueueError:
    try:
        share_groups.topics.topic_by_id(place.topic_id).partition(place.partition)
    except GoQueueError as error:
        return error
    return Invalid(f"partition {place.partition} cannot be used now")

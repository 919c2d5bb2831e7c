"""ShareFetch and ShareAcknowledge: a session sends acks, and gets whole batches with the ranges it has acquired.

Batches go out as they are stored. A reply names a partition if it has messages, an error, or results of acks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from uuid import UUID

from goqueue.broker.share_groups import fetch as shares
from goqueue.broker.share_groups.acks import Acked
from goqueue.broker.share_groups.fetch import ShareFetched, ShareRequest
from goqueue.broker.share_groups.leases import Shared, ShareTerms
from goqueue.broker.share_groups.service import SharePartition
from goqueue.errors import GoQueueError, Invalid
from goqueue.kafka_wire.decode import Request
from goqueue.kafka_wire.encode import Reply
from goqueue.machines.groups.share.members import MemberKey
from goqueue.machines.queues.values import AckType
from goqueue.protocols.kafka.api.context import Context, error_fields
from goqueue.protocols.kafka.api.messages.fetch import WAIT_MS_MAX

_NO_TOPIC_ID = UUID(int=0)
_STRICT = 1
_DELIVERIES_MAX = 2**15 - 1
_RENEW = 4
# A gap is an offset at which the member has found no message, so nothing is left to do for it.
_VERDICTS = {0: AckType.ACK, 1: AckType.ACK, 2: AckType.RELEASE, 3: AckType.REJECT, _RENEW: AckType.EXTEND}


async def share_fetch(context: Context, request: Request) -> Reply:
    """Apply the acks of a session, and return messages; waits for them if there are none."""
    turn = _turn(request)
    turn = turn._replace(
        added=[SharePartition(topic.topic_id or _NO_TOPIC_ID, part.partition_index) for topic, part in _parts(request)],
        forgotten=[
            SharePartition(topic.topic_id or _NO_TOPIC_ID, index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        ],
    )
    terms = ShareTerms(
        # A request that renews leases acquires no messages.
        limit=0 if request.is_renew_ack else request.max_records,
        bytes_max=max(request.max_bytes, 1),
        bytes_min=request.min_bytes,
        wait_ms=min(max(request.max_wait, 0), WAIT_MS_MAX),
        is_strict=request.share_acquire_mode == _STRICT,
    )
    try:
        fetched = await shares.share_fetch(context.broker.share_groups, context.caller, turn, terms, context.presence)
    except GoQueueError as error:
        return {**error_fields(error), "acquisition_lock_timeout": 0, "responses": [], "node_endpoints": []}
    return {
        "error_code": 0,
        "acquisition_lock_timeout": fetched.lease_ms,
        "responses": _fetched(context, fetched, max(request.batch_size, 0)),
        "node_endpoints": [],
    }


async def share_acknowledge(context: Context, request: Request) -> Reply:
    """Apply the acks of a session."""
    try:
        acked, lease_ms = await shares.share_acknowledge(
            context.broker.share_groups, context.caller, _turn(request), context.presence
        )
    except GoQueueError as error:
        return {**error_fields(error), "acquisition_lock_timeout": 0, "responses": [], "node_endpoints": []}
    parts = {
        place: {**error_fields(error), "current_leader": _leader(context, place)} for place, error in acked.items()
    }
    return {
        "error_code": 0,
        "acquisition_lock_timeout": lease_ms,
        "responses": _by_topic(parts.items()),
        "node_endpoints": [],
    }


# -- requests


def _turn(request: Request) -> ShareRequest:
    batches: dict[SharePartition, list[Request]] = {}
    for topic, part in _parts(request):
        if part.acknowledgement_batches:
            place = SharePartition(topic.topic_id or _NO_TOPIC_ID, part.partition_index)
            batches.setdefault(place, []).extend(part.acknowledgement_batches)
    acks = {place: _acked(request, found) for place, found in batches.items()}
    return ShareRequest(MemberKey(request.group_id or "", request.member_id or ""), request.share_session_epoch, acks)


def _parts(request: Request) -> Iterable[tuple[Request, Request]]:
    return [(topic, part) for topic in request.topics for part in topic.partitions]


def _acked(request: Request, batches: Iterable[Request]) -> Sequence[Acked] | GoQueueError:
    acked = []
    for batch in batches:
        for kind in batch.acknowledge_types:
            if kind not in _VERDICTS or (kind == _RENEW and not request.is_renew_ack):
                return Invalid(f"{kind} is no kind of acknowledgement here")
        verdicts = [_VERDICTS[kind] for kind in batch.acknowledge_types]
        acked.append(Acked(batch.first_offset, batch.last_offset, verdicts))
    return acked


# -- replies


def _fetched(context: Context, fetched: ShareFetched, range_max: int) -> list[Reply]:
    places = dict.fromkeys([*fetched.acked, *fetched.shared, *fetched.faults])
    parts = {place: _part(context, place, fetched, range_max) for place in places}
    return _by_topic(parts.items())


def _part(context: Context, place: SharePartition, fetched: ShareFetched, range_max: int) -> Reply:
    acked = error_fields(fetched.acked.get(place))
    shared = fetched.shared.get(place, Shared(b"", ()))
    return {
        **error_fields(fetched.faults.get(place)),
        "acknowledge_error_code": acked["error_code"],
        "acknowledge_error_message": acked["error_message"],
        "current_leader": _leader(context, place),
        "records": shared.data,
        "acquired_records": _ranges(shared.deliveries, range_max),
    }


def _ranges(deliveries: Sequence[tuple[int, int]], range_max: int) -> list[Reply]:
    """Return ranges of offsets with equal delivery counts, none longer than requested."""
    ranges: list[dict[str, int]] = []
    for offset, count in deliveries:
        last = ranges[-1] if ranges else None
        if (
            last is not None
            and last["last_offset"] + 1 == offset
            and last["delivery_count"] == min(count, _DELIVERIES_MAX)
            and not 0 < range_max <= offset - last["first_offset"]
        ):
            last["last_offset"] = offset
        else:
            ranges.append(
                {"first_offset": offset, "last_offset": offset, "delivery_count": min(count, _DELIVERIES_MAX)}
            )
    return list(ranges)


def _leader(context: Context, place: SharePartition) -> Reply:
    opened = context.broker.topics.by_id.get(place.topic_id)
    try:
        epoch = -1 if opened is None else opened.partition(place.partition).leader_epoch
    except GoQueueError:
        epoch = -1
    return {"leader_id": context.node_id, "leader_epoch": epoch}


def _by_topic(parts: Iterable[tuple[SharePartition, Reply]]) -> list[Reply]:
    topics: dict[UUID, list[Reply]] = {}
    for (topic_id, index), part in parts:
        topics.setdefault(topic_id, []).append({"partition_index": index, **part})
    return [{"topic_id": topic_id, "partitions": found} for topic_id, found in topics.items()]

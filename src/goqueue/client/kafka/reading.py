"""Single requests about partitions: the offset of a name or time, and batches from an offset on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from goqueue.client.kafka.addresses import Address
from goqueue.client.kafka.batches import extent
from goqueue.client.kafka.cluster import Cluster, Leader
from goqueue.client.kafka.connection import Connection
from goqueue.client.kafka.refusals import OFFSET_OUT_OF_RANGE, refusal
from goqueue.client.kafka.values import FetchedBatches, FoundOffset, Isolation, NamedOffset
from goqueue.client.kafka.waiting import Deadline
from goqueue.client.kafka.wire import reading as wire
from goqueue.client.kafka.wire.frame import ApiVersion
from goqueue.client.problems import BadReply
from goqueue.errors import OffsetOutOfRange, Throttled
from goqueue.model.topic import TopicPartition

# Measured: larger ones are no faster, smaller ones perhaps a little slower.
FETCH_BYTES_MAX = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FetchTerms:
    """How a partition is read; at least one batch comes, however large."""

    isolation: Isolation = Isolation.COMMITTED
    bytes_max: int = FETCH_BYTES_MAX

    @property
    def is_committed_only(self) -> bool:
        """Whether reading ends at the last stable offset."""
        return self.isolation is Isolation.COMMITTED


def find_offsets(
    cluster: Cluster, places: Iterable[TopicPartition], at: int, isolation: Isolation, deadline: Deadline
) -> dict[TopicPartition, FoundOffset]:
    """Ask each leader once about all of its partitions; an error if one is not answered."""
    wanted = dict.fromkeys(places)
    by_leader: dict[Address, dict[str, list[int]]] = {}
    for place in wanted:
        address = cluster.leader(place, deadline).address
        by_leader.setdefault(address, {}).setdefault(place.topic, []).append(place.partition)
    found: dict[TopicPartition, FoundOffset] = {}
    for address, partitions in by_leader.items():
        found |= _ask_for_offsets(cluster, address, partitions, at, isolation, deadline)
    missing = [str(place) for place in wanted if place not in found]
    if missing:
        raise BadReply(f"the broker says nothing about {', '.join(missing)}")
    return {place: found[place] for place in wanted}


def _ask_for_offsets(
    cluster: Cluster,
    address: Address,
    partitions: Mapping[str, list[int]],
    at: int,
    isolation: Isolation,
    deadline: Deadline,
) -> dict[TopicPartition, FoundOffset]:
    request = wire.list_offsets(partitions, at, is_committed_only=isolation is Isolation.COMMITTED)
    with cluster.connected(address, deadline) as connection:
        listed = wire.read_list_offsets(connection.call(ApiVersion.LIST_OFFSETS, [request], deadline))
    found = {}
    for each in listed:
        place = TopicPartition(each.topic, each.partition)
        if each.error:
            raise refusal(each.error, str(place))
        offset = each.offset if each.offset >= 0 else None
        found[place] = FoundOffset(offset, each.timestamp_ms, each.leader_epoch)
    return found


def fetch(
    cluster: Cluster, place: TopicPartition, offset: int, terms: FetchTerms, wait_ms: int, deadline: Deadline
) -> FetchedBatches:
    """Fetch once, and wait at most `wait_ms` for a first record."""
    leader = cluster.leader(place, deadline)
    with cluster.connected(leader.address, deadline) as connection:
        ask(connection, leader, offset, terms, wait_ms, deadline)
        reply = answer(connection, leader, deadline)
    return judge(cluster, place, offset, reply, deadline)


def ask(
    connection: Connection, leader: Leader, offset: int, terms: FetchTerms, wait_ms: int, deadline: Deadline
) -> None:
    """Send the request for batches from an offset on."""
    request = wire.fetch(
        leader.topic.id,
        leader.partition.number,
        offset,
        leader_epoch=leader.partition.leader_epoch,
        bytes_max=terms.bytes_max,
        wait_ms=wait_ms,
        is_committed_only=terms.is_committed_only,
    )
    connection.send(ApiVersion.FETCH, [request], deadline)


def answer(connection: Connection, leader: Leader, deadline: Deadline) -> wire.FetchReply:
    """Receive the reply to `ask`."""
    return wire.read_fetch(connection.receive(deadline), leader.topic.id, leader.partition.number)


def judge(
    cluster: Cluster, place: TopicPartition, offset: int, reply: wire.FetchReply, deadline: Deadline
) -> FetchedBatches:
    """Return the whole batches of a reply, or raise its error."""
    if reply.error == OFFSET_OUT_OF_RANGE:
        raise _out_of_range(cluster, place, offset, reply, deadline)
    if reply.error:
        raise refusal(reply.error, str(place))
    if reply.throttle_ms and not reply.records:
        raise Throttled(f"{place}: a quota is used up")
    size_bytes, next_offset = extent(reply.records, offset, str(place)) if reply.records else (0, offset)
    return FetchedBatches(
        reply.records[:size_bytes],
        next_offset,
        reply.high_watermark,
        reply.last_stable_offset,
        reply.log_start_offset,
        reply.aborted,
    )


def _out_of_range(
    cluster: Cluster, place: TopicPartition, offset: int, reply: wire.FetchReply, deadline: Deadline
) -> OffsetOutOfRange:
    start, end = reply.log_start_offset, reply.high_watermark
    if start < 0 or end < 0:
        # Some brokers do not send them with the error.
        uncommitted = Isolation.UNCOMMITTED
        start, end = (
            find_offsets(cluster, [place], at, uncommitted, deadline)[place].offset or 0
            for at in (NamedOffset.EARLIEST, NamedOffset.LATEST)
        )
    return OffsetOutOfRange(offset, start=start, end=end)

"""What dead letters say of their cause, and the letters of messages that cannot be read.

A batch that is damaged, or whose records are malformed, has no messages that could be copied. Its letter carries the
whole batch, byte for byte as it is stored, as its value: so nothing is lost, and nothing damaged gets a checksum that
says it is good. Headers say where it was and what is wrong with it. Letters of other messages of the same batch that
are made at the same time, and letters of batches that a letter has no room for, say where it lies only.
"""

from __future__ import annotations

from goqueue.errors import Corrupt, GoQueueError
from goqueue.machines.queues.values import Flight
from goqueue.model import dead_letters
from goqueue.model.topic import TopicPartition
from goqueue.records.builder import NewRecord
from goqueue.records.layout import headers
from goqueue.runtime.partition import Partition

Headers = list[tuple[str, bytes | None]]


def cause_headers(group: str, where: TopicPartition, offset: int, timestamp: int | None, flight: Flight) -> Headers:
    """Return the headers that say why a message is dead, and where it was."""
    cause = {
        dead_letters.REASON_HEADER: flight.reason,
        dead_letters.ERROR_HEADER: flight.error,
        dead_letters.ATTEMPTS_HEADER: flight.deliveries,
        dead_letters.FIRST_DELIVERY_HEADER: flight.first_ms,
        dead_letters.LAST_DELIVERY_HEADER: -1 if flight.lease is None else flight.lease.since_ms,
        dead_letters.CONSUMER_HEADER: "" if flight.lease is None else flight.lease.consumer,
        dead_letters.GROUP_HEADER: group,
        dead_letters.TOPIC_HEADER: where.topic,
        dead_letters.PARTITION_HEADER: where.partition,
        dead_letters.OFFSET_HEADER: offset,
        dead_letters.TIMESTAMP_HEADER: -1 if timestamp is None else timestamp,
    }
    return [(name, str(value).encode("utf-8", "surrogateescape")) for name, value in cause.items()]


def unreadable_letter(
    partition: Partition,
    offset: int,
    error: Corrupt,
    told: Headers,
    now_ms: int,
    seen: list[tuple[int, int]],
    bytes_max: int,
) -> NewRecord:
    """Return the letter of a message that cannot be read.

    The first letter of a batch carries the batch as it is stored. `seen` has the first and last offsets of the batches
    that letters were made of, so that each is read once; messages are asked for in order.
    """
    said: Headers = [*told, (dead_letters.UNREADABLE_HEADER, error.message.encode("utf-8", "replace"))]
    raw = None
    if not seen or not seen[-1][0] <= offset <= seen[-1][1]:
        found = _stored_batch(partition, offset)
        if found is None:
            return NewRecord(now_ms, None, None, said)
        first, last, stored = found
        seen.append((first, last))
        raw = stored if len(stored) <= bytes_max else None
    first, last = seen[-1]
    said.append((dead_letters.BATCH_HEADER, f"{first}-{last}".encode()))
    return NewRecord(now_ms, None, raw, said)


def _stored_batch(partition: Partition, offset: int) -> tuple[int, int, bytes] | None:
    """Return the batch that holds an offset, as it is stored, from its first to its last; None if it cannot be had."""
    try:
        data = partition.read(offset, bytes_max=1)
        for position, header in headers(data):
            return header.base_offset, header.last_offset, data[position : position + header.size_bytes]
    except GoQueueError:
        pass
    return None

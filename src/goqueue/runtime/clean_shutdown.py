"""Stores the closed state of every log at a clean stop, so that the next start need not open the logs.

The states are in a log of their own, `__resting-0`, which is written when all other logs are closed. It is valid only
if it is complete: its last record says how many there are. The start that reads it empties it durably before any other
log may change. So after a kill it is empty, and the start opens all logs.

| key              | value                                                        |
|------------------|--------------------------------------------------------------|
| id of a topic    | for some of its partitions: partition i32, then its state     |
| `complete`       | how many records there are before this one, u64; the last    |

All calls block. The other logs know everything that it holds: if it cannot be read, it is removed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import PurePath
from typing import NamedTuple
from uuid import UUID

from goqueue.errors import Corrupt, GoQueueError
from goqueue.log.batches import own_batch
from goqueue.log.closed_state import CLOSED_STATE_BYTES, ClosedState, decode, encode
from goqueue.log.events import ClosedStatesLost
from goqueue.log.log import Log
from goqueue.model.log_settings import Cleanup, LogSettings
from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.layout import headers, validate
from goqueue.records.reader import read_pairs
from goqueue.seams.disk import Disk, remove_tree
from goqueue.seams.sink import Sink

CLOSED_STATES_LOG = "__resting-0"

_SETTINGS = LogSettings(cleanup=Cleanup.DELETE, retention_ms=-1)
_COMPLETE = b"complete"
_COUNT = struct.Struct(">Q")
_PARTITION = struct.Struct(">i")
_PARTITIONS_PER_RECORD = 1000
_RECORDS_PER_BATCH = 500
_BATCH_BYTES = 512 * 1024
_READ_BYTES = 1024 * 1024


class TopicIdPartition(NamedTuple):
    """A partition, by the id of its topic."""

    topic_id: UUID
    partition: int


def take_closed_states(disk: Disk, directory: PurePath, sink: Sink) -> Mapping[TopicIdPartition, ClosedState]:
    """Return the states that the last stop stored, and remove them durably; none after a kill.

    OSError or LogOffline if they cannot be removed: then no log may be changed.
    """
    path = directory / CLOSED_STATES_LOG
    if not disk.exists(path):
        return {}
    try:
        log = Log(disk, path, _SETTINGS, sink)
        try:
            found = dict(_read(log))
            _empty(log)
        finally:
            log.close()
    except (GoQueueError, OSError, ValueError, struct.error) as error:
        sink.emit(ClosedStatesLost(str(path), str(error)))
        remove_tree(disk, path)
        return {}
    return found


def store_closed_states(
    disk: Disk, directory: PurePath, sink: Sink, states: Iterable[tuple[UUID, Mapping[int, ClosedState]]]
) -> None:
    """Store the states for the next start; all other logs must be closed by now."""
    path = directory / CLOSED_STATES_LOG
    try:
        log = Log(disk, path, _SETTINGS, sink)
        try:
            _empty(log)
            count = 0
            for batch in _batches(_records(states)):
                log.append([own_batch(build_batch(batch))], leader_epoch=log.leader_epoch)
                count += len(batch)
            complete = NewRecord(-1, _COMPLETE, _COUNT.pack(count))
            log.append([own_batch(build_batch([complete]))], leader_epoch=log.leader_epoch)
        finally:
            log.close()
    except (GoQueueError, OSError) as error:
        # Without the states, the next start only takes longer.
        sink.emit(ClosedStatesLost(str(path), str(error)))


def _records(states: Iterable[tuple[UUID, Mapping[int, ClosedState]]]) -> Iterator[NewRecord]:
    for topic_id, by_partition in states:
        items = iter(by_partition.items())
        while part := list(islice(items, _PARTITIONS_PER_RECORD)):
            value = b"".join([_PARTITION.pack(index) + encode([state]) for index, state in part])
            yield NewRecord(-1, topic_id.bytes, value)


def _batches(records: Iterable[NewRecord]) -> Iterator[list[NewRecord]]:
    batch: list[NewRecord] = []
    size = 0
    for record in records:
        batch.append(record)
        size += len(record.value or b"")
        if size >= _BATCH_BYTES or len(batch) >= _RECORDS_PER_BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _read(log: Log) -> Iterator[tuple[TopicIdPartition, ClosedState]]:
    """Yield all stored states, or none if the log is empty; Corrupt if it is incomplete."""
    pairs = list(_pairs(log))
    if not pairs:
        return
    *records, (key, value) = pairs
    if key != _COMPLETE or value is None or _COUNT.unpack(value)[0] != len(records):
        raise Corrupt("the stop that wrote it was interrupted")
    width = _PARTITION.size + CLOSED_STATE_BYTES
    for key, value in records:
        if key is None or value is None or len(value) % width:
            raise Corrupt("it was written by another version")
        topic_id = UUID(bytes=key)
        for start in range(0, len(value), width):
            (index,) = _PARTITION.unpack_from(value, start)
            (state,) = decode(value[start + _PARTITION.size : start + width])
            yield TopicIdPartition(topic_id, index), state


def _pairs(log: Log) -> Iterator[tuple[bytes | None, bytes | None]]:
    offset = log.start_offset
    while data := log.read(offset, bytes_max=_READ_BYTES):
        view = memoryview(data)
        for position, header in headers(data):
            validate(data, position)
            yield from read_pairs(view[position:])
            offset = header.next_offset


def _empty(log: Log) -> None:
    """Delete all records, durably, and the files that hold them."""
    if log.start_offset == log.end_offset:
        return
    log.roll()
    log.delete_before(log.end_offset)
    while (flush := log.flush()) is not None:
        flush.run()
        log.flushed(flush)
    if log.fault:
        raise Corrupt(log.fault)

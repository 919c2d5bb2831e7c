"""What a clean stop leaves for the next start, so that it need not open every log: a `Rest` of each.

It is a log of its own, `__resting-0`, written when all other logs are closed. It counts only if it is whole: its last
record says how many there are. The start that reads it empties it durably before any other log may change. So after a
kill it is empty, and all logs are opened and looked at, as if it had never been.

| key              | value                                                        |
|------------------|--------------------------------------------------------------|
| id of a topic    | for some of its partitions: partition i32, then its `Rest`   |
| `complete`       | how many records there are before this one, u64; the last    |

All calls block. It holds nothing that the other logs do not know: if it cannot be read, it is removed.
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
from goqueue.log.events import RestLost
from goqueue.log.log import Log
from goqueue.log.rest import REST_BYTES, Rest, decode, encode
from goqueue.model.log_settings import Cleanup, LogSettings
from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.layout import headers, validate
from goqueue.records.reader import read_pairs
from goqueue.seams.disk import Disk, remove_tree
from goqueue.seams.sink import Sink

RESTING_LOG = "__resting-0"

_SETTINGS = LogSettings(cleanup=Cleanup.DELETE, retention_ms=-1)
_COMPLETE = b"complete"
_COUNT = struct.Struct(">Q")
_PARTITION = struct.Struct(">i")
_PARTITIONS_PER_RECORD = 1000
_RECORDS_PER_BATCH = 500
_BATCH_BYTES = 512 * 1024
_READ_BYTES = 1024 * 1024


class Place(NamedTuple):
    """A partition, by the id of its topic."""

    topic_id: UUID
    partition: int


def take_rests(disk: Disk, directory: PurePath, sink: Sink) -> Mapping[Place, Rest]:
    """Return what the last stop left, and see to it that no later start finds it; nothing after a kill.

    OSError or LogOffline if it can neither be emptied nor removed: then no log may be changed.
    """
    path = directory / RESTING_LOG
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
        sink.emit(RestLost(str(path), str(error)))
        remove_tree(disk, path)
        return {}
    return found


def leave_rests(disk: Disk, directory: PurePath, sink: Sink, rests: Iterable[tuple[UUID, Mapping[int, Rest]]]) -> None:
    """Store what the next start is to find; all other logs are closed, and nothing follows."""
    path = directory / RESTING_LOG
    try:
        log = Log(disk, path, _SETTINGS, sink)
        try:
            _empty(log)
            count = 0
            for batch in _batches(_records(rests)):
                log.append([own_batch(build_batch(batch))], leader_epoch=log.leader_epoch)
                count += len(batch)
            complete = NewRecord(-1, _COMPLETE, _COUNT.pack(count))
            log.append([own_batch(build_batch([complete]))], leader_epoch=log.leader_epoch)
        finally:
            log.close()
    except (GoQueueError, OSError) as error:
        # Without it the next start takes longer, and that is all.
        sink.emit(RestLost(str(path), str(error)))


def _records(rests: Iterable[tuple[UUID, Mapping[int, Rest]]]) -> Iterator[NewRecord]:
    for topic_id, by_partition in rests:
        items = iter(by_partition.items())
        while part := list(islice(items, _PARTITIONS_PER_RECORD)):
            value = b"".join([_PARTITION.pack(index) + encode([rest]) for index, rest in part])
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


def _read(log: Log) -> Iterator[tuple[Place, Rest]]:
    """Yield what is stored, all of it or nothing."""
    pairs = list(_pairs(log))
    if not pairs:
        return
    *records, (key, value) = pairs
    if key != _COMPLETE or value is None or _COUNT.unpack(value)[0] != len(records):
        raise Corrupt("the stop that wrote it did not get to its end")
    width = _PARTITION.size + REST_BYTES
    for key, value in records:
        if key is None or value is None or len(value) % width:
            raise Corrupt("a record of it is not of this version")
        topic_id = UUID(bytes=key)
        for start in range(0, len(value), width):
            (index,) = _PARTITION.unpack_from(value, start)
            (rest,) = decode(value[start + _PARTITION.size : start + width])
            yield Place(topic_id, index), rest


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

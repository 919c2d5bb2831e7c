"""What the tests of the log share: batches to append, a log to put them in, and the work that an owner does for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import PurePath

from goqueue.errors import Corrupt
from goqueue.log.batches import check_batches
from goqueue.log.file_cache import FileCache
from goqueue.log.log import Log
from goqueue.model.log_settings import LogSettings
from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.compression import Codec
from goqueue.records.control import ControlType, build_marker, read_marker
from goqueue.records.layout import BatchHeader, headers, validate
from goqueue.records.reader import Record, read_records
from goqueue.seams.disk import Disk
from goqueue.seams.sink import Sink
from goqueue.testing import SimDisk

DIRECTORY = PurePath("data/topic-0")
SETTINGS = LogSettings(segment_bytes=1024, index_interval_bytes=100, retention_ms=-1)
NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000


def batch(
    *values: bytes | None,
    key: bytes | None = None,
    timestamp: int = NOW_MS,
    codec: Codec = Codec.NONE,
    producer: int = -1,
    epoch: int = 0,
    sequence: int = -1,
    is_transactional: bool = False,
) -> bytearray:
    """Return a batch with one record for each value, all with the same key and timestamp."""
    return build_batch(
        [NewRecord(timestamp, key, value) for value in values],
        codec=codec,
        producer_id=producer,
        producer_epoch=epoch if producer >= 0 else -1,
        base_sequence=sequence,
        is_transactional=is_transactional,
    )


def keyed(*pairs: tuple[bytes | None, bytes | None], timestamp: int = NOW_MS) -> bytearray:
    """Return a batch of the given keys and values."""
    return build_batch([NewRecord(timestamp, key, value) for key, value in pairs])


def in_transaction(
    value: bytes, *, producer: int, sequence: int, key: bytes | None = None, timestamp: int = NOW_MS
) -> bytearray:
    """Return a batch of one record that belongs to its producer's transaction."""
    return batch(value, key=key, producer=producer, sequence=sequence, is_transactional=True, timestamp=timestamp)


def commit(producer: int, *, epoch: int = 0, timestamp: int = NOW_MS) -> bytearray:
    """Return the marker that commits a producer's transaction."""
    return build_marker(ControlType.COMMIT, producer_id=producer, producer_epoch=epoch, timestamp=timestamp)


def abort(producer: int, *, epoch: int = 0, timestamp: int = NOW_MS) -> bytearray:
    """Return the marker that aborts a producer's transaction."""
    return build_marker(ControlType.ABORT, producer_id=producer, producer_epoch=epoch, timestamp=timestamp)


def open_log(
    disk: Disk, settings: LogSettings = SETTINGS, sink: Sink | None = None, handles: FileCache | None = None
) -> Log:
    """Open the log of these tests."""
    return Log(disk, DIRECTORY, settings, sink, handles)


def reopen(disk: SimDisk, settings: LogSettings = SETTINGS, sink: Sink | None = None) -> Log:
    """End the process that has the log open, and open it again."""
    disk.kill()
    return open_log(disk, settings, sink)


def append(log: Log, *batches: bytearray, leader_epoch: int = 0) -> list[BatchHeader]:
    """Append batches with one call; the buffers given stay as they are."""
    joined = bytearray().join(batches)
    return log.append(check_batches(joined, bytes_max=1_000_000), leader_epoch=leader_epoch)


def append_segments(log: Log, *segments: list[bytearray]) -> None:
    """Append batches one by one, and start a new segment between the groups."""
    for number, batches in enumerate(segments):
        if number:
            log.roll()
        for each in batches:
            append(log, each)


def flush(log: Log) -> None:
    """Make the log durable."""
    work = log.flush()
    if work is not None:
        work.run()
        log.flushed(work)


def upkeep(log: Log) -> None:
    """Do what can be done by now of the work that can wait."""
    work = log.upkeep()
    if work is not None:
        work.run()
        log.upkept(work)


def settle(log: Log) -> None:
    """Make the log durable and do all that follows from it."""
    flush(log)
    upkeep(log)


def compact(log: Log, now_ms: int) -> bool:
    """Run one pass of compaction and swap its files in; False if none is due."""
    work = log.compaction(now_ms)
    if work is None:
        return False
    log.compacted(work, work.run())
    upkeep(log)
    return True


def stored_batches(log: Log) -> Iterator[tuple[BatchHeader, bytes]]:
    """Read a log without damage from start to end, as a consumer would."""
    offset = log.start_offset
    while data := log.read(offset, bytes_max=300):
        for position, header in headers(data):
            validate(data, position)
            yield header, data[position : position + header.size_bytes]
            offset = header.next_offset


def values(log: Log) -> list[bytes | None]:
    """Return the values of all data records that a reader meets, in order."""
    return [
        record.value
        for header, data in stored_batches(log)
        if not header.is_control
        for record in read_records(data)
        if record.offset >= log.start_offset
    ]


def read_committed(log: Log, *, bytes_max: int = 300) -> list[bytes | None]:
    """Return the values that a Kafka client shows to those who read committed records.

    It hides what a listed producer wrote, from the offset that is listed on, until it meets an abort marker of that
    producer; nothing else ends it.
    """
    found: list[bytes | None] = []
    offset = log.start_offset
    while data := log.read(offset, bytes_max=bytes_max, end_offset=log.last_stable_offset):
        batches = [(header, data[position : position + header.size_bytes]) for position, header in headers(data)]
        listed = log.aborted_transactions(offset, batches[-1][0].next_offset)
        later = sorted(((entry.first_offset, entry.producer_id) for entry in listed), reverse=True)
        hidden: set[int] = set()
        for header, stored in batches:
            while later and later[-1][0] <= header.last_offset:
                hidden.add(later.pop()[1])
            if header.is_control and read_marker(stored).control_type is ControlType.ABORT:
                hidden.discard(header.producer_id)
            elif not header.is_control and not (header.is_transactional and header.producer_id in hidden):
                found += [record.value for record in read_records(stored) if record.offset >= log.start_offset]
            offset = header.next_offset
    return found


def readable(log: Log) -> dict[int, Record]:
    """Return every record that can be read, by the offset under which it was asked for; looks at 1,000 offsets."""
    found: dict[int, Record] = {}
    for offset in range(log.start_offset, min(log.end_offset, log.start_offset + 1000)):
        with suppress(Corrupt):
            data = log.read(offset, bytes_max=1)
            validate(data)
            found.update((offset, record) for record in read_records(data) if record.offset == offset)
    return found


def files(disk: SimDisk, suffix: str = "") -> list[str]:
    """Return the names in the log's directory that end in a certain way."""
    return [name for name in disk.list_directory(DIRECTORY) if name.endswith(suffix)]


def remove_files(disk: SimDisk, suffix: str) -> None:
    """Remove the files of the log whose names end in a certain way."""
    for name in files(disk, suffix):
        disk.remove(DIRECTORY / name)

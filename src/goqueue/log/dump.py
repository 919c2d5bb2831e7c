"""Shows what is stored in a log as rows, without opening the log: the core of `goqueue log dump`.

Reads files only and trusts none of them, so it works on damaged logs and on logs that a broker is writing to. Every
function yields its rows one by one and holds no more than one batch or one index at a time. Each row is a named tuple
of plain values; the caller formats it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import PurePath
from typing import NamedTuple

from goqueue.errors import GoQueueError, UnsupportedFormat
from goqueue.log import names
from goqueue.log.checkpoint import CheckpointFile
from goqueue.log.scan import UNKNOWN_END, Fault, Found, Scanner, hop
from goqueue.log.verify import list_segments
from goqueue.log.verify_segment import Place, StoredIndex, read_index
from goqueue.records.control import read_marker
from goqueue.records.layout import HEADER_BYTES, BatchHeader, read_header
from goqueue.records.reader import Record, read_records
from goqueue.records.rewrite import delete_horizon_ms
from goqueue.seams.disk import Disk, File

_HOP_WINDOW_BYTES = 64 * 1024
_NO_HEADER = BatchHeader(-1, 0, -1, 0, 0, 0, 0, -1, -1, -1, -1, -1, 0)


class CheckpointRow(NamedTuple):
    """The newest entry of the checkpoint."""

    start_offset: int
    durable_end: int
    segment_base: int
    position: int
    chain: str
    truncate_to: int


class SegmentRow(NamedTuple):
    """A segment; the fields from `covered_bytes` on come from its index file, whose state is `index_state`."""

    file: str
    base_offset: int
    next_offset: int
    bytes: int
    batches: int
    fault: str
    index_state: str
    covered_bytes: int = 0
    first_time: str | None = None
    max_time: str | None = None
    epochs: Sequence[str] = ()
    damages: Sequence[str] = ()
    aborted: Sequence[str] = ()
    is_compacted: bool = False


class IndexRow(NamedTuple):
    """A row of a segment's sparse index."""

    file: str
    offset: int
    position: int
    time_before: str | None
    chain: str


class ProducerRow(NamedTuple):
    """A producer as it is at the end of what a segment's index covers."""

    file: str
    producer_id: int
    epoch: int
    last_time: str | None
    transaction_start: int
    recent: list[str]


class BatchRow(NamedTuple):
    """A batch, or bytes that are no valid batch (`fault` says why); the fields are then what the header claims."""

    file: str
    position: int
    bytes: int
    base_offset: int
    last_offset: int
    records: int
    first_time: str | None
    max_time: str | None
    first_time_ms: int
    max_time_ms: int
    codec: str
    producer_id: int
    producer_epoch: int
    base_sequence: int
    type: str
    leader_epoch: int
    delete_horizon: str | None
    is_crc_ok: bool
    fault: str


def find_logs(disk: Disk, root: PurePath) -> Iterator[PurePath]:
    """Yield the directories at and below `root` that hold a log, in order."""
    present = disk.list_directory(root)
    if any(names.parse(name) is not None for name in present):
        yield root
    for name in present:
        if disk.is_directory(root / name):
            yield from find_logs(disk, root / name)


def checkpoint_rows(disk: Disk, directory: PurePath) -> Iterator[CheckpointRow]:
    """Yield the checkpoint, if there is a readable one."""
    entry = CheckpointFile(disk, directory / names.CHECKPOINT).load()
    if entry is not None:
        yield CheckpointRow(
            entry.start_offset,
            entry.durable_end,
            entry.segment_base,
            entry.position,
            _checksum(entry.chain),
            entry.truncate_to,
        )


def segment_rows(disk: Disk, directory: PurePath) -> Iterator[SegmentRow]:
    """Yield a row for each segment."""
    for place in _places(disk, directory):
        stored = read_index(disk, place)
        # Retention may remove a segment of a live log at any moment; then there is nothing to show.
        with suppress(FileNotFoundError), _open(disk, place) as file:
            size = file.size()
            batches, end_offset, fault = _count_batches(file)
            if isinstance(stored, StoredIndex):
                end_offset = max(end_offset, stored.head.next_offset)
                yield _described_segment(stored, place, size, batches, end_offset, fault)
            else:
                end_offset = max(end_offset, place.base_offset)
                yield SegmentRow(place.path.name, place.base_offset, end_offset, size, batches, fault, stored.what)


def _described_segment(
    stored: StoredIndex, place: Place, size: int, batches: int, end_offset: int, fault: str
) -> SegmentRow:
    head = stored.head
    return SegmentRow(
        place.path.name,
        place.base_offset,
        end_offset,
        size,
        batches,
        fault,
        "ok",
        head.covered,
        iso(head.first_timestamp),
        iso(head.max_timestamp),
        [f"{epoch} from {start}" for epoch, start in head.epochs],
        [_range(damage.first_offset, damage.end_offset - 1) for damage in head.damages],
        [f"{entry.producer_id}: {_range(entry.first_offset, entry.last_offset)}" for entry in stored.details.aborted],
        head.is_compacted,
    )


def index_rows(disk: Disk, directory: PurePath) -> Iterator[IndexRow]:
    """Yield the rows of all indexes that are readable."""
    for name, stored in _indexes(disk, directory):
        index = stored.details.index
        for number in range(len(index)):
            row = index.row(number)
            yield IndexRow(name, row.offset, row.position, iso(row.time), _checksum(row.chain))


def producer_rows(disk: Disk, directory: PurePath) -> Iterator[ProducerRow]:
    """Yield the producers of all indexes that are readable."""
    for name, stored in _indexes(disk, directory):
        for producer_id, known in stored.producers:
            recent = [
                f"sequence {_range(seen.base_sequence, seen.last_sequence)} at {seen.base_offset}"
                for seen in known.recent
            ]
            last_time = iso(known.last_timestamp)
            yield ProducerRow(name, producer_id, known.epoch, last_time, known.transaction_start, recent)


def batch_rows(disk: Disk, directory: PurePath, *, from_offset: int = 0) -> Iterator[BatchRow]:
    """Yield the batches from the one that holds an offset on; stretches that are no batch have a row each."""
    for place, step in _walk(disk, directory, from_offset):
        yield _describe(place.path.name, step)


def records(disk: Disk, directory: PurePath, *, from_offset: int = 0) -> Iterator[Record | Fault]:
    """Yield the records from an offset on, and a fault for each stretch that is no readable batch."""
    for _, step in _walk(disk, directory, from_offset):
        if isinstance(step.found, Fault):
            yield step.found
            continue
        try:
            yield from (record for record in read_records(step.found.batch) if record.offset >= from_offset)
        except GoQueueError as error:
            yield Fault(step.position, str(error))


def iso(timestamp_ms: int) -> str | None:
    """Return a stored timestamp in ISO 8601; None if there is none, or if no calendar knows it."""
    if timestamp_ms < 0:
        return None
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return None


class _Step(NamedTuple):
    """One step of a walk: a batch or a fault, where, and how many bytes it takes."""

    found: Found | Fault
    position: int
    size: int
    header: BatchHeader | None


def _walk(disk: Disk, directory: PurePath, from_offset: int) -> Iterator[tuple[Place, _Step]]:
    places = _places(disk, directory)
    for number, place in enumerate(places):
        if number + 1 < len(places) and places[number + 1].base_offset <= from_offset:
            continue
        stored = read_index(disk, place)
        start = stored.details.index.position_of_offset(from_offset) if isinstance(stored, StoredIndex) else 0
        with suppress(FileNotFoundError), _open(disk, place) as file:
            for step in _steps(file, start):
                if isinstance(step.found, Fault) or step.found.header.last_offset >= from_offset:
                    yield place, step


def _steps(file: File, position: int) -> Iterator[_Step]:
    size = file.size()
    scanner = Scanner(file, size)
    while position < size:
        header = _claimed_header(file, position)
        # A batch is shown at the offset that it claims, whichever was due.
        due = header.base_offset if header else 0
        found = scanner.batch_at(position, offset_due=due, offset_end=UNKNOWN_END)
        if isinstance(found, Found):
            end = position + found.header.size_bytes
        else:
            behind = scanner.batch_after(position, offset_due=0, offset_end=UNKNOWN_END)
            end = behind[0] if behind else size
        yield _Step(found, position, end - position, header)
        position = end


def _claimed_header(file: File, position: int) -> BatchHeader | None:
    try:
        return read_header(file.read_at(position, HEADER_BYTES))
    except GoQueueError:
        return None


def _describe(name: str, step: _Step) -> BatchRow:
    header = step.header or _NO_HEADER
    horizon = delete_horizon_ms(header)
    return BatchRow(
        name,
        step.position,
        step.size,
        header.base_offset,
        header.last_offset,
        header.record_count,
        iso(header.base_timestamp),
        iso(header.max_timestamp),
        header.base_timestamp,
        header.max_timestamp,
        _codec(header),
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        _kind(step),
        header.leader_epoch,
        None if horizon is None else iso(horizon),
        isinstance(step.found, Found),
        step.found.reason if isinstance(step.found, Fault) else "",
    )


def _codec(header: BatchHeader) -> str:
    try:
        return header.codec.name.lower()
    except UnsupportedFormat:
        return "unknown"


def _kind(step: _Step) -> str:
    if isinstance(step.found, Fault):
        return "unreadable"
    header = step.found.header
    if not header.is_control:
        return "transactional" if header.is_transactional else "plain"
    try:
        return read_marker(step.found.batch).control_type.name.lower()
    except GoQueueError:
        return "control"


def _count_batches(file: File) -> tuple[int, int, str]:
    """Return how many batches follow each other from the start, where they end, and why not at the file's end."""
    count = end_offset = 0
    size = end = file.size()
    try:
        for position, header in hop(file, 0, size, window_bytes=_HOP_WINDOW_BYTES):
            count += 1
            end_offset = header.next_offset
            end = position + header.size_bytes
    except GoQueueError as error:
        return count, end_offset, f"behind batch {count}: {error}"
    return count, end_offset, "" if end == size else f"the last batch goes on to byte {end}"


def _places(disk: Disk, directory: PurePath) -> list[Place]:
    return list_segments(disk, directory, disk.list_directory(directory))


def _indexes(disk: Disk, directory: PurePath) -> Iterator[tuple[str, StoredIndex]]:
    for place in _places(disk, directory):
        stored = read_index(disk, place)
        if isinstance(stored, StoredIndex):
            yield place.index_path.name, stored


@contextmanager
def _open(disk: Disk, place: Place) -> Iterator[File]:
    file = disk.open(place.path, writable=False)
    try:
        yield file
    finally:
        file.close()


def _range(first: int, last: int) -> str:
    return f"{first}-{last}"


def _checksum(value: int) -> str:
    return f"{value:08x}"

"""Keeps the last record of each key: rewrites sealed segments without the records that later ones replace.

| record                                       | fate                                                             |
|----------------------------------------------|------------------------------------------------------------------|
| has no key                                   | stays                                                            |
| a later record has the same key              | goes                                                             |
| tombstone (no value), the last of its key    | stays for `delete.retention.ms` after it was first met here      |
| of an aborted transaction                    | goes, and replaces nothing                                       |
| transaction marker                           | goes `delete.retention.ms` after its transaction's records,  |
|                                              | and with it the word that the transaction was aborted            |
| in a batch that cannot be opened | stays                                                            |

Offsets and order never change. A batch that loses all its records goes too, unless it is its producer's last: then
its header stays, because the producer's sequence is known from it. The active segment, open transactions and records
younger than `min.compaction.lag.ms` are not touched.

A `Compaction` reads and writes in any thread while the owner of the log goes on, and touches no file that the log
uses: it writes `.cleaned` files, which take their place only once the owner adopts them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from goqueue.errors import GoQueueError
from goqueue.log import names, sidecar
from goqueue.log.scan import hop
from goqueue.log.segment import OFFSETS_PER_SEGMENT_MAX, EpochStart, Segment
from goqueue.machines.producer import AbortedRange
from goqueue.model.log_settings import LogSettings
from goqueue.records.builder import empty_batch
from goqueue.records.layout import BatchHeader, read_header
from goqueue.records.reader import Batch, Record, verified
from goqueue.records.rewrite import delete_horizon_ms, retain
from goqueue.seams.cooperative_yield import Pause, no_pause
from goqueue.seams.disk import Disk, File

# So many offsets of dirty segments are compacted in one pass, or one segment if that has more. It bounds the map of
# keys: a million of them take about 200 MB.
PASS_OFFSETS_MAX = 1_000_000
_DIGEST_BYTES = 16
_WRITE_BYTES = 1024 * 1024
_SCAN_WINDOW_BYTES = 1024 * 1024


@dataclass(slots=True, frozen=True, eq=False)
class Replacement:
    """A compacted segment, open and with its details, and the segments whose records it holds now."""

    segment: Segment
    replaced: tuple[Segment, ...]


@dataclass(slots=True, frozen=True, eq=False)
class Compaction:
    """One pass: `segments` are rewritten, the last `dirty` of them for the first time.

    `is_from_start`: no segment precedes them, so every transaction's batches are seen before its marker.
    """

    disk: Disk
    settings: LogSettings
    segments: tuple[Segment, ...]
    dirty: int
    aborted: AbortedRanges
    last_batches: frozenset[int]
    now_ms: int
    is_from_start: bool

    def run(self, breathe: Pause = no_pause) -> list[Replacement]:
        """Write the compacted segments; an OSError, or Corrupt where a batch is damaged, leaves no files."""
        latest = self._latest_offsets(breathe)
        unmarked: set[int] = set()
        done: list[Replacement] = []
        try:
            for group in _group(self.segments, self.settings.segment_bytes):
                done.append(_Rewriter(self, latest, unmarked, group).run(breathe))  # noqa: PERF401 - undone if one fails
        except (OSError, GoQueueError):
            abandon(self.disk, done)
            raise
        return done

    def _latest_offsets(self, breathe: Pause) -> dict[bytes, int]:
        latest: dict[bytes, int] = {}
        for segment in self.segments[-self.dirty :]:
            for batch in _batches(self.disk, segment):
                header = batch.header
                breathe()
                if header.is_control or not header.record_count or self.aborted.hold(header):
                    continue
                for record in _open(batch) or ():
                    if record.key is not None:
                        latest[_digest(record.key)] = record.offset
        return latest


def plan(
    disk: Disk,
    settings: LogSettings,
    sealed: Sequence[Segment],
    *,
    end_offset: int,
    aborted: Callable[[int, int], Iterable[AbortedRange]],
    last_batches: Iterable[int],
    now_ms: int,
) -> Compaction | None:
    """Decide what to compact of the sealed segments that end at or before `end_offset`; None if it is not worth it.

    `aborted` returns the aborted transactions between two offsets; it is called only if there is work to do.
    """
    eligible: list[Segment] = []
    for segment in sealed:
        is_young = segment.max_timestamp > now_ms - settings.min_compaction_lag_ms
        if segment.next_offset > end_offset or segment.covered != segment.size or is_young:
            break
        # A damaged segment and those before it are left alone: later records of their keys may be in the damage.
        eligible = [] if segment.damages else [*eligible, segment]
    clean = next((number for number, segment in enumerate(eligible) if not segment.is_compacted), len(eligible))
    dirty = eligible[clean:]
    if not dirty or not _is_worth_it(eligible[:clean], dirty, settings, now_ms):
        return None
    chosen = _first_pass(dirty)
    segments = tuple(eligible[: clean + len(chosen)])
    return Compaction(
        disk,
        settings,
        segments,
        len(chosen),
        AbortedRanges(aborted(segments[0].base_offset, segments[-1].next_offset)),
        frozenset(last_batches),
        now_ms,
        is_from_start=eligible[0] is sealed[0],
    )


def abandon(disk: Disk, replacements: Iterable[Replacement]) -> None:
    """Throw the work of a pass away."""
    for replacement in replacements:
        if replacement.segment.file is not None:
            replacement.segment.file.close()
        for path in (replacement.segment.path, names.index_path(replacement.segment.path)):
            if disk.exists(path):
                disk.remove(path)


class _Rewriter:
    """Writes one compacted segment from a group of segments."""

    def __init__(
        self, compaction: Compaction, latest: dict[bytes, int], unmarked: set[int], group: Sequence[Segment]
    ) -> None:
        self._compaction = compaction
        self._latest = latest
        # Producers with a kept transactional batch since their last marker. Without the next marker, that transaction
        # would look open.
        self._unmarked = unmarked
        self._group = group
        first = group[0]
        path = first.path.with_name(first.path.name + names.CLEANED)
        self._segment = Segment.fresh(path, first.base_offset)
        self._segment.is_compacted = True
        self._pending: list[bytes | bytearray | memoryview] = []
        self._pending_start = 0
        self._marker_offsets: set[int] = set()

    def run(self, breathe: Pause) -> Replacement:
        disk = self._compaction.disk
        file = disk.open(self._segment.path, create=True)
        try:
            file.truncate(0)
            for old in self._group:
                for batch in _batches(disk, old):
                    breathe()
                    kept = self._keep(batch)
                    if kept is not None:
                        self._write(file, kept)
            self._write_pending(file)
            file.sync()
            self._write_index()
        except (OSError, GoQueueError):
            self._segment.file = file
            abandon(disk, [Replacement(self._segment, ())])
            raise
        self._segment.file = file
        return Replacement(self._segment, tuple(self._group))

    def _keep(self, batch: Batch) -> bytes | bytearray | memoryview | None:
        """Return what is left of a batch."""
        header = batch.header
        if header.is_control:
            return self._keep_marker(header, batch)
        kept: bytes | bytearray | memoryview | None = None
        if header.record_count and not self._compaction.aborted.hold(header):
            kept = self._keep_records(header, batch)
        if kept is None and header.base_offset in self._compaction.last_batches:
            kept = empty_batch(header)
        if kept is not None and header.is_transactional:
            self._unmarked.add(header.producer_id)
        return kept

    def _keep_records(self, header: BatchHeader, batch: Batch) -> bytearray | memoryview | None:
        horizon = delete_horizon_ms(header)
        is_past_horizon = horizon is not None and horizon <= self._compaction.now_ms
        records = _open(batch)
        if records is None:
            return batch.data
        flags = [self._is_kept(record, is_past_horizon=is_past_horizon) for record in records]
        has_tombstone = any(
            kept and record.value is None and record.key is not None
            for kept, record in zip(flags, records, strict=True)
        )
        if has_tombstone and horizon is None:
            return retain(batch, flags, delete_horizon_ms=self._new_horizon())
        return batch.data if all(flags) else retain(batch, flags)

    def _is_kept(self, record: Record, *, is_past_horizon: bool) -> bool:
        if record.key is None:
            return True
        if record.offset < self._latest.get(_digest(record.key), record.offset):
            return False
        return record.value is not None or not is_past_horizon

    def _keep_marker(self, header: BatchHeader, batch: Batch) -> bytearray | memoryview | None:
        is_last = header.base_offset in self._compaction.last_batches
        is_needed = is_last or header.producer_id in self._unmarked or not self._compaction.is_from_start
        self._unmarked.discard(header.producer_id)
        if is_needed:
            return batch.data
        horizon = delete_horizon_ms(header)
        if horizon is None:
            return retain(batch, [True] * header.record_count, delete_horizon_ms=self._new_horizon())
        return batch.data if horizon > self._compaction.now_ms else None

    def _new_horizon(self) -> int:
        return self._compaction.now_ms + self._compaction.settings.delete_retention_ms

    def _write(self, file: File, batch: bytes | bytearray | memoryview) -> None:
        header = read_header(batch)
        self._segment.extend(header, batch, index_interval_bytes=self._compaction.settings.index_interval_bytes)
        if header.is_control:
            self._marker_offsets.add(header.last_offset)
        self._pending.append(batch)
        if self._segment.size - self._pending_start >= _WRITE_BYTES:
            self._write_pending(file)

    def _write_pending(self, file: File) -> None:
        file.write_at(self._pending_start, *self._pending)
        self._pending_start = self._segment.size
        self._pending.clear()

    def _write_index(self) -> None:
        """Give the segment the whole range of those it replaces, with what was known about their ends."""
        segment, group, disk = self._segment, self._group, self._compaction.disk
        bodies = [sidecar.read_body(disk, old.path) for old in group]
        assert segment.details is not None
        # Readers hide a producer's records until its abort marker: an aborted transaction without a marker would hide
        # the producer's later transactions too. Where the marker is gone, none of the records is left.
        segment.details.aborted = [
            entry for body in bodies for entry in body.details.aborted if entry.last_offset in self._marker_offsets
        ]
        segment.details.producers_at_start = bodies[0].details.producers_at_start
        segment.epochs = _merge_epochs(group)
        segment.has_gaps = segment.has_gaps or segment.next_offset != group[-1].next_offset
        segment.next_offset = group[-1].next_offset
        segment.covered = segment.size
        sidecar.write(disk, names.index_path(segment.path), sidecar.encode(segment, bodies[-1].producers))


def _batches(disk: Disk, segment: Segment) -> Iterator[Batch]:
    file = disk.open(segment.path, writable=False)
    try:
        for position, header in hop(file, 0, segment.size, window_bytes=_SCAN_WINDOW_BYTES):
            # A damaged batch must not get a new checksum, nor may its keys replace others.
            yield verified(file.read_at(position, header.size_bytes))
    finally:
        file.close()


def _open(batch: Batch) -> list[Record] | None:
    """Return the records of a batch; None if it cannot be opened."""
    try:
        return batch.open().records()
    except GoQueueError:
        return None


def _digest(key: bytes) -> bytes:
    return key if len(key) < _DIGEST_BYTES else blake2b(key, digest_size=_DIGEST_BYTES).digest()


def _is_worth_it(clean: Sequence[Segment], dirty: Sequence[Segment], settings: LogSettings, now_ms: int) -> bool:
    dirty_bytes = sum(segment.size for segment in dirty)
    total_bytes = dirty_bytes + sum(segment.size for segment in clean)
    is_overdue = now_ms - dirty[0].first_timestamp > settings.max_compaction_lag_ms
    return is_overdue or dirty_bytes >= settings.min_cleanable_dirty_ratio * total_bytes


def _first_pass(dirty: Sequence[Segment]) -> list[Segment]:
    chosen = [dirty[0]]
    for segment in dirty[1:]:
        if segment.next_offset - dirty[0].base_offset > PASS_OFFSETS_MAX:
            break
        chosen.append(segment)
    return chosen


def _group(segments: Sequence[Segment], segment_bytes: int) -> list[list[Segment]]:
    """Put neighbours together that fit into one segment before compaction, so surely after it."""
    groups: list[list[Segment]] = []
    size = 0
    for segment in segments:
        is_full = size + segment.size > segment_bytes
        if not groups or is_full or segment.next_offset - groups[-1][0].base_offset > OFFSETS_PER_SEGMENT_MAX:
            groups.append([])
            size = 0
        groups[-1].append(segment)
        size += segment.size
    return groups


def _merge_epochs(group: Sequence[Segment]) -> list[EpochStart]:
    merged: list[EpochStart] = []
    for start in (start for segment in group for start in segment.epochs):
        if not merged or start.epoch > merged[-1].epoch:
            merged.append(start)
    return merged


class AbortedRanges:
    """The aborted transactions of a stretch of the log, by producer."""

    def __init__(self, transactions: Iterable[AbortedRange]) -> None:
        """Take transactions in the order of their markers; a producer has one at a time, so its own never overlap."""
        self._by_producer: dict[int, list[AbortedRange]] = {}
        for each in transactions:
            self._by_producer.setdefault(each.producer_id, []).append(each)

    def hold(self, header: BatchHeader) -> bool:
        """Return whether a batch belongs to one of them."""
        if not header.is_transactional:
            return False
        own = self._by_producer.get(header.producer_id, ())
        number = bisect_left(own, header.base_offset, key=_last_offset)
        return number < len(own) and own[number].first_offset <= header.base_offset


def _last_offset(transaction: AbortedRange) -> int:
    return transaction.last_offset

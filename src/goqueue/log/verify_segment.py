"""Checks one segment: every batch by itself, and all of them against what the index file says.

The index file has checksums of its own. Where it passes them and yet disagrees with the segment about where a batch
lies, its offset or the chain of prefixes, it is the segment that changed. The facts that the index derives (times,
epochs, aborted transactions, producers) are made again from the batches and compared, with three allowances: idle
producers may have been forgotten, compaction removes batches that such facts came from, and the first segment of a log
whose start was deleted does not tell what came before.

After invalid bytes the check continues at the next good batch, and the next row of the index gives the chain and the
time there: so each fault is found, and reported once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from enum import IntEnum
from pathlib import PurePath
from typing import NamedTuple

from goqueue.errors import Corrupt, GoQueueError
from goqueue.log import names, sidecar
from goqueue.log.checkpoint import Checkpoint
from goqueue.log.index import Row
from goqueue.log.scan import UNKNOWN_END, Fault, Found, Scanner
from goqueue.log.segment import Details, Segment
from goqueue.machines.producer import NO_OFFSET, ProducerTable
from goqueue.records.control import read_marker
from goqueue.seams.disk import Disk, File

# The rows of the index are compared one by one as the walk reaches them; none are gathered.
_NO_ROWS = 2**62
_PREFIX_CHANGED = "an offset, length, leader epoch or checksum is not what was written"
_REBUILT = "opening the log makes it again once the file is removed"
_RESTORE = "restore the segment from a replica or a backup"
_INDEX_TRIES = 3


class Severity(IntEnum):
    """The severity of a finding; `verify` explains each."""

    NOTE = 1
    DEFECT = 2
    DAMAGE = 3


class Finding(NamedTuple):
    """One thing that is wrong or remarkable; position and offset are -1 where they say nothing."""

    severity: Severity
    path: PurePath
    position: int = -1
    offset: int = -1
    what: str = ""
    hint: str = ""


class Place(NamedTuple):
    """The path of a segment; `described` is the path whose index file describes it."""

    base_offset: int
    path: PurePath
    described: PurePath

    @property
    def index_path(self) -> PurePath:
        return names.index_path(self.described)


class StoredIndex(NamedTuple):
    """A whole index file."""

    head: Segment
    details: Details
    producers: ProducerTable


class Expected(NamedTuple):
    """Facts about a segment from other files; `producers` is None if their past is unknown."""

    durable_end: int
    next_base: int
    checkpoint: Checkpoint | None
    producers: ProducerTable | None


def read_index(disk: Disk, place: Place) -> StoredIndex | Finding:
    """Return the index file of a segment, or why it cannot be used."""
    path = place.index_path
    try:
        for _ in range(_INDEX_TRIES):
            head = sidecar.read_head(disk, place.described)
            body = sidecar.read_body(disk, place.described)
            # The owner of a live log may have put a newer file in place between the two.
            if body.covered == head.covered:
                break
        if head.base_offset != place.base_offset:
            raise Corrupt("the index is of another segment")
    except FileNotFoundError:
        return Finding(Severity.NOTE, path, what="there is no index", hint="opening the log makes it again")
    except Corrupt as error:
        return Finding(Severity.DEFECT, path, offset=place.base_offset, what=str(error), hint=_REBUILT)
    return StoredIndex(head, body.details, body.producers)


class _Border(NamedTuple):
    """A claim of the index file or the checkpoint about the first `position` bytes of a segment."""

    position: int
    chain: int
    next_offset: int
    path: PurePath
    is_index: bool


class SegmentCheck:
    """One walk over a segment; afterwards `end_offset` and `producers` are what the next one must continue."""

    def __init__(self, file: File, place: Place, index: StoredIndex | Finding, expected: Expected) -> None:
        self._file = file
        self._place = place
        self._index = index if isinstance(index, StoredIndex) else None
        self._index_finding = index if isinstance(index, Finding) else None
        self._expected = expected
        self._size = file.size()
        self._scanner = Scanner(file, self._size)
        self._seen = Segment.fresh(place.path, place.base_offset)
        self._rows = _rows(self._index)
        self._row = next(self._rows, None)
        self._damages = deque(self._index.head.damages if self._index else ())
        self._borders = deque(_borders(self._index, expected.checkpoint, place))
        # In step, chain and time are known: from the start on, and after a fault again from the next row on.
        self._is_in_step = True
        self._step_position = 0
        self._is_whole = True
        self.producers = expected.producers

    @property
    def end_offset(self) -> int:
        """Where the next segment must start."""
        return self._seen.next_offset

    def close(self) -> None:
        """Close the segment's file."""
        self._file.close()

    def run(self, progress: Callable[[int], None]) -> Iterator[Finding]:
        """Yield all faults, in the order of positions."""
        if self._index_finding is not None and self._size:
            yield self._index_finding
        while True:
            yield from self._pass_known_damages()
            yield from self._check_borders()
            position = self._seen.size
            if position >= self._size:
                break
            found = self._batch()
            if isinstance(found, Found):
                yield from self._check_row(found)
                self._take(found)
            elif (yield from self._report_fault(found)):
                break
            progress(self._seen.size - position)
        yield from self._check_rest()

    def _batch(self) -> Found | Fault:
        seen = self._seen
        found = self._scanner.batch_at(seen.size, offset_due=seen.next_offset, offset_end=self._expected.next_base)
        if isinstance(found, Found) and found.header.is_control:
            try:
                read_marker(found.batch)
            except GoQueueError as error:
                return Fault(seen.size, str(error))
        return found

    def _take(self, found: Found) -> None:
        header = found.header
        self._seen.extend(header, found.batch, index_interval_bytes=_NO_ROWS)
        if self.producers is None:
            return
        marker = read_marker(found.batch).control_type if header.is_control else None
        aborted = self.producers.apply(header, marker)
        if aborted is not None and self._seen.details is not None:
            self._seen.details.aborted.append(aborted)

    def _report_fault(self, fault: Fault) -> Generator[Finding, None, bool]:
        """Report the fault of the bytes here and skip them; True if the log ends before them."""
        seen = self._seen
        if seen.next_offset >= self._expected.durable_end:
            what = f"the log ends before {self._size - seen.size} bytes of an unfinished write: {fault.reason}"
            yield self._finding(Severity.NOTE, what, "opening the log removes them")
            return True
        behind = self._scanner.batch_after(
            fault.position, offset_due=seen.next_offset, offset_end=self._expected.next_base
        )
        position, offset = behind or (self._size, self._offset_behind())
        what = f"{position - fault.position} bytes with the offsets before {offset} are unreadable: {fault.reason}"
        yield self._finding(Severity.DAMAGE, what, _RESTORE)
        seen.size, seen.next_offset = position, offset
        self._is_in_step = self._is_whole = False
        return False

    def _offset_behind(self) -> int:
        next_base = self._expected.next_base
        end = self._expected.durable_end if next_base == UNKNOWN_END else next_base
        return max(end, self._seen.next_offset)

    def _pass_known_damages(self) -> Iterator[Finding]:
        seen = self._seen
        while self._damages and self._damages[0].position <= seen.size:
            damage = self._damages.popleft()
            if damage.end_position < seen.size:
                continue
            kind = damage.kind.name.lower()
            what = f"the offsets before {damage.end_offset} are {kind}; the log has known it since it was last opened"
            yield self._finding(Severity.DAMAGE, what, _RESTORE)
            seen.size = damage.end_position
            seen.next_offset = max(seen.next_offset, damage.end_offset)

    def _check_row(self, found: Found) -> Iterator[Finding]:
        """Compare the row that the index has for this batch, and fall in step with it."""
        seen, offset = self._seen, found.header.base_offset
        while self._row is not None and self._row.position < seen.size:
            if self._is_in_step:
                what = f"the index has a row for byte {self._row.position}, where no batch starts"
                yield self._finding(Severity.DAMAGE, what, _RESTORE)
            self._row = next(self._rows, None)
        row = self._row
        if row is None or row.position > seen.size:
            return
        if row.offset != offset:
            yield self._finding(Severity.DAMAGE, f"a batch says offset {offset}, its index says {row.offset}", _RESTORE)
        elif self._is_in_step and row.chain != seen.chain:
            yield self._prefix_changed()
        elif self._is_in_step and row.time != seen.max_timestamp:
            yield self._defect(f"a row says time {row.time} where {seen.max_timestamp} is the latest so far")
        if row.offset != offset or row.chain != seen.chain:
            self._is_whole = False
        seen.chain, seen.max_timestamp = row.chain, row.time
        self._is_in_step = True
        self._step_position = row.position
        self._row = next(self._rows, None)

    def _check_borders(self) -> Iterator[Finding]:
        """Compare the claims of the index file and the checkpoint about the segment up to here."""
        while self._borders and self._borders[0].position <= self._seen.size:
            border = self._borders.popleft()
            if self._is_in_step:
                yield from self._check_border(border)
            if border.is_index and self._index is not None:
                self._seen.next_offset = max(self._seen.next_offset, border.next_offset)
                self.producers = self._index.producers

    def _check_border(self, border: _Border) -> Iterator[Finding]:
        seen = self._seen
        if border.position < seen.size:
            what = f"{border.path.name} describes {border.position} bytes, but no batch ends there"
            yield self._finding(Severity.DAMAGE, what, _RESTORE)
        elif border.chain != seen.chain:
            self._is_whole = False
            yield self._prefix_changed()
        elif border.next_offset != seen.next_offset and not self._is_compacted:
            what = f"it says offset {border.next_offset} where {seen.next_offset} comes next"
            yield self._defect(what, border.path)
        elif border.is_index and self._is_whole:
            yield from self._compare_facts()

    def _compare_facts(self) -> Iterator[Finding]:
        """Compare the derived facts of the index with the batches."""
        assert self._index is not None
        head, seen = self._index.head, self._seen
        assert seen.details is not None
        pairs: list[tuple[str, object, object]] = [("latest time", head.max_timestamp, seen.max_timestamp)]
        if not self._is_compacted:
            pairs.append(("first time", head.first_timestamp, seen.first_timestamp))
            pairs.append(("leader epochs", head.epochs, seen.epochs))
            if self.producers is not None:
                pairs.append(("aborted transactions", self._index.details.aborted, seen.details.aborted))
        for name, stored, true in pairs:
            if stored != true:
                yield self._defect(f"its {name} are {stored}, the batches say {true}")
        if self.producers is not None and not self._is_compacted:
            for producer_id in disagreeing_producers(self._index.producers, self.producers):
                yield self._defect(f"what it says about producer {producer_id} is not what the batches say")

    def _check_rest(self) -> Iterator[Finding]:
        """Report expected batches that are missing."""
        seen, head = self._seen, self._index.head if self._index else None
        if head is not None and self._size < head.covered and seen.next_offset < head.next_offset:
            missing = f"{head.covered - self._size} bytes with the offsets before {head.next_offset} are missing"
            yield self._finding(Severity.DAMAGE, missing, _RESTORE)
            seen.next_offset = head.next_offset
        elif self._row is not None and self._is_in_step:
            yield self._defect(f"there is a row for byte {self._row.position}, behind the last batch")
        next_base = self._expected.next_base
        if head is None and seen.next_offset < next_base <= self._expected.durable_end:
            what = f"the offsets before {next_base} are not there; without the index nobody can tell whether they were"
            yield self._finding(Severity.DEFECT, what)
            seen.next_offset = next_base

    @property
    def _is_compacted(self) -> bool:
        return self._index is not None and self._index.head.is_compacted

    def _prefix_changed(self) -> Finding:
        what = f"{_PREFIX_CHANGED}, between here and byte {self._seen.size}"
        return self._finding(Severity.DAMAGE, what, _RESTORE)._replace(position=self._step_position)

    def _defect(self, what: str, path: PurePath | None = None) -> Finding:
        path = path or self._place.index_path
        return Finding(Severity.DEFECT, path, -1, self._seen.next_offset, what, _REBUILT)

    def _finding(self, severity: Severity, what: str, hint: str = "") -> Finding:
        return Finding(severity, self._place.path, self._seen.size, self._seen.next_offset, what, hint)


def disagreeing_producers(stored: ProducerTable, true: ProducerTable) -> list[int]:
    """Return the producers for which an index file and the batches differ.

    A producer that was idle may be missing, or have forgotten its older batches; an open transaction never expires.
    """
    ours, theirs = dict(true), dict(stored)
    wrong = [producer_id for producer_id in theirs if producer_id not in ours]
    for producer_id, known in ours.items():
        entry = theirs.get(producer_id)
        if entry is None:
            if known.transaction_start != NO_OFFSET:
                wrong.append(producer_id)
        elif (
            (entry.epoch, entry.transaction_start) != (known.epoch, known.transaction_start)
            or entry.last_timestamp > known.last_timestamp
            or entry.recent != known.recent[len(known.recent) - len(entry.recent) :]
        ):
            wrong.append(producer_id)
    return wrong


def _rows(index: StoredIndex | None) -> Iterator[Row]:
    if index is not None:
        for number in range(len(index.details.index)):
            yield index.details.index.row(number)


def _borders(index: StoredIndex | None, checkpoint: Checkpoint | None, place: Place) -> list[_Border]:
    borders = []
    if index is not None:
        head = index.head
        borders.append(_Border(head.covered, head.chain, head.next_offset, place.index_path, is_index=True))
    is_compacted = index is not None and index.head.is_compacted
    if checkpoint is not None and checkpoint.segment_base == place.base_offset and not is_compacted:
        path = place.path.with_name(names.CHECKPOINT)
        borders.append(_Border(checkpoint.position, checkpoint.chain, checkpoint.durable_end, path, is_index=False))
    return sorted(borders)

"""A log as a child would write it: a list of batches. Tells what a real log must, may and must not hold.

The model knows nothing of segments, indexes or flushes, only what was appended and what the log has promised since.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from goqueue.errors import CorruptBatch, GoQueueError
from goqueue.log.log import Log
from goqueue.machines.producer import ProducerTable
from goqueue.records.control import ControlType, read_marker
from goqueue.records.layout import BatchHeader, headers, validate
from goqueue.records.reader import Record, read_records


class StoredBatch(NamedTuple):
    """One appended batch, with the bytes that every reader must get."""

    header: BatchHeader
    data: bytes
    records: list[Record]

    @property
    def marker(self) -> ControlType | None:
        return read_marker(self.data).control_type if self.header.is_control else None


@dataclass(slots=True)
class LogModel:
    """What was appended, and what the log has said about it."""

    batches: list[StoredBatch] = field(default_factory=list)
    durable_end: int = 0
    start: int = 0
    start_asked: int = 0
    base: int = 0
    has_compacted: bool = False
    tombstones_may_go: bool = False

    @property
    def end(self) -> int:
        return max(self.batches[-1].header.next_offset, self.base) if self.batches else self.base

    def append(self, header: BatchHeader, data: bytes) -> None:
        self.batches.append(StoredBatch(header, data, read_records(data)))

    def truncate(self, offset: int) -> None:
        self.batches = [batch for batch in self.batches if batch.header.next_offset <= offset]
        self.durable_end = min(self.durable_end, offset, self.end)

    def reset(self, offset: int) -> None:
        self.batches = []
        self.base = self.durable_end = self.start = self.start_asked = offset

    def settle_on(self, log: Log) -> None:
        """Take over what a restarted log still has of what was never promised."""
        self.batches = [batch for batch in self.batches if batch.header.next_offset <= log.end_offset]
        if log.end_offset == log.start_offset:
            self.base = log.end_offset
        self.durable_end = log.end_offset
        self.start = self.start_asked = log.start_offset

    def violations_live(self, log: Log) -> list[str]:
        """Compare with a log that has been running all the time."""
        faults = []
        if log.end_offset != self.end:
            faults.append(f"the log ends at {log.end_offset}, not at {self.end}")
        if log.start_offset != self.start_asked:
            faults.append(f"the log starts at {log.start_offset}, not at {self.start_asked}")
        return faults + self._content_violations(log)

    def violations_after_crash(self, log: Log) -> list[str]:
        """Compare with a log that was just opened after a crash."""
        faults = []
        borders = {batch.header.next_offset for batch in self.batches} | {self.base, self.start, self.start_asked}
        if log.end_offset < self.durable_end:
            faults.append(f"lost: the log ends at {log.end_offset}, but was durable up to {self.durable_end}")
        if log.end_offset not in borders:
            faults.append(f"the log ends at {log.end_offset}, inside of a batch or beyond all")
        if not self.start <= log.start_offset <= self.start_asked:
            faults.append(f"the log starts at {log.start_offset}, asked were {self.start} to {self.start_asked}")
        return faults + self._content_violations(log)

    def _content_violations(self, log: Log) -> list[str]:
        expected = [batch for batch in self.batches if batch.header.next_offset <= log.end_offset]
        visible = [batch for batch in expected if batch.header.last_offset >= log.start_offset]
        try:
            found = read_all(log)
        except GoQueueError as error:
            return [f"the log cannot be read: {error}"]
        if self.has_compacted:
            faults = self._compaction_violations(visible, found, log.start_offset)
        else:
            faults = _differences(visible, found)
        faults += _time_violations(log, found)
        markers = {header.last_offset for header, _ in found if header.is_control}
        return faults + _fold_violations(log, expected, markers)

    def _compaction_violations(
        self, visible: list[StoredBatch], found: list[tuple[BatchHeader, bytes]], start: int
    ) -> list[str]:
        aborted = {
            record.offset
            for first, last, producer in _aborted(visible)
            for batch in visible
            for record in batch.records
            if batch.header.producer_id == producer and first <= record.offset <= last
        }
        stored = {record.offset: record for batch in visible for record in batch.records}
        control = {record.offset for batch in visible if batch.header.is_control for record in batch.records}
        latest: dict[bytes, int] = {}
        for offset, record in stored.items():
            if record.key is not None and offset not in aborted and offset not in control:
                latest[record.key] = offset
        got = {record.offset: record for _, data in found for record in read_records(data)}
        faults = [f"offset {offset} differs" for offset, record in got.items() if stored.get(offset) != record]
        for offset, record in stored.items():
            may_go = offset in aborted or offset in control or (record.value is None and self.tombstones_may_go)
            is_replaced = record.key is not None and latest.get(record.key, offset) > offset
            if offset >= start and offset not in got and not may_go and not is_replaced:
                faults.append(f"offset {offset} was compacted away, but is the last of key {record.key!r}")
        offsets = [header.base_offset for header, _ in found]
        return faults + ([] if offsets == sorted(set(offsets)) else [f"batches out of order: {offsets}"])


def read_all(log: Log) -> list[tuple[BatchHeader, bytes]]:
    """Read a log from its start to its end in small steps, checking every batch."""
    found = []
    offset = log.start_offset
    while data := log.read(offset, bytes_max=400):
        before = offset
        for position, header in headers(data):
            validate(data, position)
            found.append((header, data[position : position + header.size_bytes]))
            offset = header.next_offset
        if offset == before:
            raise CorruptBatch(f"a read at offset {offset} gave {len(data)} bytes, but no whole batch")
    return found


def _differences(expected: list[StoredBatch], found: list[tuple[BatchHeader, bytes]]) -> list[str]:
    wanted = {batch.header.base_offset: batch.data for batch in expected}
    got = {header.base_offset: data for header, data in found}
    faults = [f"batch {offset} is missing" for offset in wanted.keys() - got.keys()]
    faults += [f"batch {offset} was never appended" for offset in got.keys() - wanted.keys()]
    faults += [f"batch {offset} differs" for offset in wanted.keys() & got.keys() if wanted[offset] != got[offset]]
    return faults


def _time_violations(log: Log, found: list[tuple[BatchHeader, bytes]]) -> list[str]:
    records = [record for _, data in found for record in read_records(data) if record.offset >= log.start_offset]
    times = sorted({record.timestamp for record in records})
    faults = []
    for time in [*times[:: max(1, len(times) // 5)], *(time + 1 for time in times[-1:])]:
        naive = next((record.offset for record in records if record.timestamp >= time), None)
        answer = log.offset_for_time(time)
        if (answer and answer.offset) != naive:
            faults.append(f"time {time} is first met at {naive}, the log says {answer}")
    return faults


def _fold_violations(log: Log, expected: Iterable[StoredBatch], markers: set[int]) -> list[str]:
    batches = list(expected)
    table = ProducerTable()
    for batch in batches:
        table.apply(batch.header, batch.marker)
    faults = []
    if table.encode() != log.producers.encode():
        faults.append("the producers differ from a fold over the log")
    open_from = table.first_open_offset
    if log.last_stable_offset != (log.end_offset if open_from is None else max(open_from, log.start_offset)):
        faults.append(f"the last stable offset is {log.last_stable_offset}, a fold over the log gives {open_from}")
    # Compaction may have taken the marker, and then nobody must be told any more that the transaction was aborted.
    naive = [entry for entry in _aborted(batches) if entry[1] in markers and entry[1] >= log.start_offset]
    told = [
        (entry.first_offset, entry.last_offset, entry.producer_id)
        for entry in log.aborted_transactions(log.start_offset, log.end_offset)
    ]
    if naive != told:
        faults.append(f"aborted transactions are {naive}, the log says {told}")
    return faults


def _aborted(batches: Iterable[StoredBatch]) -> list[tuple[int, int, int]]:
    opened: dict[int, int] = {}
    aborted = []
    for batch in batches:
        producer = batch.header.producer_id
        if batch.header.is_control:
            first = opened.pop(producer, None)
            if first is not None and batch.marker is ControlType.ABORT:
                aborted.append((first, batch.header.last_offset, producer))
        elif batch.header.is_transactional:
            opened.setdefault(producer, batch.header.base_offset)
    return aborted

"""The state of one segment file, as a fold over its batches.

`extend` is called for each batch in order, whether it is being appended, recovered after a crash or written by
compaction; so the knowledge about a segment is the same however it was gained.

The checksum of a batch covers its bytes from 21 on. The 21 before (base offset, length, leader epoch, magic, the
checksum itself) are the broker's to change, so `chain` covers them: it is the CRC32C of the prefixes of all batches
so far, one after the other. Together they cover every byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import PurePath
from typing import NamedTuple

from goqueue.log.index import Row, SparseIndex
from goqueue.machines.producer import AbortedRange, ProducerTable
from goqueue.records.checksum import crc32c
from goqueue.records.layout import CRC_START, PREFIX_BYTES, BatchHeader
from goqueue.seams.disk import Buffer, File

NO_TIMESTAMP = -1
NO_INDEX = -1
OFFSETS_PER_SEGMENT_MAX = 2**31 - 1


class DamageKind(IntEnum):
    """What is wrong with a damaged range."""

    UNREADABLE = 1
    MISSING = 2


class Damage(NamedTuple):
    """Bytes [position, end_position) of a segment are unusable, and with them the offsets [first, end)."""

    position: int
    end_position: int
    first_offset: int
    end_offset: int
    kind: DamageKind


class EpochStart(NamedTuple):
    """The first offset that a leader epoch wrote."""

    epoch: int
    start_offset: int


@dataclass(slots=True)
class Details:
    """The large part of the state: in memory for active segments, else loaded on demand.

    `producers_at_start` is the producer table where the segment starts, so that a segment can be read without those
    before it. Every transaction that began before `stable_offset` has ended in the segment, or before it: so a search
    for their ends can stop here. It is set when a segment is sealed or loaded.
    """

    index: SparseIndex
    aborted: list[AbortedRange] = field(default_factory=list)
    producers_at_start: bytes = b""
    stable_offset: int = 0

    def seal(self, producers: ProducerTable, next_offset: int) -> None:
        """Record the producers at the end of the segment."""
        first_open = producers.first_open_offset
        self.stable_offset = next_offset if first_open is None else first_open


@dataclass(slots=True, eq=False)
class Segment:
    """One file of the log and what its first `size` bytes hold.

    `covered` is how many of these bytes the index file on disk describes, NO_INDEX if there is none. `file` is set
    while the segment may have unsynced bytes. `next_offset` bounds the segment's range: compaction keeps it though the
    last batches may go. The index gets its next row at position `row_due`. `has_gaps` says that some offsets in it have
    no record, as compaction leaves it.
    """

    base_offset: int
    path: PurePath
    next_offset: int
    size: int = 0
    first_timestamp: int = NO_TIMESTAMP
    max_timestamp: int = NO_TIMESTAMP
    chain: int = 0
    covered: int = NO_INDEX
    is_compacted: bool = False
    has_gaps: bool = False
    row_due: int = 0
    epochs: list[EpochStart] = field(default_factory=list)
    damages: list[Damage] = field(default_factory=list)
    details: Details | None = None
    file: File | None = None

    @classmethod
    def fresh(cls, path: PurePath, base_offset: int, producers_at_start: bytes = b"") -> Segment:
        """Return the knowledge about an empty segment."""
        details = Details(SparseIndex(base_offset), producers_at_start=producers_at_start)
        return cls(base_offset, path, base_offset, details=details)

    def extend(self, header: BatchHeader, batch: Buffer, *, index_interval_bytes: int) -> None:
        """Record a batch that lies at `size` in the file."""
        assert self.details is not None
        base_offset = header.base_offset
        if self.size >= self.row_due:
            self.details.index.add(Row(base_offset, self.size, self.max_timestamp, self.chain))
            self.row_due = self.size + index_interval_bytes
        else:
            self.details.index.note(base_offset, self.size)
        self.chain = crc32c(batch, 0, CRC_START, after=self.chain)
        if self.first_timestamp == NO_TIMESTAMP:
            self.first_timestamp = header.base_timestamp
        if header.max_timestamp > self.max_timestamp:  # noqa: PLR1730 - once per batch, where max() costs twice as much
            self.max_timestamp = header.max_timestamp
        if not self.epochs or header.leader_epoch > self.epochs[-1].epoch:
            self.epochs.append(EpochStart(header.leader_epoch, base_offset))
        if base_offset != self.next_offset:
            self.has_gaps = True
        self.size += PREFIX_BYTES + header.length
        self.next_offset = base_offset + header.last_offset_delta + 1

    def damage_from(self, offset: int) -> Damage | None:
        """Return the first damage at or after an offset."""
        return next((damage for damage in self.damages if damage.end_offset > offset), None)

    def end_of_damage_before(self, offset: int) -> int:
        """Return the position after all damage before an offset."""
        return max((damage.end_position for damage in self.damages if damage.end_offset <= offset), default=0)

    def good_stretches(self, start: int) -> Iterator[tuple[int, int]]:
        """Yield the undamaged stretches of the file from a position on."""
        for damage in self.damages:
            if start < damage.position:
                yield start, damage.position
            start = max(start, damage.end_position)
        if start < self.size:
            yield start, self.size

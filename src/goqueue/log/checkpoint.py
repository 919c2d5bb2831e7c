"""Stores what the records of a log do not say: where it starts, how far it is durable, its leader epoch.

There are two slots of 512 bytes, one sector each. A write goes to the one that is not the last committed, so a torn
write loses only the changes since then:

    magic u32 | version u32 | generation u64 | start offset i64 | durable end i64 | segment base i64 | position i64
    | chain u32 | truncation target i64 | is clean u32 | leader epoch i32 | checksum u32, then zeros

Version 1 had no leader epoch, and is still read.

`note` follows every flush and is not synced itself: any version of it that survives a crash was true when it was
written, and recovery needs no more. It tells recovery which bytes must exist: a fault below the durable end is damage,
a fault above it is a write that a crash cut short. `commit` is for facts that must survive and writes both slots.
"""

from __future__ import annotations

import struct
from pathlib import PurePath
from typing import NamedTuple

from goqueue.log.epochs import NO_EPOCH
from goqueue.log.segment import Segment
from goqueue.records.checksum import crc32c
from goqueue.seams.disk import Disk, File

_MAGIC = 0x4B435147  # "GQCK" on a little-endian machine
_VERSION = 2
SLOT_BYTES = 512
_HEAD = struct.Struct("<II")
_ENTRY = struct.Struct("<IIQqqqqIqIi")
_LAYOUTS = {1: struct.Struct("<IIQqqqqIqI"), _VERSION: _ENTRY}
_CHECKSUM = struct.Struct("<I")
ENTRY_BYTES = _ENTRY.size + _CHECKSUM.size
_GENERATION_MAX = 2**64 - 1

NO_TRUNCATION = -1


class Checkpoint(NamedTuple):
    """One entry: records before `durable_end` are on disk, and there the segment has the given size and chain.

    `is_clean` says that the log was closed, and that every file and name it had then is durable. `leader_epoch` is the
    one for batches since the log was last opened after a crash: none had it before, whether that is left or lost.
    """

    start_offset: int = 0
    durable_end: int = 0
    segment_base: int = 0
    position: int = 0
    chain: int = 0
    truncate_to: int = NO_TRUNCATION
    is_clean: int = 0
    leader_epoch: int = NO_EPOCH

    @classmethod
    def at(cls, start_offset: int, last: Segment, leader_epoch: int) -> Checkpoint:
        """Return the entry of a log that is durable to the end of its last segment."""
        mark = (last.next_offset, last.base_offset, last.size, last.chain)
        return cls(start_offset, *mark, leader_epoch=leader_epoch)


class CheckpointFile:
    """The checkpoint of one log. One call at a time; the file is opened at the first write."""

    def __init__(self, disk: Disk, path: PurePath) -> None:
        self._disk = disk
        self._path = path
        self._file: File | None = None
        self._generation = 0
        self._committed_slot = 0

    @property
    def directory(self) -> PurePath:
        """The directory of the log."""
        return self._path.parent

    def load(self) -> Checkpoint | None:
        """Return the newest readable entry; None if there is none."""
        try:
            file = self._disk.open(self._path, writable=False)
        except FileNotFoundError:
            return None
        try:
            data = file.read_at(0, 2 * SLOT_BYTES)
        finally:
            file.close()
        entries = [(parse_slot(data[slot * SLOT_BYTES :][:SLOT_BYTES]), slot) for slot in (0, 1)]
        found = [(entry, slot) for entry, slot in entries if entry is not None]
        if not found:
            return None
        (self._generation, checkpoint), self._committed_slot = max(found)
        return checkpoint

    def note(self, checkpoint: Checkpoint) -> None:
        """Write an entry that need not survive."""
        self._write(1 - self._committed_slot, checkpoint)

    def commit(self, checkpoint: Checkpoint) -> None:
        """Write an entry so that it survives a power loss and the damage of one slot."""
        for _ in range(2):
            slot = 1 - self._committed_slot
            self._write(slot, checkpoint).sync()
            self._committed_slot = slot

    def begin(self, checkpoint: Checkpoint) -> None:
        """Write the first entry of a new log, whose name is durable, to both slots at once, so that it survives.

        If the write is torn, the log has never reported anything as durable.
        """
        if self._file is None:
            self._file = self._disk.open(self._path, create=True)
        self._file.write_at(0, self._slot(checkpoint), self._slot(checkpoint))
        self._file.sync()
        self._committed_slot = 1

    def settle(self) -> None:
        """Make the entry that `load` found durable: a killed process may have left it only in the page cache."""
        if self._file is None:
            self._file = self._open()

    def close(self) -> None:
        """Close the file; a later write opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, slot: int, checkpoint: Checkpoint) -> File:
        if self._file is None:
            self._file = self._open()
        self._file.write_at(slot * SLOT_BYTES, self._slot(checkpoint))
        return self._file

    def _slot(self, checkpoint: Checkpoint) -> bytes:
        self._generation = (self._generation + 1) & _GENERATION_MAX
        entry = _ENTRY.pack(_MAGIC, _VERSION, self._generation, *checkpoint)
        return (entry + _CHECKSUM.pack(crc32c(entry))).ljust(SLOT_BYTES, b"\0")

    def _open(self) -> File:
        file = self._disk.open(self._path, create=True)
        if self._generation == 0:
            # An entry is written only once the name of its file is durable, so an existing entry proves that.
            self._disk.sync_directory(self._path.parent)
        # The existing entry must be durable before the other slot is written: it may be the only good one.
        file.sync()
        return file


def parse_slot(slot: bytes) -> tuple[int, Checkpoint] | None:
    """Return generation and entry of a slot; None if it has none that can be read."""
    if len(slot) < ENTRY_BYTES:
        return None
    magic, version = _HEAD.unpack_from(slot)
    layout = _LAYOUTS.get(version)
    if magic != _MAGIC or layout is None:
        return None
    _, _, generation, *fields = layout.unpack_from(slot)
    (checksum,) = _CHECKSUM.unpack_from(slot, layout.size)
    if crc32c(slot[: layout.size]) != checksum:
        return None
    return generation, Checkpoint(*fields)

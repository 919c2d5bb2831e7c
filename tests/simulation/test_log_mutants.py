"""Tests of the tests: each mistake that this code must not make is made here on purpose, and must be found.

A mutant takes one safeguard away. The crash simulation has to see it within the seeds that every run tries.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from pathlib import PurePath

import pytest
from typing_extensions import override

from goqueue.errors import GoQueueError
from goqueue.log import durability, scan, sidecar
from goqueue.log.compaction import Replacement, _Rewriter
from goqueue.log.flush import Flush, IndexWrite, Upkeep
from goqueue.log.log import Log
from goqueue.log.segment import NO_INDEX
from goqueue.records.layout import BatchHeader, read_header
from goqueue.seams.cooperative_yield import Pause
from goqueue.seams.disk import Buffer
from goqueue.testing import SimDisk
from goqueue.testing.disk import SimFile
from tests.simulation.log_workload import LogWorld
from tests.simulation.mutants import seeds_to_try

SEEDS = 200
LIVES = 6

Patch = pytest.MonkeyPatch


def ack_before_fsync(patch: Patch) -> None:
    """A flush says that it is done before it has synced."""
    patch.setattr(Flush, "run", lambda self: self.checkpoint_file.note(self.checkpoint))


def no_directory_fsync(patch: Patch) -> None:
    """New names are never made durable."""
    patch.setattr(SimDisk, "sync_directory", lambda self, directory: None)


def no_crc_check(patch: Patch) -> None:
    """Recovery believes every batch whose header makes sense."""

    def believe(buffer: Buffer, position: int = 0) -> BatchHeader:
        header = read_header(buffer, position)
        if header.size_bytes > len(buffer) - position or header.base_offset < 0 or header.last_offset_delta < 0:
            raise GoQueueError("incomplete")
        return header

    patch.setattr(scan, "validate", believe)


def index_ahead_of_log(patch: Patch) -> None:
    """Index files are written before what they describe is durable."""
    real = durability.Durability.owe_index

    def owe_early(self: durability.Durability, write: IndexWrite) -> None:
        real(self, IndexWrite(write.segment, write.covered, 0, write.data))

    patch.setattr(durability.Durability, "owe_index", owe_early)


def swap_without_fsync(patch: Patch) -> None:
    """Compacted segments take their place before their bytes are durable."""
    real = SimFile.sync

    def sync(self: SimFile) -> None:
        if not self._path.name.endswith(".cleaned"):
            real(self)

    patch.setattr(SimFile, "sync", sync)


def mark_before_fsync(patch: Patch) -> None:
    """The checkpoint claims a durable end before it is true."""
    real = Flush.run

    def run(self: Flush) -> None:
        self.checkpoint_file.commit(self.checkpoint)
        real(self)

    patch.setattr(Flush, "run", run)


def remove_before_start_is_durable(patch: Patch) -> None:
    """Files of deleted segments go before the new start of the log is durable."""
    real = Log.delete_before

    def delete(self: Log, offset: int) -> None:
        real(self, offset)
        self._open().durability.start = self.start_offset

    patch.setattr(Log, "delete_before", delete)


def producers_of_removed_segments_are_forgotten(patch: Patch) -> None:
    """Segments are removed though the first one left does not know their producers yet."""
    patch.setattr(durability, "NO_INDEX", NO_INDEX - 1)


def aborted_records_replace_others(patch: Patch) -> None:
    """Compaction takes aborted records for the last ones of their keys."""
    patch.setattr("goqueue.log.compaction.AbortedRanges.hold", lambda self, header: False)


class _Everything(set[int]):
    """RetentionHolds whatever it is asked for."""

    @override
    def __contains__(self, element: object) -> bool:
        return True


def aborts_are_told_without_their_markers(patch: Patch) -> None:
    """Compaction takes an abort marker away, and readers who wait for it hide all that the producer wrote later."""
    real = _Rewriter.run

    def run(self: _Rewriter, breathe: Pause) -> Replacement:
        self._marker_offsets = _Everything()
        return real(self, breathe)

    patch.setattr(_Rewriter, "run", run)


def tombstones_go_at_once(patch: Patch) -> None:
    """Compaction does not wait until all readers can have seen a tombstone."""
    real = _Rewriter._is_kept

    def is_kept(self: _Rewriter, record: object, *, is_past_horizon: bool) -> bool:
        return real(self, record, is_past_horizon=True)  # type: ignore[arg-type]

    patch.setattr(_Rewriter, "_is_kept", is_kept)


def torn_index_is_believed(patch: Patch) -> None:
    """Index files are not checked and not written under another name first."""

    def write(disk: SimDisk, path: PurePath, data: bytes) -> None:
        file = disk.open(path, create=True)
        file.truncate(0)
        file.write_at(0, data)
        file.close()

    patch.setattr(sidecar, "write", write)
    patch.setattr(sidecar, "crc32c", lambda *args, **kwargs: 0)


def swap_forgets_the_index(patch: Patch) -> None:
    """Upkeep removes what compaction replaced before the replacement is committed."""

    def run(self: Upkeep) -> None:
        for swap in self.swaps:
            for path in swap.replaced:
                if self.disk.exists(path):
                    self.disk.remove(path)
            self.disk.sync_directory(swap.target.parent)
        real(self)

    real = Upkeep.run
    patch.setattr(Upkeep, "run", run)


MUTANTS: list[Callable[[Patch], None]] = [
    ack_before_fsync,
    no_directory_fsync,
    no_crc_check,
    index_ahead_of_log,
    swap_without_fsync,
    mark_before_fsync,
    remove_before_start_is_durable,
    producers_of_removed_segments_are_forgotten,
    aborted_records_replace_others,
    aborts_are_told_without_their_markers,
    tombstones_go_at_once,
    torn_index_is_believed,
    swap_forgets_the_index,
]

LIKELY: Mapping[Callable[[Patch], None], int] = {
    no_crc_check: 10,
    swap_without_fsync: 9,
    producers_of_removed_segments_are_forgotten: 61,
    aborted_records_replace_others: 27,
    aborts_are_told_without_their_markers: 192,
    tombstones_go_at_once: 27,
    swap_forgets_the_index: 9,
}
"""Seeds that have found those which most others do not find."""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_the_simulation_finds_the_mutant(mutant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    mutant(monkeypatch)
    seeds = seeds_to_try(SEEDS, LIKELY.get(mutant, 0))
    assert any(map(_is_found, seeds)), f"{mutant.__name__} survived {SEEDS} seeds"


def _is_found(seed: int) -> bool:
    try:
        return bool(LogWorld(seed).run(LIVES))
    except (GoQueueError, AssertionError, OSError, ArithmeticError, LookupError, ValueError, struct.error):
        return True

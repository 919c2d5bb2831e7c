"""Checks every byte of a log without changing one: the core of `goqueue log verify`.

Owns what belongs to a log as a whole: its names, its checkpoint, the borders between its segments. `verify_segment`
checks the inside of a segment. It never runs recovery and trusts no file that it has not checked; it holds one
segment's index at a time, so its memory does not grow with the log. A log may be written to meanwhile: what lies beyond
the durable end is then a note at most, as it is after a crash.

| severity | meaning                                                                                             |
|----------|-----------------------------------------------------------------------------------------------------|
| NOTE     | nothing is wrong: what a crash or unfinished work leaves behind, and opening the log puts in order  |
| DEFECT   | an index or a checkpoint is not what was written; no record is lost, opening the log makes it again |
| DAMAGE   | records are unreadable, missing or not what was written                                             |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import PurePath
from typing import NamedTuple

from goqueue.errors import Corrupt
from goqueue.log import names, sidecar
from goqueue.log.checkpoint import ENTRY_BYTES, NO_TRUNCATION, SLOT_BYTES, Checkpoint, CheckpointFile, parse_slot
from goqueue.log.scan import UNKNOWN_END
from goqueue.log.verify_segment import Expected, Finding, Place, SegmentCheck, Severity, read_index
from goqueue.machines.producer import ProducerTable
from goqueue.seams.disk import Disk

_SLOTS = 2


class _Bounds(NamedTuple):
    """The combined claim of the files: all records before `durable_end` must exist."""

    checkpoint: Checkpoint | None
    durable_end: int


def verify(disk: Disk, directory: PurePath, *, progress: Callable[[int], None] = lambda _: None) -> Iterator[Finding]:
    """Yield faults and notes about a directory's log, file by file; `progress` gets the number of checked bytes."""
    checkpoint_file = CheckpointFile(disk, directory / names.CHECKPOINT)
    checkpoint = checkpoint_file.load()
    present = disk.list_directory(directory)
    yield from _check_names(directory, present)
    places = list_segments(disk, directory, present)
    yield from _check_checkpoint(disk, directory, checkpoint, has_segments=bool(places))
    bounds = _Bounds(checkpoint, _durable_end(disk, checkpoint, places))
    end_offset = None
    producers: ProducerTable | None = None
    for number, place in enumerate(places):
        if end_offset is None:
            producers = ProducerTable() if place.base_offset == 0 else None
            yield from _check_start(checkpoint_file, checkpoint, place)
        check = _start_check(disk, place, places[number + 1 :], bounds, producers)
        if isinstance(check, Finding):
            # The log's start has moved meanwhile: the next segment is checked as a first one.
            yield check
            end_offset = None
            continue
        try:
            yield from _check_border(place, end_offset, bounds, previous=places[number - 1])
            yield from check.run(progress)
        finally:
            check.close()
        end_offset, producers = check.end_offset, check.producers
    yield from _check_end(directory, places, end_offset, bounds)


def list_segments(disk: Disk, directory: PurePath, present: list[str]) -> list[Place]:
    """Return the segments in order, as opening the log would find them: a `.swap` stands for what it replaces."""
    parsed = [(entry, name) for name in present if (entry := names.parse(name)) is not None]
    places = {
        base: Place(base, directory / name, directory / name)
        for (base, kind, stage), name in parsed
        if (kind, stage) == (names.LOG, "")
    }
    for (base, kind, stage), name in parsed:
        if (kind, stage) != (names.LOG, names.SWAP):
            continue
        swap = directory / name
        described = swap if disk.exists(names.index_path(swap)) else names.segment_path(directory, base)
        with suppress(Corrupt, FileNotFoundError):
            next_offset = sidecar.read_head(disk, described).next_offset
            for replaced in [other for other in places if base <= other < next_offset]:
                del places[replaced]
            places[base] = Place(base, swap, described)
    return [places[base] for base in sorted(places)]


def _check_names(directory: PurePath, present: list[str]) -> Iterator[Finding]:
    for name in present:
        path = directory / name
        parsed = names.parse(name)
        if parsed is None:
            if name != names.CHECKPOINT:
                yield Finding(Severity.NOTE, path, what="a foreign file", hint="GoQueue leaves it alone")
            continue
        base, kind, stage = parsed
        if stage:
            what = "left by work that was not finished"
            yield Finding(Severity.NOTE, path, offset=base, what=what, hint="opening the log puts it in order")
        elif kind == names.INDEX and f"{base:020d}{names.LOG}" not in present:
            what = "an index without its segment"
            yield Finding(Severity.NOTE, path, offset=base, what=what, hint="it may be removed")


def _check_checkpoint(
    disk: Disk, directory: PurePath, newest: Checkpoint | None, *, has_segments: bool
) -> Iterator[Finding]:
    path = directory / names.CHECKPOINT
    try:
        file = disk.open(path, writable=False)
    except FileNotFoundError:
        if has_segments:
            what = "the checkpoint is missing"
            hint = "opening the log checks all of it; deleted records may be back"
            yield Finding(Severity.DEFECT, path, what=what, hint=hint)
        return
    try:
        data = file.read_at(0, _SLOTS * SLOT_BYTES + 1)
    finally:
        file.close()
    for number in range(_SLOTS):
        yield from _check_slot(path, number, data[number * SLOT_BYTES :][:SLOT_BYTES])
    if len(data) > _SLOTS * SLOT_BYTES:
        yield Finding(Severity.DEFECT, path, _SLOTS * SLOT_BYTES, what="bytes follow the last entry")
    if newest is not None and newest.truncate_to != NO_TRUNCATION:
        what = f"a truncation to offset {newest.truncate_to} is not finished"
        yield Finding(Severity.NOTE, path, what=what, hint="opening the log finishes it")


def _check_slot(path: PurePath, number: int, slot: bytes) -> Iterator[Finding]:
    position = number * SLOT_BYTES
    if not slot.strip(b"\0"):
        yield Finding(Severity.NOTE, path, position, what=f"entry {number} was never written")
    elif parse_slot(slot) is None:
        what = f"entry {number} is unreadable"
        yield Finding(Severity.DEFECT, path, position, what=what, hint="the other one is used, if it is readable")
    elif slot[ENTRY_BYTES:].strip(b"\0"):
        yield Finding(Severity.DEFECT, path, position, what=f"entry {number} is followed by bytes that are not zero")


def _durable_end(disk: Disk, checkpoint: Checkpoint | None, places: list[Place]) -> int:
    """Return the greatest durable end that the checkpoint or an index vouches for."""
    ends = [checkpoint.durable_end] if checkpoint else [place.base_offset for place in places[-1:]]
    for place in places:
        with suppress(Corrupt, FileNotFoundError):
            ends.append(sidecar.read_head(disk, place.described).next_offset)
    stop = UNKNOWN_END
    if checkpoint is not None and checkpoint.truncate_to != NO_TRUNCATION:
        stop = checkpoint.truncate_to
    return min(max(ends, default=0), stop)


def _start_check(
    disk: Disk, place: Place, later: list[Place], bounds: _Bounds, producers: ProducerTable | None
) -> SegmentCheck | Finding:
    index = read_index(disk, place)
    next_base = later[0].base_offset if later else UNKNOWN_END
    expected = Expected(bounds.durable_end, next_base, bounds.checkpoint, producers)
    try:
        return SegmentCheck(disk.open(place.path, writable=False), place, index, expected)
    except FileNotFoundError:
        return Finding(Severity.NOTE, place.path, what="the segment left the log while it was being checked")


def _check_start(checkpoint_file: CheckpointFile, checkpoint: Checkpoint | None, first: Place) -> Iterator[Finding]:
    if checkpoint is None or first.base_offset <= checkpoint.start_offset:
        return
    # The owner of a live log may have removed old segments after the checkpoint was read.
    latest = checkpoint_file.load() or checkpoint
    if first.base_offset > latest.start_offset:
        what = f"the records from offset {latest.start_offset} to {first.base_offset - 1} are missing"
        yield Finding(Severity.DAMAGE, first.path, 0, latest.start_offset, what, "restore the segments before this one")


def _check_border(place: Place, due: int | None, bounds: _Bounds, *, previous: Place) -> Iterator[Finding]:
    base = place.base_offset
    if due is None or base == due:
        return
    if base < due:
        what = f"the segment overlaps {previous.path.name}, which ends at offset {due}"
        hint = "one of the two is foreign; move it out of the directory"
        yield Finding(Severity.DAMAGE, place.path, 0, base, what, hint)
    elif base > bounds.durable_end:
        what = f"the segment does not follow the one before, which ends at offset {due}; neither was durable"
        yield Finding(Severity.NOTE, place.path, 0, due, what, "opening the log removes it")
    else:
        what = f"the records from offset {due} to {base - 1} are missing before this segment"
        yield Finding(Severity.DAMAGE, place.path, 0, due, what)


def _check_end(directory: PurePath, places: list[Place], end_offset: int | None, bounds: _Bounds) -> Iterator[Finding]:
    if end_offset is None:
        start_offset = bounds.checkpoint.start_offset if bounds.checkpoint else 0
        if not places and bounds.durable_end > start_offset:
            what = f"there is no segment, but records up to offset {bounds.durable_end - 1} were durable"
            yield Finding(Severity.DAMAGE, directory, what=what)
        return
    path = places[-1].path
    if end_offset < bounds.durable_end:
        what = f"the log ends at offset {end_offset}, but records up to offset {bounds.durable_end - 1} were durable"
        yield Finding(Severity.DAMAGE, path, offset=end_offset, what=what)
    elif bounds.checkpoint is not None and bounds.checkpoint.start_offset > end_offset:
        what = f"the log starts at offset {bounds.checkpoint.start_offset}, behind its end, offset {end_offset}"
        yield Finding(Severity.DEFECT, directory / names.CHECKPOINT, offset=end_offset, what=what)

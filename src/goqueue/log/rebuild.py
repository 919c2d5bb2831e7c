"""Rebuilds the content of a missing or bad index file from the batches."""

from __future__ import annotations

from contextlib import suppress
from pathlib import PurePath

from goqueue.errors import Corrupt
from goqueue.log import sidecar
from goqueue.log.scan import Scanner, gather
from goqueue.log.segment import Damage, DamageKind, Segment
from goqueue.machines.producer import ProducerTable
from goqueue.model.log_settings import LogSettings
from goqueue.seams.disk import Disk


def read_or_rebuild(disk: Disk, segments: list[Segment], number: int, settings: LogSettings) -> sidecar.Body:
    """Return a sealed segment's details and the producers at its end, from its index file or else from its batches."""
    try:
        body = sidecar.read_body(disk, segments[number].path)
    except (Corrupt, FileNotFoundError):
        return _rebuild(disk, segments, number, settings)
    return body if body.covered == segments[number].size else _rebuild(disk, segments, number, settings)


def producers_at_start(disk: Disk, path: PurePath, before: list[Segment], settings: LogSettings) -> ProducerTable:
    """Return the producers where a segment starts, from its own index file or from the segments before it."""
    with suppress(Corrupt, FileNotFoundError):
        return ProducerTable.decode(sidecar.read_body(disk, path).details.producers_at_start)
    return producers_at_end(disk, before, settings)


def producers_at_end(disk: Disk, segments: list[Segment], settings: LogSettings) -> ProducerTable:
    """Return the producers where the last of some segments ends."""
    return read_or_rebuild(disk, segments, len(segments) - 1, settings).producers if segments else ProducerTable()


def find_damages(disk: Disk, segment: Segment, settings: LogSettings) -> list[Damage]:
    """Read a whole segment and return what is damaged in it."""
    return _gather_all(disk, segment, ProducerTable(), settings).damages


def _rebuild(disk: Disk, segments: list[Segment], number: int, settings: LogSettings) -> sidecar.Body:
    old = segments[number]
    producers = producers_at_start(disk, old.path, segments[:number], settings)
    segment = _gather_all(disk, old, producers, settings)
    assert segment.details is not None
    segment.details.seal(producers, old.next_offset)
    return sidecar.Body(segment.size, segment.details, producers)


def _gather_all(disk: Disk, old: Segment, producers: ProducerTable, settings: LogSettings) -> Segment:
    """Gather all that can be known from the batches of a segment, going around damage."""
    segment = Segment.fresh(old.path, old.base_offset, producers.encode())
    file = disk.open(old.path, writable=False)
    try:
        scanner = Scanner(file, old.size)
        while fault := gather(
            segment,
            producers,
            scanner,
            end=old.size,
            offset_end=old.next_offset,
            index_interval_bytes=settings.index_interval_bytes,
        ):
            position, offset = scanner.batch_after(
                fault.position, offset_due=segment.next_offset, offset_end=old.next_offset
            ) or (old.size, old.next_offset)
            segment.damages.append(Damage(fault.position, position, segment.next_offset, offset, DamageKind.UNREADABLE))
            segment.size, segment.next_offset = position, offset
    finally:
        file.close()
    return segment

"""Reads every readable record of a log, however damaged its files are; changes nothing.

Trusts neither index files nor the checkpoint: every range of bytes with a valid checksum is a batch, wherever it is.
Bytes between batches are counted as damage. Only for logs that fit into memory segment by segment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePath

from goqueue.errors import GoQueueError
from goqueue.log.verify import list_segments, verify
from goqueue.log.verify_segment import Severity
from goqueue.records.layout import HEADER_BYTES, MAGIC, validate
from goqueue.records.reader import Record, read_records
from goqueue.seams.disk import Disk

_MAGIC_POSITION = 16


@dataclass(slots=True)
class Salvage:
    """The records of a log that can be read, in order, and what is wrong with the rest."""

    records: list[Record] = field(default_factory=list)
    bytes_lost: int = 0
    faults: list[str] = field(default_factory=list)


def salvage(disk: Disk, directory: PurePath) -> Salvage:
    """Return what can be read of a compacted log; no faults if nothing is wrong with it."""
    found = Salvage()
    try:
        findings = [finding for finding in verify(disk, directory) if finding.severity is Severity.DAMAGE]
        found.faults += [f"{finding.path.name}: {finding.what}" for finding in findings]
    except (GoQueueError, OSError) as error:
        found.faults.append(f"it cannot be checked: {error}")
    places = list_segments(disk, directory, disk.list_directory(directory))
    if places and places[0].base_offset > 0:
        found.faults.append(f"the records before offset {places[0].base_offset} are missing")
    for place in places:
        try:
            file = disk.open(place.path, writable=False)
            try:
                data = file.read_at(0, file.size())
            finally:
                file.close()
        except OSError as error:
            found.faults.append(f"{place.path.name} cannot be read: {error.strerror}")
            continue
        end = 0
        for position, size in _batches(data):
            found.bytes_lost += position - end
            end = position + size
            try:
                found.records += read_records(memoryview(data)[position:end])
            except GoQueueError as error:
                found.bytes_lost += size
                found.faults.append(f"{place.path.name}: the batch at byte {position} cannot be opened: {error}")
        found.bytes_lost += len(data) - end
    return found


def _batches(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield position and size of every good batch."""
    position = 0
    while position + HEADER_BYTES <= len(data):
        try:
            header = validate(data, position)
        except GoQueueError:
            found = data.find(bytes([MAGIC]), position + _MAGIC_POSITION + 1)
            if found < 0:
                return
            position = found - _MAGIC_POSITION
            continue
        yield position, header.size_bytes
        position += header.size_bytes

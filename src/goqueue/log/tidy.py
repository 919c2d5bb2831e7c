"""Brings the names in a log's directory into order after a crash: finishes or undoes what was under way.

Compaction writes `.cleaned` files, makes them durable and renames them to `.swap`, the index first: once there is a
`.log.swap`, the originals it replaces may be gone, and the swap must be finished. Before that, nothing has happened.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath

from goqueue.errors import Corrupt, CorruptLog
from goqueue.log import names, sidecar
from goqueue.log.events import ForeignFile
from goqueue.seams.disk import Disk
from goqueue.seams.sink import Sink


def tidy(disk: Disk, directory: PurePath, sink: Sink) -> list[int]:
    """Put the directory in order and return the base offsets of its segments."""
    for name in disk.list_directory(directory):
        parsed = names.parse(name)
        if parsed is None:
            if name != names.CHECKPOINT:
                sink.emit(ForeignFile(str(directory), name))
        elif parsed[2] in (names.TEMPORARY, names.CLEANED):
            disk.remove(directory / name)
    present = set(disk.list_directory(directory))
    for name in sorted(present):
        parsed = names.parse(name)
        if parsed is not None and parsed[1:] == (names.LOG, names.SWAP):
            finish_swap(disk, directory / name)
        elif parsed is not None and parsed[1:] == (names.INDEX, names.SWAP):
            _undo_unless_committed(disk, directory / name)
    _remove_orphans(disk, directory)
    return list_bases(disk, directory)


def finish_swap(disk: Disk, swap: PurePath, replaced: Iterable[PurePath] | None = None) -> PurePath:
    """Put a committed `.log.swap` in the place of the segments whose offsets it covers; return its new path.

    Each step is durable before the next, and all may be done again. So is what was done before: a killed process may
    have left even the name of the swap in the page cache only.
    """
    disk.sync_directory(swap.parent)
    target = swap.with_name(swap.name.removesuffix(names.SWAP))
    index_swap = names.index_path(swap)
    has_index_swap = disk.exists(index_swap)
    for path in _replaced_by(disk, swap) if replaced is None else replaced:
        if disk.exists(path):
            disk.remove(path)
        index = names.index_path(path)
        if disk.exists(index) and (has_index_swap or index != names.index_path(target)):
            disk.remove(index)
    disk.sync_directory(swap.parent)
    if has_index_swap:
        disk.rename(index_swap, names.index_path(target))
        disk.sync_directory(swap.parent)
    disk.rename(swap, target)
    disk.sync_directory(swap.parent)
    return target


def _replaced_by(disk: Disk, swap: PurePath) -> list[PurePath]:
    directory = swap.parent
    described = swap if disk.exists(names.index_path(swap)) else swap.with_name(swap.name.removesuffix(names.SWAP))
    try:
        head = sidecar.read_head(disk, described)
    except (Corrupt, FileNotFoundError) as error:
        raise CorruptLog(
            f"an unfinished compaction cannot be completed: {error}", path=str(swap), position=0, offset=-1
        ) from error
    return [
        names.segment_path(directory, base)
        for base in list_bases(disk, directory)
        if head.base_offset <= base < head.next_offset
    ]


def _undo_unless_committed(disk: Disk, index_swap: PurePath) -> None:
    log_swap = index_swap.with_name(index_swap.name.replace(names.INDEX, names.LOG, 1))
    if disk.exists(index_swap) and not disk.exists(log_swap):
        disk.remove(index_swap)


def _remove_orphans(disk: Disk, directory: PurePath) -> None:
    """Remove indexes of segments that are gone, durably: they would misdescribe a later segment of the same name."""
    segments = set(list_bases(disk, directory))
    parsed = [(name, names.parse(name)) for name in disk.list_directory(directory)]
    orphans = [name for name, parts in parsed if parts and parts[1:] == (names.INDEX, "") and parts[0] not in segments]
    for name in orphans:
        disk.remove(directory / name)
    if orphans:
        disk.sync_directory(directory)


def list_bases(disk: Disk, directory: PurePath) -> list[int]:
    """Return the base offsets of the segments in a directory, in order."""
    parsed = (names.parse(name) for name in disk.list_directory(directory))
    return sorted(base for base, kind, stage in filter(None, parsed) if (kind, stage) == (names.LOG, ""))

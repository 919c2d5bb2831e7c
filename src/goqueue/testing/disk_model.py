"""What power loss does to the content of a file.

Owns the bytes of one simulated file, twice: as the page cache shows them and as the medium holds them, with
the changes between the two. Refuses to know names, handles and faults.

Power loss deals with the unsynced changes of a file by a `Fate`, drawn by seed. All of these are legal after
a real power loss, on ext4 or on something weaker: pages are written back in any order, a write is torn at a
sector or (on media that promise less) at any byte, and the size of a file arrives with or without the data
that it covers. What did not arrive reads as what the medium held before, or as zeros where it held nothing.

Invariants: synced bytes change only through later changes of the same bytes; replaying `unsynced` over
`durable` gives `cached`, unless a failed sync has dropped changes.
"""

from __future__ import annotations

from enum import Enum
from random import Random

SECTOR_BYTES = 512

# A write is (position, data), a truncation is (size, None).
Change = tuple[int, bytes | None]


class Fate(Enum):
    """The fate of the unsynced changes of one file, or of the unsynced names of the disk."""

    ALL = "everything arrived"
    NONE = "nothing arrived"
    EARLIER = "the first changes arrived, the last of them torn"
    LATER = "the last changes arrived, the first of them torn"
    SOME = "any of the changes arrived, some of them torn"
    ZEROS = "the size arrived, the data did not"


_FATES = tuple(Fate)


def draw_fate(chance: Random) -> Fate:
    """Draw a fate, all equally likely."""
    return _FATES[chance.randrange(len(_FATES))]


class Content:
    """The bytes of one file; copies share them until one side changes."""

    __slots__ = ("_is_shared", "cached", "durable", "has_dropped", "unsynced")

    def __init__(self) -> None:
        self.cached = bytearray()
        self.durable = bytearray()
        self.unsynced: list[Change] = []
        self.has_dropped = False
        self._is_shared = False

    def read(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes of the cache."""
        return bytes(memoryview(self.cached)[position : position + size])

    def write(self, position: int, data: bytes) -> None:
        """Write to the cache."""
        self._own()
        _write(self.cached, position, data)
        self.unsynced.append((position, data))

    def truncate(self, size: int) -> None:
        """Cut or extend the cached file."""
        self._own()
        _resize(self.cached, size)
        self.unsynced.append((size, None))

    def sync(self) -> None:
        """Bring all changes to the medium."""
        if not self.unsynced:
            return
        self._own()
        _apply_all(self.durable, self.unsynced)
        self.unsynced.clear()

    def fail_sync(self) -> None:
        """Forget that the changes are to be written: Linux marks pages clean even if writing them failed."""
        if self.unsynced:
            self._own()
            self.unsynced.clear()
            self.has_dropped = True

    def evict(self) -> None:
        """Read the durable bytes again where a failed sync dropped changes, as a later process may have to."""
        if not self.has_dropped:
            return
        self._own()
        self.cached[:] = self.durable
        _apply_all(self.cached, self.unsynced)
        self.has_dropped = False

    def crash(self, fate: Fate, chance: Random) -> None:
        """Lose the cache; `fate` says which changes had reached the medium."""
        if not self.unsynced and not self.has_dropped:
            return
        self._own()
        _settle(self.durable, self.unsynced, fate, chance)
        self.unsynced.clear()
        self.cached[:] = self.durable
        self.has_dropped = False

    def replace(self, data: bytes) -> None:
        """Make `data` the whole content, durably and at once."""
        self.cached, self.durable, self.unsynced = bytearray(data), bytearray(data), []
        self.has_dropped = self._is_shared = False

    def clone(self) -> Content:
        """Return a copy that costs nothing until it or the original changes."""
        copy = Content.__new__(Content)
        copy.cached, copy.durable, copy.unsynced = self.cached, self.durable, self.unsynced
        copy.has_dropped = self.has_dropped
        copy._is_shared = self._is_shared = True
        return copy

    def _own(self) -> None:
        if self._is_shared:
            self.cached, self.durable = bytearray(self.cached), bytearray(self.durable)
            self.unsynced = self.unsynced.copy()
            self._is_shared = False


def _settle(image: bytearray, changes: list[Change], fate: Fate, chance: Random) -> None:
    """Apply to the medium what arrived of `changes`."""
    if not changes:
        return
    torn = chance.randrange(len(changes))
    match fate:
        case Fate.NONE:
            pass
        case Fate.ALL:
            _apply_all(image, changes)
        case Fate.ZEROS:
            for change in changes:
                _apply_size(image, change)
        case Fate.EARLIER:
            _apply_all(image, changes[:torn])
            _tear(image, changes[torn], chance)
        case Fate.LATER:
            _tear(image, changes[torn], chance)
            _apply_all(image, changes[torn + 1 :])
        case Fate.SOME:
            _apply_some(image, changes, chance)


def _apply_some(image: bytearray, changes: list[Change], chance: Random) -> None:
    # The share differs from crash to crash: one hole among many writes is as likely as one write among holes.
    lost_share = chance.random()
    for change in changes:
        if chance.random() < lost_share:
            continue
        if chance.random() < 0.2:
            _tear(image, change, chance)
        else:
            _apply(image, change)


def _tear(image: bytearray, change: Change, chance: Random) -> None:
    position, data = change
    if data is None:
        if chance.random() < 0.5:
            _resize(image, position)
        return
    cut = chance.randrange(len(data))
    shape = chance.randrange(4)
    if shape > 0:
        _apply_size(image, change)
    match shape:
        case 0 | 1:
            _write(image, position, data[:cut])
        case 2:
            _write(image, position + cut, data[cut:])
        case _:
            _write_some_sectors(image, position, data, chance)


def _write_some_sectors(image: bytearray, position: int, data: bytes, chance: Random) -> None:
    start = 0
    while start < len(data):
        end = start + SECTOR_BYTES - (position + start) % SECTOR_BYTES
        if chance.random() < 0.5:
            _write(image, position + start, data[start:end])
        start = end


def _apply_all(image: bytearray, changes: list[Change]) -> None:
    for change in changes:
        _apply(image, change)


def _apply(image: bytearray, change: Change) -> None:
    position, data = change
    if data is None:
        _resize(image, position)
    else:
        _write(image, position, data)


def _apply_size(image: bytearray, change: Change) -> None:
    position, data = change
    if data is None:
        _resize(image, position)
    elif position + len(data) > len(image):
        _resize(image, position + len(data))


def _write(image: bytearray, position: int, data: bytes) -> None:
    if not data:
        return
    if position > len(image):
        image.extend(bytes(position - len(image)))
    image[position : position + len(data)] = data


def _resize(image: bytearray, size: int) -> None:
    if size < len(image):
        del image[size:]
    else:
        image.extend(bytes(size - len(image)))

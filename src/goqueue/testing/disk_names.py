"""What power loss does to the names of files and directories.

Owns the tree of a simulated disk: directories, the names in them as processes see them and as the medium
holds them, and the changes between the two. Refuses to know what is in a file, handles and faults.

The model is weaker than ext4, which commits names in the order of their changes, so that code which survives
it survives other file systems too. After power loss any subset of the unsynced changes may have arrived,
except that

- a change arrives as a whole: after a rename one of the two names is there, never both and never neither;
- a change arrives only together with the earlier unsynced changes of the same names;
- a rename into another directory arrives only together with what made the way to that directory, and the end
  of a directory only together with what emptied it. Nothing that was durable gets lost on its way.

A new directory is a name like any other: syncing it keeps the names in it, not its own.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePath
from random import Random

from goqueue.testing.disk_model import Content, Fate


class Directory:
    """The names in one directory."""

    __slots__ = ("cached", "durable")

    def __init__(self) -> None:
        self.cached: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}


Node = Content | Directory
Slot = tuple[Directory, str]


@dataclass(frozen=True, slots=True)
class NameChange:
    """Slots that get a node, or lose theirs, in one step.

    `way` are the directories that must be reachable for the change to be safe, `ended` the directory that it
    ends.
    """

    slots: tuple[tuple[Directory, str, Node | None], ...]
    way: tuple[Directory, ...] = ()
    ended: Directory | None = None


class Names:
    """A tree of names, and what of it is durable. Paths contain no `..`; relative ones start at the root."""

    def __init__(self) -> None:
        self.root = Directory()
        self._unsynced: list[NameChange] = []

    def get(self, path: PurePath) -> Node | None:
        """Return what has that name; NotADirectoryError if a file is in the way."""
        node: Node | None = self.root
        for name in _names_of(path):
            if isinstance(node, Content):
                raise os_error(errno.ENOTDIR, path)
            if node is None:
                return None
            node = node.cached.get(name)
        return node

    def find(self, path: PurePath) -> Node:
        """Return what has that name; FileNotFoundError if nothing has."""
        node = self.get(path)
        if node is None:
            raise os_error(errno.ENOENT, path)
        return node

    def directory(self, path: PurePath) -> Directory:
        """Return the directory of that name; NotADirectoryError if it is a file."""
        node = self.find(path)
        if isinstance(node, Content):
            raise os_error(errno.ENOTDIR, path)
        return node

    def link(self, path: PurePath, node: Node) -> None:
        """Give a new node a name that is free."""
        way = self._way_to(path)
        self._change(NameChange(((way[-1], path.name, node),)))

    def remove(self, path: PurePath) -> None:
        """Take the name from a file or an empty directory."""
        way = self._way_to(path)
        node = self.find(path)
        ended = node if isinstance(node, Directory) else None
        if ended and ended.cached:
            raise os_error(errno.ENOTEMPTY, path)
        self._change(NameChange(((way[-1], path.name, None),), ended=ended))

    def rename(self, source: PurePath, target: PurePath) -> bool:
        """Move a name, with the checks of the operating system in its order; False if both are the same."""
        names = (source, target)
        source_way, target_way = self._way_to(source, names), self._way_to(target, names)
        node = source_way[-1].cached.get(source.name)
        replaced = target_way[-1].cached.get(target.name)
        if node is None:
            raise os_error(errno.ENOENT, *names)
        if node in target_way:
            raise os_error(errno.EINVAL, *names)
        if replaced in source_way:
            raise os_error(errno.ENOTEMPTY, *names)
        if replaced is node:
            return False
        if isinstance(node, Directory) and isinstance(replaced, Content):
            raise os_error(errno.ENOTDIR, *names)
        if isinstance(node, Content) and isinstance(replaced, Directory):
            raise os_error(errno.EISDIR, *names)
        ended = replaced if isinstance(replaced, Directory) else None
        if ended and ended.cached:
            raise os_error(errno.ENOTEMPTY, *names)
        slots = ((source_way[-1], source.name, None), (target_way[-1], target.name, node))
        way = () if source_way[-1] is target_way[-1] else tuple(target_way)
        self._change(NameChange(slots, way, ended))
        return True

    def sync(self, directory: Directory) -> None:
        """Make the names in a directory durable; a rename from or to it as a whole."""
        self._persist(lambda change: any(slot[0] is directory for slot in change.slots))

    def crash(self, fate: Fate, chance: Random) -> None:
        """Lose the cached names; `fate` says which changes had reached the medium."""
        if not self._unsynced:
            return
        cut = chance.randrange(len(self._unsynced))
        match fate:
            case Fate.ALL:
                chosen = set(range(len(self._unsynced)))
            case Fate.NONE:
                chosen = set()
            case Fate.EARLIER:
                chosen = set(range(cut))
            case Fate.LATER:
                chosen = set(range(cut, len(self._unsynced)))
            case Fate.SOME | Fate.ZEROS:
                chosen = {number for number in range(len(self._unsynced)) if chance.random() < 0.5}
        arrived = {id(self._unsynced[number]) for number in chosen}
        self._persist(lambda change: id(change) in arrived)
        self._unsynced.clear()
        _forget_cached(self.root)

    def clone(self) -> Names:
        """Return a copy whose files share their bytes with this one's until either changes."""
        copies: dict[Node, Node] = {}
        copy = Names()
        copies[self.root] = copy.root
        _fill(copy.root, self.root, copies)
        copy._unsynced = [_clone_change(change, copies) for change in self._unsynced]
        return copy

    def files(self) -> Iterator[tuple[str, Content]]:
        """Yield every file with its path from the root, as processes see them."""
        return _walk(self.root, "", lambda directory: directory.cached)

    def durable_files(self) -> Iterator[tuple[str, Content]]:
        """Yield every file whose name is durable, with its path from the root."""
        return _walk(self.root, "", lambda directory: directory.durable)

    def _way_to(self, path: PurePath, blamed: tuple[PurePath, ...] = ()) -> list[Directory]:
        """Return the directories from the root to the one that holds the last name of `path`.

        An error names `blamed`, or else `path`.
        """
        blamed = blamed or (path,)
        names = _names_of(path)
        if not names:
            raise os_error(errno.EBUSY, *blamed)
        way = [self.root]
        for name in names[:-1]:
            node = way[-1].cached.get(name)
            if node is None:
                raise os_error(errno.ENOENT, *blamed)
            if isinstance(node, Content):
                raise os_error(errno.ENOTDIR, *blamed)
            way.append(node)
        return way

    def _change(self, change: NameChange) -> None:
        for directory, name, node in change.slots:
            _put(directory.cached, name, node)
        self._unsynced.append(change)

    def _persist(self, is_chosen: Callable[[NameChange], bool]) -> None:
        """Bring the chosen changes to the medium, with the earlier ones that they need."""
        arrived: list[NameChange] = []
        waiting: list[NameChange] = []
        slots: set[Slot] = set()
        way: set[Node] = set()
        ended: set[Directory] = set()
        for change in reversed(self._unsynced):
            is_needed = any(
                (directory, name) in slots or directory in ended or node in way
                for directory, name, node in change.slots
            )
            if not is_needed and not is_chosen(change):
                waiting.append(change)
                continue
            arrived.append(change)
            slots.update((directory, name) for directory, name, _ in change.slots)
            way.update(change.way)
            if change.ended:
                ended.add(change.ended)
        for change in reversed(arrived):
            for directory, name, node in change.slots:
                _put(directory.durable, name, node)
        self._unsynced = waiting[::-1]


def os_error(number: int, path: PurePath | None = None, other: PurePath | None = None) -> OSError:
    """Return the error that the operating system raises, of the fitting subclass."""
    if path is None:
        return OSError(number, os.strerror(number))
    return OSError(number, os.strerror(number), str(path), None, str(other) if other else None)


def _names_of(path: PurePath) -> tuple[str, ...]:
    parts = path.parts
    return parts[1:] if parts and parts[0] == "/" else parts


def _put(names: dict[str, Node], name: str, node: Node | None) -> None:
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node


def _forget_cached(directory: Directory) -> None:
    directory.cached = directory.durable.copy()
    for node in directory.cached.values():
        if isinstance(node, Directory):
            _forget_cached(node)


def _walk(
    directory: Directory, prefix: str, names_in: Callable[[Directory], dict[str, Node]]
) -> Iterator[tuple[str, Content]]:
    for name, node in sorted(names_in(directory).items()):
        if isinstance(node, Directory):
            yield from _walk(node, f"{prefix}{name}/", names_in)
        else:
            yield prefix + name, node


def _clone_node(node: Node, copies: dict[Node, Node]) -> Node:
    copy = copies.get(node)
    if copy is None:
        copy = copies[node] = Directory() if isinstance(node, Directory) else node.clone()
        if isinstance(copy, Directory) and isinstance(node, Directory):
            _fill(copy, node, copies)
    return copy


def _fill(copy: Directory, original: Directory, copies: dict[Node, Node]) -> None:
    for name, node in original.cached.items():
        copy.cached[name] = _clone_node(node, copies)
    for name, node in original.durable.items():
        copy.durable[name] = _clone_node(node, copies)


def _clone_change(change: NameChange, copies: dict[Node, Node]) -> NameChange:
    def directory_of(original: Directory) -> Directory:
        copy = _clone_node(original, copies)
        assert isinstance(copy, Directory)
        return copy

    return NameChange(
        tuple(
            (directory_of(directory), name, node and _clone_node(node, copies))
            for directory, name, node in change.slots
        ),
        tuple(directory_of(directory) for directory in change.way),
        change.ended and directory_of(change.ended),
    )

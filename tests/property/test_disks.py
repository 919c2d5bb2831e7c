"""The simulated disk acts as the operating system does, and loses nothing that was synced."""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePath
from random import Random
from typing import TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from typing_extensions import override

from goqueue.seams.disk import Disk, File, RealDisk
from goqueue.testing import Fate, SimDisk

PATHS = st.sampled_from(["a", "b", "a/x", "a/y", "b/x", "a/x/z", "a/y/z", "b/x/y/z"])
POSITIONS = st.integers(-1, 1500)
DATA = st.lists(st.binary(max_size=600), max_size=3)
SEEDS = st.integers(0, 10_000)

Result = TypeVar("Result")


def attempt(call: Callable[[], Result]) -> Result | tuple[type[OSError], int | None, str | None, str | None]:
    """Return the result of a call, or what identifies the error that it raised."""
    try:
        return call()
    except OSError as error:
        return type(error), error.errno, error.filename, error.filename2


class TwoDisks(RuleBasedStateMachine):
    """Does the same to a real and to a simulated disk and compares what they answer."""

    def __init__(self) -> None:
        super().__init__()
        self.base = Path(tempfile.mkdtemp())
        self.real = RealDisk()
        self.sim = SimDisk(0)
        self.sim.make_directory(self.base)
        self.files: list[tuple[File, File]] = []

    @override
    def teardown(self) -> None:
        for real, _ in self.files:
            real.close()
        shutil.rmtree(self.base)

    def compare(self, call: Callable[[Disk], object]) -> None:
        real, sim = attempt(lambda: call(self.real)), attempt(lambda: call(self.sim))
        assert sim == real

    @rule(path=PATHS, create=st.booleans(), writable=st.booleans())
    def open(self, path: str, create: bool, writable: bool) -> None:
        if self.real.is_directory(self.base / path) and not create and not writable:
            return  # The operating system opens a directory for reading; the simulated disk refuses that.
        opened: list[File] = []

        def call(disk: Disk) -> None:
            opened.append(disk.open(self.base / path, create=create, writable=writable))

        self.compare(call)
        if opened:
            real, sim = opened
            self.files.append((real, sim))

    @precondition(lambda self: self.files)
    @rule(data=st.data(), position=POSITIONS, parts=DATA, size=POSITIONS)
    def use_file(self, data: st.DataObject, position: int, parts: list[bytes], size: int) -> None:
        real, sim = data.draw(st.sampled_from(self.files))
        # pwritev takes -1 for the cursor of the file; the simulated disk refuses all negative positions.
        calls: list[Callable[[File], object]] = [
            lambda file: file.write_at(abs(position), *parts),
            lambda file: file.read_at(position, size),
            lambda file: file.truncate(size),
            lambda file: file.sync(),
        ]
        call = data.draw(st.sampled_from([*calls[:2], *calls]))
        assert attempt(lambda: call(sim)) == attempt(lambda: call(real))
        assert attempt(sim.size) == attempt(real.size)

    @precondition(lambda self: self.files)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        number = data.draw(st.integers(0, len(self.files) - 1))
        for file in self.files.pop(number):
            file.close()
            file.close()
            for call in (file.size, partial(file.read_at, 0, 1), partial(file.write_at, 0, b"x")):
                assert attempt(call) == (OSError, errno.EBADF, None, None)

    @rule(path=PATHS)
    def make_directory(self, path: str) -> None:
        self.compare(lambda disk: disk.make_directory(self.base / path))

    @rule(source=PATHS, destination=PATHS)
    def rename(self, source: str, destination: str) -> None:
        self.compare(lambda disk: disk.rename(self.base / source, self.base / destination))

    @rule(path=PATHS)
    def remove(self, path: str) -> None:
        self.compare(lambda disk: disk.remove(self.base / path))

    @rule(path=PATHS)
    def look(self, path: str) -> None:
        self.compare(lambda disk: disk.list_directory(self.base / path))
        self.compare(lambda disk: disk.exists(self.base / path))
        self.compare(lambda disk: disk.is_directory(self.base / path))
        if not self.real.is_directory(self.base / path):
            self.compare(lambda disk: disk.size_of(self.base / path))

    @rule(path=PATHS)
    def sync_directory(self, path: str) -> None:
        self.compare(lambda disk: disk.sync_directory(self.base / path))

    @rule(seed=SEEDS)
    def lose_power_after_syncing_everything(self, seed: int) -> None:
        disk = self.sim.clone(seed)
        sync_everything(disk, PurePath("/"))
        disk.crash()
        assert listing(disk, self.base) == listing(self.real, self.base)

    @rule(seed=SEEDS)
    def lose_power(self, seed: int) -> None:
        durable = self.sim.durable_tree()
        disk = self.sim.clone(seed)
        disk.crash(Fate.NONE)
        assert disk.tree() == disk.durable_tree() == durable
        disk = self.sim.clone(seed)
        disk.crash()
        assert disk.tree() == disk.durable_tree()
        again = self.sim.clone(seed)
        again.crash()
        assert again.tree() == disk.tree()

    @rule(seed=SEEDS)
    def survive_power_loss_by_luck(self, seed: int) -> None:
        disk = self.sim.clone(seed)
        disk.crash(Fate.ALL)
        assert listing(disk, self.base) == listing(self.real, self.base)

    @invariant()
    def both_hold_the_same(self) -> None:
        assert listing(self.sim, self.base) == listing(self.real, self.base)


def listing(disk: Disk, directory: PurePath) -> dict[str, bytes | None]:
    """Return all names below a directory, with the content of those that are files."""
    found: dict[str, bytes | None] = {}
    for name in disk.list_directory(directory):
        path = directory / name
        if disk.is_directory(path):
            found[str(path)] = None
            found |= listing(disk, path)
            continue
        file = disk.open(path, writable=False)
        found[str(path)] = file.read_at(0, disk.size_of(path))
        file.close()
    return found


def sync_everything(disk: SimDisk, directory: PurePath) -> None:
    """Sync every file and directory from the root on."""
    disk.sync_directory(directory)
    for name in disk.list_directory(directory):
        if disk.is_directory(directory / name):
            sync_everything(disk, directory / name)
        else:
            disk.open(directory / name).sync()


TestTwoDisks = TwoDisks.TestCase
TestTwoDisks.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


PLACES = [PurePath(path) for path in ("a", "b", "c", "d", "a/x", "a/y", "b/x", "b/y", "c/x", "c/x/y")]


def move_about(disk: SimDisk, chance: Random) -> None:
    """Make, move, empty and sync directories at random, without ever removing or replacing a file."""
    for _ in range(chance.randrange(2, 20)):
        place, other = chance.choice(PLACES), chance.choice(PLACES)
        with suppress(OSError):
            match chance.randrange(6):
                case 0:
                    disk.make_directory(place)
                case 1:
                    disk.sync_directory(place)
                case 2 if disk.is_directory(place):
                    disk.remove(place)
                case _ if disk.is_directory(other) or not disk.exists(other):
                    disk.rename(place, other)


def test_power_loss_neither_loses_nor_doubles_a_file_that_only_moved() -> None:
    contents = {"a/x": b"one", "b/x": b"two", "d": b"three"}
    for seed in range(1500):
        disk = SimDisk(seed)
        for path, content in contents.items():
            disk.write_file(PurePath(path), content)
        move_about(disk, Random(seed))
        disk.crash()
        assert sorted(disk.tree().values()) == sorted(contents.values()), f"seed {seed}"

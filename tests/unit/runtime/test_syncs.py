"""Syncs by the kernel: they end, they tell what went wrong, and whoever cannot have them uses threads."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import itertools
import os
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath

import pytest

from goqueue.errors import LogOffline
from goqueue.log.log import Log
from goqueue.model.log_settings import LogSettings
from goqueue.model.topic_settings import TopicSettings
from goqueue.runtime.partition import Partition
from goqueue.runtime.waiters import arrival
from goqueue.seams import syncs
from goqueue.seams.clock import SystemClock
from goqueue.seams.disk import RealDisk
from goqueue.seams.syncs import Done, KernelSyncs, NotBegun, Syncs, kernel_syncs
from tests.unit.log.log_kit import batch

WAIT_S = 60.0
NO_FILE = 99_999


async def outcome(using: Syncs, descriptors: Sequence[int]) -> OSError | None:
    """Sync files, and return what came of it."""
    ended: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
    using.sync(descriptors, ended.set_result)
    return await asyncio.wait_for(ended, WAIT_S)


def with_syncs(act: Callable[[KernelSyncs], object]) -> None:
    """Run something with the kernel's syncs, which the system of these tests has to offer."""

    async def main() -> None:
        with kernel_syncs() as opened:
            assert opened is not None
            await act(opened)  # type: ignore[misc]

    asyncio.run(main())


def test_files_are_synced_many_at_once(tmp_path: Path) -> None:
    async def act(opened: KernelSyncs) -> None:
        files = [os.open(tmp_path / str(number), os.O_CREAT | os.O_RDWR) for number in range(200)]
        for file in files:
            os.write(file, b"x" * 1000)
        assert await asyncio.gather(*(outcome(opened, [file]) for file in files)) == [None] * 200
        assert await outcome(opened, files) is None
        for file in files:
            os.close(file)

    with_syncs(act)


def test_what_the_kernel_refuses_is_told_as_not_begun_and_keeps_nothing_back(tmp_path: Path) -> None:
    async def act(opened: KernelSyncs) -> None:
        good = os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR)
        asked = [[good], [NO_FILE], [good, NO_FILE, good], [good]]
        first, *refused, last = await asyncio.gather(*(outcome(opened, each) for each in asked))
        assert first is None
        assert last is None
        for each in refused:
            assert isinstance(each, NotBegun)
            assert each.errno == errno.EBADF
        os.close(good)

    with_syncs(act)


def test_all_that_is_asked_for_in_one_turn_is_begun_with_one_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    real = KernelSyncs._submit_some

    def submit_some(self: KernelSyncs, wanted: Sequence[tuple[int, syncs._Sync]]) -> int:
        calls.append(len(wanted))
        return real(self, wanted)

    monkeypatch.setattr(KernelSyncs, "_submit_some", submit_some)

    async def act(opened: KernelSyncs) -> None:
        file = os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR)
        assert await asyncio.gather(*(outcome(opened, [file]) for _ in range(20))) == [None] * 20
        os.close(file)

    with_syncs(act)
    assert calls == [20]


def test_more_than_the_kernel_takes_at_once_waits_for_its_turn(tmp_path: Path) -> None:
    async def act(opened: KernelSyncs) -> None:
        file = os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR)
        assert await asyncio.gather(*(outcome(opened, [file]) for _ in range(5000))) == [None] * 5000
        os.close(file)

    with_syncs(act)


@pytest.mark.parametrize("is_full", [True, False])
def test_somebody_whose_callback_fails_keeps_nothing_from_others(
    is_full: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = KernelSyncs._submit_some

    def submit_one(self: KernelSyncs, wanted: Sequence[tuple[int, syncs._Sync]]) -> int:
        """Take one at a time, as a kernel does that has no room for more."""
        if self._under_way:
            ctypes.set_errno(errno.EAGAIN)
            return 0
        return real(self, wanted[:1])

    if is_full:
        monkeypatch.setattr(KernelSyncs, "_submit_some", submit_one)

    async def act(opened: KernelSyncs) -> None:
        reported = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["exception"]))
        file = os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR)

        def fail(_: OSError | None) -> None:
            raise RuntimeError("mine")

        others = []
        for _ in range(10):
            opened.sync([file], fail)
            others.append(asyncio.ensure_future(outcome(opened, [file])))
        assert await asyncio.gather(*others) == [None] * 10
        assert {str(each) for each in reported} == {"mine"}
        os.close(file)

    with_syncs(act)


def test_nobody_is_told_anything_after_the_end(tmp_path: Path) -> None:
    async def main() -> None:
        told: list[object] = []
        file = os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR)
        with kernel_syncs() as opened:
            assert opened is not None
            opened.sync([file], told.append)
        await arrival(asyncio.get_running_loop().call_soon)
        assert told == []
        os.close(file)

    asyncio.run(main())


def test_a_failure_is_told_rather_than_that_another_sync_was_not_begun() -> None:
    not_begun, failed = NotBegun(errno.EAGAIN, "too many at once"), OSError(errno.EIO, "lost")
    for errors in itertools.permutations([None, not_begun, failed]):
        told: list[OSError | None] = []
        sync = syncs._Sync(len(errors), told.append)
        for error in errors:
            sync.ended(error)
        assert told == [failed]


def test_a_system_that_does_not_offer_it_is_no_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        with kernel_syncs() as opened:
            assert opened is None

    monkeypatch.setattr(syncs, "_CALLS", {})
    asyncio.run(main())
    no_such_call = syncs._Calls(100_000, 100_000, 100_000, 100_000)
    monkeypatch.setattr(syncs, "_CALLS", dict.fromkeys(("x86_64", "aarch64"), no_such_call))
    asyncio.run(main())


class Told:
    """Syncs that end when the test says so, and as it says."""

    def __init__(self) -> None:
        self.begun: asyncio.Queue[Done] = asyncio.Queue()

    def sync(self, descriptors: Sequence[int], done: Done) -> None:
        assert descriptors
        self.begun.put_nowait(done)


def open_partition(directory: Path, using: Syncs | None) -> Partition:
    log = Log(RealDisk(), PurePath(directory), LogSettings())
    return Partition("orders", 0, log, TopicSettings(), SystemClock(), syncs=using)


@pytest.mark.parametrize("has_failed", [False, True])
def test_a_partition_believes_what_the_kernel_tells(tmp_path: Path, has_failed: bool) -> None:
    async def main() -> None:
        told = Told()
        partition = open_partition(tmp_path / "log", told)
        partition.append([batch(b"first")])
        waiting = asyncio.create_task(partition.committed(1))
        done = await asyncio.wait_for(told.begun.get(), WAIT_S)
        assert (partition.high_watermark, waiting.done()) == (0, False)
        done(OSError(errno.EIO, "lost") if has_failed else None)
        if has_failed:
            with pytest.raises(LogOffline):
                await waiting
            assert partition.high_watermark == 0
        else:
            await waiting
            assert partition.high_watermark == 1

    asyncio.run(main())


def test_what_the_kernel_did_not_begin_is_done_by_a_thread(tmp_path: Path) -> None:
    async def main() -> None:
        told = Told()
        partition = open_partition(tmp_path / "log", told)
        partition.append([batch(b"first")])
        waiting = asyncio.create_task(partition.committed(1))
        done = await asyncio.wait_for(told.begun.get(), WAIT_S)
        done(NotBegun(errno.EAGAIN, "too many at once"))
        await asyncio.wait_for(waiting, WAIT_S)
        assert partition.log.durable_end == 1

    asyncio.run(main())


def test_what_was_synced_by_the_kernel_is_there_again(tmp_path: Path) -> None:
    async def main() -> None:
        with kernel_syncs() as opened:
            partition = open_partition(tmp_path / "log", opened)
            for number in range(50):
                partition.append([batch(b"%d" % number)])
                await partition.committed(number + 1)
            await partition.close()
        again = open_partition(tmp_path / "log", None)
        assert (again.log.was_clean, again.high_watermark) == (True, 50)

    asyncio.run(main())

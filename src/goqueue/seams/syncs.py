"""Syncs that hold no thread: the kernel does them, and tells the event loop.

A thread that syncs has to be woken, to get hold of the interpreter, to let go of it, and to get hold of it again: on a
busy loop that takes longer than the disk does. Linux can be asked to sync a file by itself (`io_submit` with a request
of the kind FDSYNC), and says through an event descriptor when it has; a failure is told as by `fdatasync`. Where it
cannot, `kernel_syncs` has nothing to give, and whoever asks uses threads.

    iocb, 64 bytes:  data u64 | key u32 | flags u32 | kind u16 | priority i16 | descriptor u32
                     | buffer u64 | size u64 | offset i64 | reserved u64 | flags u32 | event descriptor u32
    event, 32 bytes: data u64 | iocb u64 | result i64 | second result i64
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import platform
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple, Protocol

Done = Callable[[OSError | None], None]


class Syncs(Protocol):
    """Makes files durable in the background."""

    def sync(self, descriptors: Sequence[int], done: Done) -> bool:
        """Begin to sync files, and call `done` from the loop when all are, or one has failed; False if that cannot be.

        The descriptors may be closed before.
        """
        ...


class _Calls(NamedTuple):
    """The numbers of system calls, which are not the same on all machines."""

    setup: int
    destroy: int
    get_events: int
    submit: int


_CALLS = {"x86_64": _Calls(206, 207, 208, 209), "aarch64": _Calls(0, 1, 4, 2)}
_AT_ONCE_MAX = 1024
_READ_MAX = 64
_KIND_FDSYNC = 3
_FLAG_TELL = 1
_REQUEST = struct.Struct("=QIIHhIQQqQII")
_EVENT = struct.Struct("=QQqq")


@contextmanager
def kernel_syncs() -> Iterator[KernelSyncs | None]:
    """Have the kernel's syncs for the running loop, for the length of the block; None if this system has none."""
    calls = _CALLS.get(platform.machine()) if sys.platform == "linux" else None
    try:
        syncs = None if calls is None else KernelSyncs(calls, asyncio.get_running_loop())
    except OSError:
        syncs = None
    try:
        yield syncs
    finally:
        if syncs is not None:
            syncs.close()


class _Sync:
    """Files that are being synced together: how many are not yet, and what went wrong."""

    __slots__ = ("done", "error", "left")

    def __init__(self, left: int, done: Done) -> None:
        self.left = left
        self.done = done
        self.error: OSError | None = None


class KernelSyncs:
    """The kernel's own syncs, for one event loop."""

    def __init__(self, calls: _Calls, loop: asyncio.AbstractEventLoop) -> None:
        self._calls = calls
        self._loop = loop
        self._call = ctypes.CDLL(None, use_errno=True).syscall
        self._request = ctypes.create_string_buffer(_REQUEST.size)
        self._requests = (ctypes.c_void_p * 1)(ctypes.addressof(self._request))
        self._events = ctypes.create_string_buffer(_READ_MAX * _EVENT.size)
        self._under_way: dict[int, _Sync] = {}
        self._last = 0
        self._context = ctypes.c_ulong(0)
        if self._call(calls.setup, _AT_ONCE_MAX, ctypes.byref(self._context)) != 0:
            raise OSError(ctypes.get_errno(), "the kernel offers no syncs in the background")
        self._told = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        loop.add_reader(self._told, self._look)

    def close(self) -> None:
        """Let go of the kernel's memory; waits for what is under way, whose callers are told no more."""
        self._loop.remove_reader(self._told)
        self._call(self._calls.destroy, self._context)
        os.close(self._told)
        self._under_way.clear()

    def sync(self, descriptors: Sequence[int], done: Done) -> bool:
        begun = _Sync(len(descriptors), done)
        for number, descriptor in enumerate(descriptors):
            self._last += 1
            fields = (self._last, 0, 0, _KIND_FDSYNC, 0, descriptor, 0, 0, 0, 0, _FLAG_TELL, self._told)
            _REQUEST.pack_into(self._request, 0, *fields)
            if self._call(self._calls.submit, self._context, 1, self._requests) != 1:
                if number == 0:
                    return False
                begun.error = OSError(ctypes.get_errno(), "the kernel has taken one sync and refused another")
                begun.left = number
                break
            self._under_way[self._last] = begun
        return bool(descriptors)

    def _look(self) -> None:
        with suppress(BlockingIOError):
            os.eventfd_read(self._told)
        while (count := self._call(self._calls.get_events, self._context, 0, _READ_MAX, self._events, None)) > 0:
            for ticket, _, result, _ in _EVENT.iter_unpack(self._events.raw[: count * _EVENT.size]):
                self._ended(self._under_way.pop(ticket), result)
            if count < _READ_MAX:
                return

    def _ended(self, sync: _Sync, result: int) -> None:
        if result < 0:
            sync.error = sync.error or OSError(-result, os.strerror(-result))
        sync.left -= 1
        if not sync.left:
            sync.done(sync.error)

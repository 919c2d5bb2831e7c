"""Syncs without threads: the kernel runs them, and notifies the event loop.

A thread that syncs must wake up, take the interpreter lock, release it, and take it again: on a busy loop that takes
longer than the disk. Linux can sync a file asynchronously (`io_submit` with FDSYNC) and signals the end through an
event descriptor, with the errors of `fdatasync`. Where that is not supported, `kernel_syncs` yields None, and callers
use threads. All syncs of one turn of the loop go to the kernel with one call.

    iocb, 64 bytes:  data u64 | key u32 | flags u32 | kind u16 | priority i16 | descriptor u32
                     | buffer u64 | size u64 | offset i64 | reserved u64 | flags u32 | event descriptor u32
    event, 32 bytes: data u64 | iocb u64 | result i64 | second result i64
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

Done = Callable[[OSError | None], None]


class Syncs(Protocol):
    """Makes files durable in the background."""

    def sync(self, descriptors: Sequence[int], done: Done) -> None:
        """Begin to sync files, and call `done` from the loop when all have ended, with an error if one failed.

        The descriptors must stay open until then. NotBegun is no failure of the disk: use another way.
        """
        ...


class NotBegun(OSError):
    """A sync was not begun, since the kernel has refused it: nothing was done, or lost."""


class _Calls(NamedTuple):
    """The numbers of system calls, which are not the same on all machines."""

    setup: int
    destroy: int
    get_events: int
    submit: int


_CALLS = {"x86_64": _Calls(206, 207, 208, 209), "aarch64": _Calls(0, 1, 4, 2)}
_AT_ONCE_MAX = 1024
_SUBMIT_MAX = 64
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
    """Files that are synced together: how many are left, and the first error."""

    __slots__ = ("done", "error", "left")

    def __init__(self, left: int, done: Done) -> None:
        self.left = left
        self.done = done
        self.error: OSError | None = None

    def ended(self, error: OSError | None) -> None:
        """Record the result of one file."""
        # A failed sync must not be tried again, so its error takes precedence over NotBegun.
        if error is not None and (self.error is None or isinstance(self.error, NotBegun)):
            self.error = error
        self.left -= 1
        if not self.left:
            self.done(self.error)


class KernelSyncs:
    """The kernel's own syncs, for one event loop."""

    def __init__(self, calls: _Calls, loop: asyncio.AbstractEventLoop) -> None:
        self._calls = calls
        self._loop = loop
        self._call = ctypes.CDLL(None, use_errno=True).syscall
        self._requests = ctypes.create_string_buffer(_SUBMIT_MAX * _REQUEST.size)
        first = ctypes.addressof(self._requests)
        self._pointers = (ctypes.c_void_p * _SUBMIT_MAX)(*[first + n * _REQUEST.size for n in range(_SUBMIT_MAX)])
        self._events = ctypes.create_string_buffer(_READ_MAX * _EVENT.size)
        self._wanted: list[tuple[int, _Sync]] = []
        self._under_way: dict[int, _Sync] = {}
        self._last = 0
        self._context = ctypes.c_ulong(0)
        if self._call(calls.setup, _AT_ONCE_MAX, ctypes.byref(self._context)) != 0:
            raise OSError(ctypes.get_errno(), "the kernel offers no syncs in the background")
        self._told = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        loop.add_reader(self._told, self._look)

    def close(self) -> None:
        """Free the kernel's memory; waits for syncs under way, but their callers are not called any more."""
        self._wanted.clear()
        self._loop.remove_reader(self._told)
        self._call(self._calls.destroy, self._context)
        os.close(self._told)
        self._under_way.clear()

    def sync(self, descriptors: Sequence[int], done: Done) -> None:
        begun = _Sync(len(descriptors), done)
        if not self._wanted:
            self._loop.call_soon(self._submit)
        self._wanted += [(descriptor, begun) for descriptor in descriptors]

    def _submit(self) -> None:
        """Submit the wanted syncs; those that exceed the kernel's queue wait until others have ended."""
        while wanted := self._wanted[:_SUBMIT_MAX]:
            taken = self._submit_some(wanted)
            if not taken:
                number = ctypes.get_errno()
                if number == errno.EAGAIN and self._under_way:
                    return
                # The first of them is at fault, or nothing can be taken at all.
                self._loop.call_soon(wanted[0][1].ended, NotBegun(number, os.strerror(number)))
                taken = 1
            del self._wanted[:taken]

    def _submit_some(self, wanted: Sequence[tuple[int, _Sync]]) -> int:
        """Hand over as many of these as the kernel takes, and return how many it took, from the first one on."""
        position = 0
        for ticket, (descriptor, _) in enumerate(wanted, self._last + 1):
            fields = (ticket, 0, 0, _KIND_FDSYNC, 0, descriptor, 0, 0, 0, 0, _FLAG_TELL, self._told)
            _REQUEST.pack_into(self._requests, position, *fields)
            position += _REQUEST.size
        taken: int = max(self._call(self._calls.submit, self._context, len(wanted), self._pointers), 0)
        for _, begun in wanted[:taken]:
            self._last += 1
            self._under_way[self._last] = begun
        return taken

    def _look(self) -> None:
        os.eventfd_read(self._told)
        try:
            self._tell(self._ended())
        finally:
            if self._wanted:
                self._submit()

    def _tell(self, ended: Sequence[tuple[int, int]]) -> None:
        """Call the callbacks of ended syncs in order, even if one of them raises."""
        for number, (ticket, result) in enumerate(ended, 1):
            error = None if result >= 0 else OSError(-result, os.strerror(-result))
            try:
                self._under_way.pop(ticket).ended(error)
            except BaseException:
                self._loop.call_soon(self._tell, ended[number:])
                raise

    def _ended(self) -> list[tuple[int, int]]:
        """Return the tickets of all syncs that have ended since the last call, and their results."""
        ended: list[tuple[int, int]] = []
        count = _READ_MAX
        while count == _READ_MAX:
            count = self._call(self._calls.get_events, self._context, 0, _READ_MAX, self._events, None)
            events = _EVENT.iter_unpack(self._events.raw[: max(count, 0) * _EVENT.size])
            ended += [(ticket, result) for ticket, _, result, _ in events]
        return ended

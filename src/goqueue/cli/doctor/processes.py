"""The processes that listen on a port or hold the lock of a directory, from Linux's `/proc`.

They are a best effort: processes of other users are not readable, and other systems have no `/proc`.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from typing_extensions import override

_PROC = Path("/proc")
_LISTENING = "0A"
_COMMAND_MAX = 60


class Process(NamedTuple):
    """A process and its command line; 0 and empty if they are unknown."""

    pid: int
    command: str

    @override
    def __str__(self) -> str:
        named = f"process {self.pid}" if self.pid else "another process"
        return f"{named} ({self.command})" if self.command else named


def listener_on(port: int) -> Process | None:
    """Return the process that listens on a port, if it can be found."""
    sockets = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    if not sockets:
        return None
    for directory in _PROC.glob("[0-9]*"):
        if not sockets.isdisjoint(_open_files(directory)):
            return _process(int(directory.name))
    return None


def holder_of_lock(lock: Path) -> Process | None:
    """Return the process that holds the lock of a data directory; None if it is free."""
    if not _is_held(lock):
        return None
    inode = str(lock.stat().st_ino)
    with suppress(OSError):
        for line in (_PROC / "locks").read_text().splitlines():
            fields = line.split()
            if fields[1] == "FLOCK" and inode == fields[5].rpartition(":")[2]:
                return _process(int(fields[4]))
    return Process(0, "")


def _is_held(lock: Path) -> bool:
    """Return whether a file is locked, by taking a shared lock and releasing it at once."""
    with suppress(OSError):
        fd = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
    return False


def _listening_inodes(port: int) -> Iterator[str]:
    for table in ("net/tcp", "net/tcp6"):
        with suppress(OSError):
            for line in (_PROC / table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                    yield fields[9]


def _open_files(process: Path) -> Iterator[str]:
    """Yield the targets of the file descriptors of a process; they may vanish meanwhile."""
    with suppress(OSError):
        for descriptor in (process / "fd").iterdir():
            with suppress(OSError):
                yield str(descriptor.readlink())


def _process(pid: int) -> Process:
    command = ""
    with suppress(OSError):
        command = (_PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    command = "".join(character if character.isprintable() else "?" for character in command)
    return Process(pid, command if len(command) <= _COMMAND_MAX else command[:_COMMAND_MAX] + "...")

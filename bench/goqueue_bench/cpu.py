"""CPU time of a process and its children, from /proc; Linux only.

The kernel counts user and system time in ticks of 10 ms, so a measurement must be much longer than a tick. Ended
children are counted with the parent that waited for them; running ones are searched. The CPU time of the rest of the
machine is measured as well, since rates on a busy machine mean little.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
# Positions after the name of the process, which is in parentheses and may hold anything.
_PARENT = 1
_USER, _SYSTEM, _CHILDREN_USER, _CHILDREN_SYSTEM = 11, 12, 13, 14
# Of the first line of /proc/stat: user, nice, system, then idle and waiting for a disk, then interrupts.
_IDLE, _IO_WAIT = 3, 4
_BUSY_COLUMNS = 8


class ProcessTimes(NamedTuple):
    """One process in the books: who started it, and the ticks of itself and of its ended children."""

    parent: int
    own_ticks: int
    ended_children_ticks: int


def parse_process(stat: str) -> ProcessTimes:
    """Read the text of /proc/PID/stat."""
    fields = stat.rpartition(")")[2].split()
    own = int(fields[_USER]) + int(fields[_SYSTEM])
    return ProcessTimes(int(fields[_PARENT]), own, int(fields[_CHILDREN_USER]) + int(fields[_CHILDREN_SYSTEM]))


def parse_busy_ticks(stat: str) -> int:
    """Read the text of /proc/stat; return the ticks in which any core did anything."""
    columns = [int(column) for column in stat.splitlines()[0].split()[1 : 1 + _BUSY_COLUMNS]]
    return sum(columns) - columns[_IDLE] - columns[_IO_WAIT]


def process_cpu_seconds(pid: int, *, proc: Path = PROC) -> float:
    """Return the user and system time that a process has taken so far, without its children."""
    return parse_process((proc / str(pid) / "stat").read_text("utf-8")).own_ticks / _TICKS_PER_SECOND


def tree_cpu_seconds(pid: int, *, proc: Path = PROC) -> float:
    """Return the user and system time of a process and all its descendants, those included that have ended."""
    books = _all_processes(proc)
    if pid not in books:
        raise ProcessLookupError(f"process {pid} has ended")
    ticks = 0
    family = {pid}
    remaining = [pid]
    while remaining:
        parent = remaining.pop()
        ticks += books[parent].own_ticks + books[parent].ended_children_ticks
        children = {child for child, times in books.items() if times.parent == parent} - family
        family |= children
        remaining.extend(children)
    return ticks / _TICKS_PER_SECOND


def busy_seconds(*, proc: Path = PROC) -> float:
    """Return the time that all cores together have been busy since the machine started."""
    return parse_busy_ticks((proc / "stat").read_text("utf-8")) / _TICKS_PER_SECOND


def _all_processes(proc: Path) -> dict[int, ProcessTimes]:
    books = {}
    for entry in proc.iterdir():
        if entry.name.isdecimal():
            try:
                books[int(entry.name)] = parse_process((entry / "stat").read_text("utf-8"))
            except (FileNotFoundError, ProcessLookupError):
                continue
    return books


@dataclass(slots=True)
class Usage:
    """Resources that a measured block used; the server's time is None if its process is unknown."""

    seconds: float = field(default=0.0, init=False)
    server_cpu_seconds: float | None = field(default=None, init=False)
    client_cpu_seconds: float = field(default=0.0, init=False)
    other_cores: float = field(default=0.0, init=False)


@contextmanager
def metered(server_pid: int | None, *, with_children: bool = False) -> Iterator[Usage]:
    """Measure a block: wall time, CPU of the server and of this process, and how many cores anything else took.

    The numbers are there when the block has ended.
    """

    def server() -> float:
        if server_pid is None:
            return 0.0
        return tree_cpu_seconds(server_pid) if with_children else process_cpu_seconds(server_pid)

    usage = Usage()
    busy_before, server_before, client_before = busy_seconds(), server(), time.process_time()
    started = time.perf_counter()
    yield usage
    usage.seconds = time.perf_counter() - started
    usage.client_cpu_seconds = time.process_time() - client_before
    server_cpu = server() - server_before
    usage.server_cpu_seconds = None if server_pid is None else server_cpu
    other = busy_seconds() - busy_before - server_cpu - usage.client_cpu_seconds
    usage.other_cores = max(0.0, other / usage.seconds)

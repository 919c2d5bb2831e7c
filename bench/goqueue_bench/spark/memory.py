"""How much memory Spark's Python workers need, and whether that depends on how much they read.

Workers keep what they once had, so each read is done by fresh ones: those of a session of its own. They wait for more
work when a read is over; the kernel tells the most that each has had. Linux only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from goqueue_bench.cpu import PROC, parse_process
from goqueue_bench.measure import Aim, Goal, Result, require

MIB = 1024 * 1024
MORE_MIB_GOAL = 50

# On the command line of workers, which are forks of a daemon that Spark starts under this name.
_WORKER = b"pyspark.daemon"


def growth(part_rows: int, part_bytes: int, whole_rows: int, whole_bytes: int) -> Result:
    """Return how much more memory a worker took for all rows than for a part of them."""
    return Result(
        "worker_memory",
        f"more memory of a Python worker to read {whole_rows / part_rows:g} times as many rows",
        (whole_bytes - part_bytes) / MIB,
        "MiB",
        Goal(Aim.AT_MOST, MORE_MIB_GOAL),
        {"rows": whole_rows, "small_peak_bytes": part_bytes, "large_peak_bytes": whole_bytes},
    )


def largest_worker_bytes(*, proc: Path = PROC) -> int:
    """Return the most memory that any Python worker below this process has had resident."""
    peaks = [_peak_bytes(proc / str(pid)) for pid in _descendants(os.getpid(), proc) if _is_worker(proc / str(pid))]
    require(bool(peaks), "Spark reads with Python workers that can be looked at")
    return max(peaks)


def _descendants(pid: int, proc: Path) -> Iterator[int]:
    parents = {}
    for entry in proc.iterdir():
        if entry.name.isdecimal():
            try:
                parents[int(entry.name)] = parse_process((entry / "stat").read_text("utf-8")).parent
            except (FileNotFoundError, ProcessLookupError):
                continue
    remaining = [pid]
    while remaining:
        parent = remaining.pop()
        children = [child for child, its_parent in parents.items() if its_parent == parent]
        remaining += children
        yield from children


def _is_worker(process: Path) -> bool:
    try:
        return _WORKER in (process / "cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


def _peak_bytes(process: Path) -> int:
    try:
        lines = (process / "status").read_text("utf-8").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)

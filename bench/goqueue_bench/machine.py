"""Describe the machine of a benchmark: enough to compare numbers, without names of hosts, users or paths."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

from goqueue import __version__
from goqueue_bench.python_build import this_build

_UNKNOWN = "unknown"
_LOOPS = 9
_LOOP_STEPS = 200_000


class Machine(NamedTuple):
    """The hardware and software that results depend on.

    `loop_ms` is how long a fixed piece of pure Python took beside the benchmark: a machine that is shared with others
    may be twice as fast an hour later. `python_is_optimised` says whether Python was built with profile-guided
    optimisation, which is worth 15 to 25 % of single requests.
    """

    cpu: str
    cores: int
    memory_bytes: int
    kernel: str
    file_system: str
    python: str
    python_compiler: str
    python_is_optimised: bool
    goqueue: str
    loop_ms: float


def describe(directory: Path) -> Machine:
    """Describe this machine and the file system that a directory is on."""
    build = this_build()
    return Machine(
        cpu=_cpu_model(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 0,
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        kernel=f"{platform.system()} {platform.release()}",
        file_system=file_system_of(directory),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        python_compiler=build.compiler,
        python_is_optimised=build.is_optimised,
        goqueue=__version__,
        loop_ms=_loop_ms(),
    )


def _loop_ms() -> float:
    """Return the median time of a fixed loop."""
    times = []
    for _ in range(_LOOPS):
        began = time.perf_counter()
        total = 0
        for number in range(_LOOP_STEPS):
            total += number * number
        times.append((time.perf_counter() - began) * 1000)
    return round(median(times), 2)


def file_system_of(directory: Path) -> str:
    """Return the type of the file system that holds a directory, such as ext4; Linux only."""
    try:
        mounts = Path("/proc/self/mounts").read_text("utf-8").splitlines()
    except OSError:
        return _UNKNOWN
    path = directory.resolve()
    found, depth = _UNKNOWN, -1
    for line in mounts:
        _, mount_point, kind, *_ = line.split()
        mounted = Path(mount_point.replace(r"\040", " "))
        # Of mounts on top of each other the last one counts.
        if path.is_relative_to(mounted) and len(mounted.parts) >= depth:
            found, depth = kind, len(mounted.parts)
    return found


def peak_memory_bytes() -> int:
    """Return the most memory that this process has had resident so far; Linux only.

    Not from getrusage: that counts the parent's memory between fork and exec as well.
    """
    for line in Path("/proc/self/status").read_text("utf-8").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise OSError("the kernel does not tell the peak of resident memory")


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or _UNKNOWN
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or _UNKNOWN)

"""Opening a large log after a clean stop and after a kill, and the memory that opening and reading it takes.

A log is written by a process of its own, which ends as that part of the benchmark asks: by closing the log, or by
killing itself with bytes written since the last checkpoint. The parent then opens that log.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from goqueue.log.events import Recovered
from goqueue.log.log import Log
from goqueue.model.log_settings import LogSettings
from goqueue.seams.disk import RealDisk
from goqueue.seams.sink import Event
from goqueue_bench.log.append import MIB, flush, read_through
from goqueue_bench.log.read import fill
from goqueue_bench.machine import peak_memory_bytes
from goqueue_bench.measure import Aim, Goal, Result, require

_CHILD_SECONDS_MAX = 600
_MEMORY_GROWTH_BYTES_MAX = 16 * MIB


class _RecoverySink:
    """Remembers how much recovery had to check."""

    def __init__(self) -> None:
        self.bytes_checked = -1

    def emit(self, event: Event) -> None:
        if isinstance(event, Recovered):
            self.bytes_checked = event.bytes_checked


def measure_opening(directory: Path, *, log_bytes: int, unchecked_bytes: Sequence[int]) -> list[Result]:
    """Write a log and measure how long it takes to open, after a clean stop and after kills."""
    end_offset = _run_child("write", directory, log_bytes)["end_offset"]
    _drop_from_cache(directory)
    seconds, checked = _time_open(directory, end_offset)
    require(checked == 0, "nothing has to be checked after a clean stop")
    details = {"log_bytes": _log_bytes(directory), "bytes_checked": checked}
    results = [
        Result("open_clean", "opening after a clean stop, cold cache", seconds, "s", Goal(Aim.AT_MOST, 1.0), details)
    ]
    for size in unchecked_bytes:
        end_offset = _run_child("write-and-die", directory, size)["end_offset"]
        seconds, checked = _time_open(directory, end_offset)
        details = {"log_bytes": _log_bytes(directory), "bytes_checked": checked}
        name = f"open_killed_{size // MIB}mb"
        what = f"opening after a kill, {size // MIB} MiB since the checkpoint"
        results.append(Result(name, what, seconds, "s", None, details))
    return results


def measure_memory(small: Path, large: Path, *, small_bytes: int) -> Result:
    """Measure how much more memory a process needs to open and read a large log than a small one."""
    _run_child("write", small, small_bytes)
    peaks = []
    for directory in (small, large):
        answer = _run_child("read", directory, 0)
        require(answer["bytes"] == _log_bytes(directory), "the whole log was read")
        peaks.append(answer["peak_memory_bytes"])
    details = {
        "small_peak_bytes": peaks[0],
        "large_peak_bytes": peaks[1],
        "small_log_bytes": _log_bytes(small),
        "large_log_bytes": _log_bytes(large),
    }
    return Result(
        "memory",
        "more memory to open and read the large log than a small one",
        (peaks[1] - peaks[0]) / MIB,
        "MiB",
        Goal(Aim.AT_MOST, _MEMORY_GROWTH_BYTES_MAX / MIB),
        details,
    )


def _time_open(directory: Path, end_offset: int) -> tuple[float, int]:
    sink = _RecoverySink()
    started = time.perf_counter()
    log = Log(RealDisk(), directory, LogSettings(), sink)
    seconds = time.perf_counter() - started
    require(log.end_offset == end_offset, "the log has all its records after it was opened")
    log.close()
    return seconds, sink.bytes_checked


def _log_bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.glob("*.log"))


def _drop_from_cache(directory: Path) -> None:
    for path in directory.iterdir():
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def _run_child(task: str, directory: Path, size_bytes: int) -> dict[str, int]:
    command = [sys.executable, "-m", "goqueue_bench.log.open", task, str(directory), str(size_bytes)]
    child = subprocess.run(command, stdout=subprocess.PIPE, timeout=_CHILD_SECONDS_MAX, check=False)
    expected = -signal.SIGKILL if task == "write-and-die" else 0
    require(child.returncode == expected, f"a process that was to {task} ended with {child.returncode}")
    answer: dict[str, int] = json.loads(child.stdout)
    return answer


def _write(directory: Path, size_bytes: int, *, is_killed: bool) -> None:
    log = Log(RealDisk(), directory, LogSettings())
    fill(log, size_bytes)
    flush(log)
    _answer(end_offset=log.end_offset)
    if is_killed:
        os.kill(os.getpid(), signal.SIGKILL)
    log.close()


def _read(directory: Path) -> None:
    log = Log(RealDisk(), directory, LogSettings())
    size, _ = read_through(log)
    log.close()
    _answer(bytes=size, peak_memory_bytes=peak_memory_bytes())


def _answer(**numbers: int) -> None:
    sys.stdout.write(json.dumps(numbers))
    sys.stdout.flush()


if __name__ == "__main__":
    _, asked, where, how_much = sys.argv
    if asked == "read":
        _read(Path(where))
    else:
        _write(Path(where), int(how_much), is_killed=asked == "write-and-die")

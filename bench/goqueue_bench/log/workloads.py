"""The benchmark of the log: which measurements, at which sizes, in a directory of its own that does not outlive it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from goqueue_bench.log.append import MIB, measure_group_commit, measure_large_appends, measure_small_appends
from goqueue_bench.log.open import measure_memory, measure_opening
from goqueue_bench.log.read import measure_reads
from goqueue_bench.machine import file_system_of
from goqueue_bench.measure import Result

_MEMORY_FILE_SYSTEMS = {"tmpfs", "ramfs"}
_DISK_TEMP = Path("/var/tmp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much work each measurement does."""

    rounds: int
    append_bytes: int
    small_batches: int
    commit_seconds: float
    read_bytes: int
    log_bytes: int
    unchecked_bytes: tuple[int, ...]


FULL = Scale(
    rounds=7,
    append_bytes=96 * MIB,
    small_batches=100_000,
    commit_seconds=0.4,
    read_bytes=256 * MIB,
    log_bytes=2048 * MIB,
    unchecked_bytes=(0, 16 * MIB, 64 * MIB),
)
QUICK = Scale(
    rounds=3,
    append_bytes=16 * MIB,
    small_batches=10_000,
    commit_seconds=0.15,
    read_bytes=64 * MIB,
    log_bytes=128 * MIB,
    unchecked_bytes=(0, 4 * MIB, 16 * MIB),
)


def run(workspace: Path, scale: Scale, announce: Callable[[str], None]) -> Iterator[Result]:
    """Yield each result as it is measured; `announce` gets the name of the next one."""
    announce("appending 1 MiB batches")
    yield from measure_large_appends(workspace, rounds=scale.rounds, round_bytes=scale.append_bytes)
    announce("appending 1 KB batches")
    yield measure_small_appends(workspace, count=scale.small_batches)
    announce("sharing fsyncs")
    yield from measure_group_commit(workspace, rounds=scale.rounds, round_seconds=scale.commit_seconds)
    announce("reading")
    yield measure_reads(workspace, rounds=scale.rounds, log_bytes=scale.read_bytes)
    announce(f"opening a log of {scale.log_bytes // MIB} MiB")
    large = workspace / "large"
    yield from measure_opening(large, log_bytes=scale.log_bytes, unchecked_bytes=scale.unchecked_bytes)
    announce("measuring memory")
    yield measure_memory(workspace / "small", large, small_bytes=scale.log_bytes // 8)


@contextmanager
def private_workspace(parent: Path | None) -> Iterator[Path]:
    """Make a directory to work in, by default on a real disk, and remove it at the end of the block."""
    with tempfile.TemporaryDirectory(prefix="goqueue-bench-", dir=parent or _temp_directory()) as path:
        yield Path(path)


def _temp_directory() -> Path:
    system = Path(tempfile.gettempdir())
    is_in_memory = file_system_of(system) in _MEMORY_FILE_SYSTEMS
    return _DISK_TEMP if is_in_memory and _DISK_TEMP.is_dir() else system

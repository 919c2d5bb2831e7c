"""Appending: large batches against raw writes, small batches per second, and shared against single fsyncs.

Large appends are compared twice. To the page cache, without a sync: the harder comparison, since no slowness of the
disk hides ours. And until they are durable, which is what a user waits for. Log and raw file are treated alike, and
between rounds everything is synced and removed.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from goqueue.log.batches import check_batches
from goqueue.log.log import Log
from goqueue.model.log_settings import LogSettings
from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.layout import headers
from goqueue.runtime.flusher import Flusher
from goqueue.seams.disk import RealDisk
from goqueue_bench.measure import Aim, Goal, Result, medians_of_rounds, require

MIB = 1024 * 1024
BATCH_BYTES_MAX = 16 * MIB
WAITERS = 64
_RECORD_OVERHEAD_BYTES = 12
_RATIO_GOAL = Goal(Aim.AT_LEAST, 0.8)


def make_batch(size_bytes: int, *, records: int = 1) -> bytearray:
    """Return a batch of about a size, of records that do not compress."""
    value_bytes = max(1, (size_bytes - 61) // records - _RECORD_OVERHEAD_BYTES)
    return build_batch([NewRecord(1_700_000_000_000, None, os.urandom(value_bytes)) for _ in range(records)])


def flush(log: Log) -> None:
    """Make everything in the log durable."""
    work = log.flush()
    if work is not None:
        work.run()
        log.flushed(work)


def read_through(log: Log, *, bytes_max: int = MIB) -> tuple[int, int]:
    """Read the whole log; return how many bytes and records it holds."""
    offset, size, count = log.start_offset, 0, 0
    while data := log.read(offset, bytes_max=bytes_max):
        for _, header in headers(data):
            count += header.record_count
            offset = header.next_offset
        size += len(data)
    return size, count


def measure_large_appends(workspace: Path, *, rounds: int, round_bytes: int) -> list[Result]:
    """Compare appends of 1 MiB batches with raw writes of the same bytes."""
    batch = make_batch(MIB, records=1024)
    count = round_bytes // len(batch)
    checked = check_batches(batch, bytes_max=BATCH_BYTES_MAX)

    def append_checking(log: Log) -> None:
        log.append(check_batches(batch, bytes_max=BATCH_BYTES_MAX), leader_epoch=0)

    def append_checked(log: Log) -> None:
        log.append(checked, leader_epoch=0)

    seconds = medians_of_rounds(
        rounds,
        {
            "raw": lambda: _time_raw_writes(workspace / "raw", batch, count),
            "checking": lambda: _time_appends(workspace / "log", append_checking, count, len(batch)),
            "checked": lambda: _time_appends(workspace / "log", append_checked, count, len(batch)),
        },
    )
    seconds |= medians_of_rounds(
        (rounds + 1) // 2,
        {
            "durable raw": lambda: _time_raw_writes(workspace / "raw", batch, count, is_durable=True),
            "durable": lambda: _time_appends(workspace / "log", append_checking, count, len(batch), is_durable=True),
        },
    )
    rate = {name: count * len(batch) / each for name, each in seconds.items()}
    return [
        _against_raw("append_large", "1 MiB appends against raw writes", rate["checking"], rate["raw"]),
        _against_raw("append_large_unchecked", "the same without checking CRCs", rate["checked"], rate["raw"]),
        _against_raw(
            "append_large_durable",
            "1 MiB appends against raw writes, both synced",
            rate["durable"],
            rate["durable raw"],
            goal=None,
        ),
    ]


def _against_raw(name: str, what: str, rate: float, raw_rate: float, goal: Goal | None = _RATIO_GOAL) -> Result:
    details = {"bytes_per_second": rate, "raw_bytes_per_second": raw_rate}
    return Result(name, what, rate / raw_rate, "x", goal, details)


def measure_small_appends(workspace: Path, *, count: int) -> Result:
    """Measure appends of single 1 KB batches, each checked, one call each."""
    batch = make_batch(1024)
    log = Log(RealDisk(), workspace / "log", LogSettings())
    started, cpu_started = time.perf_counter(), time.process_time()
    for _ in range(count):
        log.append(check_batches(batch, bytes_max=BATCH_BYTES_MAX), leader_epoch=0)
    cpu_seconds, seconds = time.process_time() - cpu_started, time.perf_counter() - started
    require(read_through(log) == (count * len(batch), count), "all small batches can be read back")
    log.close()
    shutil.rmtree(workspace / "log")
    details = {"cpu_us_per_batch": cpu_seconds / count * 1e6, "batch_bytes": len(batch), "batches": count}
    return Result("append_small", "1 KB batches, one append each", count / seconds, "batches/s", None, details)


def measure_group_commit(workspace: Path, *, rounds: int, round_seconds: float) -> list[Result]:
    """Compare 64 appends that share an fsync, and 64 tasks that share them through the flusher, with one fsync each."""
    per_second = medians_of_rounds(
        rounds,
        {
            "shared": lambda: _time_commits(workspace / "log", _commit_in_groups, round_seconds),
            "tasks": lambda: _time_commits(workspace / "log", _commit_as_tasks, round_seconds),
            "single": lambda: _time_commits(workspace / "log", _commit_singly, round_seconds),
        },
    )
    return [
        _against_single("group_commit", f"{WAITERS} appends sharing an fsync against one each", per_second, "shared"),
        _against_single(
            "group_commit_tasks", f"{WAITERS} asyncio tasks sharing fsyncs against one each", per_second, "tasks"
        ),
    ]


def _against_single(name: str, what: str, per_second: dict[str, float], kind: str) -> Result:
    details = {
        "shared_appends_per_second": per_second[kind],
        "single_appends_per_second": per_second["single"],
        "waiters": WAITERS,
    }
    ratio = per_second[kind] / per_second["single"]
    return Result(name, what, ratio, "x", Goal(Aim.AT_LEAST, 10), details)


def _commit_in_groups(log: Log, end: float) -> None:
    """Append for many waiters and sync once for all, until a moment."""
    batches = [make_batch(1024) for _ in range(WAITERS)]
    while time.perf_counter() < end:
        for batch in batches:
            log.append(check_batches(batch, bytes_max=BATCH_BYTES_MAX), leader_epoch=0)
        flush(log)


def _commit_singly(log: Log, end: float) -> None:
    """Append and sync, one record after the other, until a moment."""
    batch = make_batch(1024)
    while time.perf_counter() < end:
        log.append(check_batches(batch, bytes_max=BATCH_BYTES_MAX), leader_epoch=0)
        flush(log)


def _commit_as_tasks(log: Log, end: float) -> None:
    """Let many writers append, each waiting for the flusher before its next record, until a moment."""

    async def write(flusher: Flusher) -> None:
        batch = make_batch(1024)
        while time.perf_counter() < end:
            (header,) = log.append(check_batches(batch, bytes_max=BATCH_BYTES_MAX), leader_epoch=0)
            flusher.note_append()
            await flusher.durable(header.next_offset)

    async def main() -> None:
        flusher = Flusher(log)
        await asyncio.gather(*(write(flusher) for _ in range(WAITERS)))

    asyncio.run(main())


def _time_commits(directory: Path, commit: Callable[[Log, float], None], seconds: float) -> float:
    log = Log(RealDisk(), directory, LogSettings())
    started = time.perf_counter()
    commit(log, started + seconds)
    elapsed = time.perf_counter() - started
    count = log.end_offset
    require(log.durable_end == count, "the appends are durable")
    require(read_through(log)[1] == count, "all committed records can be read back")
    log.close()
    shutil.rmtree(directory)
    return count / elapsed


def _time_appends(
    directory: Path, append: Callable[[Log], None], count: int, batch_bytes: int, *, is_durable: bool = False
) -> float:
    log = Log(RealDisk(), directory, LogSettings())
    started = time.perf_counter()
    for _ in range(count):
        append(log)
    if is_durable:
        flush(log)
    seconds = time.perf_counter() - started
    require(read_through(log) == (count * batch_bytes, log.end_offset), "all large batches can be read back")
    log.close()
    shutil.rmtree(directory)
    return seconds


def _time_raw_writes(path: Path, data: bytearray, count: int, *, is_durable: bool = False) -> float:
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o640)
    try:
        started = time.perf_counter()
        for number in range(count):
            written = os.pwrite(fd, data, number * len(data))
            require(written == len(data), "a raw write is whole")
        if is_durable:
            os.fdatasync(fd)
        seconds = time.perf_counter() - started
        os.fdatasync(fd)
    finally:
        os.close(fd)
        path.unlink()
    return seconds

"""Sequential reading through the log against raw reads of the same files, both from the page cache.

From the cache, because there our share of the time is largest. The offsets to read at are found in a first pass: a
client knows them from what it got, and looking for them is not the log's work.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from goqueue.log.batches import check_batches
from goqueue.log.log import Log
from goqueue.model.log_settings import LogSettings
from goqueue.records.layout import headers
from goqueue.seams.disk import RealDisk
from goqueue_bench.log.append import BATCH_BYTES_MAX, MIB, make_batch, read_through
from goqueue_bench.measure import Aim, Goal, Result, medians_of_rounds, require

_BATCH_BYTES = 16 * 1024
_BATCHES_PER_APPEND = 64


def fill(log: Log, size_bytes: int) -> int:
    """Append about so many bytes in batches of 16 KB; return how many records that were."""
    batch = make_batch(_BATCH_BYTES, records=16)
    start = log.end_offset
    group = check_batches(batch * _BATCHES_PER_APPEND, bytes_max=BATCH_BYTES_MAX)
    for _ in range(size_bytes // (len(batch) * _BATCHES_PER_APPEND)):
        log.append(group, leader_epoch=0)
    return log.end_offset - start


def measure_reads(workspace: Path, *, rounds: int, log_bytes: int) -> Result:
    """Compare 1 MiB reads through the log with raw reads of 1 MiB."""
    directory = workspace / "log"
    log = Log(RealDisk(), directory, LogSettings())
    records = fill(log, log_bytes)
    log.close()
    log = Log(RealDisk(), directory, LogSettings())
    total, found = read_through(log)
    require(found == records, "all records can be read back")
    offsets = _read_offsets(log)
    files = sorted(directory.glob("*.log"))
    seconds = medians_of_rounds(
        rounds, {"raw": lambda: _time_raw_reads(files, total), "log": lambda: _time_reads(log, offsets, total)}
    )
    log.close()
    shutil.rmtree(directory)
    rate = {name: total / each for name, each in seconds.items()}
    details = {
        "bytes_per_second": rate["log"],
        "raw_bytes_per_second": rate["raw"],
        "log_bytes": total,
        "batch_bytes": _BATCH_BYTES,
        "rounds": rounds,
    }
    return Result(
        "read", "1 MiB reads against raw reads", rate["log"] / rate["raw"], "x", Goal(Aim.AT_LEAST, 0.8), details
    )


def _read_offsets(log: Log) -> list[int]:
    offsets = []
    offset = log.start_offset
    while data := log.read(offset, bytes_max=MIB):
        offsets.append(offset)
        *_, (_, last) = headers(data)
        offset = last.next_offset
    return offsets


def _time_reads(log: Log, offsets: list[int], total_bytes: int) -> float:
    size = 0
    started = time.perf_counter()
    for offset in offsets:
        size += len(log.read(offset, bytes_max=MIB))
    seconds = time.perf_counter() - started
    require(size == total_bytes, "all bytes were read")
    return seconds


def _time_raw_reads(files: list[Path], total_bytes: int) -> float:
    size = 0
    fds = [os.open(path, os.O_RDONLY) for path in files]
    try:
        started = time.perf_counter()
        for fd in fds:
            position = 0
            while data := os.pread(fd, MIB, position):
                position += len(data)
            size += position
        seconds = time.perf_counter() - started
    finally:
        for fd in fds:
            os.close(fd)
    require(size == total_bytes, "all bytes were read")
    return seconds

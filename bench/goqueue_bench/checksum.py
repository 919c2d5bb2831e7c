"""Cost of verifying the checksum of each opened batch: the same work with and without it.

Measures CPU time in one process, without network and disk, on batches as producers send them, so the result is an upper
bound for clients. The two are measured in turn, and the fastest round of each counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from time import thread_time
from typing import NamedTuple

from goqueue.records import reader
from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.compression import Codec
from goqueue.records.layout import headers, read_header, validate
from goqueue_bench.measure import Aim, BenchmarkFailed, Goal, Result

_BATCHES = 20
_COST_MAX_PERCENT = 5.0


class Size(NamedTuple):
    """How much is measured: messages of a batch, and how often."""

    messages: int
    rounds: int


FULL = Size(1_000, 30)
QUICK = Size(100, 3)


def run(size: Size, announce: Callable[[str], None]) -> Iterable[Result]:
    """Measure each way of opening batches, with the checksum verified and without."""
    for codec in (Codec.NONE, Codec.LZ4, Codec.ZSTD):
        records = [NewRecord(1_000, b"key-%d" % number, b"value %d " % number * 10) for number in range(size.messages)]
        data = bytes(build_batch(records, codec=codec)) * _BATCHES
        works: dict[str, Callable[[bytes], int]] = {
            "records": _records,
            "payload": _payloads,
        }
        for name, work in works.items():
            announce(f"{name}, {codec.name.lower()}")
            yield _compared(f"{name}_{codec.name.lower()}", work, data, size)


_WHAT = {
    "records": "all records (HTTP read, queue receive)",
    "payload": "decompressed only (Spark's decoder)",
}


def _compared(name: str, work: Callable[[bytes], int], data: bytes, size: Size) -> Result:
    with _unverified():
        expected = work(data)
    if work(data) != expected or not expected:
        raise BenchmarkFailed(f"{name}: not all records were read")
    with_checksum: list[float] = []
    without: list[float] = []
    for _ in range(size.rounds):
        with_checksum.append(_seconds(work, data))
        with _unverified():
            without.append(_seconds(work, data))
    verified_us, unverified_us = (min(each) / _BATCHES * 1e6 for each in (with_checksum, without))
    kind, _, codec = name.partition("_")
    return Result(
        name,
        f"cost of the checksum: {_WHAT[kind]}, {codec}",
        (verified_us / unverified_us - 1) * 100,
        "%",
        Goal(Aim.AT_MOST, _COST_MAX_PERCENT) if kind == "records" else None,
        {
            "batch_bytes": len(data) // _BATCHES,
            "messages": size.messages,
            "rounds": size.rounds,
            "unverified_us_per_batch": unverified_us,
            "verified_us_per_batch": verified_us,
        },
    )


def _seconds(work: Callable[[bytes], int], data: bytes) -> float:
    began = thread_time()
    work(data)
    return thread_time() - began


@contextmanager
def _unverified() -> Iterator[None]:
    """Have batches opened as if their checksums were known to be good."""
    reader.validate = read_header  # type: ignore[attr-defined]
    try:
        yield
    finally:
        reader.validate = validate  # type: ignore[attr-defined]


def _records(data: bytes) -> int:
    return sum(len(reader.verified(data, position).open().records()) for position, _ in headers(data))


def _payloads(data: bytes) -> int:
    return sum(len(reader.verified(data, position).payload()) for position, _ in headers(data))

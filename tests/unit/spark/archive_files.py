"""What the tests of archives share that need no Spark: rows, files on a disk, and descriptions of files."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from goqueue.seams.entropy import SystemEntropy
from goqueue.spark.archive.manifest import ArchivedFile
from goqueue.spark.archive.store import ArchiveStore
from goqueue.spark.archive.write import TARGET_BYTES, WriteTarget, write_rows
from goqueue.spark.source.columns import SCHEMA


def rows(stamps_ms: Iterable[tuple[int, int | None]], partition: int = 0, topic: str = "orders") -> pa.RecordBatch:
    """Return rows by offset and timestamp."""
    made = [
        {
            "key": b"k" if offset % 2 else None,
            "value": f"value {offset}".encode(),
            "headers": [{"key": "n", "value": None}, {"key": "m", "value": b"1"}] if offset % 3 == 0 else None,
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "timestamp": None if stamp_ms is None else stamp_ms * 1000,
            "timestampType": 0,
            "priority": 2,
            "trace_id": None,
            "schema_id": 7 if offset % 5 == 0 else None,
        }
        for offset, stamp_ms in stamps_ms
    ]
    return pa.RecordBatch.from_pylist(made, schema=SCHEMA)


def stored(
    store: ArchiveStore, batches: Iterable[pa.RecordBatch], number: int = 0, target_bytes: int = TARGET_BYTES
) -> list[ArchivedFile]:
    """Write rows of partition 0 into files."""
    return write_rows(store, WriteTarget("orders", 0, number, target_bytes), batches, SystemEntropy())


def described(
    first: int, last: int, *, partition: int = 0, date: str | None = "2026-01-01", size: int = 100, path: str = ""
) -> ArchivedFile:
    """Return the description of a file that is not there."""
    name = path or f"topic=orders/date={date}/{partition}-{0:020}-{first:020}-aa.parquet"
    return ArchivedFile(
        path=name,
        partition=partition,
        date=date,
        first=first,
        last=last,
        rows=last - first + 1,
        bytes=size,
        sha256="",
        footer_bytes=0,
        footer_sha256="",
    )

"""Writes rows to files of an archive: one open file per date, limited in size.

Rows arrive in offset order from one partition. Row groups are small, so that a read of a few offsets reads little else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from types import TracebackType
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from goqueue.seams.entropy import Entropy
from goqueue.spark.archive.blocks import BLOCKS_KEY
from goqueue.spark.archive.manifest import NO_DATE, ArchivedFile
from goqueue.spark.archive.store import ArchiveStore, HashingFile
from goqueue.spark.source.columns import SCHEMA

TARGET_BYTES: Final = 128 * 1024 * 1024

_GROUP_ROWS_MAX: Final = 65_536
_GROUP_BYTES_MAX: Final = 16 * 1024 * 1024
_WAITING_GROUPS_MAX: Final = 4
_OPEN_FILES_MAX: Final = 16
_BATCH_BYTES: Final = 2048
"""Approximate memory of a batch besides its values: some batches have only one row."""
_DAY_US: Final = 86_400_000_000
_EPOCH: Final = date(1970, 1, 1)
_FIRST_DAY: Final = (date.min - _EPOCH).days
_LAST_DAY: Final = (date.max - _EPOCH).days
_NO_DAY: Final = _FIRST_DAY - 1


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """The files of one partition, written by one job."""

    topic: str
    partition: int
    number: int
    """The number of the next commit: see `archive/manifest`."""
    target_bytes: int = TARGET_BYTES


def file_path(target: WriteTarget, day: str | None, first: int, token: str) -> str:
    """Return the path of a file in the archive's directory."""
    name = f"{target.partition}-{target.number:020}-{first:020}-{token}.parquet"
    return f"topic={target.topic}/date={day or NO_DATE}/{name}"


def number_of(path: str) -> int | None:
    """Return the commit number in a file's name; None if it is not a file of an archive."""
    parts = path.rpartition("/")[2].removesuffix(".parquet").split("-")
    is_ours = path.endswith(".parquet") and len(parts) == 4 and all(part.isdecimal() for part in parts[:3])
    return int(parts[1]) if is_ours else None


def write_rows(
    store: ArchiveStore, target: WriteTarget, batches: Iterable[pa.RecordBatch], entropy: Entropy
) -> list[ArchivedFile]:
    """Write all rows to durable files and return these; they belong to the archive once a commit names them."""
    with _Writing(store, target, entropy) as writing:
        for batch in batches:
            for day, rows in _by_day(batch):
                writing.add(day, rows)
        return writing.finish()


def _by_day(batch: pa.RecordBatch) -> Iterator[tuple[str | None, pa.RecordBatch]]:
    """Yield the rows of each date, in order of first appearance."""
    stamps = batch.column("timestamp").cast(pa.int64())
    days = np.floor_divide(stamps.fill_null(0).to_numpy(zero_copy_only=False), _DAY_US)
    has_date = stamps.is_valid().to_numpy(zero_copy_only=False) & (days >= _FIRST_DAY) & (days <= _LAST_DAY)
    days = np.where(has_date, days, _NO_DAY)
    if len(days) and (days == days[0]).all():
        yield _day_text(int(days[0])), batch
        return
    for day in dict.fromkeys(days.tolist()):
        yield _day_text(day), batch.filter(pa.array(days == day))


def _day_text(day: int) -> str | None:
    return None if day == _NO_DAY else (_EPOCH + timedelta(days=day)).isoformat()


class _Writing:
    """The files that are being written.

    Rows are buffered in memory, so that interleaved dates have one file each. If the buffers grow too large, the
    largest one is written; if too many files are open, the least recently used one is closed.
    """

    def __init__(self, store: ArchiveStore, target: WriteTarget, entropy: Entropy) -> None:
        self._store = store
        self._target = target
        self._entropy = entropy
        self._open: dict[str | None, _DayFile] = {}
        self._done: list[ArchivedFile] = []
        self._group_bytes = min(_GROUP_BYTES_MAX, target.target_bytes)
        self._waiting_bytes = 0

    def add(self, day: str | None, rows: pa.RecordBatch) -> None:
        opened = self._open.pop(day, None) or self._new(day, rows)
        # # The dictionary is in order of last use.
        self._open[day] = opened
        before = opened.waiting_bytes
        opened.add(rows)
        self._waiting_bytes += opened.waiting_bytes - before
        if opened.bytes >= self._target.target_bytes:
            self._end(day)
        while self._waiting_bytes > _WAITING_GROUPS_MAX * self._group_bytes:
            most = max(self._open.values(), key=lambda each: each.waiting_bytes)
            self._waiting_bytes -= most.waiting_bytes
            most.write_group()
        begun = [each for each, file in self._open.items() if file.is_begun]
        if len(begun) > _OPEN_FILES_MAX:
            self._end(begun[0])

    def finish(self) -> list[ArchivedFile]:
        for day in list(self._open):
            self._end(day)
        return self._done

    def _new(self, day: str | None, rows: pa.RecordBatch) -> _DayFile:
        first = rows.column("offset")[0].as_py()
        path = file_path(self._target, day, first, self._entropy.token(16).hex())
        return _DayFile(self._store, path, day, self._group_bytes)

    def _end(self, day: str | None) -> None:
        opened = self._open.pop(day)
        self._waiting_bytes -= opened.waiting_bytes
        ended = opened.end(self._target.partition)
        self._store.sync(ended.path)
        self._done.append(ended)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # # No commit names the files of a failed task; a later run deletes them.
        for opened in self._open.values():
            opened.abandon()


class _DayFile:
    """A file that is being written; rows are buffered until they fill a row group, the first opens the file."""

    def __init__(self, store: ArchiveStore, path: str, day: str | None, group_bytes: int) -> None:
        self._store = store
        self._path = path
        self._day = day
        self._group_bytes = group_bytes
        self._file: tuple[HashingFile, parquet.ParquetWriter] | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self.waiting_bytes = 0
        self._rows = 0
        self._first: int | None = None
        self._last = 0
        self._stamps: list[int] = []

    @property
    def bytes(self) -> int:
        """The number of bytes written."""
        return self._file[0].tell() if self._file else 0

    @property
    def is_begun(self) -> bool:
        """Whether the file was opened."""
        return self._file is not None

    def add(self, rows: pa.RecordBatch) -> None:
        for start in range(0, rows.num_rows, _GROUP_ROWS_MAX):
            self._add(rows.slice(start, _GROUP_ROWS_MAX))

    def _add(self, rows: pa.RecordBatch) -> None:
        offsets = rows.column("offset")
        self._first = offsets[0].as_py() if self._first is None else self._first
        self._last = offsets[-1].as_py()
        self._rows += rows.num_rows
        found = pc.min_max(rows.column("timestamp").cast(pa.int64())).as_py()
        if found["min"] is not None:
            seen = [*self._stamps, found["min"] // 1000, found["max"] // 1000]
            self._stamps = [min(seen), max(seen)]
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        self.waiting_bytes += rows.nbytes + _BATCH_BYTES
        if self._waiting_rows >= _GROUP_ROWS_MAX or self.waiting_bytes >= self._group_bytes:
            self.write_group()

    def end(self, partition: int) -> ArchivedFile:
        self.write_group()
        assert self._file is not None
        assert self._first is not None
        opened, writer = self._file
        # # Only the footer is left to write.
        writer.add_key_value_metadata({BLOCKS_KEY: opened.blocks.text()})
        opened.begin_tail()
        writer.close()
        opened.close()
        return ArchivedFile(
            path=self._path,
            partition=partition,
            date=self._day,
            first=self._first,
            last=self._last,
            rows=self._rows,
            bytes=opened.tell(),
            sha256=opened.sha256,
            footer_bytes=opened.tail_bytes,
            footer_sha256=opened.tail_sha256,
            first_ms=self._stamps[0] if self._stamps else None,
            last_ms=self._stamps[1] if self._stamps else None,
        )

    def abandon(self) -> None:
        if self._file:
            opened, writer = self._file
            writer.close()
            opened.close()

    def write_group(self) -> None:
        """Write the buffered rows as a row group."""
        self._file = self._file or self._begin()
        if self._waiting:
            table = pa.Table.from_batches(self._waiting, SCHEMA)
            self._file[1].write_table(table, row_group_size=_GROUP_ROWS_MAX * 2)
        self._waiting, self._waiting_rows, self.waiting_bytes = [], 0, 0

    def _begin(self) -> tuple[HashingFile, parquet.ParquetWriter]:
        opened = self._store.write_to(self._path)
        # # `archive/blocks` has our own checksums; those of pages are for other readers.
        writer = parquet.ParquetWriter(
            opened, SCHEMA, compression="zstd", write_statistics=True, write_page_checksum=True
        )
        return opened, writer

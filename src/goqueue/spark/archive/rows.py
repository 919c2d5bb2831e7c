"""Reads rows of an archive by offsets, and finds the offset of a time.

The rows are those that a read of the log gave when they were archived: the same columns of the same types. All bytes
are verified by checksums (see `archive/blocks`), so damage never becomes a row. Only the requested columns and the row
groups that can hold requested rows are read. If a merge deletes a file during the read, the commits are loaded again,
and the read continues at its offset in the new file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from goqueue.spark.archive.blocks import BLOCKS_KEY, CheckedFile
from goqueue.spark.archive.commits import load
from goqueue.spark.archive.manifest import ArchiveDamaged, ArchivedFile
from goqueue.spark.archive.spans import OffsetSpan
from goqueue.spark.archive.store import ArchiveStore, ArchiveUnreachable, sha256_of
from goqueue.spark.source.columns import schema_of
from goqueue.spark.source.options import ARCHIVE

_BATCH_ROWS = 16_384
_BATCH_BYTES = 4 * 1024 * 1024
_WHOLE_HINT = "restore it from a copy; `goqueue job archive --verify` finds all that is wrong"
_US_PER_MS = 1000
_MAGIC = b"PAR1"

Files = tuple[ArchivedFile, ...]


class ArchivedPartition:
    """One partition of an archived topic; loads its files again when one of them was deleted."""

    def __init__(self, store: ArchiveStore, topic: str, partition: int, files: Files | None = None) -> None:
        """Open a partition; `files` if they are known already."""
        self._store = store
        self._topic = topic
        self._partition = partition
        self._files = files if files is not None else self._named()

    def read(self, span: OffsetSpan, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a span; those of one date are in order."""
        dates = dict.fromkeys(file.date for file in self._files if file.overlaps(span))
        for date in dates:
            yield from self._read_date(date, span, columns)

    def first_at(self, time_ms: int, end: int) -> int | None:
        """Return the first offset before `end` with a record of that time or later; None if there is none."""
        while True:
            try:
                return self._first_at(time_ms, end)
            except FileNotFoundError as error:
                self._look_again(error)

    def _read_date(self, date: str | None, span: OffsetSpan, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        # # Files of one date are in order, and files that replace them have the same date, so an offset is enough.
        position = span.start
        while file := self._file_at(date, OffsetSpan(position, span.end)):
            try:
                for batch, next_offset in _read_file(self._store, file, OffsetSpan(position, span.end), columns):
                    yield batch
                    position = next_offset
                position = file.last + 1
            except FileNotFoundError as error:
                self._look_again(error, file)

    def _file_at(self, date: str | None, span: OffsetSpan) -> ArchivedFile | None:
        return next((file for file in self._files if file.date == date and file.overlaps(span)), None)

    def _first_at(self, time_ms: int, end: int) -> int | None:
        best: int | None = None
        for file in self._files:
            if file.first >= (end if best is None else best):
                break
            if file.last_ms is None or file.last_ms < time_ms:
                continue
            found = _first_in_file(self._store, file, time_ms)
            if found is not None and found < (end if best is None else best):
                best = found
        return best

    def _look_again(self, error: FileNotFoundError, file: ArchivedFile | None = None) -> None:
        before = self._files
        self._files = self._named()
        if self._files == before or (file is not None and file in self._files):
            missing = file.path if file is not None else str(error)
            raise ArchiveDamaged(
                f"the archive at {self._store.path} names a file that is not there: {missing}",
                hint=_WHOLE_HINT,
            ) from error

    def _named(self) -> Files:
        found = load(self._store).topics.get(self._topic)
        if found is None:
            # # The archive was there when the read was planned, so this is a machine without access to it.
            raise ArchiveUnreachable(
                f"there is no archive of topic {self._topic!r} at {self._store.path} on this machine",
                hint=f"every executor must reach it; set the option {ARCHIVE}=never to read only the log",
            )
        return tuple(file for file in found.files if file.partition == self._partition)


def _read_file(
    store: ArchiveStore, file: ArchivedFile, span: OffsetSpan, columns: Sequence[str]
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield the rows of a span, and with each batch the offset after it."""
    wanted = schema_of(columns)
    with _opened(store, file) as stored:
        groups = [
            number
            for number in range(stored.metadata.num_row_groups)
            if _may_hold(stored.metadata.row_group(number), "offset", span.start, span.end - 1)
        ]
        named = list(dict.fromkeys((*columns, "offset")))
        for batch in batches_of(stored, groups, named):
            offsets = batch.column("offset")
            is_in = pc.and_(pc.greater_equal(offsets, span.start), pc.less(offsets, span.end))
            rows = batch.filter(is_in)
            if rows.num_rows:
                yield rows.select(columns).cast(wanted), rows.column("offset")[-1].as_py() + 1


def _first_in_file(store: ArchiveStore, file: ArchivedFile, time_ms: int) -> int | None:
    time_us = time_ms * _US_PER_MS
    with _opened(store, file) as stored:
        for number in range(stored.metadata.num_row_groups):
            rows = stored.read_row_group(number, columns=["offset", "timestamp"])
            young = rows.filter(pc.greater_equal(rows["timestamp"].cast(pa.int64()), time_us))
            if young.num_rows:
                return int(young["offset"][0].as_py())
    return None


def batches_of(stored: parquet.ParquetFile, groups: Iterable[int], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of some row groups, one group in memory at a time; batches of large rows are small."""
    for number in groups:
        group = stored.metadata.row_group(number)
        fitting = group.num_rows * _BATCH_BYTES // max(group.total_byte_size, 1)
        yield from stored.iter_batches(
            batch_size=max(1, min(_BATCH_ROWS, fitting)), row_groups=[number], columns=columns, use_threads=False
        )


@contextmanager
def _opened(store: ArchiveStore, file: ArchivedFile) -> Iterator[parquet.ParquetFile]:
    """Open a file; damage raises ArchiveDamaged, here and while it is read."""
    try:
        with store.open(file.path) as opened:
            metadata = parquet.read_metadata(pa.BufferReader(_MAGIC + _footer(opened, file)))
            checksums = (metadata.metadata or {}).get(BLOCKS_KEY.encode(), b"").decode()
            checked = CheckedFile(opened, file.bytes - file.footer_bytes, checksums)
            with parquet.ParquetFile(pa.PythonFile(checked, mode="r"), metadata=metadata) as stored:
                yield stored
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise ArchiveDamaged(f"{file.path} cannot be read: {error}", hint=_WHOLE_HINT) from error


def _footer(opened: pa.NativeFile, file: ArchivedFile) -> bytes:
    size = opened.size()
    raw = opened.read_at(file.footer_bytes, file.bytes - file.footer_bytes) if size == file.bytes else b""
    if sha256_of(raw) != file.footer_sha256:
        raise ArchiveDamaged(
            f"{file.path} cannot be read: it is damaged; it has {size} of {file.bytes} bytes",
            hint=_WHOLE_HINT,
        )
    return bytes(raw)


def _may_hold(group: parquet.RowGroupMetaData, column: str, first: int, last: int) -> bool:
    """Return whether a row group may have a value from `first` to `last`, by its statistics."""
    for number in range(group.num_columns):
        found = group.column(number)
        if found.path_in_schema == column and found.statistics is not None and found.statistics.has_min_max:
            return bool(found.statistics.min <= last and first <= found.statistics.max)
    return True

"""Rows of an archive are those that were written: by offset, by time, and also while files are replaced."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.seams.clock import SystemClock
from goqueue.spark.archive.commits import ArchiveChange, load, write
from goqueue.spark.archive.lookup import cut_at_files
from goqueue.spark.archive.manifest import ArchiveDamaged
from goqueue.spark.archive.rows import ArchivedPartition
from goqueue.spark.archive.spans import OffsetSpan
from goqueue.spark.archive.store import ArchiveStore, ArchiveUnreachable
from goqueue.spark.archive.write import number_of
from goqueue.spark.jobs.archive.verify import check_cluster, clusters_of
from goqueue.spark.source.columns import SCHEMA, schema_of
from tests.unit.spark.archive_files import described, rows, stored

DAY_MS = 86_400_000
ID = UUID(int=1)
CLOCK = SystemClock()

# Offsets with holes, and days that come as they like, or not at all.
stamps = st.lists(
    st.tuples(st.integers(1, 3), st.none() | st.integers(-3, 12).map(lambda day: day * DAY_MS // 2)),
    min_size=1,
    max_size=16,
)


def numbered(steps: list[tuple[int, int | None]]) -> list[tuple[int, int | None]]:
    found, offset = [], 0
    for step, stamp in steps:
        offset += step
        found.append((offset, stamp))
    return found


@settings(max_examples=15, deadline=None)
@given(stamps, st.integers(0, 30), st.integers(0, 40), st.integers(1, 9), st.integers(-DAY_MS, 6 * DAY_MS))
def test_what_was_written_is_read_by_offset_and_by_time(
    steps: list[tuple[int, int | None]], start: int, size: int, batch_rows: int, time_ms: int
) -> None:
    made, span = numbered(steps), OffsetSpan(start, start + size)
    batches = [rows(made[first : first + batch_rows]) for first in range(0, len(made), batch_rows)]
    with TemporaryDirectory() as directory:
        store = ArchiveStore(directory)
        # Files end after each batch, so that there are some of each date.
        files = tuple(sorted(stored(store, batches, target_bytes=1), key=lambda file: file.first))
        partition = ArchivedPartition(store, "orders", 0, files)
        found = list(partition.read(span, SCHEMA.names))
        some = list(partition.read(span, ["value", "offset"]))
        first = partition.first_at(time_ms, span.end)
        findings = [line for cluster in clusters_of(files) for line in check_cluster(store, "orders", cluster)]

    expected = [row for row in rows(made).to_pylist() if span.start <= row["offset"] < span.end]
    assert all(batch.schema == SCHEMA for batch in found)
    assert sorted((row for batch in found for row in batch.to_pylist()), key=lambda row: row["offset"]) == expected
    assert all(batch.schema == schema_of(["value", "offset"]) for batch in some)
    assert sum(batch.num_rows for batch in some) == len(expected)
    young = [offset for offset, stamp in made if stamp is not None and stamp >= time_ms and offset < span.end]
    assert first == min(young, default=None)
    assert findings == []


def test_files_are_by_date_in_order_and_say_what_is_in_them(tmp_path: Path) -> None:
    store = ArchiveStore(str(tmp_path))
    made = [(0, 1), (1, DAY_MS), (2, None), (3, DAY_MS - 1), (4, -1), (5, 10**15)]
    files = stored(store, [rows(made)], number=7)

    found = {file.date: (file.first, file.last, file.rows, file.first_ms, file.last_ms) for file in files}
    assert found == {
        "1970-01-01": (0, 3, 2, 1, DAY_MS - 1),
        "1970-01-02": (1, 1, 1, DAY_MS, DAY_MS),
        "1969-12-31": (4, 4, 1, -1, -1),
        # No calendar has a year 33658, so that is no date either.
        None: (2, 5, 2, 10**15, 10**15),
    }
    assert {number_of(file.path) for file in files} == {7}
    assert (tmp_path / next(file.path for file in files if file.date is None)).parent.name == (
        "date=__HIVE_DEFAULT_PARTITION__"
    )
    assert [number_of(path) for path in ("x.parquet", "a/0-1-2-aa.json", "_goqueue/x")] == [None, None, None]


class _Reading:
    """An archive of four files whose reader has seen the first of them, and whose files are merged then."""

    def __init__(self, directory: Path) -> None:
        self.store = ArchiveStore(str(directory))
        self.made = [(offset, offset % 2 * DAY_MS) for offset in range(40)]
        batches = [rows(self.made[first : first + 10]) for first in range(0, 40, 10)]
        files = stored(self.store, batches, target_bytes=1)
        change = ArchiveChange(topic="orders", topic_id=ID, covered={0: (OffsetSpan(0, 40),)}, added=files)
        self.state = write(self.store, load(self.store), change, CLOCK)
        self.files = self.state.topics["orders"].files

    def merge(self) -> None:
        merged = stored(self.store, [rows(self.made)], number=1)
        removed = [file.path for file in self.files]
        change = ArchiveChange(topic="orders", topic_id=ID, added=merged, removed=removed)
        self.state = write(self.store, self.state, change, CLOCK)
        self.delete()

    def delete(self) -> None:
        for file in self.files:
            self.store.delete(file.path)


def offsets_of(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def test_a_read_goes_on_where_it_was_when_its_files_are_merged_and_deleted(tmp_path: Path) -> None:
    archive = _Reading(tmp_path)
    partition = ArchivedPartition(archive.store, "orders", 0, archive.files)
    reading = partition.read(OffsetSpan(3, 38), ["offset"])
    first = next(reading).column("offset").to_pylist()
    archive.merge()

    assert sorted([*first, *offsets_of(reading)]) == list(range(3, 38))
    assert ArchivedPartition(archive.store, "orders", 0, archive.files).first_at(DAY_MS, 40) == 1
    assert offsets_of(ArchivedPartition(archive.store, "orders", 0).read(OffsetSpan(0, 40), ["offset"])) == [
        *range(0, 40, 2),
        *range(1, 40, 2),
    ]


def test_a_machine_that_does_not_see_the_archive_says_so_and_reads_nothing(tmp_path: Path) -> None:
    archive = _Reading(tmp_path / "here")
    elsewhere = ArchivedPartition(ArchiveStore(str(tmp_path / "there")), "orders", 0, archive.files)
    with pytest.raises(ArchiveUnreachable, match=r"on this machine .*goqueue.archive=never"):
        list(elsewhere.read(OffsetSpan(0, 10), ["offset"]))


def test_files_that_are_gone_or_broken_are_damage_and_not_the_end(tmp_path: Path) -> None:
    archive = _Reading(tmp_path)
    (tmp_path / archive.files[-1].path).write_bytes(b"no parquet")
    partition = ArchivedPartition(archive.store, "orders", 0, archive.files)
    with pytest.raises(ArchiveDamaged, match="cannot be read"):
        list(partition.read(OffsetSpan(30, 40), ["offset"]))
    archive.delete()
    with pytest.raises(ArchiveDamaged, match="names a file that is not there"):
        list(partition.read(OffsetSpan(0, 10), ["offset"]))
    with pytest.raises(ArchiveDamaged, match="names a file that is not there"):
        partition.first_at(0, 40)


def test_a_file_with_any_byte_changed_is_damaged(tmp_path: Path) -> None:
    store, made = ArchiveStore(str(tmp_path)), rows([(offset, offset) for offset in range(20)])
    (file,) = stored(store, [made])
    raw = (tmp_path / file.path).read_bytes()
    # All places by turns would take ten seconds.
    for place in range(0, len(raw), 13):
        changed = raw[:place] + bytes([raw[place] ^ 1 << place % 8]) + raw[place + 1 :]
        (tmp_path / file.path).write_bytes(changed)
        with pytest.raises(ArchiveDamaged, match=rf"^{file.path} cannot be read"):
            list(ArchivedPartition(store, "orders", 0, (file,)).read(OffsetSpan(0, 20), SCHEMA.names))
    for changed in (raw[:-1], raw + b"x", b""):
        (tmp_path / file.path).write_bytes(changed)
        with pytest.raises(ArchiveDamaged, match="cannot be read"):
            ArchivedPartition(store, "orders", 0, (file,)).first_at(0, 20)


def test_large_values_are_read_a_few_at_a_time(tmp_path: Path) -> None:
    store = ArchiveStore(str(tmp_path))
    one = rows([(0, 0)]).to_pylist()[0]
    # Each value is another one, or they would be stored once.
    made = [one | {"offset": n, "value": bytes([n]) * 3_000_000} for n in range(8)]
    (file,) = stored(store, (pa.RecordBatch.from_pylist(made[n : n + 4], schema=SCHEMA) for n in (0, 4)))
    partition = ArchivedPartition(store, "orders", 0, (file,))
    assert [batch.num_rows for batch in partition.read(OffsetSpan(1, 8), SCHEMA.names)] == [1] * 7


def test_only_what_is_read_has_to_be_whole(tmp_path: Path) -> None:
    store, noise = ArchiveStore(str(tmp_path)), random.Random(1)
    made = [row | {"value": noise.randbytes(300_000)} for row in rows([(offset, 0) for offset in range(4)]).to_pylist()]
    (file,) = stored(store, [pa.RecordBatch.from_pylist(made, schema=SCHEMA)])
    raw = bytearray((tmp_path / file.path).read_bytes())
    raw[len(raw) // 2] ^= 1
    (tmp_path / file.path).write_bytes(raw)
    partition = ArchivedPartition(store, "orders", 0, (file,))
    with pytest.raises(ArchiveDamaged, match=r"the 65536 bytes from \d+ on are not what was written"):
        list(partition.read(OffsetSpan(0, 4), ["value"]))
    assert offsets_of(partition.read(OffsetSpan(0, 4), ["offset"])) == [0, 1, 2, 3]


def test_dates_in_turn_make_one_file_each(tmp_path: Path) -> None:
    store = ArchiveStore(str(tmp_path))
    batches = [rows([(100 * n + each, each % 30 * DAY_MS) for each in range(100)]) for n in range(5)]
    files = stored(store, batches)
    assert (len(files), sum(file.rows for file in files)) == (30, 500)
    # If too much waits, or too many files are open, there are more of them; rows stay in order.
    large = (rows([(100 * n + each, each % 30 * DAY_MS) for each in range(100)], topic="x" * 1000) for n in range(20))
    many = sorted(stored(store, large, target_bytes=200_000), key=lambda file: (file.date, file.first))
    assert sum(file.rows for file in many) == 2000
    assert 30 < len(many) < 150, "a file for each batch and date would be 600"
    assert all(before.last < after.first for before, after in pairwise(many) if before.date == after.date)


@given(
    st.lists(st.tuples(st.integers(0, 90), st.integers(0, 20), st.integers(1, 50)), max_size=12), st.integers(1, 120)
)
def test_pieces_of_an_archive_are_cut_where_files_begin_and_name_all_files_of_their_rows(
    made: list[tuple[int, int, int]], piece_bytes: int
) -> None:
    files = [described(first, first + more, size=size) for first, more, size in sorted(made)]
    spans = (OffsetSpan(0, 50), OffsetSpan(60, 120))

    pieces = cut_at_files("/archive", spans, files, piece_bytes)

    assert [offset for piece in pieces for offset in range(piece.start, piece.end)] == [*range(50), *range(60, 120)]
    starts = {file.first for file in files} | {0, 60}
    assert {piece.start for piece in pieces} <= starts
    for piece in pieces:
        assert set(piece.files) == {file for file in files if file.overlaps(OffsetSpan(piece.start, piece.end))}

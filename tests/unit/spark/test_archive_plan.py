"""What an archive job decides, and what a read does with what is archived: pure, so without Spark and broker."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from uuid import UUID

import pytest

from goqueue.client.kafka import NamedOffset, TopicPartition
from goqueue.errors import InvalidSettings
from goqueue.spark.archive.lookup import ArchivedPiece
from goqueue.spark.archive.manifest import TopicArchive
from goqueue.spark.archive.spans import OffsetSpan
from goqueue.spark.jobs.archive.plan import (
    ArchiveGap,
    LogBounds,
    OtherTopic,
    next_round,
    plan_copy,
    plan_deletions,
    plan_merges,
    rest_of,
    split_removed,
)
from goqueue.spark.source.lookup import Bounds, SeenTopic, begins_at
from goqueue.spark.source.option_values import OFFSET_MAX, ArchiveUse, AtOffsets, AtTimestamp
from goqueue.spark.source.options import ReadKind, parse_options
from goqueue.spark.source.plan import Range, slices_of
from goqueue.spark.source.positions import StreamPositions, TopicPosition
from goqueue.spark.source.stream_plan import next_step, readable, within
from tests.unit.spark.archive_files import described

ID = UUID(int=1)
LOG = LogBounds(ID, {0: OffsetSpan(5, 20), 1: OffsetSpan(0, 0), 2: OffsetSpan(8, 30)})


def archived(covered: dict[int, tuple[OffsetSpan, ...]], **others: object) -> TopicArchive:
    return TopicArchive(id=ID, last_commit=4, covered=covered, **others)  # type: ignore[arg-type]


def test_a_first_run_copies_what_the_log_has_and_later_ones_what_is_new() -> None:
    assert plan_copy("t", LOG, None, allows_gaps=False) == ({0: (5, 20), 2: (8, 30)}, {}, {0: 5, 1: 0, 2: 8})
    before = archived({0: (OffsetSpan(5, 12),), 2: (OffsetSpan(8, 30),)})
    assert plan_copy("t", LOG, before, allows_gaps=False) == ({0: (12, 20)}, {}, {})


def test_what_was_removed_before_it_was_archived_is_an_error_or_a_gap() -> None:
    before = archived({0: (OffsetSpan(0, 3),), 2: (OffsetSpan(0, 8),)})
    with pytest.raises(ArchiveGap, match=r"offsets 3 to 4 of partition 0 \(--allow-gaps"):
        plan_copy("t", LOG, before, allows_gaps=False)
    assert plan_copy("t", LOG, before, allows_gaps=True) == ({0: (5, 20), 2: (8, 30)}, {0: (3, 5)}, {})
    # A gap that was noted is not found again.
    noted = archived({0: (OffsetSpan(0, 3),), 2: (OffsetSpan(0, 8),)}, gaps={0: (OffsetSpan(3, 5),)})
    assert plan_copy("t", LOG, noted, allows_gaps=False).gaps == {}


def test_gaps_are_seen_in_partitions_of_which_nothing_was_archived_yet() -> None:
    # All three were there at the first run, the second one was empty and had lost ten records before.
    before = archived({0: (OffsetSpan(5, 20),)}, begins={0: 5, 1: 10, 2: 8})
    log = LogBounds(ID, {0: OffsetSpan(5, 20), 1: OffsetSpan(10, 12), 2: OffsetSpan(9, 30), 3: OffsetSpan(4, 6)})
    with pytest.raises(ArchiveGap, match=r": offsets 8 to 8 of partition 2, offsets 0 to 3 of partition 3 \("):
        plan_copy("t", log, before, allows_gaps=False)
    planned = plan_copy("t", log, before, allows_gaps=True)
    assert planned == ({1: (10, 12), 2: (9, 30), 3: (4, 6)}, {2: (8, 9), 3: (0, 4)}, {})


def test_what_is_removed_while_a_job_copies_is_told_apart_from_what_is_left() -> None:
    spans = {0: OffsetSpan(5, 20), 1: OffsetSpan(0, 10), 2: OffsetSpan(7, 9)}
    assert split_removed(spans, {0: 5, 1: 4, 2: 30, 3: 1}) == (
        {0: OffsetSpan(5, 20), 1: OffsetSpan(4, 10)},
        {1: OffsetSpan(0, 4), 2: OffsetSpan(7, 9)},
    )
    assert split_removed(spans, {}) == (spans, {})


def test_another_history_of_the_topic_is_refused() -> None:
    with pytest.raises(OtherTopic, match="was deleted and created again"):
        plan_copy("t", LOG._replace(id=UUID(int=2)), archived({}), allows_gaps=True)
    with pytest.raises(OtherTopic, match="ends at offset 20, and is archived up to 21"):
        plan_copy("t", LOG, archived({0: (OffsetSpan(5, 21),)}), allows_gaps=True)


def test_rounds_cover_everything_once() -> None:
    left = {0: OffsetSpan(5, 20), 2: OffsetSpan(8, 30)}
    seen: dict[int, list[OffsetSpan]] = {0: [], 2: []}
    while left:
        done = next_round("t", left, 10)
        assert sum(span.size for span in done.values()) <= 10
        for number, span in done.items():
            seen[number].append(span)
        left = rest_of(left, done)
    for spans in seen.values():
        assert all(before.end == after.start for before, after in pairwise(spans))
    assert [(spans[0].start, spans[-1].end) for spans in seen.values()] == [(5, 20), (8, 30)]


def test_small_neighbours_of_one_date_are_merged_and_no_file_again_and_again() -> None:
    small = [described(10 * n, 10 * n + 9, size=10) for n in range(6)]
    large = described(25, 25, size=90)
    other = [described(10 * n, 10 * n + 9, size=10, date=None) for n in range(3)]
    assert plan_merges([*other, *small], 100, 4) == [tuple(small)]
    assert plan_merges([*small[:3], large, *small[3:]], 100, 4) == []
    # What comes out of a merge waits until there is as much beside it.
    grown = [described(0, 59, size=24), *(described(60 + n, 60 + n, size=7) for n in range(3))]
    assert plan_merges(grown, 100, 4) == []
    assert plan_merges([*grown, described(70, 70, size=7)], 100, 4) != []
    assert [len(group) for group in plan_merges(small, 40, 2)] == [4, 2]


def test_files_go_that_nobody_names_and_nobody_can_name_any_more() -> None:
    def path(number: int, first: int) -> str:
        return f"topic=t/date=x/0-{number:020}-{first:020}-aa.parquet"

    named, replaced, old, dead, alive = path(1, 0), path(2, 1), path(3, 2), path(4, 3), path(5, 4)
    state = archived({}, files=(described(0, 0, path=named),), removed={replaced: 900, old: 100})
    there = [named, replaced, old, dead, alive, "topic=t/notes.txt"]
    assert plan_deletions(there, state, now_ms=1000, keep_ms=500) == [old, dead]


def piece(start: int, end: int) -> ArchivedPiece:
    files = tuple(described(first, first + 4) for first in range(start, end, 5))
    return ArchivedPiece(start, end, "/archive", files)


BOUNDS = Bounds(30, 40, (piece(5, 10), piece(10, 15), piece(20, 30)))


def test_a_range_is_read_from_archive_and_log_and_the_rest_is_lost() -> None:
    wanted = Range("t", ID, 0, 0, 42)

    ranges, losses = within(wanted, BOUNDS)

    assert [(each.start, each.end, each.archived is not None) for each in ranges] == [
        (5, 10, True),
        (10, 15, True),
        (20, 30, True),
        (30, 40, False),
    ]
    told = [loss.what for loss in losses]
    assert "offsets 0 to 4 of" in told[0]
    assert "offsets 15 to 19 of" in told[1]
    assert "the archive goes on at 20" in told[1]
    assert "ends at offset 40" in told[2]
    assert within(wanted._replace(start=7, end=12), BOUNDS)[1] == ()
    cut = within(wanted._replace(start=22, end=24), BOUNDS)[0]
    assert [(each.start, each.end) for each in cut] == [(22, 24)]
    assert cut[0].archived == ArchivedPiece(22, 24, "/archive", (described(20, 24),))


def test_archived_ranges_are_cut_like_others_and_keep_the_files_that_matter() -> None:
    ranges, _ = within(Range("t", ID, 0, 20, 40), BOUNDS)
    slices = slices_of(ranges, slices_min=4)
    assert [(each.start, each.end) for each in slices] == [(20, 25), (25, 30), (30, 35), (35, 40)]
    assert [each.archived and [file.first for file in each.archived.files] for each in slices[:2]] == [[20], [25]]
    assert [each.archived for each in slices[2:]] == [None, None]


def test_a_stream_joins_at_the_first_archived_offset_and_skips_only_what_is_in_neither() -> None:
    seen = {"t": SeenTopic(ID, {0: BOUNDS})}
    joined = next_step(StreamPositions({}), seen)
    assert dict(joined.end.items()) == {TopicPartition("t", 0): 5}

    def at(offset: int) -> StreamPositions:
        return StreamPositions({"t": TopicPosition(ID, {0: offset})})

    step = next_step(at(12), seen)
    assert (step.losses, step.backlog, step.end) == ((), 28, at(40))
    lost = next_step(at(16), seen, limit=3)
    assert ([loss.consequence for loss in lost.losses], lost.end) == (["goes on at offset 20"], at(23))
    found = readable(at(12), at(35), seen)
    assert [(each.start, each.end) for each in found.ranges] == [(12, 15), (20, 30), (30, 35)]
    assert len(found.losses) == 1


def test_who_has_reached_what_needs_no_archive() -> None:
    place, other = TopicPartition("t", 0), TopicPartition("t", 1)
    position = StreamPositions({"t": TopicPosition(ID, {0: 7})})
    assert [position.reached(place, ID), position.reached(other, ID), position.reached(place, UUID(int=2))] == [7, 0, 0]
    offsets = begins_at(AtOffsets({place: 5, other: NamedOffset.LATEST}))
    assert (offsets(place, ID), offsets(other, ID)) == (5, OFFSET_MAX)
    assert [begins_at(each)(place, ID) for each in (NamedOffset.LATEST, NamedOffset.EARLIEST, AtTimestamp(9))] == [
        OFFSET_MAX,
        0,
        0,
    ]


def test_the_option_says_which_archive_is_read() -> None:
    needed = {"kafka.bootstrap.servers": "broker:9092", "topic": "t"}

    def chosen(**others: str) -> object:
        return parse_options({**needed, **others}, ReadKind.STREAM).archive

    # Executors may have another working directory.
    assert chosen(**{"goqueue.archive": "data/archive"}) == str(Path.cwd() / "data/archive")

    assert chosen() is ArchiveUse.AUTO
    assert chosen(**{"goqueue.archive": " Never "}) is ArchiveUse.NEVER
    assert chosen(**{"goqueue.archive": "s3://bucket/Archive"}) == "s3://bucket/Archive"
    with pytest.raises(InvalidSettings, match=r"has no effect with kafka.isolation.level=read_uncommitted"):
        chosen(**{"goqueue.archive": "/a", "kafka.isolation.level": "read_uncommitted"})

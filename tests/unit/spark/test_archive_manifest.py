"""Commits of an archive: they add up to one state, one of them has each number, and none is half there."""

from __future__ import annotations

import re
import threading
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

from goqueue.errors import Invalid
from goqueue.seams.clock import SystemClock
from goqueue.spark.archive.commits import SNAPSHOT_COMMITS, ArchiveChange, check_commits, is_archive, load, write
from goqueue.spark.archive.listing import archived_files
from goqueue.spark.archive.manifest import (
    ArchiveConflict,
    ArchiveDamaged,
    ArchivedFile,
    ArchiveState,
    NotArchived,
    commit_name,
    commit_number,
    decode_commit,
    encode_commit,
)
from goqueue.spark.archive.paths import known_scheme, normal_path
from goqueue.spark.archive.spans import OffsetSpan, missing, overlap, union, within
from goqueue.spark.archive.store import ArchiveStore, ArchiveUnreachable, NameTaken
from goqueue.testing.broker import MovableClock

ID = UUID(int=1)
CLOCK = SystemClock()

spans = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 8)).map(lambda pair: OffsetSpan(pair[0], sum(pair)))).map(
    tuple
)


@given(spans, spans, st.integers(0, 40), st.integers(0, 20))
def test_spans_are_sets_of_offsets(
    left: tuple[OffsetSpan, ...], right: tuple[OffsetSpan, ...], start: int, size: int
) -> None:
    one, other, whole = union(left), union(right), OffsetSpan(start, start + size)
    expected = {offset for span in left for offset in range(*span)}

    assert _offsets(one) == sorted(expected)
    assert _offsets(within(one, whole)) == sorted(expected & set(range(*whole)))
    assert _offsets(missing(one, whole)) == sorted(set(range(*whole)) - expected)
    assert _offsets(overlap(one, other)) == sorted(expected & set(_offsets(other)))
    assert all(before.end < after.start for before, after in pairwise(one))


def _offsets(spans: tuple[OffsetSpan, ...]) -> list[int]:
    return [offset for span in spans for offset in range(*span)]


@pytest.fixture
def store(tmp_path: Path) -> ArchiveStore:
    return ArchiveStore(str(tmp_path / "archive"))


def added(store: ArchiveStore, first: int, last: int) -> ArchivedFile:
    """Put a file there, with what a commit says of it."""
    path = f"topic=orders/date=2026-01-01/0-0-{first}-{last}.parquet"
    with store.write_to(path) as opened:
        opened.write(b"rows")
    return ArchivedFile(
        path=path,
        partition=0,
        date="2026-01-01",
        first=first,
        last=last,
        rows=1,
        bytes=4,
        sha256=opened.sha256,
        footer_bytes=opened.tail_bytes,
        footer_sha256=opened.tail_sha256,
    )


def change(store: ArchiveStore, start: int, end: int, topic: str = "orders") -> ArchiveChange:
    return ArchiveChange(
        topic=topic, topic_id=ID, covered={0: (OffsetSpan(start, end),)}, added=[added(store, start, end - 1)]
    )


def test_state_is_what_all_commits_add_up_to_however_it_is_read(store: ArchiveStore) -> None:
    state = load(store)
    assert (state, is_archive(store)) == (ArchiveState(), False)
    seen = [state]
    for number in range(2 * SNAPSHOT_COMMITS + 3):
        state = write(store, state, change(store, 10 * number, 10 * number + 10), CLOCK)
        seen.append(state)

    assert is_archive(store)
    assert all(load(store, known) == state for known in seen)
    topic = state.topics["orders"]
    assert (topic.covered, topic.end(0), topic.end(1)) == ({0: (OffsetSpan(0, 430),)}, 430, 0)
    assert [file.first for file in topic.files_of(0, OffsetSpan(95, 111))] == [90, 100, 110]
    assert list(check_commits(store, state)) == []
    # With a snapshot, what lies before it is not read, but has to be there.
    damaged = Path(store.path) / commit_name(3)
    whole = damaged.read_text()
    damaged.write_text(whole.replace("30", "31", 1))
    assert load(store) == state
    assert list(check_commits(store, state)) == [f"{commit_name(3)} is damaged: its checksum does not match"]
    # A sound commit that is another than the one from which the next ones were made.
    commit = decode_commit(whole.encode(), 3)
    damaged.write_bytes(encode_commit(msgspec.structs.replace(commit, added=())))
    assert list(check_commits(store, state)) == [
        f"{commit_name(SNAPSHOT_COMMITS - 1)} has a snapshot that is not what the commits up to it add up to"
    ]
    store.delete(commit_name(3))
    assert list(check_commits(store, state)) == [f"{commit_name(3)} is not there"]
    with pytest.raises(ArchiveDamaged, match="is missing: there are 42, the last is 42"):
        load(store)


def test_files_are_replaced_and_gaps_noted(store: ArchiveStore) -> None:
    clock = MovableClock()
    state = write(store, load(store), change(store, 0, 10), clock)
    merge = ArchiveChange(
        topic="orders", topic_id=ID, added=[added(store, 0, 8)], removed=[state.topics["orders"].files[0].path]
    )
    state = write(store, state, merge, clock)
    state = write(store, state, ArchiveChange(topic="orders", topic_id=ID, gaps={0: (OffsetSpan(10, 15),)}), clock)

    topic = state.topics["orders"]
    assert ([file.last for file in topic.files], list(topic.removed)) == ([8], list(merge.removed))
    assert (topic.end(0), topic.gaps, topic.last_commit) == (15, {0: (OffsetSpan(10, 15),)}, 2)
    for wrong in (change(store, 9, 12), change(store, 12, 14), merge):
        with pytest.raises(ArchiveConflict, match=r"already|any more"):
            write(store, state, wrong, clock)
    with pytest.raises(ArchiveConflict, match="another topic"):
        write(store, state, ArchiveChange(topic="orders", topic_id=UUID(int=2)), clock)
    uncovered = ArchiveChange(topic="orders", topic_id=ID, added=[added(store, 90, 95)])
    with pytest.raises(ArchiveDamaged, match="not all covered"):
        write(store, state, uncovered, clock)
    assert load(store) == state


def test_a_commit_names_no_file_that_is_not_there_as_it_was_written(store: ArchiveStore) -> None:
    wanted = change(store, 0, 10)
    store.delete(wanted.added[0].path)
    with pytest.raises(ArchiveDamaged, match="was written with 4 bytes"):
        write(store, load(store), wanted, CLOCK)
    assert not is_archive(store)


def _stores(tmp_path: Path) -> list[ArchiveStore]:
    """Return two stores of one directory of each kind: names that can be taken once, and claims."""
    claims = fs.SubTreeFileSystem("/", fs.LocalFileSystem())
    return [
        ArchiveStore(str(tmp_path / "names")),
        ArchiveStore(str(tmp_path / "claims"), files=(claims, str(tmp_path / "claims"))),
    ]


@pytest.mark.parametrize("kind", [0, 1], ids=["names", "claims"])
def test_of_many_who_write_the_same_commit_at_once_one_does_at_most(tmp_path: Path, kind: int) -> None:
    store = _stores(tmp_path)[kind]
    writers, start = 6, threading.Barrier(6)
    won: list[int] = []

    def create(number: int) -> None:
        start.wait(30)
        try:
            store.create("_goqueue/commits/7.json", b"%d" % number * 1000)
        except NameTaken:
            return
        won.append(number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert len(won) <= 1
    assert kind == 1 or won
    assert store.names("_goqueue/commits") == ["7.json"] * len(won)
    assert not won or store.read("_goqueue/commits/7.json") == b"%d" % won[0] * 1000


def test_a_claim_of_somebody_who_died_counts_for_ten_minutes(tmp_path: Path) -> None:
    clock = MovableClock()
    claims = fs.SubTreeFileSystem("/", fs.LocalFileSystem())
    store = ArchiveStore(str(tmp_path), files=(claims, str(tmp_path)), clock=clock)
    (tmp_path / f"7.json.{clock.now_ms():014}-aa.claim").write_bytes(b"")
    ends_at = datetime.fromtimestamp(clock.now_ms() // 1000 + 600, UTC).isoformat()
    with pytest.raises(
        NameTaken, match=rf"another job is about to write .*-aa.claim .*run this again after {re.escape(ends_at)}"
    ):
        store.create("/7.json", b"mine")
    clock.advance(601)
    store.create("/7.json", b"mine")
    assert store.names("") == ["7.json"]


def test_a_job_that_another_ones_claim_keeps_from_its_commit_says_which_and_how_long(tmp_path: Path) -> None:
    clock, store = MovableClock(), _stores(tmp_path)[1]
    claim = f"{commit_name(0)}.{SystemClock().now_ms():014}-aa.claim"
    with store.write_to(claim) as opened:
        opened.write(b"")
    with pytest.raises(ArchiveConflict, match=rf"nothing could be committed .*{claim} \(if that job is dead, run"):
        write(store, load(store), change(store, 0, 10), clock)
    assert not is_archive(store)


def test_a_job_that_was_too_late_is_told_so_also_if_its_files_are_swept_already(store: ArchiveStore) -> None:
    state = load(store)
    late = change(store, 0, 10)
    write(store, state, change(store, 0, 8), CLOCK)
    store.delete(late.added[0].path)
    with pytest.raises(ArchiveConflict, match="another job has archived topic 'orders'"):
        write(store, state, late, CLOCK)


def test_jobs_of_other_topics_share_the_numbers_and_those_of_the_same_are_refused(store: ArchiveStore) -> None:
    state = load(store)
    write(store, state, change(store, 0, 10), CLOCK)
    after = write(store, state, change(store, 0, 10, topic="returns"), CLOCK)
    with pytest.raises(ArchiveConflict, match=r"another job has archived topic 'orders'.*continues"):
        write(store, state, change(store, 10, 20), CLOCK)
    assert (after.number, load(store)) == (1, after)


def test_commits_that_are_not_what_was_written_are_seen(store: ArchiveStore) -> None:
    state = write(store, load(store), change(store, 0, 10), CLOCK)
    raw = store.read(commit_name(0))
    for damaged, told in (
        (raw[:50], "cannot be read"),
        (raw.replace(b'"version": 1', b'"version": 2'), "of version 2"),
        (raw.replace(b'"number": 0', b'"number": 1'), "checksum does not match"),
        (encode_commit(msgspec.structs.replace(decode_commit(raw, 0), number=1)), "has the number 1 inside"),
    ):
        store.delete(commit_name(0))
        store.create(commit_name(0), damaged)
        with pytest.raises(ArchiveDamaged, match=told):
            load(store)
    for place, byte in enumerate(raw):
        with pytest.raises(ArchiveDamaged):
            decode_commit(raw[:place] + bytes([byte ^ 1 << place % 8]) + raw[place + 1 :], 0)
    store.delete(commit_name(0))
    with pytest.raises(ArchiveDamaged, match="was at 0 before"):
        load(store, state)


def test_states_survive_json_and_names_their_numbers() -> None:
    assert commit_number(commit_name(7).rpartition("/")[2]) == 7
    assert [commit_number(name) for name in ("7.json", "x", f"{7:020}.json.aa.new", f"{7:020}.json.1-a.claim")] == [
        None
    ] * 4
    assert msgspec.json.decode(msgspec.json.encode(ArchiveState()), type=ArchiveState) == ArchiveState()


def test_a_directory_has_one_path_however_it_is_written() -> None:
    for same in ("s3://bucket/archive/", "s3a://bucket/archive", " s3n://bucket/archive// "):
        assert normal_path(same) == "s3://bucket/archive"
    for same in ("file:///data/my%20archive/", "file:/data/my archive", "file://localhost/data/x/../my%20archive"):
        assert normal_path(same) == normal_path("/data//my archive/") == "/data/my archive"
    assert normal_path("x/../archive/.") == str(Path.cwd() / "archive")
    for wrong in ("file:archive", "file://host/archive", "file:", " "):
        with pytest.raises(Invalid, match=r"absolute|empty"):
            normal_path(wrong)
    # Not a directory of this machine that is called `s3:`.
    for wrong in ("s3:/bucket/x", "S3:bucket/x", "hdfs:/x", "gs:/x"):
        with pytest.raises(Invalid, match=r"is no URI .*write two slashes: \w+://"):
            normal_path(wrong)
    assert normal_path("/data/s3:/x") == "/data/s3:/x"
    assert known_scheme("hdfs://s3a://x") == "hdfs://s3a://x"


def test_files_of_a_topic_are_listed_as_its_path_is_written(
    store: ArchiveStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = write(store, load(store), change(store, 0, 10), CLOCK)
    (file,) = state.topics["orders"].files
    monkeypatch.chdir(store.path)
    assert archived_files("topic=orders") == archived_files(".") == [f"./{file.path}"]
    assert archived_files(f"file://{store.path}/topic=orders/") == [f"file://{store.path}/{file.path}"]
    assert archived_files("/topic=orders") is None


def test_parts_of_an_archive_have_the_files_that_its_commits_name_there(store: ArchiveStore) -> None:
    state = write(store, load(store), change(store, 0, 10), CLOCK)
    (file,) = state.topics["orders"].files
    (Path(store.path) / file.path).with_name("left-over.parquet").write_bytes(b"")
    day = file.path.rpartition("/")[0]
    for part in (day, f"{day}/", "topic=*", "topic=orders/date=*/", file.path):
        assert archived_files(f"{store.path}/{part}") == [f"{store.path}/{file.path}"], part
    # On a day without messages there are none.
    assert archived_files(f"{store.path}/topic=orders/date=1999-01-01") == []
    with pytest.raises(NotArchived, match=r"does not hold topic 'order', but orders$"):
        archived_files(f"{store.path}/topic=order/date=1999-01-01")
    with pytest.raises(NotArchived, match=f"does not hold topic=orders/day=1999-01-01, but {re.escape(day)}$"):
        archived_files(f"{store.path}/topic=orders/day=1999-01-01")
    assert archived_files("s3:/bucket/topic=orders") is None


def test_a_disk_that_refuses_is_an_archive_that_cannot_be_reached(tmp_path: Path) -> None:
    (tmp_path / "archive").write_text("a file")
    with pytest.raises(ArchiveUnreachable, match="cannot be reached"):
        ArchiveStore(str(tmp_path / "archive")).create("_goqueue/commits/7.json", b"")

"""Files of a batch are committed once, whatever the moment of a crash, and readers see nothing but data files."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from typing_extensions import override

from goqueue.errors import Invalid, Unavailable
from goqueue.seams.entropy import SystemEntropy
from goqueue.spark.pipelines.write import commits as file_commits
from goqueue.spark.pipelines.write import files as file_migration
from goqueue.spark.pipelines.write.attempts import Overtaken
from goqueue.spark.pipelines.write.commits import FileCommits, notes_of
from goqueue.spark.pipelines.write.delta import partition_values
from goqueue.spark.pipelines.write.file_systems import LocalFiles, is_hidden

QUERY = "5b1c8d8e-1111-4222-8333-444455556666"


class Crash(BaseException):
    """The process ends here."""


class FragileFiles(LocalFiles):
    """Files of a process that is killed before its n-th change."""

    def __init__(self, changes: int) -> None:
        self.left = changes

    def _change(self, act: Callable[..., None], *args: Any) -> None:
        if not self.left:
            raise Crash
        self.left -= 1
        act(*args)

    @override
    def move(self, source: str, target: str) -> None:
        self._change(super().move, source, target)

    @override
    def remove(self, path: str) -> None:
        self._change(super().remove, path)

    @override
    def create(self, path: str, content: bytes) -> None:
        self._change(super().create, path, content)


def stage(commits: FileCommits, batch: int, rows: dict[str, list[int]]) -> str:
    """Write rows as Spark does: a file by directory, one without rows, and what is hidden."""
    staged = Path(commits.stage(batch))
    files = {staged / directory: values for directory, values in rows.items()}
    for index, (directory, values) in enumerate([(staged, []), *files.items()]):
        directory.mkdir(parents=True, exist_ok=True)
        file = directory / f"part-{index:05}-c0ffee-c000.snappy.parquet"
        parquet.write_table(pa.table({"number": pa.array(values, pa.int64())}), file)
    (staged / "_SUCCESS").touch()
    (staged / ".part-00000-c0ffee.crc").touch()
    return str(staged)


def opened(path: Path, files: LocalFiles | None = None, writer: str = QUERY) -> FileCommits:
    """Start a writer."""
    commits = FileCommits(files or LocalFiles(), str(path), writer, SystemEntropy())
    commits.recover()
    return commits


def seen(path: Path) -> list[int]:
    """Return the numbers that a reader of all files finds; a file of another kind, or an empty one, is a mistake."""
    found = sorted(file for file in path.rglob("*") if file.is_file())
    assert {file.suffix for file in found} <= {".parquet"}
    tables = [parquet.read_table(file, partitioning=None) for file in found]
    assert all(table.num_rows for table in tables)
    return sorted(number for table in tables for number in table["number"].to_pylist())


@pytest.mark.parametrize("changes", range(10))
def test_batch_is_there_once_after_a_crash_at_any_change(tmp_path: Path, changes: int) -> None:
    lake = tmp_path / "lake"
    first = opened(lake)
    first.commit(0, stage(first, 0, {"c=a": [1, 2]}))
    rows = {"c=a": [3], "c=b": [4, 5], "c=c": [6]}
    is_killed = False
    try:
        killed = opened(lake, FragileFiles(changes))
        killed.commit(1, stage(killed, 1, rows))
    except Crash:
        is_killed = True
    assert is_killed == (changes < 7)
    numbers = seen(lake)
    assert len(numbers) == len(set(numbers))
    # Spark repeats the batch, unless it has heard that it is done.
    second = opened(lake)
    if second.last < 1:
        assert numbers == [1, 2]
        second.commit(1, stage(second, 1, rows))
    assert seen(lake) == [1, 2, 3, 4, 5, 6]
    assert not list((tmp_path / ".lake.goqueue" / QUERY / "staging").iterdir())


def test_driver_that_is_taken_for_dead_cannot_commit_rows_that_were_removed(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    old = opened(lake)
    staged = stage(old, 0, {"": [1, 2]})
    new = opened(lake)
    # Tasks of the old driver are still at work, and write what they have left into the same directory.
    rows = Path(staged)
    rows.mkdir(parents=True)
    parquet.write_table(pa.table({"number": [2]}), rows / "part-00001-c0ffee-c000.snappy.parquet")
    with pytest.raises(Overtaken, match="another run of this pipeline has begun"):
        old.commit(0, staged)
    assert not lake.exists()
    assert new.commit(0, stage(new, 0, {"": [1, 2]}))
    assert seen(lake) == [1, 2]


def test_attempt_that_is_about_to_be_committed_is_not_removed(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    new: list[FileCommits] = []

    class StartingAnother(LocalFiles):
        """Files of a driver that another one overtakes just before its manifest."""

        @override
        def create(self, path: str, content: bytes) -> None:
            if "/manifests/" in path:
                new.append(opened(lake))
            super().create(path, content)

    old = opened(lake, StartingAnother())
    assert old.commit(0, stage(old, 0, {"c=a": [1], "c=b": [2]}))
    assert seen(lake) == [1, 2]
    # The new one has begun before, and repeats the batch.
    assert not new[0].commit(0, stage(new[0], 0, {"c=a": [1, 2]}))
    assert seen(lake) == [1, 2]
    assert not list((tmp_path / ".lake.goqueue" / QUERY / "staging").iterdir())


def test_batch_whose_manifest_is_gone_is_not_committed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_commits, "MANIFESTS_KEPT", 2)
    lake = tmp_path / "lake"
    new = opened(lake)
    old = opened(lake)
    for batch in range(4):
        new.commit(batch, stage(new, batch, {"": [batch]}))
    assert not old.commit(1, stage(old, 1, {"": [1], "c=a": [1]}))
    assert (seen(lake), old.last) == ([0, 1, 2, 3], 3)


def test_strange_files_among_the_notes_keep_nothing_from_being_written(tmp_path: Path) -> None:
    staging = tmp_path / ".lake.goqueue" / QUERY / "staging"
    staging.mkdir(parents=True)
    (staging / ".nfs0000000000012345").touch()
    commits = opened(tmp_path / "lake")
    commits.commit(0, stage(commits, 0, {"": [1]}))
    assert seen(tmp_path / "lake") == [1]


def test_manifest_is_created_once_where_files_have_no_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_source: Any, _target: Any) -> None:
        raise PermissionError(errno.EPERM, "links are not supported")

    monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "notes" / "0"
    LocalFiles().create(str(path), b"first")
    with pytest.raises(FileExistsError):
        LocalFiles().create(str(path), b"second")
    assert [(each.name, each.read_bytes()) for each in path.parent.iterdir()] == [("0", b"first")]


def test_two_runs_of_a_batch_leave_the_files_of_the_first(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    one, other = opened(lake), opened(lake)
    staged = stage(other, 0, {"": [3]})
    one.commit(0, stage(one, 0, {"": [1, 2]}))
    # The other one was about to commit as well, when this one had done it.
    with pytest.raises(Overtaken):
        other.commit(0, staged)
    assert seen(lake) == [1, 2]
    assert opened(lake).last == 0


def test_names_of_files_are_the_same_whichever_attempt_wrote_them(tmp_path: Path) -> None:
    lakes = [tmp_path / name for name in ("one", "two")]
    for lake in lakes:
        commits = opened(lake)
        commits.commit(7, stage(commits, 7, {"c=a": [1], "c=b": [2]}))
    names = [[str(file.relative_to(lake)) for file in sorted(lake.rglob("*.parquet"))] for lake in lakes]
    assert names[0] == names[1]
    assert names[0][0].startswith("c=a/batch-0000000007-00000-")


def test_batch_without_rows_leaves_nothing(tmp_path: Path) -> None:
    commits = opened(tmp_path / "lake")
    commits.commit(0, stage(commits, 0, {}))
    assert not (tmp_path / "lake").exists()
    assert opened(tmp_path / "lake").last == -1


def test_staged_rows_that_cannot_be_found_are_no_empty_batch(tmp_path: Path) -> None:
    commits = opened(tmp_path / "lake")
    with pytest.raises(Unavailable, match="batch 0 are not where"):
        commits.commit(0, commits.stage(0))
    # An executor of another machine has written there: only the directory is made by the driver.
    staged = Path(commits.stage(0))
    staged.mkdir()
    (staged / "_SUCCESS").touch()
    with pytest.raises(Unavailable, match="batch 0 are not where") as refused:
        commits.commit(0, str(staged), is_partitioned=False)
    assert "all its machines share" in refused.value.hint


def test_directory_belongs_to_the_stream_that_began_it(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    commits = opened(lake)
    commits.commit(0, stage(commits, 0, {"": [1]}))
    commits.require_own("lake")
    other = opened(lake, writer="another")
    with pytest.raises(Invalid, match="does not go on with"):
        other.require_own("lake")
    # Tables are added to what is there.
    assert opened(lake, writer="table.pipeline.x.lake").last == -1
    lake.rename(tmp_path / "away")
    other.require_own("lake")
    other.commit(0, stage(other, 0, {"": [2]}))
    assert seen(lake) == [2]


def test_only_the_last_manifests_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_commits, "MANIFESTS_KEPT", 2)
    commits = opened(tmp_path / "lake")
    for batch in range(4):
        commits.commit(batch, stage(commits, batch, {"": [batch]}))
    kept = sorted((tmp_path / ".lake.goqueue" / QUERY / "manifests").iterdir())
    assert [int(file.name) for file in kept] == [2, 3]
    assert (opened(tmp_path / "lake").last, seen(tmp_path / "lake")) == (3, [0, 1, 2, 3])


@pytest.mark.parametrize(
    ("path", "notes"),
    [
        ("/data/lake", "/data/.lake.goqueue"),
        ("/lake", "/.lake.goqueue"),
        ("s3a://bucket/lake", "s3a://bucket/.lake.goqueue"),
        ("hdfs:///lake", "hdfs:///.lake.goqueue"),
    ],
)
def test_notes_are_beside_the_directory(path: str, notes: str) -> None:
    assert notes_of(path) == notes


@pytest.mark.parametrize("path", ["/", "s3a://bucket"])
def test_directory_without_one_above_is_refused(path: str) -> None:
    with pytest.raises(Invalid, match="no directory above"):
        notes_of(path)


def test_partitions_are_not_hidden() -> None:
    assert [name for name in ("_SUCCESS", ".a.crc", "_day=1", "day=1", "a") if not is_hidden(name)] == [
        "_day=1",
        "day=1",
        "a",
    ]


def spark_lake(tmp_path: Path) -> Path:
    """Make a directory as Spark's sink leaves it after a kill: what counts is noted, a file of a failed attempt not."""
    lake = tmp_path / "la ke"
    notes = lake / "_spark_metadata"
    notes.mkdir(parents=True)
    for name, number in {"c=a b/part-1": 1, "part-2": 2, "part-3": 3, "part-9": 1}.items():
        file = lake / f"{name}.parquet"
        file.parent.mkdir(exist_ok=True)
        parquet.write_table(pa.table({"number": [number]}), file)

    def noted(name: str) -> str:
        uri = (lake / f"{name}.parquet").as_uri()
        return json.dumps({"path": uri, "size": 1, "isDir": False, "action": "add"})

    (notes / "0").write_text(f"v1\n{noted('gone')}")
    (notes / "1.compact").write_text(f"v1\n{noted('c=a b/part-1')}\n{noted('part-2')}")
    (notes / "2").write_text(f"v1\n{noted('part-3')}")
    (notes / ".2.crc").touch()
    return lake


@pytest.mark.parametrize("changes", range(5))
def test_directory_of_sparks_sink_is_put_right_also_after_a_crash(tmp_path: Path, changes: int) -> None:
    lake = spark_lake(tmp_path)
    is_killed = False
    try:
        fragile = FragileFiles(changes)
        file_migration.adopt(fragile, str(lake), opened(lake, fragile), planned=lambda: 3, sink="lake")
    except Crash:
        is_killed = True
    assert is_killed == (changes < 3)
    commits = opened(lake)
    file_migration.adopt(LocalFiles(), str(lake), commits, planned=lambda: 3, sink="lake")
    assert (commits.last, opened(lake).last, seen(lake)) == (2, 2, [1, 2, 3])
    commits.commit(3, stage(commits, 3, {"": [4]}))
    assert seen(lake) == [1, 2, 3, 4]
    assert (tmp_path / ".la ke.goqueue" / "left-over" / "part-9.parquet").exists()


def test_committed_files_stay_if_an_older_version_was_used_in_between(tmp_path: Path) -> None:
    lake = tmp_path / "la ke"
    commits = opened(lake)
    commits.commit(0, stage(commits, 0, {"c=a": [0]}))
    (tmp_path / ".la ke.goqueue" / QUERY / "manifests" / f"{0:020}").rename(tmp_path / "away")
    spark_lake(tmp_path)
    file_migration.adopt(LocalFiles(), str(lake), opened(lake), planned=lambda: 3, sink="lake")
    assert seen(lake) == [0, 1, 2, 3]


def test_directory_of_sparks_sink_is_left_alone_by_others(tmp_path: Path) -> None:
    lake = spark_lake(tmp_path)
    with pytest.raises(Invalid, match="does not go on with"):
        file_migration.adopt(LocalFiles(), str(lake), opened(lake), planned=lambda: 1, sink="lake")
    with pytest.raises(Invalid, match="files of a stream"):
        file_migration.require_none(LocalFiles(), str(lake), "table")


def test_partition_values_are_those_of_the_directories() -> None:
    path = "country=A%2FB x/day=__HIVE_DEFAULT_PARTITION__/part-0.parquet"
    assert partition_values(path) == {"country": "A/B x", "day": None}
    assert partition_values("part-0.parquet") == {}

"""Replays without Spark: where they begin and end, their pace, and what they note about themselves."""

from __future__ import annotations

import io
import json
from pathlib import Path, PurePath

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs
from rich.console import Console
from typing_extensions import override

from goqueue.cli.jobs.replay_screen import ReplayBar, ReplayLines
from goqueue.client.kafka import TopicPartition
from goqueue.errors import Corrupt
from goqueue.model.start_position import parse_start
from goqueue.seams.disk import RealDisk, RealFile
from goqueue.spark.failures import Failure
from goqueue.spark.jobs.replay.bounds import Held, bounds_of, check_bounds
from goqueue.spark.jobs.replay.failures import advice, reworded
from goqueue.spark.jobs.replay.job import ReplayStatus, ending_of, pace
from goqueue.spark.jobs.replay.notes import (
    JobDirectory,
    JobDirectoryNotShared,
    NotesLost,
    ReplayDiffers,
    ReplayNotes,
    ReplayRequest,
    require_same,
)
from goqueue.spark.jobs.replay.target_topic import target_settings
from goqueue.spark.pipelines.run.progress import RunProgress
from goqueue.spark.pipelines.run.query import BatchDone, QueryFailed, RunState
from goqueue.spark.source.losses import DataLost, Loss, deleted, removed, settle
from tests.cli.command import Command

NOW_MS = 1_000_000
HELD = {0: Held(5, 20), 1: Held(0, 8)}
WISH = ReplayRequest(
    source="orders", target="again", start="10m ago", end="end", where="", partitions="auto", has_origin=True
)


def bounds(start: str, end: str) -> dict[str, str]:
    return bounds_of("orders", parse_start(start, now_ms=NOW_MS), parse_start(end, now_ms=NOW_MS), HELD)


def offsets(text: str) -> dict[str, int]:
    found: dict[str, dict[str, int]] = json.loads(text)
    return found["orders"]


def test_names_and_times_are_left_to_the_source() -> None:
    assert bounds("beginning", "end") == {"startingOffsets": "earliest", "endingOffsets": "latest"}
    assert bounds("10m ago", "1970-01-01T00:16:40Z") == {"startingTimestamp": "400000", "endingTimestamp": "1000000"}


def test_an_offset_is_the_nearest_that_a_partition_has() -> None:
    found = bounds("3", "12")
    assert offsets(found["startingOffsets"]) == {"0": 5, "1": 3}
    assert offsets(found["endingOffsets"]) == {"0": 12, "1": 8}
    found = bounds("-10", "-1")
    assert offsets(found["startingOffsets"]) == {"0": 10, "1": 0}
    assert offsets(found["endingOffsets"]) == {"0": 19, "1": 7}


@pytest.mark.parametrize(
    ("start", "end", "mistake"),
    [
        ("end", "end", "--from end"),
        ("beginning", "beginning", "--to beginning"),
        ("7", "7", "--to is not after --from"),
        ("-3", "-5", "--to is not after --from"),
        ("10m ago", "20m ago", "--to is not after --from"),
        ("7", "8", ""),
        ("-5", "-3", ""),
        ("-5", "end", ""),
        ("beginning", "10m ago", ""),
        ("1h ago", "10m ago", ""),
    ],
)
def test_what_ends_before_it_begins_is_a_mistake(start: str, end: str, mistake: str) -> None:
    now_ms = NOW_MS * 10_000
    found = check_bounds(parse_start(start, now_ms=now_ms), parse_start(end, now_ms=now_ms))
    assert found.startswith(mistake)
    assert bool(found) == bool(mistake)


@given(st.integers(1, 10_000), st.integers(1, 500))
def test_a_pace_never_exceeds_its_rate_though_a_batch_reads_one_of_each_partition(rate: int, partitions: int) -> None:
    offsets_per_batch, interval_s = pace(rate, partitions, 500_000)

    assert interval_s is not None
    assert max(offsets_per_batch, partitions) / interval_s <= rate
    assert pace(None, partitions, 7) == (7, None)


def test_the_time_left_is_told_once_it_can_be() -> None:
    assert ReplayStatus(RunState.RUNNING).seconds_left is None
    assert ReplayStatus(RunState.RUNNING, left=5).seconds_left is None
    assert ReplayStatus(RunState.RUNNING, left=50, rows_per_second=10.0).seconds_left == 5.0
    assert ReplayStatus(RunState.ENDED, left=0).seconds_left == 0.0


def test_a_replay_is_done_only_if_nothing_is_left() -> None:
    def is_done(state: RunState, left: int | None, *, is_wished: bool = False) -> bool:
        return ending_of(ReplayStatus(state, left=left), is_wished=is_wished)[1]

    assert is_done(RunState.ENDED, 0)
    assert is_done(RunState.ENDED, 0, is_wished=True)
    # Nothing was left to do, so nothing was told.
    assert is_done(RunState.ENDED, None)
    assert not is_done(RunState.ENDED, None, is_wished=True)
    assert not is_done(RunState.ENDED, 7, is_wished=True)
    assert not is_done(RunState.FAILED, 0)

    short = ReplayStatus(RunState.ENDED, left=1_500)
    # Stopped while it waited for its next try, it has not failed.
    broken = ReplayStatus(RunState.FAILED, left=5, failure=Failure("the broker is away"))
    assert ending_of(broken, is_wished=False) == (broken, False)
    assert ending_of(broken, is_wished=True)[0].state is RunState.ENDED
    hopeless = ReplayStatus(RunState.FAILED, left=5, failure=Failure("no", is_hopeless=True))
    assert ending_of(hopeless, is_wished=True) == (hopeless, False)
    status, has_all = ending_of(short, is_wished=False)
    assert (status.state, has_all) == (RunState.FAILED, False)
    assert str(status.failure) == "the query has ended, but 1,500 offsets before its end were not read"
    assert ending_of(short, is_wished=True) == (short, False)


def test_notes_come_back_and_are_forgotten_without_touching_anything_else(tmp_path: Path) -> None:
    directory = JobDirectory(str(tmp_path / "jobs" / "one"))
    assert directory.read() is None
    directory.forget()
    notes = ReplayNotes(wish=WISH, bounds={"endingOffsets": "latest"}, keeps_partitions=True, began_at="now")
    directory.begin(notes)
    assert (directory.read(), directory.done_at) == (notes, "")
    directory.finish("later")
    assert (directory.read(), directory.done_at) == (notes, "later")
    query, other = Path(directory.path) / "query", Path(directory.path) / "other"
    assert directory.checkpoint == f"file://{query}"
    for path in (query, other):
        path.mkdir()
        (path / "file").write_text("x")

    directory.forget()

    assert (directory.read(), directory.done_at) == (None, "")
    assert not query.exists()
    assert (other / "file").read_text() == "x"


class Hadoop(fs.SubTreeFileSystem):  # type: ignore[misc]  # pyarrow has no types
    """Files in a directory, of which none can be moved onto another."""

    @override
    def move(self, src: str, dest: str) -> None:
        if self.get_file_info(dest).type is not fs.FileType.NotFound:
            raise OSError(f"HDFS Rename failed: {dest} exists")
        super().move(src, dest)


def test_a_job_can_be_noted_and_done_where_nothing_can_be_replaced(tmp_path: Path) -> None:
    hadoop = Hadoop(str(tmp_path), fs.LocalFileSystem())
    directory = JobDirectory("hdfs://jobs/one", files=(hadoop, "jobs/one"))
    notes = ReplayNotes(wish=WISH, bounds={}, keeps_partitions=True, began_at="now")

    for _ in range(2):
        directory.begin(notes)
        directory.finish("later")
        assert (directory.read(), directory.done_at) == (notes, "later")
        directory.forget()

    assert directory.checkpoint == "hdfs://jobs/one/query"
    assert list((tmp_path / "jobs/one").iterdir()) == []


class NotingDisk(RealDisk):
    """The disk, and in which order what was made durable."""

    def __init__(self) -> None:
        self.synced: list[str] = []

    @override
    def open(self, path: PurePath, *, create: bool = False, writable: bool = True) -> RealFile:
        self.synced.append(path.name)
        return super().open(path, create=create, writable=writable)

    @override
    def sync_directory(self, directory: PurePath) -> None:
        self.synced.append(directory.name)
        super().sync_directory(directory)


def test_notes_are_on_the_disk_before_they_have_their_name_and_so_is_that(tmp_path: Path) -> None:
    disk = NotingDisk()
    notes = ReplayNotes(wish=WISH, bounds={}, keeps_partitions=True, began_at="now")
    JobDirectory(str(tmp_path / "jobs" / "one"), disk=disk).begin(notes)
    directories = ["one", "jobs", tmp_path.name]
    assert disk.synced == ["job.json.new", *directories, "job.json", *directories]


def test_what_is_left_of_a_job_without_notes_is_not_taken_up(tmp_path: Path) -> None:
    directory = JobDirectory(str(tmp_path / "one"))
    assert directory.is_empty
    directory.require_empty("one")
    for left in ("query", "done.json"):
        (tmp_path / "one" / left).mkdir(parents=True)
        assert not directory.is_empty
        with pytest.raises(NotesLost, match="has a checkpoint, but the notes") as caught:
            directory.require_empty("one")
        assert "--restart" in caught.value.hint
        (tmp_path / "one" / left).rmdir()


def test_failures_are_told_in_the_words_of_the_command() -> None:
    def told(reason: str, where: str = "") -> tuple[str, str]:
        failure = reworded(Failure(reason), "one", "again")
        return str(failure), advice(failure, "again", where, "run it again")

    settled = settle_error([removed(TopicPartition("orders", 0), 5, 9, 7)])
    reason, what_then = told(f"DataLost: {settled}")
    assert reason.startswith("DataLost: data is lost: offsets 5 to 6 of partition 0 of 'orders' were removed")
    assert reason.endswith("the log starts at 7")
    assert what_then == "use --skip-lost to continue without the lost messages"
    assert told(f"DataLost: {settle_error([deleted('orders')])}")[1] == "use --skip-lost to end without the rest"
    gone = "topic 'again', the target of replay one, was deleted"
    hint = "--restart starts over, and creates the topic if it is missing"
    assert told("UnknownTopic: there is no topic 'again' (make it first: goqueue topic create again)") == (
        f"{gone} ({hint})",
        "",
    )
    assert told("UnknownTopic: there is no topic 'orders'")[0] == "UnknownTopic: there is no topic 'orders'"
    large, what_then = told("TooLarge: the record takes 7 bytes, 5 are allowed (raise max.message.bytes of the topic)")
    assert large == "TooLarge: the record takes 7 bytes, 5 are allowed"
    assert what_then.endswith("goqueue topic alter again --config max.message.bytes=BYTES; then run it again")
    cast = 'The value \'x\' of the type "STRING" cannot be cast to "INT". Use `try_cast` to tolerate malformed input.'
    assert "give it another --name, or use --restart" in told(cast, "cast(text AS INT) > 0")[1]
    assert told("the broker is away")[1] == "after fixing the cause, run it again"
    assert told("ArchiveUnreachable: there is none")[1].endswith("; run it again")


def settle_error(losses: list[Loss]) -> str:
    with pytest.raises(DataLost) as caught:
        settle(losses, is_failure=True)
    return str(caught.value)


def test_a_target_is_made_so_that_messages_keep_their_times() -> None:
    own = {"retention.ms": "5", "goqueue.archive.path": "/a", "message.timestamp.type": "LogAppendTime"}
    assert target_settings(own) == {"retention.ms": "5", "message.timestamp.type": "CreateTime"}


def test_a_directory_is_the_same_however_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written = [
        f"{tmp_path}/my jobs/one",
        "my jobs/one",
        f"file://{tmp_path}/my%20jobs/one",
        f"file:{tmp_path}/my%20jobs/one/",
    ]

    directories = [JobDirectory(each) for each in written]

    assert {each.local for each in directories} == {tmp_path / "my jobs" / "one"}
    assert {each.path for each in directories} == {f"{tmp_path}/my jobs/one"}
    assert {each.checkpoint for each in directories} == {f"file://{tmp_path}/my jobs/one/query"}


def test_with_spark_on_a_server_a_directory_is_one_that_both_have(tmp_path: Path) -> None:
    with pytest.raises(JobDirectoryNotShared) as caught:
        JobDirectory(str(tmp_path / "one")).require_shared()

    assert f"cannot store its checkpoint in {tmp_path}/one of this machine" in caught.value.message
    assert f"file://{tmp_path}" in caught.value.hint
    JobDirectory(f"file://{tmp_path}/one").require_shared()
    JobDirectory("hdfs://jobs/one", files=(Hadoop(str(tmp_path), fs.LocalFileSystem()), "one")).require_shared()


def test_a_file_of_somebody_else_is_not_taken_for_notes(tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text('{"name": "mine"}')
    with pytest.raises(Corrupt, match="is not the notes of a replay"):
        JobDirectory(str(tmp_path)).read()


def test_a_job_goes_on_only_with_the_same_wish() -> None:
    notes = ReplayNotes(wish=WISH, bounds={}, keeps_partitions=True, began_at="now")
    require_same("one", notes, WISH)

    other = ReplayRequest(
        source="orders", target="again", start="beginning", end="end", where="true", partitions="auto", has_origin=False
    )
    with pytest.raises(ReplayDiffers) as caught:
        require_same("one", notes, other)

    assert caught.value.message == (
        "replay one was begun with --from '10m ago' and not 'beginning', --where nothing and not 'true', "
        "--origin yes and not no"
    )
    assert "--restart" in caught.value.hint


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--from", "end"], "there is nothing to replay after the end"),
        (["--from", "yesterday"], "is neither beginning, end, an offset"),
        (["--rate", "5", "--batch", "7"], "not both: --rate sets the batch size"),
        (["--name", "../x"], "is not a job name"),
        (["--format", "yaml"], "use table or json"),
    ],
)
def test_a_mistake_in_the_call_is_told_at_once(arguments: list[str], why: str) -> None:
    told = Command("http://127.0.0.1:1")("job", "replay", "orders", "again", *arguments)
    assert told.exit_code == 2
    assert why in " ".join(told.stderr.replace("│", " ").split())


def test_people_see_how_far_it_is_and_how_it_has_ended(capsys: pytest.CaptureFixture[str]) -> None:
    status = ReplayStatus(RunState.RUNNING, 1_500, 700, 3, 4_500, 50.0, 30.0)
    done = BatchDone("one", RunProgress("replay"), RunProgress("replay").totals)
    failed = QueryFailed("one", "replay", Failure("the broker is away"), 2.0)
    lines, text = ReplayLines(), io.StringIO()
    lines.tell(done, status)
    lines.tell(done, status)
    lines.tell(failed, status)
    lines.finish("one", status, "stopped", "the same command continues from the checkpoint")
    assert capsys.readouterr().out.splitlines() == [
        "1,500 read, 700 published, 50 per second, 4,500 left, about 1 min 30 s to go",
        "the replay failed and retries in 2 s: the broker is away",
        "replay one stopped",
        "  1,500 messages read, 700 published in 30 s",
        "  the same command continues from the checkpoint",
    ]

    with ReplayBar(Console(file=text, force_terminal=True, width=150, markup=False, highlight=False)) as bar:
        bar.refresh(status)
        bar.tell(failed, status)
        bar.finish("one", status, "stopped", "")
    assert "25%" in text.getvalue()
    assert "the replay failed and retries in 2 s" in text.getvalue()
    assert "replay one stopped" in text.getvalue()

"""Archives of topics, and reads that fall through to them: every row once, and the same from either."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.datasource import InputPartition
from typing_extensions import override

from goqueue.spark.archive.listing import archived_files
from goqueue.spark.archive.manifest import ArchiveConflict, NotArchived
from goqueue.spark.archive.spans import OffsetSpan
from goqueue.spark.archive.store import ArchiveStore, ArchiveUnreachable
from goqueue.spark.jobs.archive.job import ArchiveJob, ArchiveRequest
from goqueue.spark.jobs.archive.plan import ArchiveGap, OtherTopic
from goqueue.spark.pipelines.run.query import RunState
from goqueue.spark.source.options import ReadKind, parse_options
from goqueue.spark.source.plan import Range
from goqueue.spark.source.reader import read_task
from goqueue.testing.broker import Broker
from tests.cli.command import Command
from tests.spark.archive_kit import (
    DAY_MS,
    NOON_MS,
    archive,
    archived,
    files_in,
    job,
    kept_topic,
    publish_at,
    rows_of,
    setting_of,
)
from tests.spark.pipeline_run_kit import Pipelines
from tests.spark.read_kit import (
    Stream,
    delete_topic,
    new_topic,
    publish,
    publish_in_transaction,
    reading,
    remove_records,
    values,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def broker(goqueue_session_broker: Broker) -> Broker:
    return goqueue_session_broker


def test_what_the_log_has_not_any_more_is_read_from_the_archive_and_is_the_same(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic, path = kept_topic(broker, partitions=2), tmp_path / "archive"
    # The days of messages are mixed, and one was given up.
    publish_at(broker, topic, [(NOON_MS + n % 2 * DAY_MS + n, f"a{n:02}") for n in range(20)])
    publish_in_transaction(broker.bootstrap, topic, ["never"], is_commit=False)
    publish_at(broker, topic, [(NOON_MS + n, f"b{n}") for n in range(5)], partition=1)
    goqueue = Command(broker.http)
    command = ("job", "archive", topic, path, "--broker", broker.bootstrap, "--master", "local[2]")

    (first,) = goqueue.rows(*command, kind="archive")
    assert (first["rows"], first["files"], first["commits"], first["is_registered_now"]) == (25, 3, 1, True)
    assert first["ranges"] == [
        {"partition": 0, "start": 0, "end": 22},
        {"partition": 1, "start": 0, "end": 5},
    ]
    assert setting_of(broker, topic) == str(path)
    assert f"nothing new in topic {topic}" in goqueue.done(*command)

    publish_at(broker, topic, [(NOON_MS + 3 * DAY_MS + n, f"c{n}") for n in range(5)])
    (second,) = goqueue.rows(*command, kind="archive")
    assert (second["rows"], second["ranges"]) == (5, [{"partition": 0, "start": 22, "end": 27}])
    publish_at(broker, topic, [(NOON_MS + 4 * DAY_MS, "d0")])
    in_log = rows_of(spark, broker, topic)
    assert len(in_log) == 31

    remove_records(broker.bootstrap, topic, before=25)
    remove_records(broker.bootstrap, topic, before=3, partition=1)

    assert rows_of(spark, broker, topic, minPartitions=5) == in_log
    # A task that finds out when it reads, since retention was quicker than it.
    options = parse_options({"kafka.bootstrap.servers": broker.bootstrap, "topic": topic}, ReadKind.BATCH)
    planned = InputPartition(Range(topic, archived(path, topic).id, 0, 3, 28))
    overtaken = [batch.to_pydict()["offset"] for batch in read_task(options, ["offset"], planned)]
    assert sorted(offset for batch in overtaken for offset in batch) == [row[5] for row in in_log if row[4] == 0][3:]
    never = {"goqueue.archive": "never"}
    assert [row[5] for row in rows_of(spark, broker, topic, **never) if row[4] == 0] == [25, 26, 27]
    # A place, a time, and columns that the reader chooses.
    offsets = f'{{"{topic}": {{"0": 18, "1": 2}}}}', f'{{"{topic}": {{"0": 26, "1": 4}}}}'
    some = rows_of(spark, broker, topic, startingOffsets=offsets[0], endingOffsets=offsets[1])
    assert some == [row for row in in_log if (18 if row[4] == 0 else 2) <= row[5] < (26 if row[4] == 0 else 4)]
    times = {"startingTimestamp": NOON_MS + 15, "endingTimestamp": NOON_MS + 3 * DAY_MS + 2}
    young = reading(spark, broker.bootstrap, topic, **times).schema("value BINARY, offset BIGINT").load()
    assert sorted(row.value.decode() for row in young.collect()) == [f"a{n:02}" for n in range(1, 20)] + ["c0", "c1"]
    assert (young.columns, goqueue(*command, "--verify").exit_code) == (["value", "offset"], 0)


def test_a_stream_reads_the_same_rows_again_whether_log_or_archive_has_them(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic, path = new_topic(broker), tmp_path / "archive"
    everything = [f"{n:02}" for n in range(40)]
    publish(broker.bootstrap, topic, everything[:30])
    archive(spark, broker, topic, path, slice_offsets_max=10)
    stream = Stream(spark, tmp_path / "checkpoint", broker.bootstrap, topic, maxOffsetsPerTrigger=12)
    stream.fails_in_batch = 2
    with pytest.raises(PySparkException):
        stream.run()
    publish(broker.bootstrap, topic, everything[30:])
    # The fourth file is the one that makes a merge worth it; a later run deletes what it has replaced.
    merged = archive(spark, broker, topic, path)
    before = files_in(path)
    swept = archive(spark, broker, topic, path, keep_ms=0)
    assert (merged.merged_files, len(before), swept.deleted_files, len(files_in(path))) == (4, 5, 4, 1)
    remove_records(broker.bootstrap, topic, before=35)

    stream.fails_in_batch = None
    stream.run()

    assert (stream.batches[2], stream.values) == (everything[12:24], everything)
    # A new query begins with the first that is archived.
    other = Stream(spark, tmp_path / "other", broker.bootstrap, topic)
    other.run()
    assert other.values == everything


def test_a_pipeline_reads_what_the_archive_names_and_nothing_else(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic, path = new_topic(broker), tmp_path / "archive"
    publish(broker.bootstrap, topic, ['{"id": "a"}', '{"id": "b"}'])
    archive(spark, broker, topic, path)
    (file,) = archived(path, topic).files
    shutil.copy(path / file.path, (path / file.path).with_name("left-over.parquet"))
    (tmp_path / "plain").mkdir()
    shutil.copy(path / file.path, tmp_path / "plain")
    read = 'decode: {format: json, schema: "id STRING", keep: [offset], on_bad_value: drop}'
    sources = (
        f"  old: {{archive: {path}/topic={topic}/date={file.date}, {read}}}\n  plain: {{archive: plain, {read}}}\n"
    )
    steps = "steps:\n  both: {sql: 'SELECT * FROM old UNION ALL SELECT * FROM plain'}\n"
    text = f"pipeline: archived\nsources:\n{sources}{steps}sinks:\n  out: {{from: both, json: out}}\n"

    status = Pipelines(spark, tmp_path, broker).run(text)

    assert status.state is RunState.ENDED, status.failure
    written = [json.loads(line) for file in (tmp_path / "out").glob("*.json") for line in file.read_text().splitlines()]
    assert sorted((row["id"], row["offset"]) for row in written) == [("a", 0), ("a", 0), ("b", 1), ("b", 1)]
    assert archived_files(str(path)) == [f"{path}/{file.path}"]
    with pytest.raises(NotArchived, match=f"does not hold topic 'other', but {topic}"):
        archived_files(f"{path}/topic=other")
    assert archived_files("dbfs:/somewhere") is None


def test_a_run_that_dies_before_or_after_its_commit_loses_and_doubles_nothing(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic, path = new_topic(broker), tmp_path / "archive"
    publish(broker.bootstrap, topic, [f"{n:02}" for n in range(30)])
    # Rounds of ten offsets, each with a commit.
    rounds = {"round_offsets_max": 10, "slice_offsets_max": 4}
    for is_done in (False, True):
        dying = _DyingStore(str(path), is_done=is_done)
        with pytest.raises(ConnectionError):
            job(broker, topic, path, store=dying, **rounds).run(spark)

    assert len(archived(path, topic).files) == 3
    assert len(files_in(path)) == 6
    outcome = archive(spark, broker, topic, path, **rounds)

    assert (outcome.rows, outcome.commits, outcome.deleted_files) == (20, 3, 3)
    assert sum(file.rows for file in archived(path, topic).files) == 30
    remove_records(broker.bootstrap, topic, before=30)
    assert values(reading(spark, broker.bootstrap, topic).load()) == [f"{n:02}" for n in range(30)]


class _DyingStore(ArchiveStore):
    """A store whose driver dies at its first commit."""

    def __init__(self, path: str, *, is_done: bool) -> None:
        super().__init__(path)
        self._is_done = is_done

    @override
    def create(self, path: str, content: bytes) -> None:
        if self._is_done:
            super().create(path, content)
        raise ConnectionError("the driver is gone")


def test_of_two_jobs_at_once_one_is_refused_and_nothing_is_doubled(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic, other, path = new_topic(broker), new_topic(broker), tmp_path / "archive"
    publish(broker.bootstrap, topic, ["0", "1"])
    publish(broker.bootstrap, other, ["2"])
    jobs = [job(broker, each, path) for each in (topic, topic, other)]

    jobs[0].run(spark)
    with pytest.raises(ArchiveConflict, match="another job has archived topic"):
        jobs[1].run(spark)
    # That of another topic takes the next number.
    jobs[2].run(spark)

    assert [sum(file.rows for file in archived(path, each).files) for each in (topic, other)] == [2, 1]
    publish(broker.bootstrap, topic, ["3"])
    assert archive(spark, broker, topic, path).deleted_files == 1


def test_gaps_and_topics_made_anew_are_told_and_what_to_do(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    topic, path = new_topic(broker), tmp_path / "archive"
    publish(broker.bootstrap, topic, [str(n) for n in range(10)])
    archive(spark, broker, topic, path)
    publish(broker.bootstrap, topic, [str(n) for n in range(10, 20)])
    remove_records(broker.bootstrap, topic, before=15)

    with pytest.raises(ArchiveGap, match=r"offsets 10 to 14 of partition 0 \(--allow-gaps"):
        job(broker, topic, path)
    refused = Command(broker.http).refused(
        "job", "archive", topic, tmp_path / "elsewhere", "--broker", broker.bootstrap
    )
    assert f"names an archive at {path}" in refused
    assert (tmp_path / "elsewhere").exists() is False
    with pytest.raises(PySparkException, match=r"offsets 10 to 14 of partition 0 of .* were removed"):
        reading(spark, broker.bootstrap, topic).load().collect()
    archive(spark, broker, topic, path, allows_gaps=True)

    assert archived(path, topic).gaps == {0: ((10, 15),)}
    remove_records(broker.bootstrap, topic, before=20)
    left = reading(spark, broker.bootstrap, topic, failOnDataLoss=False).load()
    assert values(left) == [str(n) for n in (*range(10), *range(15, 20))]
    path.rename(tmp_path / "moved")
    with pytest.raises(PySparkException, match=r"setting goqueue.archive.path names: there is no archive .*=never"):
        reading(spark, broker.bootstrap, topic).load().collect()
    for is_registered in (True, False):
        with pytest.raises(
            ArchiveUnreachable, match=r"which does not exist \(mount it, .* --unset goqueue.archive.path"
        ):
            job(broker, topic, path, is_registered=is_registered)
    assert not path.exists()
    # Who reads only what the log has needs no archive.
    publish(broker.bootstrap, topic, ["last"])
    assert reading(spark, broker.bootstrap, topic, startingOffsets=f'{{"{topic}": {{"0": 20}}}}').load().count() == 1
    moved = {"goqueue.archive": str(tmp_path / "moved"), "failOnDataLoss": False}
    assert reading(spark, broker.bootstrap, topic, **moved).load().count() == 16

    delete_topic(broker, topic)
    new_topic(broker, name=topic)
    publish(broker.bootstrap, topic, ["new", "newer"])
    with pytest.raises(OtherTopic, match=r"was deleted and created again since .* to another path"):
        job(broker, topic, tmp_path / "moved")
    remove_records(broker.bootstrap, topic, before=1)
    with pytest.raises(PySparkException, match="belongs to an earlier topic"):
        reading(spark, broker.bootstrap, topic, **moved).load().collect()


def test_what_is_removed_from_a_partition_that_was_empty_at_first_is_a_gap(broker: Broker, tmp_path: Path) -> None:
    topic, path = new_topic(broker, partitions=2), tmp_path / "archive"
    publish(broker.bootstrap, topic, ["0", "1"])
    remove_records(broker.bootstrap, topic, before=2)
    first = job(broker, topic, path)
    assert not first.needs_spark
    assert (first.run(None).commits, archived(path, topic).begins) == (1, {0: 2, 1: 0})
    for partition in (0, 1):
        publish(broker.bootstrap, topic, ["2", "3"], partition=partition)
        remove_records(broker.bootstrap, topic, before=3 - partition * 2, partition=partition)

    with pytest.raises(ArchiveGap, match=r": offsets 2 to 2 of partition 0, offsets 0 to 0 of partition 1 \("):
        job(broker, topic, path)


def test_verification_finds_what_is_damaged_or_gone(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    topic, path = new_topic(broker, partitions=2), tmp_path / "archive"
    for partition in (0, 1):
        publish(broker.bootstrap, topic, ["0", "1"], partition=partition)
    archive(spark, broker, topic, path)
    first, second = (path / file.path for file in archived(path, topic).files)
    raw = bytearray(first.read_bytes())
    raw[10] ^= 1
    first.write_bytes(raw)
    second.unlink()

    told = Command(broker.http)("job", "archive", topic, path, "--verify", "--format", "json")

    assert told.exit_code == 1
    assert "is damaged: its checksum" in told.stdout
    assert f"{second.name}: is not there" in told.stdout
    remove_records(broker.bootstrap, topic, before=2, partition=1)
    with pytest.raises(PySparkException, match="names a file that is not there"):
        reading(spark, broker.bootstrap, topic).load().collect()
    remove_records(broker.bootstrap, topic, before=2, partition=0)
    with pytest.raises(PySparkException, match="are not what was written"):
        reading(spark, broker.bootstrap, topic, endingOffsets=f'{{"{topic}": {{"0": -1, "1": 0}}}}').load().collect()
    with pytest.raises(ArchiveUnreachable):
        ArchiveStore("s4://nowhere/archive")


class Overtaken(ArchiveJob):
    """A job that retention overtakes each time when it has looked where the logs start."""

    removals: list[Callable[[], None]]

    @override
    def _log_starts(self) -> dict[int, int]:
        found = super()._log_starts()
        if self.removals:
            self.removals.pop(0)()
        return found


def test_what_is_removed_while_a_job_is_at_work_is_noted_or_told(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic, path = kept_topic(broker), tmp_path / "archive"
    publish(broker.bootstrap, topic, [str(n) for n in range(20)])

    def overtaken(*before: int, **request: Any) -> Overtaken:
        wish = ArchiveRequest(
            topic=topic, path=str(path), bootstrap=broker.bootstrap, round_offsets_max=5, merge_files_min=99, **request
        )
        made = Overtaken(wish)
        made.removals = [partial(remove_records, broker.bootstrap, topic, each) for each in before]
        return made

    # Before anything is archived, the archive begins where the log does; 2 to 6 are copied, then 7 and 8 are gone.
    with pytest.raises(ArchiveGap, match=r"removed before they were archived: offsets 7 to 8 .*--allow-gaps") as told:
        overtaken(2, 2, 2, 9).run(spark)
    assert "failOnDataLoss" not in str(told.value)
    assert "checkpointLocation" not in str(told.value)
    begun = archived(path, topic)
    assert (begun.begins, begun.covered, begun.gaps) == ({0: 2}, {0: (OffsetSpan(2, 7),)}, {})

    outcome = overtaken(11, allows_gaps=True).run(spark)
    assert (outcome.gaps, outcome.rows) == ({0: (OffsetSpan(7, 11),)}, 9)
    whole = archived(path, topic)
    assert (whole.gaps, whole.covered) == ({0: (OffsetSpan(7, 11),)}, {0: (OffsetSpan(2, 7), OffsetSpan(11, 20))})

"""The sink under faults: whatever is lost, repeated or killed, every row is there once.

The broker is a process, so that it can be killed; the faults of a writer are put in by sources of the tests' own, which
come to Spark's Python processes by value. `test_sink_driver` has what kills the driver, or needs tasks to be repeated.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typing_extensions import override

from goqueue.spark.sink.writers import GoQueueStreamWriter
from tests.protocols.kafka.process import WAIT_S, ServeProcess
from tests.spark.sink_kit import (
    committed,
    create_topic,
    http_of,
    open_transactions,
    register,
    require_once,
    run_query,
    write_input,
)
from tests.unit.client.lossy_relay import lossy_relay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_numbers = count()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    with ServeProcess(tmp_path_factory.mktemp("sink") / "data") as running:
        yield running


@pytest.fixture
def options(broker: ServeProcess) -> dict[str, str]:
    """A new topic of the broker, as options of a write."""
    topic = f"written-{next(_numbers)}"
    create_topic(broker.bootstrap, topic)
    return {"kafka.bootstrap.servers": broker.bootstrap, "topic": topic}


@pytest.fixture
def lines(tmp_path: Path) -> list[str]:
    """What is in the four files of input, two batches of two tasks."""
    return write_input(tmp_path, range(4))


def test_a_commit_whose_reply_is_lost_is_asked_for_again(
    spark: SparkSession, broker: ServeProcess, options: dict[str, str], lines: list[str], tmp_path: Path
) -> None:
    with lossy_relay(http_of(broker.bootstrap)) as relay:
        relay.doomed += ["/commit", "/commit"]
        here = {**options, "goqueue.http.url": relay.address}
        run_query(spark, tmp_path, here).awaitTermination()
        assert len(relay.lost) == 2
    require_once(broker.bootstrap, options["topic"], lines)


def test_a_batch_whose_commit_stays_unanswered_is_repeated_by_the_next_run_and_not_written_again(
    spark: SparkSession, broker: ServeProcess, options: dict[str, str], lines: list[str], tmp_path: Path
) -> None:
    with lossy_relay(http_of(broker.bootstrap)) as relay:
        relay.doomed += ["/commit"] * 100
        here = {**options, "goqueue.http.url": relay.address, "kafka.default.api.timeout.ms": "2s"}
        with pytest.raises(Exception, match=r"it is not known whether batch 0 of .* 2,000 rows staged by 2 tasks"):
            run_query(spark, tmp_path, here).awaitTermination()
    # It is committed, and what Spark has aborted thereafter changes nothing.
    assert len(committed(broker.bootstrap, options["topic"])) == 2_000
    run_query(spark, tmp_path, options).awaitTermination()
    require_once(broker.bootstrap, options["topic"], lines)
    assert open_transactions(broker.bootstrap) == []


def test_to_commit_twice_or_to_abort_after_a_commit_changes_nothing(
    spark: SparkSession, broker: ServeProcess, options: dict[str, str], lines: list[str], tmp_path: Path
) -> None:
    failed = tmp_path / "failed"

    class Faulty(GoQueueStreamWriter):
        @override
        def commit(self, messages: Any, batchId: int) -> None:
            super().commit(messages, batchId)
            super().abort(messages, batchId)
            super().commit(messages, batchId)
            if not failed.exists():
                failed.touch()
                raise RuntimeError("after the commit")

    source = register(spark, "goqueue-commits-twice", Faulty)
    with pytest.raises(Exception, match="after the commit"):
        run_query(spark, tmp_path, options, source).awaitTermination()
    assert len(committed(broker.bootstrap, options["topic"])) == 2_000
    run_query(spark, tmp_path, options, source).awaitTermination()
    require_once(broker.bootstrap, options["topic"], lines)


def test_a_stage_that_is_gone_fails_the_batch_as_a_whole_and_the_next_run_writes_it(
    spark: SparkSession, broker: ServeProcess, options: dict[str, str], lines: list[str], tmp_path: Path
) -> None:
    failed = tmp_path / "failed"

    class Faulty(GoQueueStreamWriter):
        @override
        def commit(self, messages: Any, batchId: int) -> None:
            if not failed.exists():
                failed.touch()
                super().abort(messages[:1], batchId)
            super().commit(messages, batchId)

    source = register(spark, "goqueue-loses-a-stage", Faulty)
    with pytest.raises(Exception, match=r"batch 0 .* is not committed, and nothing of it is visible.*same checkpoint"):
        run_query(spark, tmp_path, options, source).awaitTermination()
    assert committed(broker.bootstrap, options["topic"]) == []
    assert open_transactions(broker.bootstrap) == []
    run_query(spark, tmp_path, options, source).awaitTermination()
    require_once(broker.bootstrap, options["topic"], lines)


@pytest.fixture
def small_batches(spark: SparkSession) -> Iterator[None]:
    """Spark hands rows to the sink a hundred at a time, and each file to one task however large it is."""
    settings = {"spark.sql.execution.arrow.maxRecordsPerBatch": "100", "spark.sql.files.openCostInBytes": "64MB"}
    for name, text in settings.items():
        spark.conf.set(name, text)
    yield
    for name in settings:
        spark.conf.unset(name)


def writer_with_an_event(after: int, event: Callable[[], None]) -> Callable[[Any], Any]:
    """Return what makes writers whose tasks have an event after so many batches of rows."""

    class Eventful(GoQueueStreamWriter):
        @override
        def write(self, iterator: Iterator[Any]) -> Any:
            return super().write(self._eventful(iterator))

        def _eventful(self, iterator: Iterator[Any]) -> Iterator[Any]:
            for number, rows in enumerate(iterator):
                if number == after:
                    event()
                yield rows

    return Eventful


@pytest.mark.usefixtures("small_batches")
def test_a_task_that_fails_in_the_middle_aborts_what_it_has_staged(
    spark: SparkSession, broker: ServeProcess, options: dict[str, str], tmp_path: Path
) -> None:
    lines = write_input(tmp_path, range(2), 4_000, padding=2_000)
    failed = tmp_path / "failed"

    def fail() -> None:
        if not failed.exists():
            failed.touch()
            raise RuntimeError("some rows are stored, and others are not")

    source = register(spark, "goqueue-fails-in-the-middle", writer_with_an_event(30, fail))
    with pytest.raises(Exception, match="some rows are stored"):
        run_query(spark, tmp_path, options, source, files_per_batch=1).awaitTermination()
    assert open_transactions(broker.bootstrap) == []
    assert committed(broker.bootstrap, options["topic"]) == []
    run_query(spark, tmp_path, options, source).awaitTermination()
    require_once(broker.bootstrap, options["topic"], lines)


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("kills", [1, pytest.param(6, marks=pytest.mark.long)])
def test_a_broker_killed_in_the_middle_of_a_batch_is_waited_for(
    spark: SparkSession, broker: ServeProcess, options: dict[str, str], tmp_path: Path, kills: int
) -> None:
    lines = write_input(tmp_path, range(2 * kills), 4_000, padding=2_000)
    doomed = tmp_path / "doomed"
    doomed.mkdir()

    def kill() -> None:
        for pid in doomed.iterdir():
            with suppress(FileNotFoundError):
                pid.unlink()
                os.kill(int(pid.name), signal.SIGKILL)

    source = register(spark, "goqueue-kills-the-broker", writer_with_an_event(30, kill))
    (doomed / str(broker.process.pid)).touch()
    query = run_query(spark, tmp_path, options, source)
    for number in range(kills):
        assert broker.process.wait(WAIT_S) == -signal.SIGKILL
        # It is dead; this closes what was open for it.
        broker.kill()
        broker.start()
        if number < kills - 1:
            (doomed / str(broker.process.pid)).touch()
    query.awaitTermination()
    require_once(broker.bootstrap, options["topic"], lines)
    assert open_transactions(broker.bootstrap) == []

"""What tasks stage and a driver commits, without Spark between them: attempts, repetitions, timeouts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from goqueue.client.kafka import KafkaData
from goqueue.errors import GoQueueError, TooLarge
from goqueue.records.compression import Codec
from goqueue.spark.sink.commit import BatchNotCommitted, CheckpointOutdated, abort_staged, commit_staged
from goqueue.spark.sink.options import SinkOptions, TooLargeUse
from goqueue.spark.sink.staging import Attempt, StagedRows, Staging, gathered, stage
from goqueue.testing.broker import Broker
from tests.spark.sink_kit import committed, create_topic, open_transactions

AGAIN = "try again"


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        create_topic(running.bootstrap, "written")
        yield running


@pytest.fixture
def options(broker: Broker) -> SinkOptions:
    return SinkOptions(
        bootstrap=broker.bootstrap,
        topic="written",
        http_url=None,
        codec=Codec.NONE,
        batch_bytes_max=None,
        timeout_ms=10_000,
        transaction_timeout_ms=900_000,
    )


def rows_of(*values: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": list(values)})


def staged(options: SinkOptions, task: int, *values: str, attempt: int = 0) -> StagedRows:
    return stage(options, Attempt("query", task, attempt), [rows_of(*values)])


def seen(broker: Broker) -> list[str]:
    return sorted((row.value or b"").decode() for row in committed(broker.bootstrap, "written"))


def test_what_is_staged_is_seen_after_the_commit_and_all_of_it_then(broker: Broker, options: SinkOptions) -> None:
    stages = [staged(options, task, f"of task {task}") for task in range(3)]
    assert seen(broker) == []
    commit_staged(options, 0, stages, again=AGAIN)
    assert seen(broker) == ["of task 0", "of task 1", "of task 2"]


def test_a_task_without_rows_stages_nothing(broker: Broker, options: SinkOptions) -> None:
    empty = stage(options, Attempt("query", 0, 0), [rows_of(), rows_of()])
    assert (empty.producer, empty.rows) == (None, 0)
    commit_staged(options, 0, [empty], again=AGAIN)
    abort_staged(options, [empty])
    with KafkaData(broker.bootstrap) as data:
        assert data.topics_like(".*")[0].name == "written"
    assert open_transactions(broker.bootstrap) == []


def test_attempts_that_have_lost_are_aborted_with_the_commit(broker: Broker, options: SinkOptions) -> None:
    staged(options, 0, "of the first attempt")
    other = stage(options, Attempt("query-2", 0, 0), [rows_of("of another query")])
    commit_staged(options, 0, [staged(options, 0, "of the second", attempt=1)], again=AGAIN)
    assert other.producer is not None
    assert open_transactions(broker.bootstrap) == [other.producer.transactional_id]
    abort_staged(options, [other])
    assert seen(broker) == ["of the second"]


def test_an_attempt_that_was_thought_dead_can_write_nothing_more(broker: Broker, options: SinkOptions) -> None:
    with pytest.raises(GoQueueError), Staging(options, Attempt("query", 0, 0)) as zombie:  # noqa: PT012
        zombie.write(rows_of("early"))
        winner = staged(options, 0, "of the same attempt, repeated")
        zombie.write(rows_of("late"))
        zombie.finish()
    commit_staged(options, 0, [winner], again=AGAIN)
    assert seen(broker) == ["of the same attempt, repeated"]


def test_a_repeated_batch_is_not_written_again_and_its_stages_do_not_stay(broker: Broker, options: SinkOptions) -> None:
    first = [staged(options, task, f"of task {task}") for task in range(2)]
    commit_staged(options, 3, first, again=AGAIN)
    commit_staged(options, 3, first, again=AGAIN)
    abort_staged(options, first)
    commit_staged(options, 3, [staged(options, task, "again") for task in range(2)], again=AGAIN)
    assert seen(broker) == ["of task 0", "of task 1"]
    assert open_transactions(broker.bootstrap) == []


def test_an_abort_touches_nobody_who_has_come_later(broker: Broker, options: SinkOptions) -> None:
    first, second = staged(options, 0, "first"), staged(options, 0, "second")
    abort_staged(options, [first])
    commit_staged(options, 0, [second], again=AGAIN)
    abort_staged(options, [first, second])
    assert seen(broker) == ["second"]


def test_when_a_sink_has_ended_nothing_of_it_stays_open(broker: Broker, options: SinkOptions) -> None:
    staged(options, 0, "of a task that told nothing")
    abort_staged(options, [], ended_sink="query")
    assert open_transactions(broker.bootstrap) == []
    assert seen(broker) == []


def test_what_takes_longer_than_its_timeout_is_lost_as_a_whole_and_said_so(
    broker: Broker, options: SinkOptions
) -> None:
    old = staged(options, 0, "old", "older")
    broker.advance(901)
    stages = [old, staged(options, 1, "new")]
    with pytest.raises(BatchNotCommitted, match=r"batch 0 of query, 3 rows staged by 2 tasks, is not committed.*try"):
        commit_staged(options, 0, stages, again=AGAIN)
    abort_staged(options, stages)
    assert seen(broker) == []
    assert open_transactions(broker.bootstrap) == []
    commit_staged(options, 0, [staged(options, 0, "written again")], again=AGAIN)
    assert seen(broker) == ["written again"]


def test_a_batch_before_the_last_one_is_an_error_and_not_silently_dropped(broker: Broker, options: SinkOptions) -> None:
    commit_staged(options, 5, [staged(options, 0, "five")], again=AGAIN)
    with pytest.raises(CheckpointOutdated, match="batch 4 of query is not written: batch 5 was committed before"):
        commit_staged(options, 4, [staged(options, 0, "four")], again=AGAIN)
    assert seen(broker) == ["five"]


def test_a_broker_that_is_gone_is_told_by_a_commit_and_passed_over_by_an_abort(
    broker: Broker, options: SinkOptions
) -> None:
    stages = [staged(options, 0, "v")]
    http = broker.http
    broker.stop()
    impatient = replace(options, http_url=http, timeout_ms=500)
    with pytest.raises(BatchNotCommitted, match="nobody answers"):
        commit_staged(impatient, 0, stages, again=AGAIN)
    abort_staged(impatient, stages)


def test_rows_are_gathered_in_their_order_and_nothing_is_gathered_twice() -> None:
    batches = [rows_of(*(f"{number}" for number in range(first, first + 7))) for first in range(0, 70, 7)]
    large = list(gathered([rows_of(), *batches, rows_of()], 60))
    assert [value for rows in large for value in rows.column("value").to_pylist()] == [str(n) for n in range(70)]
    assert 1 < len(large) < len(batches)


def test_a_message_may_be_as_large_as_its_topic_takes_and_not_larger(broker: Broker, options: SinkOptions) -> None:
    noise = random.Random(0).randbytes

    def write(batch: int, options: SinkOptions, value: bytes) -> None:
        rows = pa.RecordBatch.from_pydict({"value": [b"before", value, b"after"]})
        commit_staged(options, batch, [stage(options, Attempt("query", batch, 0), [rows])], again=AGAIN)

    write(0, options, noise(1_048_000))
    # One that compression makes small enough is as welcome.
    write(1, options, bytes(3_000_000))
    with pytest.raises(TooLarge, match=r"1048576 are allowed .*goqueue topic alter TOPIC --config max.message.bytes="):
        write(2, options, noise(1_048_577))
    with pytest.raises(TooLarge, match="10000 are allowed"):
        write(2, replace(options, batch_bytes_max=10_000), noise(10_001))
    write(2, replace(options, too_large=TooLargeUse.CUT), noise(1_048_577))

    written = committed(broker.bootstrap, "written")
    assert [len(row.value or b"") for row in written] == [6, 1_048_000, 5, 6, 3_000_000, 5, 6, 0, 5]
    assert dict(written[7].headers) == {"goqueue-dlq-cut": b"the value, 1,048,577 bytes"}

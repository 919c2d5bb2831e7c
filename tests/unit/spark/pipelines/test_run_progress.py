"""What is made of Spark's accounts of batches, when a failed query starts again, and where checkpoints are."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from goqueue.spark.pipelines.run.checkpoints import checkpoints_of
from goqueue.spark.pipelines.run.progress import RunProgress, advance, live_lag, read_batch
from goqueue.spark.pipelines.run.query import Backoff
from tests.unit.spark.pipelines.pipelines_kit import SMALL, spec_of

TOPIC_ID = "6b1f0000-0000-0000-0000-000000000000"


def position(**offsets: dict[str, int]) -> dict[str, Any]:
    topics = {topic: {"id": TOPIC_ID, "offsets": found} for topic, found in offsets.items()}
    return {"source": "goqueue", "version": 1, "topics": topics}


def account(number: int, rows: int = 100, **changes: Any) -> dict[str, Any]:
    return {
        "id": "q-1",
        "batchId": number,
        "timestamp": f"2030-01-01T00:00:{number:02}.000Z",
        "numInputRows": rows,
        "durationMs": {"addBatch": 400, "triggerExecution": 500},
        "eventTime": {"watermark": "1970-01-01T00:00:00.000Z"},
        "stateOperators": [],
        "sources": [],
        "observedMetrics": {"goqueue.written": {"rows": rows - 1}, "goqueue.rules.valid": {"has_id": 1, "positive": 0}},
        **changes,
    }


def test_totals_are_those_of_all_batches_and_rates_those_of_the_last() -> None:
    progress = advance(RunProgress("out"), read_batch(account(0)), 1)
    progress = advance(progress, read_batch(account(1, rows=50)), 2)
    assert (progress.batch, progress.rows, progress.rows_written) == (1, 150, 148)
    assert (progress.rows_per_second, progress.batch_seconds) == (100.0, 0.5)
    assert progress.bad_rows == {"valid.has_id": 2, "valid.positive": 0}


def test_rows_with_a_warning_are_counted_apart_from_bad_rows() -> None:
    metrics = {"goqueue.rules.valid": {"has_id": 1}, "goqueue.warnings.valid": {"small": 4}}
    progress = advance(RunProgress("out"), read_batch(account(0, observedMetrics=metrics)), 1)
    progress = advance(progress, read_batch(account(1, observedMetrics=metrics)), 2)
    assert (progress.bad_rows, progress.warned_rows) == ({"valid.has_id": 2}, {"valid.small": 8})


def test_lag_follows_the_ends_of_topics_between_batches() -> None:
    sources = [{"endOffset": position(a={"0": 5, "1": 9}), "latestOffset": position(a={"0": 5, "1": 9})}]
    progress = advance(RunProgress("out"), read_batch(account(0, sources=sources)), 1)
    assert progress.lag == 0
    ends = {("a", "0"): 7, ("a", "1"): 9, ("a", "2"): 3, ("other", "0"): 100}
    assert live_lag(progress, ends) == 2
    # Nothing was heard of the broker yet, or nothing of Spark.
    assert live_lag(progress, {}) == 0
    assert live_lag(RunProgress("out"), ends) is None


def test_lag_of_a_topic_that_is_read_twice_is_that_of_the_slower_source() -> None:
    sources = [{"endOffset": position(a={"0": 5})}, {"endOffset": position(a={"0": 3})}]
    progress = advance(RunProgress("out"), read_batch(account(0, sources=sources)), 1)
    assert live_lag(progress, {("a", "0"): 6}) == 3


def test_spark_connect_tells_names_of_counts_apart_from_them() -> None:
    fields: list[dict[str, Any]] = [
        {"name": name, "type": "long", "nullable": False} for name in ("has_id", "positive")
    ]
    metrics = {"goqueue.rules.valid": {"values": [1, None], "schema": {"type": "struct", "fields": fields}}}
    assert read_batch(account(0, observedMetrics=metrics)).bad_rows == {"valid.has_id": 1, "valid.positive": 0}


def test_spark_connect_tells_the_rows_of_each_source_only() -> None:
    told = account(0, sources=[{"numInputRows": 3}, {"numInputRows": 4}])
    del told["numInputRows"]
    assert read_batch(told).rows_read == 7


def test_an_idle_query_keeps_its_totals_and_has_no_rate() -> None:
    before = advance(RunProgress("out"), read_batch(account(3)), 1)
    idle = account(3, rows=0, durationMs={"latestOffset": 1, "triggerExecution": 1}, observedMetrics={})
    progress = advance(before, read_batch(idle), 9)
    assert (progress.batch, progress.rows, progress.rows_per_second) == (3, 100, 0.0)
    assert progress.bad_rows == before.bad_rows
    assert progress.updated_at_ms == 9


def test_lag_is_what_lies_behind_the_end_of_a_batch_in_all_topics() -> None:
    sources = [
        {"endOffset": position(a={"0": 5, "1": 9}), "latestOffset": position(a={"0": 7, "1": 9, "2": 4})},
        {"endOffset": position(b={"0": 1}), "latestOffset": position(b={"0": 2})},
        {"endOffset": {"logOffset": 3}, "latestOffset": None},
    ]
    # Partition 2 is new: where the next batch begins in it is not known yet.
    assert read_batch(account(0, sources=sources)).lag == 3


def test_files_have_no_lag() -> None:
    assert read_batch(account(0, sources=[{"endOffset": {"logOffset": 3}, "latestOffset": None}])).lag is None


def test_a_batch_goes_on_by_offsets_of_which_some_have_no_row() -> None:
    begun, gone_on = position(a={"0": 5, "1": 9}), position(a={"0": 25, "1": 9, "2": 4})
    first = read_batch(account(0, sources=[{"startOffset": None, "endOffset": begun}]))
    assert first.offsets == 0
    batch = read_batch(account(1, sources=[{"startOffset": begun, "endOffset": gone_on}]))
    assert batch.offsets == 20
    known = advance(advance(RunProgress("q"), first, 0), batch, 0)
    assert advance(known, batch, 0).offsets == 40
    assert read_batch(account(1, sources=[{"startOffset": begun, "endOffset": {"logOffset": 3}}])).offsets == 0


def test_state_is_summed_over_operators_and_a_watermark_of_1970_is_none() -> None:
    operators = [{"numRowsTotal": 3, "memoryUsedBytes": 10}, {"numRowsTotal": 4, "memoryUsedBytes": 20}]
    batch = read_batch(account(0, stateOperators=operators))
    assert (batch.state_rows, batch.state_bytes, batch.watermark) == (7, 30, None)
    marked = read_batch(account(0, eventTime={"watermark": "2029-12-31T23:50:59.000Z"}))
    assert marked.watermark == "2029-12-31T23:50:59.000Z"


def test_a_batch_that_took_no_time_has_no_rate() -> None:
    assert read_batch(account(0, durationMs={"addBatch": 0})).rows_per_second == 0.0


def test_pauses_double_up_to_a_minute() -> None:
    backoff = Backoff()
    assert [backoff.delay_s(failures) for failures in (1, 2, 3, 6, 7, 10_000)] == [1, 2, 4, 32, 60, 60]


def test_enough_failures_in_a_row_are_the_end() -> None:
    backoff = Backoff(failures_max=2)
    assert [backoff.delay_s(1), backoff.delay_s(2)] == [1, None]


def test_checkpoints_are_beside_the_file_unless_it_or_the_caller_says_otherwise() -> None:
    spec = spec_of(SMALL)
    file = PurePath("dir/pipeline.yaml")
    assert checkpoints_of(spec, file).of_sink("out") == "dir/.goqueue/checkpoints/orders/sinks/out"
    assert checkpoints_of(spec, file).of_dead_letters == "dir/.goqueue/checkpoints/orders/dead-letters"
    assert checkpoints_of(spec, file, "s3a://bucket/").of_sink("out") == "s3a://bucket/orders/sinks/out"
    named = spec_of(SMALL + "checkpoint: s3a://mine\n")
    assert checkpoints_of(named, file).of_sink("out") == "s3a://mine/orders/sinks/out"

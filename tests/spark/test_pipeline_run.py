"""Pipelines run on Spark, over files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from goqueue.client import Client, messages
from goqueue.spark.pipelines.run.query import RunState
from goqueue.testing.broker import Broker
from tests.spark.pipeline_run_kit import Pipelines
from tests.spark.read_kit import new_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAM = """\
pipeline: files
trigger: available_now
sources:
  orders: {json: in, stream: true, schema: "id STRING, amount DOUBLE"}
  names: {csv: names.csv, options: {header: true}}
steps:
  valid:
    from: orders
    expect: {small: amount < 10}
    expect_or_drop: {positive: amount > 0}
  named: {sql: "SELECT valid.*, names.name FROM valid JOIN names USING (id)"}
sinks:
  out: {from: named, json: out}
  screen: {from: named, console: {rows: 1}}
"""
TABLES = """\
pipeline: tables
sources:
  orders: {json: in}
steps:
  valid: {from: orders, expect_or_drop: {positive: amount > 0}}
  sums: {from: valid, group_by: [id], aggregate: {total: sum(amount)}}
sinks:
  out: {from: sums, parquet: sums}
"""
COPY = """\
pipeline: copies
trigger: available_now
sources:
  orders: {json: in, stream: true, schema: "id STRING, amount DOUBLE"}
sinks:
  copy: {from: orders, json: copy}
"""
SIDE_BY_SIDE = """\
pipeline: tables
sources:
  orders: {json: in}
steps:
  valid: {sql: SELECT * FROM orders, expect_or_dlq: {positive: amount > 0}}
  large: {sql: SELECT * FROM valid WHERE amount > 10}
  nothing: {sql: SELECT * FROM valid WHERE 1 = 0}
sinks:
  out: {from: valid, topic: out, key: id}
  few: {from: large, json: few}
  none: {from: nothing, json: none}
  idle: {from: valid, foreach_batch: "idle.py:idle"}
"""
JOINED = """\
pipeline: joined
trigger: available_now
sources:
  orders: {json: in, stream: true, schema: "id STRING, amount DOUBLE"}
  names: {csv: names.csv, options: {header: true}}
  clicks: {json: clicks, stream: true, schema: "user STRING, at TIMESTAMP"}
steps:
  named: {from: orders, join: {with: names, on: [id], type: left}}
  timely: {from: clicks, watermark: {column: at, delay: 1m}}
  visits: {from: timely, window: {column: at, gap: 10m}, group_by: [user], aggregate: {clicks: count(*)}}
sinks:
  out: {from: named, json: named}
  visits: {from: visits, json: visits}
"""
FAILING = """\
pipeline: failing
trigger: available_now
sources:
  orders: {json: in, stream: true, schema: "id STRING, amount DOUBLE"}
steps:
  halved: {from: orders, python: "halves.py:halve"}
sinks:
  out: {from: halved, json: halves}
"""
HALVES = """\
from pathlib import Path

def halve(orders):
    return orders.mapInPandas(halved, orders.schema)

def halved(frames):
    for frame in frames:
        if not Path({marker!r}).exists():
            raise ValueError("the rates are not there yet")
        frame["amount"] /= 2
        yield frame
"""


@pytest.fixture
def pipelines(spark: SparkSession, tmp_path: Path) -> Pipelines:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"id":"a","amount":1}\n{"id":"b","amount":20}\n{"id":"c","amount":-1}\n')
    (tmp_path / "names.csv").write_text("id,name\na,Ada\nb,Bob\nc,Cyd\n")
    return Pipelines(spark, tmp_path)


def rows_in(spark: SparkSession, path: Path, form: str = "json") -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in spark.read.format(form).load(str(path)).collect())


def test_rules_are_counted_and_obeyed_and_the_next_run_goes_on_where_this_one_ended(
    spark: SparkSession, pipelines: Pipelines, tmp_path: Path
) -> None:
    status = pipelines.run(STREAM)
    assert (status.state, status.failure) == (RunState.ENDED, None)
    out, screen = (query.progress for query in status.queries)
    assert (out.rows, out.rows_written) == (3, 2)
    assert (out.bad_rows, out.warned_rows) == ({"valid.positive": 1}, {"valid.small": 1})
    assert (screen.rows, screen.rows_written, screen.bad_rows) == (3, 2, out.bad_rows)
    (shown,) = pipelines.shown
    assert (shown.sink, shown.columns, len(shown.rows), shown.is_all) == ("screen", ["id", "amount", "name"], 1, False)
    (tmp_path / "in" / "2.json").write_text('{"id":"a","amount":null}\n{"id":"a","amount":3}\n')
    again = pipelines.run(STREAM)
    # A rule about what is not there is broken.
    (progress, _) = (query.progress for query in again.queries)
    assert (progress.bad_rows, progress.warned_rows) == ({"valid.positive": 1}, {"valid.small": 1})
    assert rows_in(spark, tmp_path / "out") == [(1.0, "a", "Ada"), (3.0, "a", "Ada"), (20.0, "b", "Bob")]
    # Views belong to the pipeline, not to whoever else uses this Spark.
    assert not spark.catalog.tableExists("valid")


def test_a_pipeline_over_tables_alone_is_run_once(spark: SparkSession, pipelines: Pipelines, tmp_path: Path) -> None:
    status = pipelines.run(TABLES)
    (query,) = status.queries
    assert (query.state, query.progress.rows, query.progress.bad_rows) == (RunState.ENDED, 2, {"valid.positive": 1})
    assert rows_in(spark, tmp_path / "sums", "parquet") == [("a", 1.0), ("b", 20.0)]


def test_files_of_another_query_are_not_taken_for_written(
    spark: SparkSession, pipelines: Pipelines, tmp_path: Path
) -> None:
    """Rows of both queries would be there, those of one that begins anew twice."""
    assert pipelines.run(COPY).state is RunState.ENDED
    assert pipelines.run(COPY.replace("copy:", "other:")).state is RunState.FAILED
    (failure,) = pipelines.failures
    assert (failure.retry_s, "move" in str(failure.failure)) == (None, True)
    shutil.rmtree(tmp_path / ".goqueue")
    assert pipelines.run(COPY).state is RunState.FAILED
    assert len(rows_in(spark, tmp_path / "copy")) == 3
    shutil.rmtree(tmp_path / "copy")
    assert pipelines.run(COPY).state is RunState.ENDED
    assert len(rows_in(spark, tmp_path / "copy")) == 3


def test_tables_are_written_to_topics_and_files_side_by_side(
    spark: SparkSession, pipelines: Pipelines, tmp_path: Path
) -> None:
    """Sinks that read the same names, one that gets no row, and one that does nothing."""
    (tmp_path / "idle.py").write_text("def idle(batch, number):\n    pass\n")
    with Broker() as broker:
        for name in ("out", "tables.dlq"):
            new_topic(broker, name=name)
        del pipelines
        run = Pipelines(spark, tmp_path, broker).run(SIDE_BY_SIDE)
        with Client(broker.http) as client:
            out = client.send(messages.read("out", 0)).messages
            dead = client.send(messages.read("tables.dlq", 0)).messages
    assert (run.state, run.failure) == (RunState.ENDED, None)
    written = {query.progress.name: query.progress.rows_written for query in run.queries}
    assert written == {"out": 2, "few": 1, "none": 0, "idle": 0, "dead letters": 1}
    assert sorted(each.key or b"" for each in out) == [b"a", b"b"]
    assert [json.loads(each.value or b"")["id"] for each in dead] == ["c"]
    assert dict(dead[0].headers)["goqueue-dlq-rule"] == b"positive"


def test_streams_are_joined_and_cut_into_sessions(spark: SparkSession, pipelines: Pipelines, tmp_path: Path) -> None:
    (tmp_path / "clicks").mkdir()
    times = [("ada", "10:00"), ("ada", "10:05"), ("ada", "10:30"), ("bob", "10:02"), ("cyd", "12:00")]
    rows = [json.dumps({"user": user, "at": f"2030-01-01T{time}:00Z"}) for user, time in times]
    (tmp_path / "clicks" / "1.json").write_text("\n".join(rows))
    assert pipelines.run(JOINED).state is RunState.ENDED
    named = [(row.id, row.amount, row.name) for row in spark.read.json(str(tmp_path / "named")).collect()]
    assert sorted(named) == [("a", 1.0, "Ada"), ("b", 20.0, "Bob"), ("c", -1.0, "Cyd")]
    visits = spark.read.json(str(tmp_path / "visits")).selectExpr("user", "clicks", "date_format(window.end, 'HH:mm')")
    # Those of whoever came last may still go on.
    assert sorted(tuple(row) for row in visits.collect()) == [
        ("ada", 1, "10:40"),
        ("ada", 2, "10:15"),
        ("bob", 1, "10:12"),
    ]


def test_a_failing_function_is_tried_again_until_it_works_and_says_why(
    spark: SparkSession, pipelines: Pipelines, tmp_path: Path
) -> None:
    marker = tmp_path / "rates"
    (tmp_path / "halves.py").write_text(HALVES.format(marker=str(marker)))
    given_up = pipelines.run(FAILING, failures_max=2)
    assert given_up.state is RunState.FAILED
    assert [failure.retry_s for failure in pipelines.failures] == [1.0, None]
    reason = "ValueError: the rates are not there yet (line 9 of halves.py, in halved)"
    assert {failure.failure.reason for failure in pipelines.failures} == {reason}
    marker.touch()
    assert pipelines.run(FAILING).state is RunState.ENDED
    assert rows_in(spark, tmp_path / "halves") == [(-0.5, "c"), (0.5, "a"), (10.0, "b")]


def test_a_column_that_is_not_there_is_told_at_once(pipelines: Pipelines) -> None:
    status = pipelines.run(TABLES.replace("amount > 0", "amuont > 0"))
    assert status.state is RunState.FAILED
    (failure,) = pipelines.failures
    assert failure.retry_s is None
    assert "`amuont`" in failure.failure.reason
    assert "\n" not in failure.failure.reason

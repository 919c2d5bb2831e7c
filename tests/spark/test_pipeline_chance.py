"""Time and chance in pipelines: no row is lost between a sink and the dead letters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from goqueue.client import Client, messages
from goqueue.spark.pipelines.compile.nondeterminism import nondeterminism_of
from goqueue.spark.pipelines.run.query import RunState
from goqueue.testing.broker import Broker
from tests.spark.pipeline_run_kit import Pipelines
from tests.spark.read_kit import new_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 1_000
DRAWN = """\
pipeline: drawn
trigger: available_now
sources:
  orders: {json: in, stream: true, schema: "id BIGINT"}
steps:
  drawn: {from: orders, python: "steps.py:NAME"}
  shown: {sql: "SELECT * FROM drawn"}
  judged: {from: shown, expect_or_dlq: {lucky: draw < 0.5}}
sinks:
  out: {from: judged, json: out}
  copy: {from: orders, json: copy}
"""
SAMPLED = """\
pipeline: sampled
trigger: available_now
sources:
  orders: {json: in, stream: true, schema: "id BIGINT"}
steps:
  judged: {from: orders, expect_or_dlq: {even: id % 2 = 0}}
  sampled: {from: judged, expect_or_drop: {sample: rand() < 0.5}}
  stamped: {sql: "SELECT *, current_timestamp() AS seen_at FROM sampled"}
sinks:
  out: {from: stamped, json: out}
"""
STEPS = """\
import random
from pyspark.sql import functions as F

def drawn(orders):
    return orders.withColumn("draw", F.rand())

@F.udf("double")
def luck(number):
    return random.random()

def marked(orders):
    return orders.withColumn("draw", luck.asNondeterministic()("id"))

def sampled(orders):
    return orders.sample(0.5).withColumn("draw", F.lit(0.1))

def timed(orders):
    return orders.withColumn("draw", F.unix_timestamp() % 2)

def steady(orders):
    return orders.withColumn("draw", F.pmod(F.xxhash64("id"), F.lit(100)) / 100)
"""


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        for topic in ("drawn.dlq", "sampled.dlq"):
            new_topic(broker, name=topic)
        yield broker


@pytest.fixture
def pipelines(spark: SparkSession, broker: Broker, tmp_path: Path) -> Pipelines:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text("\n".join(f'{{"id":{number}}}' for number in range(ROWS)))
    (tmp_path / "steps.py").write_text(STEPS)
    return Pipelines(spark, tmp_path, broker)


def letters(broker: Broker, topic: str) -> int:
    with Client(broker.http) as client:
        return len(client.send(messages.read(topic, 0, limit=ROWS)).messages)


@pytest.mark.parametrize(
    ("function", "chance"),
    [
        ("drawn", "rand()"),
        ("marked", "a function that is marked as nondeterministic"),
        ("sampled", "a sample of rows"),
        ("timed", "current_timestamp()"),
    ],
)
def test_dead_letters_behind_a_function_that_draws_lots_are_refused_before_anything_is_written(
    pipelines: Pipelines, tmp_path: Path, function: str, chance: str
) -> None:
    status = pipelines.run(DRAWN.replace("NAME", function))
    assert status.state is RunState.FAILED
    (failure,) = pipelines.failures
    assert failure.retry_s is None
    assert failure.failure.reason.startswith(f"step drawn depends on {chance}, and step judged makes dead letters")
    assert "in a step before it" in failure.failure.hint
    assert not (tmp_path / "copy").exists()


def test_dead_letters_behind_a_function_of_the_row_are_complete(
    spark: SparkSession, pipelines: Pipelines, broker: Broker, tmp_path: Path
) -> None:
    assert pipelines.run(DRAWN.replace("NAME", "steady")).state is RunState.ENDED
    kept = spark.read.json(str(tmp_path / "out")).count()
    assert 0 < kept < ROWS
    assert kept + letters(broker, "drawn.dlq") == ROWS


def test_rows_that_are_drawn_by_lot_are_counted_as_they_are_dropped(
    spark: SparkSession, pipelines: Pipelines, broker: Broker, tmp_path: Path
) -> None:
    status = pipelines.run(SAMPLED)
    assert status.state is RunState.ENDED, pipelines.failures
    out = status.queries[0].progress
    rows = spark.read.schema("id BIGINT, seen_at TIMESTAMP").json(str(tmp_path / "out")).collect()
    assert all(row.id % 2 == 0 and row.seen_at is not None for row in rows)
    assert 0 < len(rows) < ROWS // 2
    assert out.rows_written == len(rows)
    assert out.bad_rows == {"judged.even": ROWS // 2, "sampled.sample": ROWS // 2 - len(rows)}
    assert letters(broker, "sampled.dlq") == ROWS // 2


def test_chance_is_found_wherever_it_is(spark: SparkSession) -> None:
    spark.range(1).createOrReplaceTempView("some")
    try:
        for sql, chance in {
            "SELECT * FROM some WHERE id > (SELECT rand())": "rand()",
            "WITH a AS (SELECT uuid() AS u FROM some) SELECT count(*) FROM a": "uuid()",
            "SELECT reflect('java.util.UUID', 'randomUUID') FROM some": "reflect()",
            "SELECT curdate()": "current_date()",
            "SELECT * FROM some WHERE id IN (SELECT minute(localtimestamp()) FROM some)": "localtimestamp()",
            "SELECT id FROM (SELECT id, count(*) FROM some TABLESAMPLE (10 PERCENT) GROUP BY id)": "a sample of rows",
            "SELECT first(id), collect_list(id), any_value(id) FROM some": "",
            "SELECT input_file_name(), current_user(), raise_error('rand()') FROM some": "",
        }.items():
            assert nondeterminism_of(spark.sql(sql)) == chance, sql
    finally:
        spark.catalog.dropTempView("some")

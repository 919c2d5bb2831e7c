"""A pipeline from topic to topics: everything once, dead letters with their cause, and on from where it stopped."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from goqueue.spark.pipelines.run.query import RunState
from goqueue.testing.broker import Broker
from tests.spark.pipeline_run_kit import Pipelines
from tests.spark.read_kit import WAIT_S, new_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS = """\
pipeline: orders
trigger: available_now
sources:
  orders:
    topic: orders
    decode: {format: json, schema: "id STRING, amount DOUBLE, placed_at TIMESTAMP", keep: [offset]}
steps:
  valid:
    from: orders
    expect_or_dlq: {has_id: id IS NOT NULL, positive: amount > 0}
  large: {sql: "SELECT id, amount FROM valid", expect_or_dlq: {known: id <> 'o9'}}
  sums: {from: large, group_by: [id], aggregate: {total: sum(amount)}}
sinks:
  out: {from: large, topic: out, key: id}
  lake: {from: large, parquet: lake}
  totals: {from: sums, topic: totals, key: id, mode: update}
"""


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        for topic in ("orders", "out", "totals", "orders.dlq"):
            new_topic(broker, name=topic)
        yield broker


def order(number: int, **changes: object) -> bytes:
    fields = {"id": f"o{number}", "amount": number, "placed_at": "2030-01-01T00:00:00Z"}
    return json.dumps(fields | changes).encode()


def publish(broker: Broker, values: list[bytes | None]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "message.max.bytes": 2_000_000, "log_level": 0})
    for value in values:
        producer.produce("orders", value, key=b"k", headers=[("trace", b"\xff")])
    assert producer.flush(WAIT_S) == 0


def messages(broker: Broker, topic: str) -> list[Any]:
    """Return what a reader sees who sees only what is committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "judge",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while (message := consumer.poll(WAIT_S)) is not None and not message.error():
        found.append(message)
    consumer.close()
    return found


def pairs(broker: Broker, topic: str) -> list[tuple[str, object]]:
    found = [(message.key().decode(), json.loads(message.value())) for message in messages(broker, topic)]
    return sorted(found, key=str)


def test_every_message_comes_out_once_or_is_a_dead_letter_with_its_cause(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    pipelines = Pipelines(spark, tmp_path, broker)
    publish(broker, [order(1), order(2, id=None, amount=-2), order(3), b"nope", None, order(9)])
    status = pipelines.run(ORDERS)
    assert status.state is RunState.ENDED, pipelines.failures
    counted = {query.progress.name: query.progress for query in status.queries}
    assert {name: (each.rows, each.rows_written, each.lag) for name, each in counted.items()} == {
        "out": (6, 2, 0),
        "lake": (6, 2, 0),
        "totals": (6, 2, 0),
        "dead letters": (4, 4, 0),
    }
    rules = {"orders.decode": 2, "valid.has_id": 1, "valid.positive": 1, "large.known": 1}
    assert counted["out"].bad_rows == rules
    assert pairs(broker, "out") == [("o1", {"amount": 1.0}), ("o3", {"amount": 3.0})]
    _check_letters(broker)

    # As large as a topic takes: with what is added to a letter it would not fit.
    large = random.Random(0).randbytes(1_048_450)
    publish(broker, [order(1, amount=5), b"{", large])
    assert pipelines.run(ORDERS).state is RunState.ENDED, pipelines.failures
    assert pairs(broker, "out") == [("o1", {"amount": 1.0}), ("o1", {"amount": 5.0}), ("o3", {"amount": 3.0})]
    assert pairs(broker, "totals") == [("o1", {"total": 1.0}), ("o1", {"total": 6.0}), ("o3", {"total": 3.0})]
    assert spark.read.parquet(str(tmp_path / "lake")).count() == 3
    letters = messages(broker, "orders.dlq")
    assert len(letters) == 6
    assert [each.headers() for each in letters if each.value() == large] == [[("trace", b"\xff")]]


def _check_letters(broker: Broker) -> None:
    letters = {message.value(): message for message in messages(broker, "orders.dlq")}
    bare = {"goqueue-dlq-pipeline": b"orders"}
    whole = bare | {"trace": b"\xff", "goqueue-dlq-topic": b"orders", "goqueue-dlq-partition": b"0"}
    expected = {
        order(2, id=None, amount=-2): whole
        | {
            "goqueue-dlq-reason": b"broken_rule",
            "goqueue-dlq-error": b"has_id is broken: id IS NOT NULL; positive is broken: amount > 0",
            "goqueue-dlq-rule": b"has_id,positive",
            "goqueue-dlq-step": b"valid",
            "goqueue-dlq-offset": b"1",
        },
        b"nope": whole
        | {
            "goqueue-dlq-reason": b"bad_value",
            "goqueue-dlq-error": b"the value is no JSON object",
            "goqueue-dlq-rule": b"decode",
            "goqueue-dlq-step": b"orders",
            "goqueue-dlq-offset": b"3",
        },
        None: whole
        | {
            "goqueue-dlq-reason": b"bad_value",
            "goqueue-dlq-error": b"there is no value",
            "goqueue-dlq-rule": b"decode",
            "goqueue-dlq-step": b"orders",
            "goqueue-dlq-offset": b"4",
        },
        # Behind SQL there is no message any more.
        b'{"id":"o9","amount":9.0}': bare
        | {
            "goqueue-dlq-reason": b"broken_rule",
            "goqueue-dlq-error": b"known is broken: id <> 'o9'",
            "goqueue-dlq-rule": b"known",
            "goqueue-dlq-step": b"large",
        },
    }
    assert letters.keys() == expected.keys()
    for value, headers in expected.items():
        found = dict(letters[value].headers())
        stamp = found.pop("goqueue-dlq-timestamp", None)
        assert found == headers
        assert (stamp is not None) == ("trace" in headers)
        assert letters[value].key() == (b"k" if "trace" in headers else None)

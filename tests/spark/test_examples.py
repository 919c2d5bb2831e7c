"""The examples for Spark in examples/ do what they say, on the session of the tests."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from goqueue.client import Client, NewMessage, messages, topics
from goqueue.spark import session
from goqueue.testing import Broker
from tests.spark.pipeline_run_kit import Pipelines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_spark_read(
    spark: SparkSession,
    goqueue_broker: Broker,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with Client(goqueue_broker.http) as client:
        events = [NewMessage("visit", key=key) for key in ("ada", "bob", "ada")]
        client.send(messages.publish("events", events))
    monkeypatch.setenv("GOQUEUE_BOOTSTRAP", goqueue_broker.bootstrap)
    monkeypatch.setattr(session, "start_session", lambda request: spark)
    runpy.run_path(str(EXAMPLES / "spark_read.py"))
    shown = capfd.readouterr().out
    assert "|     ada|    2|" in shown
    assert "|     bob|    1|" in shown


def test_pipeline(spark: SparkSession, goqueue_broker: Broker, tmp_path: Path) -> None:
    with Client(goqueue_broker.http) as client:
        sales = [{"country": "FR", "amount": 2.5}, {"country": "FR", "amount": 4.0}, {"country": "FR", "amount": -1}]
        client.send(messages.publish("sales", [NewMessage(json.dumps(sale), partition=0) for sale in sales]))
        for topic in ("sales.revenue", "sales.dlq"):
            client.send(topics.create(topic, partitions=1))
        pipelines = Pipelines(spark, tmp_path, goqueue_broker)
        pipelines.run((EXAMPLES / "pipeline.yaml").read_text("utf-8"))
        assert not pipelines.failures
        (row,) = client.send(messages.read("sales.revenue", 0)).messages
        assert (row.key, json.loads(row.value or b"")) == (b"FR", {"sales": 2, "revenue": 6.5})
        (bad,) = client.send(messages.read("sales.dlq", 0)).messages
        assert json.loads(bad.value or b"")["amount"] == -1

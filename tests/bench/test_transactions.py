"""`goqueue bench transactions`: every message counts once, and what does not fails the benchmark."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner, Result

from goqueue.cli.main import app
from goqueue_bench.broker_process import Broker, private_broker
from goqueue_bench.kafka import confluent
from goqueue_bench.kafka.connection import private_topic
from goqueue_bench.kafka.read_committed import committed_values, require_each_once
from goqueue_bench.measure import BenchmarkFailed
from goqueue_bench.transactions.commit import Transactions, Writer, measure_transactions, numbered, take

FIGURES = {
    "messages",
    "seconds",
    "msgs_per_s",
    "mb_per_s",
    "broker_cpu_us_per_msg",
    "p50_ms",
    "p99_ms",
    "p999_ms",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with private_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


def bench(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["bench", "transactions", *arguments])


def test_producers_together_one_alone_and_one_that_reads_as_well(broker: Broker) -> None:
    arguments = ["--transactions", "7", "--producers", "2", "--messages-per-transaction", "3", "--size", "50"]
    shown = bench(*arguments, "--bootstrap", broker.bootstrap, "--pid", str(broker.pid), "--json")
    assert shown.exit_code == 0, shown.output
    document = json.loads(shown.stdout)
    assert document["settings"]["messages_per_transaction"] == 3
    found = document["results"]
    assert list(found) == ["transactions", "transactions_alone", "transform"]
    assert [each["messages"] for each in found.values()] == [21, 9, 9]
    for each in found.values():
        assert set(each) >= FIGURES
        assert each["unit"] == "transactions/s"
        assert 0 < each["p50_ms"] <= each["p99_ms"] <= each["p999_ms"]
    assert [each["goal"] for each in found.values()] == ["at least 500", None, None]


def test_more_producers_than_transactions_have_one_each(broker: Broker) -> None:
    wanted = Transactions(count=2, producers=5, messages=1, size_bytes=20)
    assert wanted.shares == [1, 1]
    with private_topic(broker, partitions=1, settings={}) as topic:
        result = measure_transactions(broker, topic, 1, wanted)
    assert result.details["messages"] == 2


def test_a_message_that_is_too_large_fails_the_command(broker: Broker) -> None:
    arguments = ["--transactions", "1", "--producers", "1", "--messages-per-transaction", "1", "--size", "3000000"]
    shown = bench(*arguments, "--bootstrap", broker.bootstrap)
    assert shown.exit_code == 1
    assert "a transaction failed" in shown.stderr
    assert "{" not in shown.stdout


def test_messages_of_a_run_are_all_different_and_of_one_size() -> None:
    values = take(numbered(Transactions(count=1, size_bytes=16)), 1000)
    assert len(set(values)) == 1000
    assert {len(value) for value in values} == {16}


def test_what_was_aborted_is_not_read_and_what_is_missing_or_doubled_is_found(broker: Broker) -> None:
    with private_topic(broker, partitions=2, settings={}) as topic:
        writer = Writer(broker, topic, [[b"one", b"two"]])
        writer.begin()
        abort(broker, topic, b"three")
        writer.commit([b"four"])
        assert sorted(committed_values(broker, topic, 2)) == [b"four", b"one", b"two"]
        require_each_once(broker, topic, 2, writer.values)
        with pytest.raises(BenchmarkFailed, match="every message can be read"):
            require_each_once(broker, topic, 2, [*writer.values, b"three"])
        with pytest.raises(BenchmarkFailed, match="nothing else can be read"):
            require_each_once(broker, topic, 2, [b"one", b"two"])
        writer.commit([b"four"])
        with pytest.raises(BenchmarkFailed, match="every message is read once"):
            require_each_once(broker, topic, 2, writer.values)


def abort(broker: Broker, topic: str, value: bytes) -> None:
    client = confluent.producer(broker.bootstrap, {"transactional.id": "somebody-else"})
    client.init_transactions(30)
    client.begin_transaction()
    client.produce(topic, value)
    assert client.flush(30) == 0
    client.abort_transaction(30)

"""`goqueue bench` against a broker: it does its work, says so in one shape, and fails when the work was not done."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from goqueue.cli.main import app
from goqueue.server.ready_line import parse_ready_line
from goqueue_bench.broker_process import Broker, private_broker, split_address
from goqueue_bench.kafka import confluent
from goqueue_bench.kafka.connection import Connection, create_topic, end_offsets, private_topic
from goqueue_bench.measure import BenchmarkFailed
from goqueue_bench.messages.publish import payloads

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
PERCENTILES = ("p50_ms", "p99_ms", "p999_ms")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with private_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


def bench(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["bench", *arguments])


def results(shown: Result) -> dict[str, dict[str, Any]]:
    assert shown.exit_code == 0, shown.output
    document = json.loads(shown.stdout)
    assert set(document) == {"machine", "settings", "results"}
    found: dict[str, dict[str, Any]] = document["results"]
    assert all(set(each) == FIGURES for each in found.values())
    return found


def at(broker: Broker) -> list[str]:
    return ["--bootstrap", broker.bootstrap, "--pid", str(broker.pid), "--quick", "--json"]


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["publish", "--flush", "interval", "--acks", "1", "--codec", "lz4", "--partitions", "2"], {"publish"}),
        (["replay", "--messages", "30000"], {"replay_confluent"}),
        (["replay", "--client", "raw", "--messages", "30000"], {"replay_raw"}),
        (["requests", "--messages", "1003", "--size", "10"], {"requests"}),
    ],
)
def test_streams_have_a_rate_and_a_cost_and_no_latency(broker: Broker, arguments: list[str], names: set[str]) -> None:
    found = results(bench(*arguments, *at(broker)))
    assert set(found) == names
    for figures in found.values():
        assert figures["msgs_per_s"] > 0
        assert figures["broker_cpu_us_per_msg"] >= 0
        assert [figures[name] for name in PERCENTILES] == [None, None, None]


def test_latencies_are_measured_with_both_clients_and_from_end_to_end(broker: Broker) -> None:
    found = results(bench("latency", "--messages", "50", *at(broker)))
    assert set(found) == {"latency_raw", "latency_confluent", "end_to_end"}
    for figures in found.values():
        assert figures["messages"] == 50
        assert 0 < figures["p50_ms"] <= figures["p99_ms"] <= figures["p999_ms"]


def test_a_broker_whose_process_is_not_known_has_no_cpu_time(broker: Broker) -> None:
    found = results(bench("requests", "--messages", "10", "--json", "--bootstrap", broker.bootstrap))
    assert found["requests"]["broker_cpu_us_per_msg"] is None


def test_a_private_broker_is_started_and_stopped_and_its_data_removed(tmp_path: Path) -> None:
    data, stored = tmp_path / "data", tmp_path / "requests.json"
    data.mkdir()
    shown = bench("requests", "--quick", "--messages", "100", "--data-dir", str(data), "--output", str(stored))
    assert shown.exit_code == 0, shown.output
    document = json.loads(stored.read_text("utf-8"))
    assert document["settings"]["broker"] == "private"
    assert document["results"]["requests"]["messages"] == 100
    assert str(tmp_path) not in stored.read_text("utf-8")
    assert list(data.iterdir()) == []


def test_a_benchmark_leaves_no_topic_behind(broker: Broker) -> None:
    with private_topic(broker, partitions=1, settings={}) as topic:
        assert end_offsets(broker, topic, 1) == [0]
    with pytest.raises(BenchmarkFailed, match="error 3"):
        end_offsets(broker, topic, 1)


@pytest.mark.parametrize("workload", ["requests", "latency", "publish"])
def test_a_message_that_is_refused_fails_the_command(broker: Broker, workload: str) -> None:
    shown = bench(workload, "--messages", "5", "--size", "3000000", *at(broker))
    assert shown.exit_code == 1
    assert "the measured work was not done" in shown.stderr
    assert "{" not in shown.stdout


def test_a_topic_that_cannot_be_made_fails_with_what_the_broker_says(broker: Broker) -> None:
    with Connection(broker) as connection, pytest.raises(BenchmarkFailed, match="can be made"):
        create_topic(connection, "bench", 1, {"no.such.setting": "1"})


def test_nobody_listening_is_one_line_and_a_failure() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        shown = bench("requests", "--quick", "--bootstrap", f"127.0.0.1:{unused.getsockname()[1]}")
    assert shown.exit_code == 1
    assert shown.stderr.startswith("goqueue: ")
    assert len(shown.stderr.splitlines()) == 1


def test_a_process_without_an_address_is_a_mistake() -> None:
    shown = bench("publish", "--pid", "1")
    assert shown.exit_code == 2
    assert "--bootstrap" in shown.stderr


@pytest.mark.parametrize("size_bytes", [1, 100, 3_000_000, 50_000_000])
def test_what_a_producer_sends_fits_into_memory_whatever_its_size(size_bytes: int) -> None:
    pool = payloads(size_bytes)
    assert {len(message["value"]) for message in pool} == {size_bytes}
    assert sum(len(message["value"]) for message in pool) <= max(16 * 1024 * 1024, size_bytes)


def test_a_missing_client_is_named_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_client(name: str, *arguments: Any, **options: Any) -> Any:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(confluent, "import_module", without_client)
    with pytest.raises(confluent.ClientMissing, match=r"pip install 'goqueue\[bench\]'"):
        confluent.load()


def test_a_broker_that_does_not_start_fails_with_what_it_printed(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("not a directory", "utf-8")
    with pytest.raises(BenchmarkFailed, match="did not start") as failure, private_broker(tmp_path):
        pass
    assert str(failure.value).count("data") >= 1


def test_a_broker_that_died_fails_whatever_it_did_before(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkFailed, match="during the benchmark"), private_broker(tmp_path) as broker:
        kill_and_wait(broker)


def kill_and_wait(broker: Broker) -> None:
    assert broker.pid is not None
    os.kill(broker.pid, signal.SIGKILL)
    # Without reaping it: that is for whoever started it.
    os.waitid(os.P_PID, broker.pid, os.WEXITED | os.WNOWAIT)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("ready kafka=127.0.0.1:9092 http=[::1]:80\n", {"kafka": "127.0.0.1:9092", "http": "[::1]:80"}),
        ("noise\nready kafka=a:1\nmore\n", {"kafka": "a:1"}),
        ("ready kafka=127.0.0.1:90", None),
        ("already there\n", None),
        ("", None),
    ],
)
def test_a_broker_is_ready_when_the_whole_line_is_there(output: str, expected: dict[str, str] | None) -> None:
    assert parse_ready_line(output) == expected


def test_an_address_is_a_host_and_a_port() -> None:
    assert split_address("localhost:9092") == ("localhost", 9092)
    assert split_address("[::1]:9092") == ("::1", 9092)
    for wrong in ("localhost", "localhost:", ":9092", "localhost:http"):
        with pytest.raises(BenchmarkFailed, match="HOST:PORT"):
            split_address(wrong)

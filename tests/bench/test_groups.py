"""`goqueue bench groups`: each part does its work and says so in one shape, and fails when the work was not done."""

from __future__ import annotations

import json
import socketserver
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pytest
from typer.testing import CliRunner, Result
from typing_extensions import override

from goqueue.cli.main import app
from goqueue_bench.broker_process import Broker, private_broker
from goqueue_bench.groups.commits import Commits, measure_commits
from goqueue_bench.groups.joiner import PARTITIONS, GroupProtocol, measure_joiner
from goqueue_bench.groups.rebalance import Crowd, measure_rebalance
from goqueue_bench.kafka.connection import Connection, private_topic
from goqueue_bench.kafka.group_wire import CONSUMER_GROUP_HEARTBEAT, FIND_COORDINATOR, offset_commit_request
from goqueue_bench.kafka.groups import committed_offsets, private_groups
from goqueue_bench.measure import BenchmarkFailed
from tests.bench.test_wire import answer

DESCRIPTION = {"what", "value", "unit", "goal", "is_met"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with private_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


def bench(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["bench", "groups", *arguments])


@pytest.mark.parametrize(("requests", "connections", "used"), [(101, 4, 4), (3, 16, 3)])
def test_commits_are_counted_by_offset_and_by_request(
    broker: Broker, requests: int, connections: int, used: int
) -> None:
    with private_topic(broker, partitions=2, settings={}) as topic:
        result = measure_commits(broker, topic, Commits(requests=requests, partitions=2, connections=connections))
    assert result.name == "commits_2"
    assert result.details["connections"] == used
    assert result.details["broker_cpu_us_per_request"] >= 0
    assert result.value == pytest.approx(2 * result.details["requests_per_second"])


def test_a_commit_that_is_refused_fails_the_benchmark(broker: Broker) -> None:
    with (
        private_topic(broker, partitions=1, settings={}) as topic,
        pytest.raises(BenchmarkFailed, match=r"every commit succeeds \(errors \[0, 3\]\)"),
    ):
        measure_commits(broker, topic, Commits(requests=1, partitions=2))


def test_a_group_has_the_offsets_that_it_committed_until_it_is_removed(broker: Broker) -> None:
    with private_topic(broker, partitions=2, settings={}) as topic, Connection(broker) as connection:
        with private_groups(broker) as (group,):
            connection.call(offset_commit_request(group, topic, {1: 7}))
            assert committed_offsets(connection, group, topic, 2) == {0: -1, 1: 7}
        assert committed_offsets(connection, group, topic, 2) == {0: -1, 1: -1}


@pytest.mark.parametrize("protocol", GroupProtocol)
def test_a_third_member_is_waited_for_while_others_read_on(broker: Broker, protocol: GroupProtocol) -> None:
    with private_topic(broker, partitions=PARTITIONS, settings={}) as topic:
        result = measure_joiner(broker, topic, protocol, 1)
    assert result.name == f"joiner_{protocol}"
    assert result.value == result.details["p99_ms"] >= result.details["p50_ms"] > 0
    assert result.details["longest_pause_ms"] > 0


def test_a_rebalance_is_measured_in_the_heartbeats_that_members_were_told_to_send(broker: Broker) -> None:
    with private_topic(broker, partitions=7, settings={}) as topic:
        result = measure_rebalance(broker, topic, Crowd(members=3, partitions=7, rounds=2))
    assert result.details["rounds"] == 2
    assert result.details["heartbeat_interval_ms"] > 0
    assert result.value * result.details["heartbeat_interval_ms"] == pytest.approx(result.details["p50_ms"])


def test_two_members_with_the_same_partition_fail_the_benchmark() -> None:
    with (
        broker_that_gives_everybody([0, 1]) as broker,
        pytest.raises(BenchmarkFailed, match="has one owner"),
    ):
        measure_rebalance(broker, "bench", Crowd(members=2, partitions=2, rounds=1))


def test_a_start_with_many_groups_has_a_duration_and_a_size(tmp_path: Path) -> None:
    data, stored = tmp_path / "data", tmp_path / "groups.json"
    data.mkdir()
    arguments = ["--only", "load", "--quick", "--groups", "30", "--offsets", "5", "--data-dir", str(data)]
    shown = bench(*arguments, "--output", str(stored), "--json")
    assert shown.exit_code == 0, shown.output
    document = json.loads(stored.read_text("utf-8"))
    assert document == json.loads(shown.stdout)
    assert document["settings"]["broker"] == "private"
    assert set(document["results"]) == {"load"}
    load = document["results"]["load"]
    assert set(load) > DESCRIPTION
    assert (load["groups"], load["offsets"]) == (30, 150)
    assert load["value"] > 0
    assert load["memory_bytes"] > 2**20
    assert list(data.iterdir()) == []


def test_a_broker_that_runs_is_measured_without_its_process(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    shown = bench("--only", "commits", "--quick", "--connections", "8", "--bootstrap", broker.bootstrap)
    assert shown.exit_code == 0, shown.output
    assert "at least 20,000 offsets/s" in shown.stdout
    assert "cpu" not in shown.stdout


def test_a_broker_that_runs_is_not_stopped(broker: Broker) -> None:
    shown = bench("--only", "load", "--quick", "--bootstrap", broker.bootstrap)
    assert shown.exit_code == 1
    assert "only a private broker can be restarted" in " ".join(shown.stderr.split())


def test_a_process_without_an_address_is_a_mistake() -> None:
    assert bench("--pid", "1").exit_code == 2


@contextmanager
def broker_that_gives_everybody(partitions: list[int]) -> Iterator[Broker]:
    """Answer whoever asks as a broker does that assigns the same partitions to all members."""
    assigned = {"topic_partitions": [{"topic_id": UUID(int=1), "partitions": partitions}]}
    heartbeat = {"member_id": "any", "member_epoch": 1, "heartbeat_interval": 100, "assignment": assigned}
    replies = {
        FIND_COORDINATOR: answer(10, 0, {}, header=struct.pack(">i", 0)),
        CONSUMER_GROUP_HEARTBEAT: answer(68, 1, heartbeat, header=struct.pack(">ib", 0, 0)),
    }

    class Connected(socketserver.StreamRequestHandler):
        @override
        def handle(self) -> None:
            while head := self.rfile.read(4):
                request = self.rfile.read(struct.unpack(">i", head)[0])
                reply = replies.get(struct.unpack_from(">h", request)[0])
                if reply is None:
                    return
                self.wfile.write(struct.pack(">i", len(reply)) + reply)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Connected) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        try:
            yield Broker("127.0.0.1", server.server_address[1], None)
        finally:
            server.shutdown()
            serving.join()

"""`goqueue bench queue`: every message is acked once, and what does not do so fails the benchmark."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner, Result

from goqueue.cli.main import app
from goqueue_bench.broker_process import Broker, private_broker
from goqueue_bench.http_connection import HttpConnection
from goqueue_bench.measure import BenchmarkFailed
from goqueue_bench.queues.client import Report, carry_out, ranges_of
from goqueue_bench.queues.measure import (
    QueueLoad,
    QueueTopic,
    measure_singles,
    p99_of_stretches,
    queue_topic,
    require_each_once,
)
from goqueue_bench.queues.workloads import SINGLES_GOALS

DESCRIPTION = {"what", "value", "unit", "goal", "is_met"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with private_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def place(broker: Broker) -> Iterator[QueueTopic]:
    with queue_topic(broker, 2, "group") as made:
        yield made


def bench(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["bench", "queue", *arguments])


def test_batches_singles_and_delivery_are_measured_in_one_shape(broker: Broker) -> None:
    host, port = broker.http_address
    arguments = ["--messages", "41", "--batch", "5", "--connections", "2", "--server", f"{host}:{port}"]
    shown = bench(*arguments, "--pid", str(broker.pid), "--json")
    assert shown.exit_code == 0, shown.output
    document = json.loads(shown.stdout)
    assert document["settings"]["batch"] == 5
    found = document["results"]
    singles = [f"queue_singles_{count}" for count in SINGLES_GOALS]
    assert list(found) == ["queue_publish", "queue_batches", "queue_cpu", *singles, "queue_delivery"]
    for each in found.values():
        assert set(each) >= DESCRIPTION | {"messages", "seconds", "requests", "broker_cpu_us_per_msg"}
        assert each["messages"] == 41
    assert found["queue_batches"]["goal"] == "at least 100,000"
    assert [found[name]["goal"] for name in singles] == [None, "at least 5,000"]
    assert found["queue_cpu"]["value"] == found["queue_batches"]["broker_cpu_us_per_msg"]
    # 21 and 20 messages, five at a time.
    assert found["queue_publish"]["requests"] == 9
    assert all(found[name]["requests"] >= 41 for name in singles)
    delivery = found["queue_delivery"]
    assert 0 < delivery["p50_ms"] <= delivery["p99_of_all_ms"] <= delivery["most_p99_ms"]
    assert delivery["least_p99_ms"] <= delivery["value"] <= delivery["most_p99_ms"]


def test_a_part_can_be_measured_alone(place: QueueTopic) -> None:
    # More consumers than processes.
    (result,) = measure_singles(place, QueueLoad(messages=7, batch=1, connections=6, partitions=2))
    assert (result.name, result.details["connections"], result.goal) == ("queue_singles_6", 6, None)


@pytest.mark.parametrize(("connections", "crews"), [(1, [1]), (4, [1, 1, 1, 1]), (6, [2, 2, 1, 1]), (32, [8, 8, 8, 8])])
def test_many_consumers_share_few_processes(connections: int, crews: list[int]) -> None:
    assert QueueLoad(messages=7, connections=connections).crews == crews


def test_a_bad_second_of_the_machine_is_no_matter_of_the_other_stretches() -> None:
    assert p99_of_stretches([*[1.0] * 100, *[9.0] * 100, *[2.0] * 98, 3.0, 4.0, *[1.0] * 200]) == [
        1.0,
        9.0,
        3.0,
        1.0,
        1.0,
    ]
    assert p99_of_stretches([2.0, 1.0]) == [2.0, 1.0]


def test_a_message_that_was_not_acked_fails_the_benchmark(place: QueueTopic) -> None:
    publish = place.order(part="publish", messages=10, batch=5, partitions=2)
    with HttpConnection(*place.broker.http_address) as connection:
        carry_out([connection], publish)
        report = carry_out([connection], place.order(part="consume", batch=5))
    require_each_once(place, [report], 10)
    for wrong in (Report(ranges={0: [(0, 5)]}), Report(ranges={0: [(0, 5)], 1: [(0, 4), (3, 4)]})):
        with pytest.raises(BenchmarkFailed, match="acked once"):
            require_each_once(place, [wrong], 10)
    with pytest.raises(BenchmarkFailed, match="left out"):
        require_each_once(place, [Report(ranges={0: [(0, 5)], 1: [(0, 4), (5, 6)]})], 10)


def test_messages_that_are_left_fail_the_benchmark(place: QueueTopic) -> None:
    with HttpConnection(*place.broker.http_address) as connection:
        carry_out([connection], place.order(part="publish", messages=10, batch=5, partitions=2))
        carry_out([connection], place.order(part="consume", batch=5))
        carry_out([connection], place.order(part="publish", messages=5, batch=5, partitions=2))
    with pytest.raises(BenchmarkFailed, match="the group is empty"):
        require_each_once(place, [Report(ranges={0: [(0, 5)], 1: [(0, 5)]})], 10)


def test_a_request_that_is_refused_fails_the_benchmark(broker: Broker) -> None:
    with (
        HttpConnection(*broker.http_address) as connection,
        pytest.raises(BenchmarkFailed, match=r"a request succeeds .*404"),
    ):
        connection.get("/v1/queues/nobody")


def test_offsets_are_told_as_ranges() -> None:
    assert ranges_of([5, 1, 2, 9, 3]) == [(1, 4), (5, 6), (9, 10)]
    assert ranges_of([1, 1]) == [(1, 2), (1, 2)]


def test_a_process_goes_with_its_server() -> None:
    shown = bench("--pid", "1")
    assert shown.exit_code == 2

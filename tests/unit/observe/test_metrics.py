"""Metrics: what is told agrees with what happened, in a form that Prometheus reads, and within bounds."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePath

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from goqueue import __version__
from goqueue.broker.admission import BUCKETS_S, INSIDE
from goqueue.broker.broker import Broker as CoreBroker
from goqueue.broker.topics.admin import create_topic
from goqueue.model.broker_options import BrokerOptions
from goqueue.observe.exposition import REASONS_MAX
from goqueue.observe.metrics import PARTITIONS_MAX, Metrics
from goqueue.testing import Broker, RecordingSink, SimDisk, Simulation, simulate

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@dataclass
class Door:
    """Connections as the metrics see them."""

    connections: int = 3
    dropped: Counter[str] = field(default_factory=Counter)


def samples(text: str) -> Samples:
    """Return all samples by name and labels; none may be told twice."""
    found: Samples = {}
    for family in parse_text(text):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, key
            found[key] = sample.value
    return found


def value(found: Samples, name: str, **labels: str) -> float:
    """Return one sample."""
    return found[name, frozenset(labels.items())]


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker of its own."""
    with Broker() as running:
        yield running


def scrape(broker: Broker) -> Samples:
    """Return what Prometheus would get."""
    reply = httpx.get(f"{broker.http}/metrics")
    assert reply.status_code == 200
    assert reply.headers["content-type"].startswith("text/plain; version=")
    return samples(reply.text)


def publish(broker: Broker, *values: str) -> None:
    """Publish to partition 1 of `t`."""
    messages = [{"value": each, "partition": 1} for each in values]
    httpx.post(f"{broker.http}/topics/t/messages", json={"messages": messages}).raise_for_status()


def test_what_is_published_and_read_is_counted_per_partition(broker: Broker) -> None:
    httpx.post(f"{broker.http}/topics", json={"name": "t", "partitions": 2}).raise_for_status()
    publish(broker, "a", "b")
    publish(broker, "c")
    before = scrape(broker)
    httpx.get(f"{broker.http}/topics/t/partitions/1/messages").raise_for_status()
    after = scrape(broker)
    labels = {"topic": "t", "partition": "1"}
    assert value(before, "goqueue_partition_records_in_total", **labels) == 3
    size = value(before, "goqueue_partition_bytes_in_total", **labels)
    assert size == value(before, "goqueue_partition_size_bytes", **labels) > 2 * 61
    assert value(before, "goqueue_partition_bytes_out_total", **labels) == 0
    assert value(after, "goqueue_partition_bytes_out_total", **labels) == size
    assert value(after, "goqueue_partition_start_offset", **labels) == 0
    assert value(after, "goqueue_partition_end_offset", **labels) == 3
    assert value(after, "goqueue_partition_records_in_total", topic="t", partition="0") == 0
    assert value(after, "goqueue_topics") == 1
    assert value(after, "goqueue_partitions") == 2
    assert value(after, "goqueue_partitions_omitted") == 0


def test_requests_are_counted_by_operation_protocol_and_outcome(broker: Broker) -> None:
    for _ in range(3):
        assert httpx.get(f"{broker.http}/topics/none").status_code == 404
    httpx.post(f"{broker.http}/topics", json={"name": "t", "partitions": 2}).raise_for_status()
    publish(broker, "a")
    found = scrape(broker)
    of_http = {"protocol": "http"}
    assert value(found, "goqueue_requests_total", operation="topics.describe", outcome="unknown_topic", **of_http) == 3
    assert value(found, "goqueue_requests_total", operation="topics.create", outcome="ok", **of_http) == 1
    assert value(found, "goqueue_requests_total", operation="messages.publish", outcome="ok", **of_http) == 1


def test_durations_are_a_histogram_over_all_outcomes(broker: Broker) -> None:
    httpx.post(f"{broker.http}/topics", json={"name": "t"}).raise_for_status()
    for name in ("t", "t", "none"):
        httpx.get(f"{broker.http}/topics/{name}")
    found = scrape(broker)
    labels = {"operation": "topics.describe", "protocol": "http"}
    name = "goqueue_request_duration_seconds"
    assert value(found, f"{name}_count", **labels) == 3
    assert 0 < value(found, f"{name}_sum", **labels) < 10
    buckets = [value(found, f"{name}_bucket", le=str(bound), **labels) for bound in BUCKETS_S]
    buckets.append(value(found, f"{name}_bucket", le="+Inf", **labels))
    assert buckets == sorted(buckets)
    assert buckets[-1] == 3


def test_the_broker_itself_is_told(broker: Broker) -> None:
    found = scrape(broker)
    (version,) = [dict(labels) for name, labels in found if name == "goqueue_build_info"]
    assert version["version"] == __version__
    assert value(found, "goqueue_connections") == 1
    assert 0 < value(found, "goqueue_disk_free_ratio") <= 1
    assert value(found, "goqueue_disk_guarded") == 0
    assert value(found, "goqueue_logs_offline") == 0
    assert value(found, "goqueue_process_resident_memory_bytes") > 10_000_000
    assert value(found, "goqueue_process_cpu_seconds_total") > 0


def test_every_name_has_the_prefix_and_a_help(broker: Broker) -> None:
    for family in parse_text(httpx.get(f"{broker.http}/metrics").text):
        assert family.name.startswith("goqueue_")
        assert family.documentation


def test_a_reader_that_asks_for_openmetrics_gets_it(broker: Broker) -> None:
    publish(broker, "a")
    reply = httpx.get(f"{broker.http}/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"})
    assert reply.headers["content-type"].startswith("application/openmetrics-text")
    families = {family.name for family in parse_openmetrics(reply.text)}  # type: ignore[no-untyped-call]
    assert "goqueue_requests" in families


def test_two_brokers_in_one_process_share_nothing(broker: Broker) -> None:
    with Broker() as other:
        publish(broker, "a")
        assert value(scrape(broker), "goqueue_topics") == 1
        assert value(scrape(other), "goqueue_topics") == 0


# -- bounds


def core(simulation: Simulation) -> CoreBroker:
    """Return a broker on a disk of its own, not started."""
    return CoreBroker(
        SimDisk(seed=1),
        PurePath("data"),
        BrokerOptions(),
        clock=simulation.clock,
        entropy=simulation.entropy,
        sink=RecordingSink(),
    )


def test_reasons_for_dropping_connections_do_not_become_series_without_end() -> None:
    async def main(simulation: Simulation) -> Samples:
        door = Door()
        for number in range(500):
            door.dropped[f"a frame of {number} bytes has no header"] += 2
            door.dropped[f"a client wrote {'x' * number}"] += 1
        text, _ = await Metrics(core(simulation), door).expose("")
        return samples(text.decode())

    found = simulate(main, 0)
    reasons = {dict(labels)["reason"]: count for (name, labels), count in found.items() if "dropped" in name}
    assert len(reasons) <= REASONS_MAX
    assert reasons["a frame of N bytes has no header"] == 1000
    assert sum(reasons.values()) == 1500


def test_partitions_beyond_a_number_are_only_counted() -> None:
    async def main(simulation: Simulation) -> Samples:
        broker = core(simulation)
        await broker.start()
        for number in range(6):
            await create_topic(broker.topics, INSIDE, f"t-{number}", partitions=200)
        text, _ = await Metrics(broker, Door()).expose("")
        await broker.stop()
        return samples(text.decode())

    found = simulate(main, 0)
    told = [dict(labels) for name, labels in found if name == "goqueue_partition_end_offset"]
    assert len(told) == PARTITIONS_MAX
    assert {labels["topic"] for labels in told} == {f"t-{number}" for number in range(5)}
    assert value(found, "goqueue_partitions") == 1200
    assert value(found, "goqueue_partitions_omitted") == 200


def test_a_disk_that_does_not_tell_how_full_it_is_does_not_hide_the_rest() -> None:
    async def main(simulation: Simulation) -> Samples:
        # The data directory of a broker that was never started does not exist.
        text, _ = await Metrics(core(simulation), Door()).expose("")
        return samples(text.decode())

    found = simulate(main, 0)
    assert value(found, "goqueue_connections") == 3
    assert not any(name == "goqueue_disk_free_ratio" for name, _ in found)


def test_what_nobody_asks_for_is_not_loaded() -> None:
    """Starting is quick because of it."""
    code = "import sys, goqueue.server.lifecycle; print('prometheus_client' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"

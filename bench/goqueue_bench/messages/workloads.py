"""The workloads against a broker, each as `goqueue bench` runs it: on a topic of its own, at one of two sizes.

Owns what a workload is made of and how large it is; how each part is measured is in the module of its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from goqueue_bench.broker_process import Broker, private_broker, running_broker
from goqueue_bench.figures import Figures
from goqueue_bench.kafka.connection import private_topic
from goqueue_bench.messages.latency import Probe, measure_confluent_latency, measure_end_to_end, measure_raw_latency
from goqueue_bench.messages.publish import Bulk, measure_publish, publish
from goqueue_bench.messages.replay import measure_replay
from goqueue_bench.messages.requests import measure_requests
from goqueue_bench.options import Client, Flush

END_TO_END_PER_SECOND = 1000
FLUSH_SETTING = "goqueue.flush"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many messages each workload takes."""

    publish: int
    replay: int
    latency: int
    end_to_end: int
    requests: int


FULL = Size(publish=3_000_000, replay=3_000_000, latency=10_000, end_to_end=5_000, requests=200_000)
QUICK = Size(publish=100_000, replay=100_000, latency=500, end_to_end=200, requests=5_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Broker to measure, private or at an address, and the flush policy of the topic."""

    bootstrap: str | None = None
    pid: int | None = None
    flush: Flush = Flush.GROUP

    @property
    def is_private(self) -> bool:
        """Whether a broker is started for the benchmark."""
        return self.bootstrap is None


def run_publish(target: Target, workspace: Path, bulk: Bulk) -> dict[str, Figures]:
    """Publish in bulk."""
    with _topic_of(target, workspace, bulk.partitions) as (broker, topic):
        return {"publish": measure_publish(broker, topic, bulk)}


def run_replay(target: Target, workspace: Path, bulk: Bulk, client: Client) -> dict[str, Figures]:
    """Fill a topic, which is not measured, then read it from its start."""
    with _topic_of(target, workspace) as (broker, topic):
        publish(broker, topic, bulk)
        # The first message was the producer's warm-up.
        messages = bulk.messages + 1
        is_raw = client is Client.RAW
        return {f"replay_{client}": measure_replay(broker, topic, messages, bulk.size_bytes, is_raw=is_raw)}


def run_latency(target: Target, workspace: Path, probe: Probe, end_to_end: Probe) -> dict[str, Figures]:
    """Publish one at a time with both clients, then at a steady pace to a consumer that waits."""
    with _topic_of(target, workspace) as (broker, topic):
        return {
            "latency_raw": measure_raw_latency(broker, topic, probe),
            "latency_confluent": measure_confluent_latency(broker, topic, probe),
            "end_to_end": measure_end_to_end(broker, topic, end_to_end, per_second=END_TO_END_PER_SECOND),
        }


def run_requests(target: Target, workspace: Path, probe: Probe) -> dict[str, Figures]:
    """Publish one message per request, many requests in flight."""
    with _topic_of(target, workspace) as (broker, topic):
        return {"requests": measure_requests(broker, topic, probe)}


@contextmanager
def _topic_of(target: Target, workspace: Path, partitions: int = 1) -> Iterator[tuple[Broker, str]]:
    settings = {FLUSH_SETTING: str(target.flush)}
    with (
        broker_of(target, workspace) as broker,
        private_topic(broker, partitions=partitions, settings=settings) as name,
    ):
        yield broker, name


@contextmanager
def broker_of(target: Target, workspace: Path) -> Iterator[Broker]:
    """Run a private broker for as long as the block lasts, unless the target is one that runs."""
    if target.bootstrap is not None:
        yield running_broker(target.bootstrap, target.pid)
        return
    with private_broker(workspace) as broker:
        yield broker

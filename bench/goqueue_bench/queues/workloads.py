"""The workloads of queues, each as `goqueue bench queue` runs it: on a topic of its own, at one of two sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from goqueue_bench.broker_process import Broker, private_broker, split_address
from goqueue_bench.measure import Result
from goqueue_bench.options import Flush, QueuePart
from goqueue_bench.queues.measure import (
    SINGLES_GOAL,
    QueueLoad,
    QueueTopic,
    measure_batches,
    measure_delivery,
    measure_singles,
    queue_topic,
)

SINGLES_GOALS = {8: None, 32: SINGLES_GOAL}
"""How many consumers take messages one at a time, each waiting for every reply, and what they should reach together."""

Announce = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSize:
    """How many messages each part takes."""

    batches: int
    singles: int
    delivery: int


FULL = QueueSize(batches=500_000, singles=20_000, delivery=10_000)
QUICK = QueueSize(batches=20_000, singles=500, delivery=500)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTarget:
    """Broker to measure: private, or with its HTTP port at HOST:PORT."""

    server: str | None = None
    pid: int | None = None
    flush: Flush = Flush.GROUP


def run_queue(
    target: QueueTarget,
    workspace: Path,
    size: QueueSize,
    load: QueueLoad,
    parts: list[QueuePart],
    announce: Announce,
) -> Iterator[Result]:
    """Yield the results of some parts one by one; `announce` gets the name of the next one."""
    with _broker_of(target, workspace) as broker:
        for part in parts:
            announce(f"queues: {part}")
            for measure in _measurements(part, size, load):
                with queue_topic(broker, load.partitions, target.flush) as place:
                    yield from measure(place)


def _measurements(part: QueuePart, size: QueueSize, load: QueueLoad) -> list[Callable[[QueueTopic], Iterator[Result]]]:
    """Return what is measured for a part, each on a topic of its own."""
    if part is QueuePart.BATCHES:
        return [partial(measure_batches, load=replace(load, messages=size.batches))]
    if part is QueuePart.DELIVERY:
        return [partial(measure_delivery, load=replace(load, messages=size.delivery))]
    return [
        partial(measure_singles, load=replace(load, messages=size.singles, batch=1, connections=connections), goal=goal)
        for connections, goal in SINGLES_GOALS.items()
    ]


@contextmanager
def _broker_of(target: QueueTarget, workspace: Path) -> Iterator[Broker]:
    if target.server is not None:
        host, port = split_address(target.server)
        # Nothing here speaks Kafka.
        yield Broker(host, 0, target.pid, (host, port))
        return
    with private_broker(workspace) as broker:
        yield broker

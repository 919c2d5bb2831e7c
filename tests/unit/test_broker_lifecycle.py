"""The life of a broker: not started, limits over all topics, stopped twice."""

from __future__ import annotations

from pathlib import PurePath

import pytest

from goqueue.broker.admission import Caller
from goqueue.broker.broker import Broker
from goqueue.broker.topics.admin import create_topic, delete_topic
from goqueue.errors import Unavailable
from goqueue.model.broker_options import BrokerOptions
from goqueue.testing import RecordingSink, SimDisk, Simulation, simulate

ME = Caller("test", "here:1")


def open_broker(simulation: Simulation, disk: SimDisk | None = None, **options: object) -> Broker:
    """Return a broker that was not started."""
    return Broker(
        disk or SimDisk(7),
        PurePath("data"),
        BrokerOptions(**options),  # type: ignore[arg-type]
        clock=simulation.clock,
        entropy=simulation.entropy,
        sink=RecordingSink(),
    )


def test_a_broker_that_was_not_started_says_so() -> None:
    async def main(simulation: Simulation) -> None:
        broker = open_broker(simulation)
        with pytest.raises(Unavailable):
            await create_topic(broker.topics, ME, "t")
        with pytest.raises(Unavailable):
            _ = broker.topics.cluster_id
        await broker.stop()

    simulate(main, 7)


def test_partitions_have_a_limit_over_all_topics() -> None:
    async def main(simulation: Simulation) -> None:
        broker = open_broker(simulation, partitions_max=5)
        await broker.start()
        await create_topic(broker.topics, ME, "a", partitions=3)
        with pytest.raises(Exception, match="exceed"):
            await create_topic(broker.topics, ME, "b", partitions=3)
        await create_topic(broker.topics, ME, "b", partitions=2)
        await delete_topic(broker.topics, ME, "a")
        await create_topic(broker.topics, ME, "c", partitions=3)
        await broker.stop()

    simulate(main, 7)


def test_stopping_twice_is_harmless() -> None:
    async def main(simulation: Simulation) -> None:
        broker = open_broker(simulation)
        await broker.start()
        await create_topic(broker.topics, ME, "t")
        await broker.stop()
        await broker.stop()

    simulate(main, 7)

"""In front of every operation: it is admitted, measured and counted, whichever way it ends."""

from __future__ import annotations

from pathlib import PurePath

import pytest

from goqueue.broker.admission import BUCKETS_S, Caller, Pipeline, TallyKey
from goqueue.broker.broker import Broker
from goqueue.broker.topics.admin import create_topic, delete_topic, describe_topic
from goqueue.broker.transactions.producers import new_producer
from goqueue.errors import DiskFull, Draining, TopicExists, Unavailable, UnknownTopic
from goqueue.model.broker_options import BrokerOptions
from goqueue.testing import ManualClock, RecordingSink, SimDisk, Simulation, simulate

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


def test_operations_are_counted_by_their_outcome() -> None:
    async def main(simulation: Simulation) -> None:
        broker = open_broker(simulation)
        await broker.start()
        await create_topic(broker, ME, "t")
        with pytest.raises(TopicExists):
            await create_topic(broker, ME, "t")
        for _ in range(3):
            with pytest.raises(UnknownTopic):
                await describe_topic(broker, ME, "nowhere")
        counts = {key: tally.count for key, tally in broker.pipeline.tallies.items()}
        assert counts[TallyKey("topics.create", "test", "ok")] == 1
        assert counts[TallyKey("topics.create", "test", "topic_exists")] == 1
        assert counts[TallyKey("topics.describe", "test", "unknown_topic")] == 3
        await broker.stop()

    simulate(main, 7)


def test_durations_are_counted_in_classes() -> None:
    clock = ManualClock()
    pipeline = Pipeline(clock)
    for seconds in (0.0001, 0.003, 0.003, 100.0):
        began = pipeline.enter()
        clock.advance(seconds)
        pipeline.leave("x", "test", began, "ok")
    tally = pipeline.tallies[TallyKey("x", "test", "ok")]
    assert (tally.count, sum(tally.by_bucket)) == (4, 4)
    assert tally.seconds == pytest.approx(100.0061)
    assert (tally.by_bucket[0], tally.by_bucket[BUCKETS_S.index(0.005)], tally.by_bucket[-1]) == (1, 2, 1)


def test_a_broker_that_stops_takes_nothing_new() -> None:
    async def main(simulation: Simulation) -> None:
        broker = open_broker(simulation)
        await broker.start()
        broker.pipeline.is_draining = True
        with pytest.raises(Draining):
            await describe_topic(broker, ME, "t")
        await broker.stop()

    simulate(main, 7)


def test_a_full_disk_refuses_what_writes_and_nothing_else() -> None:
    async def main(simulation: Simulation) -> None:
        broker = open_broker(simulation)
        await broker.start()
        await create_topic(broker, ME, "t")
        broker.pipeline.is_disk_guarded = True
        with pytest.raises(DiskFull):
            await create_topic(broker, ME, "u")
        with pytest.raises(DiskFull):
            await new_producer(broker, ME)
        assert (await describe_topic(broker, ME, "t")).topic.name == "t"
        await delete_topic(broker, ME, "t")
        await broker.stop()

    simulate(main, 7)


def test_a_broker_that_was_not_started_says_so() -> None:
    async def main(simulation: Simulation) -> None:
        broker = open_broker(simulation)
        with pytest.raises(Unavailable):
            await create_topic(broker, ME, "t")
        with pytest.raises(Unavailable):
            _ = broker.cluster_id
        await broker.stop()

    simulate(main, 7)


def test_partitions_have_a_limit_over_all_topics() -> None:
    async def main(simulation: Simulation) -> None:
        broker = open_broker(simulation, partitions_max=5)
        await broker.start()
        await create_topic(broker, ME, "a", partitions=3)
        with pytest.raises(Exception, match="exceed"):
            await create_topic(broker, ME, "b", partitions=3)
        await create_topic(broker, ME, "b", partitions=2)
        await delete_topic(broker, ME, "a")
        await create_topic(broker, ME, "c", partitions=3)
        await broker.stop()

    simulate(main, 7)


def test_stopping_twice_is_harmless() -> None:
    async def main(simulation: Simulation) -> None:
        broker = open_broker(simulation)
        await broker.start()
        await create_topic(broker, ME, "t")
        await broker.stop()
        await broker.stop()

    simulate(main, 7)

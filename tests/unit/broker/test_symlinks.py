"""Symbolic links in the data directory: a topic goes with its links, and never with what they point at."""

from __future__ import annotations

import asyncio
from pathlib import Path

from goqueue.broker.admission import INSIDE
from goqueue.broker.broker import Broker
from goqueue.broker.topics import admin as topics
from goqueue.model.broker_options import BrokerOptions
from goqueue.records.builder import NewRecord, build_batch
from goqueue.seams.clock import SystemClock
from goqueue.seams.disk import RealDisk
from goqueue.seams.entropy import SystemEntropy
from goqueue.testing import RecordingSink


def test_a_topic_with_a_symlinked_partition_can_be_deleted_and_the_target_stays(tmp_path: Path) -> None:
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    data.mkdir()

    def broker() -> Broker:
        return Broker(
            RealDisk(), data, BrokerOptions(), clock=SystemClock(), entropy=SystemEntropy(), sink=RecordingSink()
        )

    async def fill() -> None:
        running = broker()
        await running.start()
        await topics.create_topic(running.topics, INSIDE, "orders", partitions=2)
        partition = running.topics.topic("orders").partition(0)
        partition.append_own(build_batch([NewRecord(1, None, b"value")]))
        await partition.committed(1)
        await running.stop()

    async def delete() -> None:
        running = broker()
        await running.start()
        await topics.delete_topic(running.topics, INSIDE, "orders")
        assert not (data / "orders-0").is_symlink()
        await topics.create_topic(running.topics, INSIDE, "orders", partitions=2)
        assert running.topics.topic("orders").partition(0).log.end_offset == 0
        await running.stop()

    asyncio.run(fill())
    (data / "orders-0").rename(elsewhere)
    (data / "orders-0").symlink_to(elsewhere, target_is_directory=True)
    names = sorted(path.name for path in elsewhere.iterdir())
    asyncio.run(delete())
    assert sorted(path.name for path in elsewhere.iterdir()) == names

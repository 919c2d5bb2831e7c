"""Reading, transforming and writing in transactions: members of a group come and go, and each input has one output."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.clients.adapters.transactional import COMMITTED, read_with_confluent
from tests.clients.contract import DEADLINE_S, Client, Message, Place

COUNT = 40


def outputs(bootstrap: str, topic: str, partitions: int) -> list[bytes]:
    """Return what readers of what is committed see."""
    return sorted(
        value for index in range(partitions) for value in read_with_confluent(bootstrap, Place(topic, index), COMMITTED)
    )


@pytest.fixture
def source(new_topic: Callable[..., str], clients: dict[str, Client]) -> str:
    """A topic with two partitions and inputs in both."""
    topic = new_topic(2)
    clients["confluent"].send(topic, [Message(b"%02d" % number, partition=number % 2) for number in range(COUNT)])
    return topic


class ConfluentWorker:
    """Reads a few messages at a time, and writes what it makes of them together with how far it has read."""

    def __init__(self, bootstrap: str, source: str, target: str, protocol: str) -> None:
        self._target = target
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": source,
                "group.protocol": protocol,
                "isolation.level": COMMITTED,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        self._consumer.subscribe([source])
        self._producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{target}-worker"})
        self._producer.init_transactions(DEADLINE_S)

    def work(self, *, is_aborted: bool) -> int:
        """Handle what is there now; return how many messages. If it is aborted, it never was."""
        messages = self._consumer.consume(7, timeout=0.3)
        if not messages:
            return 0
        self._producer.begin_transaction()
        for message in messages:
            assert message.error() is None
            self._producer.produce(self._target, (message.value() or b"") + b"!")
        positions = self._consumer.position(self._consumer.assignment())
        self._producer.send_offsets_to_transaction(
            [each for each in positions if each.offset >= 0], self._consumer.consumer_group_metadata(), DEADLINE_S
        )
        if not is_aborted:
            self._producer.commit_transaction(DEADLINE_S)
            return len(messages)
        self._producer.abort_transaction(DEADLINE_S)
        for partition in self._consumer.committed(self._consumer.assignment(), timeout=DEADLINE_S):
            self._consumer.seek(TopicPartition(partition.topic, partition.partition, max(partition.offset, 0)))
        return 0

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_each_input_has_one_output_though_transactions_are_aborted_and_workers_replaced(
    protocol: str, bootstrap: str, source: str, new_topic: Callable[..., str]
) -> None:
    target = new_topic(3)
    deadline = monotonic() + 6 * DEADLINE_S
    done = 0
    for generation in range(3):
        worker = ConfluentWorker(bootstrap, source, target, protocol)
        turn = 0
        while done < COUNT * (generation + 1) // 3:
            assert monotonic() < deadline, f"only {done} inputs were handled"
            handled = worker.work(is_aborted=turn % 3 == 1)
            turn += bool(handled) or turn % 3 == 1
            done += handled
        worker.close()
    assert done == COUNT
    assert outputs(bootstrap, target, 3) == [b"%02d!" % number for number in range(COUNT)]


def test_aiokafka_reads_transforms_and_writes_each_input_once(
    bootstrap: str, source: str, new_topic: Callable[..., str]
) -> None:
    target = new_topic(3)

    async def handled(consumer: Any, producer: Any, *, is_aborted: bool) -> int:
        batches = await consumer.getmany(timeout_ms=300, max_records=7)
        if not batches:
            return 0
        await producer.begin_transaction()
        for records in batches.values():
            for record in records:
                await producer.send(target, record.value + b"!")
        offsets = {AioPartition(*place): records[-1].offset + 1 for place, records in batches.items()}
        await producer.send_offsets_to_transaction(offsets, source)
        if not is_aborted:
            await producer.commit_transaction()
            return sum(map(len, batches.values()))
        await producer.abort_transaction()
        for place in batches:
            consumer.seek(place, await consumer.committed(place) or 0)
        return 0

    async def main() -> None:
        consumer = AIOKafkaConsumer(
            source,
            bootstrap_servers=bootstrap,
            group_id=source,
            isolation_level=COMMITTED,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"{target}-worker")
        await consumer.start()
        await producer.start()
        done = turn = 0
        async with asyncio.timeout(4 * DEADLINE_S):
            while done < COUNT:
                done += await handled(consumer, producer, is_aborted=turn % 3 == 1)
                turn += 1
        await producer.stop()
        await consumer.stop()

    asyncio.run(main())
    assert outputs(bootstrap, target, 3) == [b"%02d!" % number for number in range(COUNT)]

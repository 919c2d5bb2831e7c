"""Consume, transform, produce: messages from one topic to another, each exactly once, with the stock client.

Every transaction has its messages in it and how far their reader has come, so both count or neither does. The time of
a transaction runs from its beginning until its commit is confirmed; waiting for the messages is not part of it, but of
the rate.
"""

from __future__ import annotations

import time
from contextlib import closing

from goqueue_bench.broker_process import Broker
from goqueue_bench.cpu import metered
from goqueue_bench.kafka import confluent
from goqueue_bench.kafka.connection import Connection
from goqueue_bench.kafka.groups import committed_offsets, private_groups
from goqueue_bench.kafka.read_committed import require_each_once
from goqueue_bench.measure import Result, require
from goqueue_bench.transactions.commit import (
    SECONDS_MAX,
    Progress,
    Transactions,
    Values,
    Writer,
    numbered,
    result,
    take,
)

_POLL_SECONDS = 0.1


def measure_transform(broker: Broker, source: str, target: str, partitions: int, wanted: Transactions) -> Result:
    """Take messages from one new topic to another in transactions that have the offsets of a group in them."""
    values = take(numbered(wanted), wanted.count * wanted.messages)
    _fill(broker, source, partitions, values)
    with private_groups(broker) as (group,), closing(_Reader(broker, source, group, partitions)) as reader:
        writer = Writer(broker, target, [])
        writer.begin()
        reader.wait_until_assigned()
        latencies_ms = []
        with metered(broker.pid) as usage:
            while len(writer.values) < len(values):
                taken = reader.take(min(wanted.messages, len(values) - len(writer.values)))
                started = time.perf_counter()
                writer.commit(taken, reader.progress())
                latencies_ms.append((time.perf_counter() - started) * 1000)
        require_each_once(broker, target, partitions, values)
        with Connection(broker) as connection:
            done = sum(committed_offsets(connection, group, source, partitions).values())
        require(done == len(values), f"the group has read {len(values)} messages, by its offsets {done}")
    what = f"transactions that take {wanted.messages:,} messages from another topic"
    return result("transform", what, wanted, usage, latencies_ms, None)


class _Reader:
    """A member of a group whose offsets others commit."""

    def __init__(self, broker: Broker, topic: str, group: str, partitions: int) -> None:
        self._partitions = partitions
        self._waiting: Values = []
        self._client = confluent.load().Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
            }
        )
        self._client.subscribe([topic])

    def wait_until_assigned(self) -> None:
        """Wait until all partitions are assigned."""
        deadline = time.monotonic() + SECONDS_MAX
        while len(self._client.assignment()) < self._partitions:
            self._waiting += self._take(1)
            require(time.monotonic() < deadline, "a group of one gets all partitions")

    def take(self, count: int) -> Values:
        """Return so many messages, and those that came before they were asked for."""
        values, self._waiting = self._waiting, []
        deadline = time.monotonic() + SECONDS_MAX
        while len(values) < count:
            values += self._take(count - len(values))
            require(time.monotonic() < deadline, "the broker has more messages")
        return values

    def progress(self) -> Progress:
        """Return how far it has come, and what says that it is a member."""
        return self._client.position(self._client.assignment()), self._client.consumer_group_metadata()

    def close(self) -> None:
        """Leave the group."""
        self._client.close()

    def _take(self, count: int) -> Values:
        got = self._client.consume(count, _POLL_SECONDS)
        errors = [message.error() for message in got if message.error() is not None]
        require(not errors, f"every message can be read ({errors[:1]})")
        return [message.value() for message in got]


def _fill(broker: Broker, topic: str, partitions: int, values: Values) -> None:
    """Publish messages in bulk, to all partitions in turn."""
    errors: list[str] = []
    client = confluent.producer(broker.bootstrap, {"linger.ms": 5})
    for number, value in enumerate(values):
        client.produce(topic, value, partition=number % partitions, on_delivery=lambda error, _: errors.append(error))
    require(client.flush(SECONDS_MAX) == 0, "the broker answers for every message")
    require(not errors, f"every message is stored ({errors[:1]})")

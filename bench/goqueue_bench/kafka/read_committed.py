"""Read all committed messages of a topic with the stock client."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

from goqueue_bench.broker_process import Broker
from goqueue_bench.kafka import confluent
from goqueue_bench.measure import require

_CONSUME_MESSAGES_MAX = 10_000
_IDLE_SECONDS_MAX = 30.0


def require_each_once(broker: Broker, topic: str, partitions: int, expected: Iterable[bytes]) -> None:
    """Raise unless exactly these messages can be read, each of them once; no two of them are the same."""
    wanted = set(expected)
    found = Counter(committed_values(broker, topic, partitions))
    require(len(wanted - found.keys()) == 0, f"every message can be read ({len(wanted - found.keys())} cannot)")
    require(len(found.keys() - wanted) == 0, f"nothing else can be read ({len(found.keys() - wanted)} messages can)")
    require(found.total() == len(wanted), f"every message is read once ({found.total()} of {len(wanted)} were)")


def committed_values(broker: Broker, topic: str, partitions: int) -> list[bytes]:
    """Read all partitions of a topic to their ends."""
    package = confluent.load()
    client = package.Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "goqueue-bench",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
        }
    )
    try:
        client.assign([package.TopicPartition(topic, partition, 0) for partition in range(partitions)])
        return _read(client, partitions, end_of_partition=package.KafkaError._PARTITION_EOF)
    finally:
        client.close()


def _read(client: Any, partitions: int, *, end_of_partition: int) -> list[bytes]:
    values: list[bytes] = []
    ended: set[int] = set()
    deadline = time.monotonic() + _IDLE_SECONDS_MAX
    while len(ended) < partitions:
        got = client.consume(_CONSUME_MESSAGES_MAX, 0.1)
        for message in got:
            error = message.error()
            if error is None:
                values.append(message.value())
                continue
            require(error.code() == end_of_partition, f"every message can be read ({error})")
            ended.add(message.partition())
        if got:
            deadline = time.monotonic() + _IDLE_SECONDS_MAX
        require(time.monotonic() < deadline, "every partition can be read to its end")
    return values

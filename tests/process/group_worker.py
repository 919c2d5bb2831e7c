"""A member of a group in a process of its own: reads, commits what it has read, and writes down what happens to it.

Each line of its output is one event in JSON, with the system's monotonic time, so that lines of several processes can
be put in order: `assigned` and `revoked` with partitions, `read` with a partition and offsets, `committed` with the
offsets that were acknowledged and when the commit began.
"""

from __future__ import annotations

import json
import sys
import time

from confluent_kafka import Consumer, KafkaException, TopicPartition


def note(event: str, **facts: object) -> None:
    """Write an event down."""
    sys.stdout.write(json.dumps({"at": time.monotonic(), "event": event, **facts}) + "\n")
    sys.stdout.flush()


def main(bootstrap: str, group: str, topic: str, protocol: str) -> None:
    """Be a member until the process is killed."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "reconnect.backoff.max.ms": 200,
        "log_level": 0,
    }
    if protocol == "classic":
        settings |= {"session.timeout.ms": 6000, "heartbeat.interval.ms": 500, "max.poll.interval.ms": 30_000}
    consumer = Consumer(settings)

    def assigned(_: Consumer, partitions: list[TopicPartition]) -> None:
        note("assigned", partitions=[each.partition for each in partitions])

    def revoked(_: Consumer, partitions: list[TopicPartition]) -> None:
        note("revoked", partitions=[each.partition for each in partitions])

    consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
    while True:
        read: dict[int, list[int]] = {}
        for message in consumer.consume(50, timeout=0.2):
            partition, offset = message.partition(), message.offset()
            if message.error() is None and partition is not None and offset is not None:
                read.setdefault(partition, []).append(offset)
        for partition, offsets in read.items():
            note("read", partition=partition, offsets=offsets)
        _commit(consumer, topic, {partition: offsets[-1] + 1 for partition, offsets in read.items()})


def _commit(consumer: Consumer, topic: str, positions: dict[int, int]) -> None:
    began = time.monotonic()
    wanted = [TopicPartition(topic, partition, offset) for partition, offset in positions.items()]
    if not wanted:
        return
    try:
        results = consumer.commit(offsets=wanted, asynchronous=False)
    except KafkaException as error:
        note("refused", reason=str(error), partitions=list(positions))
        return
    done = {each.partition: positions[each.partition] for each in results or () if each.error is None}
    note("committed", began=began, offsets=done)


if __name__ == "__main__":
    main(*sys.argv[1:5])

"""A share consumer in a process of its own: takes messages, accepts them, and writes down what it knows.

Each line of its output is one event in JSON, with the system's monotonic time: `got` with values, and `acked` with
those whose acknowledgement the broker has confirmed. Some messages are given back when they come first.
"""

from __future__ import annotations

import json
import signal
import sys
import time

from confluent_kafka import AcknowledgeType, IllegalStateException, KafkaException, ShareConsumer

# Of so many messages, one is given back.
RELEASE_EVERY = 7


def note(event: str, values: list[int]) -> None:
    """Write an event down."""
    sys.stdout.write(json.dumps({"at": time.monotonic(), "event": event, "values": values}) + "\n")
    sys.stdout.flush()


def main(bootstrap: str, group: str, topic: str, holds: str = "") -> None:
    """Be a member until the process is killed; with `holds`, keep the first messages that come for ever."""
    consumer = ShareConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
            "fetch.wait.max.ms": 100,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            "max.poll.records": 20,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    while True:
        accepted: dict[int, list[int]] = {}
        got: list[int] = []
        for message in consumer.poll(0.2):
            value, partition = message.value(), message.partition()
            if message.error() is not None or value is None or partition is None:
                continue
            got.append(int(value))
            if holds:
                continue
            is_released = message.delivery_count() == 1 and int(value) % RELEASE_EVERY == 0
            consumer.acknowledge(message, AcknowledgeType.RELEASE if is_released else AcknowledgeType.ACCEPT)
            if not is_released:
                accepted.setdefault(partition, []).append(int(value))
        if got:
            note("got", got)
            while holds:
                signal.pause()
            _commit(consumer, accepted)


def _commit(consumer: ShareConsumer, accepted: dict[int, list[int]]) -> None:
    try:
        results = consumer.commit_sync(10.0)
    except (KafkaException, IllegalStateException):
        return
    for place, error in results.items():
        if error is None and place.partition in accepted:
            note("acked", accepted[place.partition])


if __name__ == "__main__":
    main(*sys.argv[1:])

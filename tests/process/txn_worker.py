"""A worker in a process of its own: reads, and writes what it makes of it together with how far it has read.

    python -m tests.process.txn_worker BOOTSTRAP NAME GROUP SOURCE TARGET

It writes `INPUT/NAME/NUMBER`: the input, and which attempt this was. Each line of its output is one event in
JSON: `committed` or `aborted` with the values of a transaction whose end was acknowledged. Now and then it aborts for
no reason. Errors that it cannot recover from end it with status 3: the test has to restart it.
"""

from __future__ import annotations

import json
import sys
from itertools import count

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

_WAIT_S = 60
_ABORTED_ONE_IN = 4
GIVEN_UP = 3


class Worker:
    """A consumer and a transactional producer."""

    def __init__(self, bootstrap: str, name: str, group: str, source: str, target: str) -> None:
        shared = {
            "bootstrap.servers": bootstrap,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
            # Otherwise librdkafka makes its brokers anew when it has lost all of them, and waits for the old ones.
            "metadata.recovery.strategy": "none",
        }
        self._name = name
        self._target = target
        self._producer = Producer(
            # Without a callback of their own, errors that are fatal are raised in the middle of others' callbacks.
            {**shared, "transactional.id": name, "transaction.timeout.ms": 3000, "error_cb": lambda _: None}
        )
        self._producer.init_transactions(_WAIT_S)
        self._consumer = Consumer(
            {
                **shared,
                "group.id": group,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 500,
                "max.poll.interval.ms": 30_000,
            }
        )
        self._consumer.subscribe([source])
        self._attempts = count()

    def work(self) -> None:
        """Handle what is there now, in one transaction."""
        messages = [each for each in self._consumer.consume(20, timeout=0.2) if each.error() is None]
        if not messages:
            return
        attempt = f"{self._name}/{next(self._attempts)}"
        values = [f"{(message.value() or b'').decode()}/{attempt}" for message in messages]
        is_wanted = int(attempt.rpartition("/")[2]) % _ABORTED_ONE_IN != _ABORTED_ONE_IN - 1
        self._producer.begin_transaction()
        try:
            for value in values:
                self._producer.produce(self._target, value)
                self._producer.poll(0.002)
            self._producer.send_offsets_to_transaction(
                positions(messages), self._consumer.consumer_group_metadata(), _WAIT_S
            )
            if is_wanted:
                self._commit()
                note("committed", values)
                return
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
        self._producer.abort_transaction(_WAIT_S)
        note("aborted", values)
        self._go_back()

    def _commit(self) -> None:
        while True:
            try:
                self._producer.commit_transaction(_WAIT_S)
            except KafkaException as error:
                if error.args[0].retriable():
                    continue
                raise
            return

    def _go_back(self) -> None:
        """Go back to what is committed: what was read since then has never happened."""
        for each in self._consumer.committed(self._consumer.assignment(), timeout=_WAIT_S):
            self._consumer.seek(TopicPartition(each.topic, each.partition, max(each.offset, 0)))


def positions(messages: list[Message]) -> list[TopicPartition]:
    """Return the offset after the last message of each partition."""
    last: dict[tuple[str, int], int] = {}
    for message in messages:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        last[topic, partition] = offset + 1
    return [TopicPartition(*place, offset) for place, offset in last.items()]


def note(event: str, values: list[str]) -> None:
    """Write an event down."""
    sys.stdout.write(json.dumps({"event": event, "values": values}) + "\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> None:
    """Work until the process is killed."""
    try:
        worker = Worker(*arguments)
        while True:
            worker.work()
    except KafkaException as error:
        sys.stderr.write(f"{arguments[1]} gives up: {error}\n")
        sys.exit(GIVEN_UP)


if __name__ == "__main__":
    main(sys.argv[1:])

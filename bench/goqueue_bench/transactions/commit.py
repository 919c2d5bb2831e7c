"""Transactions with the stock client: producers that do nothing else, some at the same time and one alone.

The time of a transaction runs from its beginning until its commit is confirmed. Messages are made before the clock
starts, and no two of them are the same: afterwards each of them has to be read once by those who read committed
messages only, and nothing besides.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from goqueue_bench.broker_process import Broker
from goqueue_bench.cpu import Usage, metered
from goqueue_bench.figures import figures
from goqueue_bench.kafka import confluent
from goqueue_bench.kafka.read_committed import require_each_once
from goqueue_bench.measure import Aim, BenchmarkFailed, Goal, Result, require
from goqueue_bench.messages.publish import payload

TRANSACTIONS_PER_SECOND_GOAL = 500
NUMBER_BYTES = 12
"""The least size of a message: its number, of which there is one for each."""

SECONDS_MAX = 60.0

Values = list[bytes]
# Positions and the metadata of a group, for which the client has no types worth naming.
Progress = tuple[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transactions:
    """How many transactions in all, of how many messages each, by how many producers at a time."""

    count: int
    producers: int = 1
    messages: int = 100
    size_bytes: int = 100

    @property
    def shares(self) -> list[int]:
        """How many transactions each producer makes; none makes none."""
        count = min(self.producers, self.count)
        return [self.count // count + (number < self.count % count) for number in range(count)]


def measure_transactions(broker: Broker, topic: str, partitions: int, wanted: Transactions) -> Result:
    """Let producers write to a new topic, one transaction after another, all at the same time."""
    messages = numbered(wanted)
    writers = [
        Writer(broker, topic, [take(messages, wanted.messages) for _ in range(1 + share)]) for share in wanted.shares
    ]
    with ThreadPoolExecutor(len(writers)) as threads:
        # Connects and learns about the topic, which is not what is measured.
        list(threads.map(Writer.begin, writers))
        with metered(broker.pid) as usage:
            latencies_ms = [each for found in threads.map(Writer.run, writers) for each in found]
    require_each_once(broker, topic, partitions, (value for writer in writers for value in writer.values))
    is_alone = len(writers) == 1
    who = "one producer alone" if is_alone else f"{len(writers)} producers"
    goal = None if is_alone else Goal(Aim.AT_LEAST, TRANSACTIONS_PER_SECOND_GOAL)
    what = f"transactions of {wanted.messages:,} messages, {who}"
    return result("transactions_alone" if is_alone else "transactions", what, wanted, usage, latencies_ms, goal)


class Writer:
    """A transactional producer with its transactions to come; `values` are the messages that it has written."""

    def __init__(self, broker: Broker, topic: str, transactions: Sequence[Values]) -> None:
        self.values: Values = []
        self._topic = topic
        self._transactions = transactions
        self._errors: list[str] = []
        settings = {"transactional.id": f"goqueue-bench-{uuid4()}", "linger.ms": 5}
        self._client = confluent.producer(broker.bootstrap, settings)

    def begin(self) -> None:
        """Become ready to write, and write the first transaction if there is any."""
        with _all_or_nothing():
            self._client.init_transactions(SECONDS_MAX)
        if self._transactions:
            self.commit(self._transactions[0])

    def run(self) -> list[float]:
        """Write all other transactions, and return how long each of them took."""
        latencies_ms = []
        for values in self._transactions[1:]:
            started = time.perf_counter()
            self.commit(values)
            latencies_ms.append((time.perf_counter() - started) * 1000)
        return latencies_ms

    def commit(self, values: Values, progress: Progress | None = None) -> None:
        """Write a transaction, with how far a group has come if it belongs to it."""
        with _all_or_nothing():
            self._client.begin_transaction()
            for value in values:
                self._client.produce(self._topic, value, on_delivery=self._failed)
            if progress is not None:
                self._client.send_offsets_to_transaction(*progress, SECONDS_MAX)
            self._client.commit_transaction(SECONDS_MAX)
        require(not self._errors, f"every message is stored ({self._errors[:1]})")
        self.values += values

    def _failed(self, error: Any, _: Any) -> None:
        self._errors.append(str(error))


@contextmanager
def _all_or_nothing() -> Iterator[None]:
    try:
        yield
    except confluent.load().KafkaException as error:
        raise BenchmarkFailed(f"a transaction failed: {error}") from error


def numbered(wanted: Transactions) -> Iterator[bytes]:
    """Return messages without end, each with a number of its own in front."""
    rest = payload(wanted.size_bytes - NUMBER_BYTES)
    return (b"%0*d" % (NUMBER_BYTES, number) + rest for number in itertools.count())


def take(messages: Iterator[bytes], count: int) -> Values:
    """Return the next so many messages."""
    return list(itertools.islice(messages, count))


def result(
    name: str, what: str, wanted: Transactions, usage: Usage, latencies_ms: Sequence[float], goal: Goal | None
) -> Result:
    """Return what came of transactions, with the figures of their messages."""
    measured = figures(wanted.count * wanted.messages, wanted.size_bytes, usage, latencies_ms).as_dict()
    details = {key: value for key, value in measured.items() if value is not None}
    return Result(name, what, len(latencies_ms) / usage.seconds, "transactions/s", goal, details)

"""One more member for a small group of the stock client: how long until it has its partition, and all have theirs.

Two consumers share three partitions, and a third comes, from its making on. A producer writes to all partitions
meanwhile, each message with the time at which it was sent. A partition that stays with its reader is *untouched*: how
late a message of it arrived at most is the pause that its reader made. In a group whose broker assigns, the reader
must not be asked to give such a partition back, and reads every message of it once and in order. The client makes a
pause of its own, though: while it gives one partition back it fetches none, and its thread may sleep for up to 0.4 s
before it begins again.

Everything runs in one thread, so that no client waits for the interpreter of another.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from enum import StrEnum
from functools import partial
from typing import Any

from goqueue_bench.broker_process import Broker
from goqueue_bench.figures import percentile
from goqueue_bench.kafka import confluent
from goqueue_bench.kafka.groups import private_groups
from goqueue_bench.measure import Aim, Goal, Result, require

PARTITIONS = 3

_SENT = struct.Struct(">d")
_SEND_INTERVAL_SECONDS = 0.01
_POLL_SECONDS = 0.002
_POLLS_MAX = 20
_SETTLE_SECONDS_MAX = 60.0
_STEADY_SECONDS = 0.5


class GroupProtocol(StrEnum):
    """Protocol of a group: the broker assigns, or one of the members."""

    CONSUMER = "consumer"
    CLASSIC = "classic"

    @property
    def goal_ms(self) -> float:
        """How long a newcomer may wait; classic members hear of it at a heartbeat, and send one in three seconds."""
        return 1000.0 if self is GroupProtocol.CONSUMER else 3000.0


def measure_joiner(broker: Broker, topic: str, protocol: GroupProtocol, rounds: int) -> Result:
    """Let a third consumer join a group, again and again; the topic has three partitions."""
    joins_ms, pauses_ms = [], []
    with private_groups(broker) as (group,), ExitStack() as stack:
        stream = _Stream(broker, topic)
        make = partial(_Reader, broker, topic, group, protocol)
        readers = [stack.enter_context(closing(make())) for _ in range(2)]
        for _ in range(rounds):
            _run(stream, readers, lambda: _is_shared(readers))
            join_ms, pause_ms = _join(stream, readers, make)
            joins_ms.append(join_ms)
            pauses_ms.append(pause_ms)
        stream.flush()
    p50, p99 = percentile(joins_ms, 0.5) or 0.0, percentile(joins_ms, 0.99) or 0.0
    return Result(
        f"joiner_{protocol}",
        f"a third member joins, group.protocol={protocol}",
        p99,
        "ms",
        Goal(Aim.AT_MOST, protocol.goal_ms),
        {"rounds": rounds, "p50_ms": p50, "p99_ms": p99, "longest_pause_ms": max(pauses_ms)},
    )


class _Reader:
    """A consumer, its partitions, those it has to give back, and the delays of its messages."""

    def __init__(self, broker: Broker, topic: str, group: str, protocol: GroupProtocol) -> None:
        self.owned: set[int] = set()
        self.given_back: set[int] = set()
        self.delays_ms: dict[int, float] = {}
        self.keeps_untouched = protocol is GroupProtocol.CONSUMER
        self._next: dict[int, int] = {}
        self._client = confluent.load().Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": group,
                "group.protocol": str(protocol),
                "auto.offset.reset": "earliest",
            }
        )
        self._client.subscribe([topic], on_assign=self._take, on_revoke=self._give_back, on_lost=self._give_back)

    def poll(self) -> None:
        """Take what is there, messages and news of the group."""
        for _ in range(_POLLS_MAX):
            message = self._client.poll(_POLL_SECONDS)
            if message is None:
                return
            require(message.error() is None, f"every message can be read ({message.error()})")
            self._note(message)

    def begin(self) -> None:
        """Forget what was noted so far."""
        self.given_back.clear()
        self.delays_ms.clear()

    def close(self) -> None:
        """Leave the group."""
        self._client.close()

    def _note(self, message: Any) -> None:
        partition, offset = message.partition(), message.offset()
        expected = self._next.get(partition, offset)
        require(offset == expected, f"partition {partition} goes on at offset {expected}, not {offset}")
        self._next[partition] = offset + 1
        delay_ms = (time.perf_counter() - _SENT.unpack(message.value())[0]) * 1000
        self.delays_ms[partition] = max(delay_ms, self.delays_ms.get(partition, 0.0))

    def _take(self, _: Any, partitions: Sequence[Any]) -> None:
        self.owned |= {each.partition for each in partitions}

    def _give_back(self, _: Any, partitions: Sequence[Any]) -> None:
        gone = {each.partition for each in partitions}
        self.owned -= gone
        self.given_back |= gone
        for partition in gone:
            self._next.pop(partition, None)


class _Stream:
    """A producer that writes to each partition at a steady pace."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self._errors: list[str] = []
        self._topic = topic
        self._client = confluent.producer(broker.bootstrap, {"linger.ms": 0})
        self._due = time.perf_counter()

    def send_due(self) -> None:
        """Send to each partition, if it is time."""
        now = time.perf_counter()
        if now < self._due:
            return
        self._due = now + _SEND_INTERVAL_SECONDS
        for partition in range(PARTITIONS):
            self._client.produce(self._topic, _SENT.pack(now), partition=partition, on_delivery=self._failed)
        self._client.poll(0)
        require(not self._errors, f"every message is stored ({self._errors[:1]})")

    def flush(self) -> None:
        """Wait until every message is stored."""
        require(self._client.flush(_SETTLE_SECONDS_MAX) == 0, "the broker answers for every message")
        require(not self._errors, f"every message is stored ({self._errors[:1]})")

    def _failed(self, error: Any, _: Any) -> None:
        self._errors.append(str(error))


def _join(stream: _Stream, readers: Sequence[_Reader], newcomer: Callable[[], _Reader]) -> tuple[float, float]:
    """Let a third consumer join and leave; return the duration of the join, and the longest pause of the others."""
    # A consumer that has just got a partition may have to catch up first.
    _run_for(stream, readers, _STEADY_SECONDS)
    before = {partition: reader for reader in readers for partition in reader.owned}
    for reader in readers:
        reader.begin()
    started = time.perf_counter()
    with closing(newcomer()) as third:
        everybody = [*readers, third]
        _run(stream, everybody, lambda: _is_shared(everybody))
        join_ms = (time.perf_counter() - started) * 1000
        _run_for(stream, everybody, _STEADY_SECONDS)
        untouched = {partition: reader for partition, reader in before.items() if partition in reader.owned}
        for partition, reader in untouched.items():
            is_kept = partition not in reader.given_back
            require(is_kept or not reader.keeps_untouched, f"partition {partition} stays with its reader all the time")
            require(partition in reader.delays_ms, f"partition {partition} is being read")
        pause_ms = max((reader.delays_ms[partition] for partition, reader in untouched.items()), default=0.0)
    return join_ms, pause_ms


def _is_shared(readers: Sequence[_Reader]) -> bool:
    """Tell whether every reader has something, and every partition one reader."""
    owned = sorted(partition for reader in readers for partition in reader.owned)
    return owned == list(range(PARTITIONS)) and all(reader.owned for reader in readers)


def _run(stream: _Stream, readers: Sequence[_Reader], is_over: Callable[[], bool]) -> None:
    """Let messages flow until something has happened."""
    deadline = time.monotonic() + _SETTLE_SECONDS_MAX
    while not is_over():
        _flow(stream, readers)
        require(time.monotonic() < deadline, "every member gets its share")


def _run_for(stream: _Stream, readers: Sequence[_Reader], seconds: float) -> None:
    """Let messages flow for a while."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        _flow(stream, readers)


def _flow(stream: _Stream, readers: Sequence[_Reader]) -> None:
    stream.send_due()
    for reader in readers:
        reader.poll()

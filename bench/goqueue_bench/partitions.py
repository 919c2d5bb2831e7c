"""Scale: how long a broker with many partitions takes to start and to stop, and what making topics costs others.

All partitions are made by CreateTopics requests while another client publishes one message at a time; its latencies
are compared with those of a calm broker. Then the broker is stopped, started, stopped without having been used,
killed and started again. After each start the messages that were published are read back by their offsets.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from goqueue_bench.broker_process import Broker, private_broker
from goqueue_bench.cpu import process_cpu_seconds
from goqueue_bench.figures import percentile
from goqueue_bench.groups.load import resident_bytes
from goqueue_bench.kafka import wire
from goqueue_bench.kafka.connection import Connection, create_topic, end_offset
from goqueue_bench.measure import Aim, BenchmarkFailed, Goal, Result, require
from goqueue_bench.messages.latency import Probe, one_message_request

LATENCY_GOAL_MS = 20.0
IDLE_GOAL_PERCENT = 0.3

_PROBED = "goqueue-bench-probe"
_CALM_SECONDS = 3.0
_CHECKED_TOPICS = 200
_SECONDS_MAX = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitions:
    """How many partitions in all, how many in a topic, and how many topics a request makes."""

    partitions: int = 10_000
    per_topic: int = 10
    topics_per_request: int = 1000
    idle_seconds: float = 10.0

    @property
    def topics(self) -> Sequence[str]:
        """The names of all topics."""
        return [f"goqueue-bench-{number:06}" for number in range(-(-self.partitions // self.per_topic))]

    @property
    def seconds_goal(self) -> float:
        """How long a start or a stop may take: 3 s for 10,000 partitions, 10 s for 30,000."""
        return max(3.0, self.partitions / 3000)


def measure_partitions(workspace: Path, wanted: Partitions, announce: Callable[[str], None]) -> Iterator[Result]:
    """Fill a private broker with partitions, and stop and start it in every way; its data stay below a directory."""
    clock = _Stops()
    announce(f"making {wanted.partitions:,} partitions")
    with clock.run(workspace) as broker:
        yield from _make(broker, wanted)
        announce("idling")
        yield _idle(broker, wanted)
        announce("stopping")
    goal = Goal(Aim.AT_MOST, wanted.seconds_goal)
    what = f"with {wanted.partitions:,} partitions"
    yield Result("stop", f"stop {what} that were made since the start", clock.stop_seconds, "s", goal)
    announce("starting after a clean stop")
    with clock.run(workspace) as broker:
        yield Result("start", f"start {what} after a clean stop", clock.start_seconds, "s", goal, _memory(broker))
        _check(broker, wanted)
        yield _idle(broker, wanted, "idle-started")
    yield Result("stop-unused", f"stop {what}, few of which were used", clock.stop_seconds, "s", goal)
    announce("killing")
    with clock.run(workspace) as broker:
        _check(broker, wanted)
        assert broker.pid is not None
        os.kill(broker.pid, signal.SIGKILL)
        clock.is_killed = True
    with clock.run(workspace) as broker:
        yield Result("start-killed", f"start {what} after a kill", clock.start_seconds, "s", None, _memory(broker))
        _check(broker, wanted)


class _Stops:
    """Runs private brokers and measures how long each took to start and to stop."""

    def __init__(self) -> None:
        self.start_seconds = 0.0
        self.stop_seconds = 0.0
        self.is_killed = False

    def run(self, workspace: Path) -> _Stops:
        self._started = time.perf_counter()
        self._running = private_broker(workspace, seconds_max=_SECONDS_MAX, is_killed=lambda: self.is_killed)
        return self

    def __enter__(self) -> Broker:
        self.is_killed = False
        broker = self._running.__enter__()
        self.start_seconds = time.perf_counter() - self._started
        return broker

    def __exit__(self, *fault: object) -> None:
        began = time.perf_counter()
        self._running.__exit__(*fault)  # type: ignore[arg-type]
        self.stop_seconds = time.perf_counter() - began


def _make(broker: Broker, wanted: Partitions) -> Iterator[Result]:
    with Connection(broker) as connection:
        create_topic(connection, _PROBED, 1, {})
        with _Probing(broker) as calm_ms:
            time.sleep(_CALM_SECONDS)
        topics = wanted.topics
        began = time.perf_counter()
        slowest = 0.0
        with _Probing(broker) as busy_ms:
            for first in range(0, len(topics), wanted.topics_per_request):
                sent = time.perf_counter()
                names = topics[first : first + wanted.topics_per_request]
                reply = connection.call(wire.create_topics_request(names, wanted.per_topic, {}))
                errors = {name: error for name, (error, _) in wire.parse_create_topics_reply(reply).items()}
                require(errors == dict.fromkeys(names, 0), "every topic is made")
                slowest = max(slowest, time.perf_counter() - sent)
        seconds = time.perf_counter() - began
        _publish_everywhere(connection, wanted)
    yield Result(
        "create",
        f"p99 of others' publishes while {wanted.topics_per_request:,} topics are made at a time",
        percentile(busy_ms, 0.99) or 0.0,
        "ms",
        Goal(Aim.AT_MOST, LATENCY_GOAL_MS),
        {
            "calm_p50_ms": percentile(calm_ms, 0.5) or 0.0,
            "calm_p99_ms": percentile(calm_ms, 0.99) or 0.0,
            "p50_ms": percentile(busy_ms, 0.5) or 0.0,
            "max_ms": max(busy_ms),
            "publishes": len(busy_ms),
            "topics": len(topics),
            "partitions": len(topics) * wanted.per_topic,
            "seconds": seconds,
            "slowest_request_seconds": slowest,
        },
    )


class _Probing:
    """Publishes one message after another in a thread for as long as the block lasts; yields the latencies."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._latencies_ms: list[float] = []
        self._is_over = threading.Event()
        self._faults: list[Exception] = []
        self._thread = threading.Thread(target=self._probe, name="probe")

    def __enter__(self) -> list[float]:
        self._thread.start()
        return self._latencies_ms

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        require(not self._faults, f"every publish of the probe succeeds: {self._faults}")

    def _probe(self) -> None:
        try:
            frame = one_message_request(_PROBED, Probe(messages=1))
            with Connection(self._broker) as connection:
                while not self._is_over.is_set():
                    began = time.perf_counter()
                    reply = wire.parse_produce_reply(connection.call(frame), _PROBED)
                    self._latencies_ms.append((time.perf_counter() - began) * 1000)
                    require(reply.error == 0, f"every publish succeeds (error {reply.error})")
        except (OSError, BenchmarkFailed) as fault:
            self._faults.append(fault)


def _publish_everywhere(connection: Connection, wanted: Partitions) -> None:
    """Publish one message to the first partition of each topic."""
    for topic in wanted.topics:
        reply = wire.parse_produce_reply(connection.call(one_message_request(topic, Probe(messages=1))), topic)
        require(reply.error == 0, f"every publish succeeds (error {reply.error})")


def _idle(broker: Broker, wanted: Partitions, name: str = "idle") -> Result:
    assert broker.pid is not None
    before = process_cpu_seconds(broker.pid)
    time.sleep(wanted.idle_seconds)
    used = process_cpu_seconds(broker.pid) - before
    what = f"of a core while idle with {wanted.partitions:,} partitions"
    return Result(name, what, 100 * used / wanted.idle_seconds, "%", None, _memory(broker))


def _memory(broker: Broker) -> dict[str, float]:
    assert broker.pid is not None
    return {"memory_bytes": resident_bytes(broker.pid)}


def _check(broker: Broker, wanted: Partitions) -> None:
    """Ask some topics where they end: each has one message, and its last partition has none."""
    topics = wanted.topics
    with Connection(broker) as connection:
        for topic in topics[:: max(1, len(topics) // _CHECKED_TOPICS)]:
            ends = [end_offset(connection, topic, index) for index in {0, wanted.per_topic - 1}]
            require(ends[0] == 1 and ends[1:] in ([], [0]), f"topic {topic} ends where it did: {ends}")

"""Latency: how long one publish takes alone, and how long a message takes from a producer to a waiting consumer.

Alone means one in flight: the next one begins when the last one is answered, so nothing ever queues. From end to end
messages are due at a steady pace, and the time runs from when a message was due: a broker that stalls is charged for
every message that had to wait, not only for the one it was busy with.
"""

from __future__ import annotations

import select
import time
from dataclasses import dataclass
from typing import Any

from goqueue.records.builder import NewRecord, build_batch
from goqueue_bench.broker_process import Broker
from goqueue_bench.cpu import Usage, metered
from goqueue_bench.figures import Figures, figures
from goqueue_bench.kafka import confluent, wire
from goqueue_bench.kafka.connection import Connection, end_offset
from goqueue_bench.measure import require
from goqueue_bench.messages.publish import payload
from goqueue_bench.messages.replay import FETCH_BYTES_MAX, follow

_WARM_UP = 100
_REPLY_SECONDS_MAX = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """How many messages of which size, and what an answer means."""

    messages: int
    size_bytes: int = 100
    acks: int = wire.ACKS_ALL


def measure_raw_latency(broker: Broker, topic: str, probe: Probe) -> Figures:
    """Publish one message at a time over a bare socket."""
    usage, latencies_ms = publish_singly(broker, topic, probe)
    return figures(probe.messages, probe.size_bytes, usage, latencies_ms)


def publish_singly(
    broker: Broker, topic: str, probe: Probe, *, with_children: bool = False
) -> tuple[Usage, list[float]]:
    """Publish one message at a time over a bare socket; return what all took, and each."""
    frame = one_message_request(topic, probe)
    latencies_ms = []
    with Connection(broker) as connection:
        offset = _publish_one(connection, topic, frame)
        for _ in range(min(_WARM_UP, probe.messages)):
            offset = _publish_one(connection, topic, frame, offset + 1)
        with metered(broker.pid, with_children=with_children) as usage:
            for _ in range(probe.messages):
                started = time.perf_counter()
                offset = _publish_one(connection, topic, frame, offset + 1)
                latencies_ms.append((time.perf_counter() - started) * 1000)
        end = end_offset(connection, topic, 0)
    require(end == offset + 1, f"the last message is at offset {offset} and the partition ends at {end}")
    return usage, latencies_ms


def one_message_request(topic: str, probe: Probe, *, correlation_id: int = 0) -> bytes:
    """Return a produce request that holds one message."""
    batch = build_batch([NewRecord(int(time.time() * 1000), None, payload(probe.size_bytes))])
    return wire.produce_request(topic, 0, bytes(batch), acks=probe.acks, correlation_id=correlation_id)


def _publish_one(connection: Connection, topic: str, frame: bytes, expected_offset: int | None = None) -> int:
    reply = wire.parse_produce_reply(connection.call(frame), topic)
    require(reply.error == 0, f"every publish succeeds (error {reply.error})")
    require(expected_offset in {None, reply.base_offset}, f"offset {reply.base_offset} is {expected_offset}")
    return reply.base_offset


def measure_confluent_latency(broker: Broker, topic: str, probe: Probe) -> Figures:
    """Publish one message at a time with the stock client, which does not wait for company."""
    settings = {"acks": probe.acks, "linger.ms": 0, "delivery.report.only.error": False}
    client = confluent.producer(broker.bootstrap, settings)
    value = payload(probe.size_bytes)
    latencies = []
    for _ in range(min(_WARM_UP, probe.messages)):
        _publish_and_wait(client, topic, value)
    with metered(broker.pid) as usage:
        for _ in range(probe.messages):
            started = time.perf_counter()
            _publish_and_wait(client, topic, value)
            latencies.append((time.perf_counter() - started) * 1000)
    return figures(probe.messages, probe.size_bytes, usage, latencies)


def _publish_and_wait(client: Any, topic: str, value: bytes) -> None:
    reports: list[Any] = []
    client.produce(topic, value, partition=0, on_delivery=lambda error, _: reports.append(error))
    deadline = time.monotonic() + _REPLY_SECONDS_MAX
    while not reports:
        client.poll(1.0)
        require(time.monotonic() < deadline, "the broker answers every publish")
    require(reports == [None], f"every publish succeeds ({reports[0]})")


def measure_end_to_end(broker: Broker, topic: str, probe: Probe, *, per_second: int) -> Figures:
    """Publish at a steady pace to a consumer that waits with a long poll, both over bare sockets."""
    with Connection(broker) as producer, Connection(broker) as consumer:
        frame = one_message_request(topic, probe)
        first = _publish_one(producer, topic, frame) + 1
        run = _PacedRun(producer, consumer, topic, frame, first, probe.messages, per_second)
        with metered(broker.pid) as usage:
            run.run()
    return figures(probe.messages, probe.size_bytes, usage, run.latencies_ms)


class _PacedRun:
    """Both ends of a paced stream in one thread, so that they do not wait for each other's interpreter."""

    def __init__(
        self,
        producer: Connection,
        consumer: Connection,
        topic: str,
        frame: bytes,
        first_offset: int,
        messages: int,
        per_second: int,
    ) -> None:
        self.latencies_ms: list[float] = []
        self._producer, self._consumer = producer, consumer
        self._topic, self._frame = topic, frame
        self._first = first_offset
        self._messages = messages
        self._interval = 1 / per_second
        self._sent = self._answered = 0
        self._next_offset = first_offset
        self._started = 0.0

    def run(self) -> None:
        """Send each message when it is due and note when it arrives, until all have."""
        self._ask()
        self._started = time.perf_counter()
        handlers = {self._producer.socket: self._take_answer, self._consumer.socket: self._take_records}
        while len(self.latencies_ms) < self._messages or self._answered < self._messages:
            ready, _, _ = select.select(list(handlers), [], [], self._wait_seconds())
            self._send_due()
            for each in ready:
                handlers[each]()
            require(time.perf_counter() < self._due(self._messages) + _REPLY_SECONDS_MAX, "every message arrives")

    def _due(self, number: int) -> float:
        return self._started + number * self._interval

    def _wait_seconds(self) -> float:
        if self._sent == self._messages:
            return 1.0
        return max(0.0, self._due(self._sent) - time.perf_counter())

    def _send_due(self) -> None:
        while self._sent < self._messages and self._due(self._sent) <= time.perf_counter():
            self._producer.socket.sendall(self._frame)
            self._sent += 1

    def _take_answer(self) -> None:
        reply = wire.parse_produce_reply(self._producer.receive(), self._topic)
        require(reply.error == 0, f"every publish succeeds (error {reply.error})")
        self._answered += 1

    def _take_records(self) -> None:
        reply = wire.parse_fetch_reply(self._consumer.receive())
        now = time.perf_counter()
        require(reply.error == 0, f"every fetch succeeds (error {reply.error})")
        end = follow(reply.records, self._next_offset)
        numbers = range(self._next_offset - self._first, end - self._first)
        self.latencies_ms.extend((now - self._due(number)) * 1000 for number in numbers)
        self._next_offset = end
        if len(self.latencies_ms) < self._messages:
            self._ask()

    def _ask(self) -> None:
        request = wire.fetch_request(self._topic, 0, self._next_offset, bytes_max=FETCH_BYTES_MAX)
        self._consumer.socket.sendall(request)

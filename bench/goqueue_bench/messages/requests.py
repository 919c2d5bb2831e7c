"""Requests: one message per produce request, many in flight on a few connections.

This is the dearest way to publish and the one that shows what a request costs the broker. The frames are made before
the clock starts, and the answers are only counted and checked, so that the client is not what is measured.
"""

from __future__ import annotations

import selectors
import struct
import time

from goqueue_bench.broker_process import Broker
from goqueue_bench.cpu import metered
from goqueue_bench.figures import Figures, figures
from goqueue_bench.kafka import wire
from goqueue_bench.kafka.connection import Connection, end_offsets
from goqueue_bench.measure import require
from goqueue_bench.messages.latency import Probe, one_message_request

CONNECTIONS = 4
IN_FLIGHT = 50

_RECEIVE_BYTES = 256 * 1024
_IDLE_SECONDS_MAX = 30.0
_LENGTH = struct.Struct(">i")


def measure_requests(broker: Broker, topic: str, probe: Probe) -> Figures:
    """Publish as fast as the broker answers; every message has to get an offset of its own."""
    (start,) = end_offsets(broker, topic, 1)
    frame = one_message_request(topic, probe)
    shares = [probe.messages // CONNECTIONS + (number < probe.messages % CONNECTIONS) for number in range(CONNECTIONS)]
    pipes = [_Pipe(Connection(broker), topic, frame, share) for share in shares if share]
    try:
        with metered(broker.pid) as usage:
            _run(pipes)
    finally:
        for pipe in pipes:
            pipe.connection.socket.close()
    offsets = sorted(offset for pipe in pipes for offset in pipe.offsets)
    require(offsets == list(range(start, start + probe.messages)), "every message has an offset of its own")
    require(end_offsets(broker, topic, 1) == [start + probe.messages], "the partition ends after the last message")
    return figures(probe.messages, probe.size_bytes, usage)


class _Pipe:
    """One connection that always has as many requests in flight as it may."""

    def __init__(self, connection: Connection, topic: str, frame: bytes, count: int) -> None:
        self.connection = connection
        self.offsets: list[int] = []
        self._topic = topic
        self._frames = memoryview(frame * IN_FLIGHT)
        self._frame_bytes = len(frame)
        self._unsent = self._unanswered = count
        self._received = bytearray()

    @property
    def is_done(self) -> bool:
        """Whether every request has its answer."""
        return self._unanswered == 0

    def send(self, count: int) -> None:
        """Send so many requests, or what is left."""
        count = min(count, self._unsent)
        self._unsent -= count
        if count:
            self.connection.socket.sendall(self._frames[: count * self._frame_bytes])

    def receive(self) -> None:
        """Take the answers that are there, and send as many requests again."""
        data = self.connection.socket.recv(_RECEIVE_BYTES)
        require(len(data) > 0, "the broker keeps the connection open")
        self._received += data
        answered = self._take_answers()
        self._unanswered -= answered
        self.send(answered)

    def _take_answers(self) -> int:
        count = position = 0
        with memoryview(self._received) as received:
            while position + 4 <= len(received):
                end = position + 4 + _LENGTH.unpack_from(received, position)[0]
                if end > len(received):
                    break
                reply = wire.parse_produce_reply(received[position + 4 : end], self._topic)
                require(reply.error == 0, f"every request succeeds (error {reply.error})")
                self.offsets.append(reply.base_offset)
                count += 1
                position = end
        del self._received[:position]
        return count


def _run(pipes: list[_Pipe]) -> None:
    with selectors.DefaultSelector() as selector:
        for pipe in pipes:
            pipe.send(IN_FLIGHT)
            selector.register(pipe.connection.socket, selectors.EVENT_READ, pipe)
        deadline = time.monotonic() + _IDLE_SECONDS_MAX
        while selector.get_map():
            ready = selector.select(1.0)
            for key, _ in ready:
                pipe = key.data
                pipe.receive()
                if pipe.is_done:
                    selector.unregister(key.fileobj)
            if ready:
                deadline = time.monotonic() + _IDLE_SECONDS_MAX
            require(time.monotonic() < deadline, "the broker answers every request")

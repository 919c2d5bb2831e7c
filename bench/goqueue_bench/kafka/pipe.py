"""Many requests on a few connections, as fast as a broker answers: made beforehand, checked as their answers arrive.

One thread serves all connections. A connection has several requests on their way at any time, so the broker never
waits for this side; whether it works on more than one of them at once is its own affair.
"""

from __future__ import annotations

import selectors
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from goqueue_bench.broker_process import Broker
from goqueue_bench.kafka.connection import Connection
from goqueue_bench.measure import require

IN_FLIGHT = 50

_RECEIVE_BYTES = 256 * 1024
_IDLE_SECONDS_MAX = 30.0
_LENGTH = struct.Struct(">i")

Check = Callable[[memoryview], None]
"""Looks at a reply, without its length, and raises BenchmarkFailed if it is not what was asked for."""


class Pipe:
    """One connection with the requests that it is going to send."""

    def __init__(self, connection: Connection, frames: Sequence[bytes], check: Check) -> None:
        self.connection = connection
        self._frames = frames
        self._check = check
        self._sent = self._answered = 0
        self._received = bytearray()

    @property
    def is_done(self) -> bool:
        """Whether every request has its answer."""
        return self._answered == len(self._frames)

    def send(self) -> None:
        """Send as many requests as may be on their way."""
        end = min(len(self._frames), self._answered + IN_FLIGHT)
        if end > self._sent:
            self.connection.socket.sendall(b"".join(self._frames[self._sent : end]))
            self._sent = end

    def receive(self) -> None:
        """Take the answers that are there, and send as many requests again."""
        data = self.connection.socket.recv(_RECEIVE_BYTES)
        require(len(data) > 0, "the broker keeps the connection open")
        self._received += data
        self._take_answers()
        self.send()

    def _take_answers(self) -> None:
        position = 0
        with memoryview(self._received) as received:
            while position + 4 <= len(received):
                end = position + 4 + _LENGTH.unpack_from(received, position)[0]
                if end > len(received):
                    break
                with received[position + 4 : end] as reply:
                    self._check(reply)
                self._answered += 1
                position = end
        del self._received[:position]


@contextmanager
def pipes(broker: Broker, frames: Iterable[Sequence[bytes]], check: Check) -> Iterator[list[Pipe]]:
    """Open a connection for each sequence of frames, for as long as the block lasts."""
    with ExitStack() as stack:
        yield [Pipe(stack.enter_context(Connection(broker)), each, check) for each in frames]


def drain(opened: Iterable[Pipe]) -> None:
    """Send all requests of all pipes, and wait until each has its answer."""
    with selectors.DefaultSelector() as selector:
        for pipe in opened:
            pipe.send()
            selector.register(pipe.connection.socket, selectors.EVENT_READ, pipe)
        deadline = time.monotonic() + _IDLE_SECONDS_MAX
        while selector.get_map():
            ready = selector.select(1.0)
            for key, _ in ready:
                key.data.receive()
                if key.data.is_done:
                    selector.unregister(key.fileobj)
            if ready:
                deadline = time.monotonic() + _IDLE_SECONDS_MAX
            require(time.monotonic() < deadline, "the broker answers every request")

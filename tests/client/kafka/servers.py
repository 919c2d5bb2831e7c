"""Servers that are no brokers, and a relay in front of one that loses replies: it was done, and nobody hears of it."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from goqueue.client import Client, topics
from goqueue.testing.broker import Broker

Serve = Callable[[socket.socket], None]


@contextmanager
def listening(serve: Serve) -> Iterator[int]:
    """Serve connections for the length of a block, each on a thread of its own; the port is given."""
    listener = socket.create_server(("127.0.0.1", 0))
    opened: list[socket.socket] = []

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                opened.append(connection)
                threading.Thread(target=_served, args=(serve, connection), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        # To close it does not wake whoever waits for a connection.
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for connection in opened:
            connection.close()


def _served(serve: Serve, connection: socket.socket) -> None:
    with connection, suppress(OSError):
        serve(connection)


def read_frame(connection: socket.socket) -> bytes:
    """Return a whole frame with its size; OSError at the end of the connection."""
    size = _read(connection, 4)
    return size + _read(connection, struct.unpack(">i", size)[0])


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionResetError
        data += part
    return data


class LossyRelay:
    """Carries frames to a broker and back; a reply to a `doomed` kind of request breaks off in the middle,
    with its connection.

    While it `is_silent`, all replies are lost, and the connections stay.
    """

    def __init__(self) -> None:
        self.target = 0
        self.bootstrap = ""
        self.is_silent = False
        self.doomed: list[int] = []
        self.lost: list[int] = []

    def serve(self, near: socket.socket) -> None:
        """Carry a connection."""
        asked: list[int] = []
        with socket.create_connection(("127.0.0.1", self.target)) as far:
            threading.Thread(target=self._carry_requests, args=(near, far, asked), daemon=True).start()
            while True:
                reply = read_frame(far)
                api = asked.pop(0)
                if api in self.doomed:
                    self.doomed.remove(api)
                    self.lost.append(api)
                    near.sendall(reply[: len(reply) // 2])
                    near.shutdown(socket.SHUT_RDWR)
                    return
                if not self.is_silent:
                    near.sendall(reply)

    def _carry_requests(self, near: socket.socket, far: socket.socket, asked: list[int]) -> None:
        with suppress(OSError):
            while True:
                request = read_frame(near)
                asked.append(struct.unpack_from(">h", request, 4)[0])
                far.sendall(request)
        with suppress(OSError):
            far.shutdown(socket.SHUT_RDWR)


@contextmanager
def relayed_broker(*topics_wanted: str) -> Iterator[LossyRelay]:
    """Run a relay in front of a broker of its own, which clients take for the broker."""
    relay = LossyRelay()
    with listening(relay.serve) as port, Broker(advertised_kafka_port=port) as broker:
        relay.target = int(broker.bootstrap.rpartition(":")[2])
        relay.bootstrap = f"127.0.0.1:{port}"
        with Client(broker.http) as client:
            for name in topics_wanted:
                client.send(topics.create(name, partitions=1))
        yield relay

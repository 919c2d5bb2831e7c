"""A heavy client in a process of its own, as `goqueue bench fairness` starts it.

    python -m goqueue_bench.fairness.neighbour ORDER

It says `ready` when it is connected. After each line `go` it works until a line `stop` comes, and then says as JSON
what it has done. It ends with its standard input.

| neighbour       | what it does, again and again                                                             |
|-----------------|-------------------------------------------------------------------------------------------|
| `bulk_kafka`    | publishes batches of 1 MB by Kafka, with many requests on their way                       |
| `bulk_http`     | publishes messages by HTTP, thousands in a request, on two connections                    |
| `pipelined`     | sends 1,000 reads on one HTTP connection before it takes the first reply                  |
| `queue_stats`   | describes and lists queues, and asks for their stats and `/metrics`                       |
| `dead_letters`  | searches all dead letters of a topic for a reason that none of them has                   |
| `tiny_chunks`   | sends an HTTP body in chunks of one byte                                                  |
| `many_messages` | sends an HTTP body of far more messages than a request may have                           |

The last two may be refused; then the connection may be closed as well, and another one is opened.
"""

from __future__ import annotations

import re
import selectors
import socket
import sys
import time
from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from goqueue.records.builder import NewRecord, build_batch
from goqueue_bench.broker_process import Broker
from goqueue_bench.http_connection import HttpConnection
from goqueue_bench.kafka import wire
from goqueue_bench.kafka.connection import Connection
from goqueue_bench.measure import BenchmarkFailed, require
from goqueue_bench.messages.publish import payload

BULK_HTTP_CONNECTIONS = 2
BULK_KAFKA_IN_FLIGHT = 16

_SIZE_BYTES = 100
_RECEIVE_BYTES = 256 * 1024
_REPLY_SECONDS_MAX = 120.0
_STATUS = re.compile(rb"HTTP/1\.1 (\d+)")
_HEAD = re.compile(
    rb"HTTP/1\.1 200 [^\r\n]*\r\n(?:[^\r\n]+\r\n)*?content-length: *(\d+)\r\n(?:[^\r\n]+\r\n)*\r\n", re.IGNORECASE
)
_EXPECTED = (b"200", b"207", b"400", b"413")
_NO_SUCH_REASON = "none-has-this-reason"

Kind = Literal["bulk_kafka", "bulk_http", "pipelined", "queue_stats", "dead_letters", "tiny_chunks", "many_messages"]


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """Which neighbour to be, where, and how large each piece of its work is."""

    kind: Kind
    host: str
    port: int
    http_port: int
    topic: str
    group: str = ""
    size: int


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Work between `go` and `stop`: requests, messages if there are any, and refusals."""

    requests: int = 0
    messages: int = 0
    refused: int = 0
    seconds: float = 0.0
    failure: str = ""


class Done(msgspec.Struct, frozen=True):
    """One piece of work."""

    requests: int = 1
    messages: int = 0
    refused: int = 0


Work = Iterator[Done]


def work_of(order: Order) -> Work:
    """Return the endless work of a neighbour; it is connected once the first piece is asked for."""
    return _WORKS[order.kind](order)


def _bulk_kafka(order: Order) -> Work:
    """Publish batches, each of so many messages."""
    records = [NewRecord(int(time.time() * 1000), None, payload(_SIZE_BYTES)) for _ in range(order.size)]
    frame = wire.produce_request(order.topic, 0, bytes(build_batch(records)), acks=wire.ACKS_ALL)
    with Connection(Broker(order.host, order.port, None)) as connection, selectors.DefaultSelector() as selector:
        bulk = _Bulk(connection.socket, order.topic, frame)
        yield Done(requests=0)
        selector.register(connection.socket, selectors.EVENT_READ | selectors.EVENT_WRITE)
        while True:
            answered = 0
            for _, events in selector.select():
                bulk.send(events)
                answered += bulk.receive(events)
            selector.modify(connection.socket, selectors.EVENT_READ | (0 if bulk.is_full else selectors.EVENT_WRITE))
            yield Done(requests=answered, messages=answered * order.size)


class _Bulk:
    """Sends one frame again and again, without waiting for replies as long as there are not too many due."""

    def __init__(self, connected: socket.socket, topic: str, frame: bytes) -> None:
        connected.settimeout(0)
        self._socket = connected
        self._topic = topic
        self._frame = frame
        self._unsent = memoryview(frame)
        self._received = bytearray()
        self._under_way = 0

    @property
    def is_full(self) -> bool:
        """Whether no more may be sent now."""
        return self._under_way >= BULK_KAFKA_IN_FLIGHT

    def send(self, events: int) -> None:
        """Send as much as there is room for."""
        if events & selectors.EVENT_WRITE and not self.is_full:
            self._unsent = self._unsent[self._socket.send(self._unsent) :]
            if not self._unsent:
                self._unsent = memoryview(self._frame)
                self._under_way += 1

    def receive(self, events: int) -> int:
        """Take the replies that are there, and return how many."""
        if not events & selectors.EVENT_READ:
            return 0
        data = self._socket.recv(_RECEIVE_BYTES)
        require(len(data) > 0, "the broker keeps the connection open")
        self._received += data
        answered = _take_produce_replies(self._received, self._topic)
        self._under_way -= answered
        return answered


def _take_produce_replies(received: bytearray, topic: str) -> int:
    answered = 0
    while len(received) >= 4 and len(received) >= (end := 4 + int.from_bytes(received[:4], "big")):
        reply = wire.parse_produce_reply(memoryview(bytes(received[4:end])), topic)
        require(reply.error == 0, f"every publish succeeds (error {reply.error})")
        del received[:end]
        answered += 1
    return answered


def _bulk_http(order: Order) -> Work:
    """Publish so many messages in each request; while one is answered, the other connection's is on its way."""
    messages = [{"key": str(number), "value": payload(_SIZE_BYTES).decode()} for number in range(order.size)]
    body = msgspec.json.encode({"messages": messages})
    path = f"/v1/topics/{order.topic}/messages"
    connections = [HttpConnection(order.host, order.http_port) for _ in range(BULK_HTTP_CONNECTIONS)]
    yield Done(requests=0)
    for connection in connections:
        connection.send(path, body)
    while True:
        for connection in connections:
            reply = connection.receive()
            require(reply.count(b'"offset"') == order.size, f"every message is stored ({reply[:300]!r})")
            connection.send(path, body)
            yield Done(messages=order.size)


def _pipelined(order: Order) -> Work:
    """Send so many reads at once, and take their replies."""
    path = f"/v1/topics/{order.topic}/partitions/0/messages?offset=0&limit=100"
    request = f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n"
    with _connect(order) as connection:
        yield Done(requests=0)
        while True:
            connection.sendall(request.encode() * order.size)
            answered, received = 0, bytearray()
            while answered < order.size:
                data = connection.recv(_RECEIVE_BYTES)
                require(len(data) > 0, "the broker keeps the connection open")
                received += data
                answered += _take_http_replies(received)
            yield Done(requests=order.size)


def _take_http_replies(received: bytearray) -> int:
    answered = start = 0
    while (head := _HEAD.match(received, start)) is not None and head.end() + int(head[1]) <= len(received):
        start = head.end() + int(head[1])
        answered += 1
    del received[:start]
    return answered


def _queue_stats(order: Order) -> Work:
    """Ask for all that tells about queues."""
    with HttpConnection(order.host, order.http_port) as connection:
        yield Done(requests=0)
        while True:
            for path in (f"/v1/queues/{order.group}", "/v1/queues", "/v1/reliability/stats", "/metrics"):
                connection.get(path)
                yield Done()


def _dead_letters(order: Order) -> Work:
    """Look through all letters, page after page."""
    with HttpConnection(order.host, order.http_port) as connection:
        yield Done(requests=0)
        path = f"/v1/topics/{order.topic}/dlq?reason={_NO_SUCH_REASON}"
        cursor = None
        while True:
            reply = connection.get(path if cursor is None else f"{path}&cursor={cursor}")
            cursor = msgspec.json.decode(reply)["cursor"]
            yield Done()


def _tiny_chunks(order: Order) -> Work:
    """Send a body of so many bytes, each a chunk of its own."""
    head = f"POST /v1/topics/{order.topic}/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    body = b'{"messages":[{"value":"%s"}]}' % (b"x" * order.size)
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    yield from _sent_whole(order, head.encode() + b"transfer-encoding: chunked\r\n\r\n" + chunks)


def _many_messages(order: Order) -> Work:
    """Send a body of so many messages."""
    body = b'{"messages":[' + b",".join([b"{}"] * order.size) + b"]}"
    head = f"POST /v1/topics/{order.topic}/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    yield from _sent_whole(order, f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)


def _sent_whole(order: Order, request: bytes) -> Work:
    """Send a request and take what comes back, on a connection for each."""
    yield Done(requests=0)
    while True:
        with _connect(order) as connection:
            received = b""
            try:
                connection.sendall(request)
                received = connection.recv(_RECEIVE_BYTES)
            except (BrokenPipeError, ConnectionResetError):
                # The broker has refused it before all was sent.
                pass
            status = _STATUS.match(received)
            # Refused for what it is, and for nothing else.
            require(status is None or status[1] in _EXPECTED, f"the request is taken or too large ({received[:300]!r})")
            yield Done(refused=int(status is None or status[1] != b"200"))


def _connect(order: Order) -> socket.socket:
    return socket.create_connection((order.host, order.http_port), timeout=_REPLY_SECONDS_MAX)


_WORKS: dict[Kind, Callable[[Order], Work]] = {
    "bulk_kafka": _bulk_kafka,
    "bulk_http": _bulk_http,
    "pipelined": _pipelined,
    "queue_stats": _queue_stats,
    "dead_letters": _dead_letters,
    "tiny_chunks": _tiny_chunks,
    "many_messages": _many_messages,
}


def work_until_told(work: Work, has_word: Callable[[], bool]) -> Report:
    """Work until there is a word to stop."""
    began = time.perf_counter()
    requests = messages = refused = 0
    while not has_word():
        done = next(work)
        requests += done.requests
        messages += done.messages
        refused += done.refused
    seconds = time.perf_counter() - began
    return Report(requests=requests, messages=messages, refused=refused, seconds=seconds)


def main(order: Order) -> None:
    """Connect, say so, and work whenever told to."""
    work = work_of(order)
    next(work)
    _say("ready")
    with selectors.DefaultSelector() as selector:
        selector.register(sys.stdin, selectors.EVENT_READ)
        while sys.stdin.readline():
            try:
                report = work_until_told(work, lambda: bool(selector.select(0)))
            except (BenchmarkFailed, OSError) as error:
                report = Report(failure=str(error) or type(error).__name__)
            sys.stdin.readline()
            _say(msgspec.json.encode(report).decode())


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1].encode(), type=Order))

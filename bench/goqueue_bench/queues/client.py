"""Clients of a queue in a process of their own, as `goqueue bench queue` starts them: one part to play for all of them.

    python -m goqueue_bench.queues.client ORDER

It prints `ready` when all are connected, starts on command, and prints its results as JSON at the end. Messages are
looked at only as far as is needed to settle them and to know which they were.

| part      | what it does                                                                                          |
|-----------|-------------------------------------------------------------------------------------------------------|
| `publish` | publishes so many messages, a batch in each request, by its only connection                           |
| `pace`    | publishes one message at a time, each when it is due, with that time in front, the connections in turn |
| `consume` | receives a batch and acks it, until nothing is left; each connection is a consumer                    |
| `watch`   | waits for messages, and notes how long after their time they came; two connections are a consumer, as a |
|           | `Worker` is one: it always waits by the first, and acks meanwhile by the other                        |

Many processes take more from two cores than what they do is worth, and from the broker with that.
"""

from __future__ import annotations

import selectors
import sys
import time
from collections import defaultdict
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from typing import Literal

import msgspec

from goqueue_bench.http_connection import HttpConnection
from goqueue_bench.measure import BenchmarkFailed, require

STAMP_DIGITS = 16
"""How many digits of a paced message are the time when it was due, in microseconds of the system's monotonic clock."""

# Nothing comes any more if nothing comes for so long, also on a machine that has much to do.
_WATCH_WAIT = "3s"
_LEAD_S = 0.05
_ACK_PATH = "/v1/messages/ack"


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """Task of a process, and its number of connections; `first` is the number of its first one."""

    part: Literal["publish", "pace", "consume", "watch"]
    host: str
    port: int
    topic: str
    group: str = ""
    messages: int = 0
    size_bytes: int = 100
    batch: int = 1
    partitions: int = 1
    per_second: int = 1000
    first: int = 0
    connections: int = 1


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Results of a process: requests, messages (ranges of offsets by partition), and delays."""

    requests: int = 0
    ranges: dict[int, list[tuple[int, int]]] = {}
    latencies_ms: list[float] = []
    failure: str = ""


class _Message(msgspec.Struct):
    receipt_handle: str
    partition: int
    offset: int
    value: str


class _Received(msgspec.Struct):
    messages: list[_Message]


class _Receipts(msgspec.Struct):
    receipt_handles: list[str]


_read_received = msgspec.json.Decoder(_Received).decode
_encode = msgspec.json.Encoder().encode


def ranges_of(offsets: Sequence[int]) -> list[tuple[int, int]]:
    """Return offsets as ranges (start, end), each as long as it can be; one that is there twice is so in the ranges."""
    found: list[tuple[int, int]] = []
    for offset in sorted(offsets):
        if found and found[-1][1] == offset:
            found[-1] = (found[-1][0], offset + 1)
        else:
            found.append((offset, offset + 1))
    return found


def carry_out(connections: Sequence[HttpConnection], order: Order) -> Report:
    """Play a part to its end."""
    if order.part == "publish":
        (connection,) = connections
        return _publish(connection, order)
    if order.part == "pace":
        return _pace(connections, order)
    if order.part == "watch":
        return _watch(connections, order)
    return _consume(connections, order)


def _publish(connection: HttpConnection, order: Order) -> Report:
    path = f"/v1/topics/{order.topic}/messages"
    value = "x" * order.size_bytes
    requests = 0
    for start in range(0, order.messages, order.batch):
        count = min(order.batch, order.messages - start)
        partition = (order.first + requests) % order.partitions
        body = _encode({"messages": [{"value": value, "partition": partition}] * count})
        _require_stored(connection.post(path, body), count)
        requests += 1
    return Report(requests=requests)


def _pace(connections: Sequence[HttpConnection], order: Order) -> Report:
    path = f"/v1/topics/{order.topic}/messages"
    rest = "x" * (order.size_bytes - STAMP_DIGITS)
    began = time.monotonic() + _LEAD_S
    for number in range(order.messages):
        connection = connections[number % len(connections)]
        if number >= len(connections):
            _require_stored(connection.receive(), 1)
        due = began + number / order.per_second
        if (left := due - time.monotonic()) > 0:
            time.sleep(left)
        value = f"{round(due * 1e6):0{STAMP_DIGITS}d}{rest}"
        connection.send(path, _encode({"messages": [{"value": value, "partition": number % order.partitions}]}))
    for connection in connections[: order.messages]:
        _require_stored(connection.receive(), 1)
    return Report(requests=order.messages)


def _require_stored(reply: bytes, count: int) -> None:
    require(reply.count(b'"offset":') == count, f"every message is stored ({reply[:300]!r})")


class _Tally:
    """Messages that the consumers of a process have received so far, and the number of receives."""

    def __init__(self) -> None:
        self.receives = 0
        self.latencies_ms: list[float] = []
        self._offsets: dict[int, list[int]] = defaultdict(list)

    def note(self, messages: Sequence[_Message]) -> None:
        """Take note of messages that have come."""
        for each in messages:
            self._offsets[each.partition].append(each.offset)

    def report(self) -> Report:
        """Return what it comes to."""
        ranges = {partition: ranges_of(found) for partition, found in self._offsets.items()}
        return Report(requests=self.receives, ranges=ranges, latencies_ms=self.latencies_ms)


def _consume(connections: Sequence[HttpConnection], order: Order) -> Report:
    tally = _Tally()
    with selectors.DefaultSelector() as selector:
        for number, connection in enumerate(connections):
            consumer = _consumer(order, order.first + number, tally)
            selector.register(connection, selectors.EVENT_READ, (connection, consumer))
            connection.send(*next(consumer))
        while selector.get_map():
            for key, _ in selector.select():
                connection, consumer = key.data
                try:
                    connection.send(*consumer.send(connection.receive()))
                except StopIteration:
                    selector.unregister(connection)
    return tally.report()


def _consumer(order: Order, number: int, tally: _Tally) -> Generator[tuple[str, bytes], bytes, None]:
    """Yield requests, path and body, and be sent the reply to each, until nothing is left."""
    wish = _wish(order, number, 0)
    while True:
        tally.receives += 1
        messages = _read_received((yield wish)).messages
        if not messages:
            return
        reply = yield _ACK_PATH, _receipts(messages)
        _require_acked(reply, len(messages))
        tally.note(messages)


def _watch(connections: Sequence[HttpConnection], order: Order) -> Report:
    tally = _Tally()
    pairs = zip(connections[::2], connections[1::2], strict=True)
    watchers = [_Watcher(*pair, _wish(order, number, _WATCH_WAIT), tally) for number, pair in enumerate(pairs)]
    with selectors.DefaultSelector() as selector:
        for watcher in watchers:
            selector.register(watcher.receiving, selectors.EVENT_READ, watcher.received)
            selector.register(watcher.acking, selectors.EVENT_READ, watcher.acked)
            watcher.receive()
        while not all(watcher.is_done for watcher in watchers):
            for key, _ in selector.select():
                key.data()
    return tally.report()


class _Watcher:
    """A consumer that always waits for messages, and acks those that have come in one request after another."""

    def __init__(
        self, receiving: HttpConnection, acking: HttpConnection, wish: tuple[str, bytes], tally: _Tally
    ) -> None:
        self.receiving, self.acking = receiving, acking
        self._wish = wish
        self._tally = tally
        self._to_ack: list[_Message] = []
        self._under_way = 0
        self._is_over = False

    @property
    def is_done(self) -> bool:
        """Whether nothing came any more, and all that came is acked."""
        return self._is_over and not self._to_ack and not self._under_way

    def receive(self) -> None:
        """Wait for messages."""
        self._tally.receives += 1
        self.receiving.send(*self._wish)

    def received(self) -> None:
        """Take what has come, and wait for more."""
        messages = _read_received(self.receiving.receive()).messages
        now_ms = time.monotonic() * 1e3
        self._is_over = not messages
        if messages:
            self.receive()
            self._tally.note(messages)
            self._tally.latencies_ms += [now_ms - int(each.value[:STAMP_DIGITS]) / 1e3 for each in messages]
            self._to_ack += messages
            self._ack()

    def acked(self) -> None:
        """Take note that what was to be acked is, and ack what has come meanwhile."""
        _require_acked(self.acking.receive(), self._under_way)
        self._under_way = 0
        self._ack()

    def _ack(self) -> None:
        if self._to_ack and not self._under_way:
            self.acking.send(_ACK_PATH, _receipts(self._to_ack))
            self._under_way = len(self._to_ack)
            self._to_ack.clear()


def _wish(order: Order, number: int, wait: str | int) -> tuple[str, bytes]:
    """Return the request by which a consumer receives, path and body."""
    # Under a name of its own: what one client holds does not count for the others.
    wish = {"topic": order.topic, "max": order.batch, "wait": wait, "consumer": f"bench-{number}"}
    return f"/v1/groups/{order.group}/receive", _encode(wish)


def _receipts(messages: Sequence[_Message]) -> bytes:
    return _encode(_Receipts([each.receipt_handle for each in messages]))


def _require_acked(reply: bytes, count: int) -> None:
    require(reply.count(b'"status":"done"') == count, f"every message is acked ({reply[:300]!r})")


def main(order: Order) -> None:
    """Connect, say so, wait for the word, and play the part."""
    with ExitStack() as stack:
        connections = [stack.enter_context(HttpConnection(order.host, order.port)) for _ in range(order.connections)]
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        try:
            report = carry_out(connections, order)
        except (BenchmarkFailed, OSError) as error:
            report = Report(failure=str(error) or type(error).__name__)
    sys.stdout.write(_encode(report).decode() + "\n")


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1].encode(), type=Order))

"""A client of a queue in a process of its own, as `goqueue bench queue` starts them: one connection, one part to play.

    python -m goqueue.bench.queue_client ORDER

It says `ready` when it is connected, begins when it is told to, and ends with what it has done, as JSON. Messages are
looked at only as far as is needed to settle them and to know which they were.

| part      | what it does                                                                        |
|-----------|-------------------------------------------------------------------------------------|
| `publish` | publishes so many messages, a batch in each request                                 |
| `pace`    | publishes one message at a time, each when it is due, with that time in front       |
| `consume` | receives a batch and acks it, until nothing is left                                 |
| `watch`   | the same, but waits for messages, and notes how long after their time they came     |
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Literal

import msgspec

from goqueue.bench.http_connection import HttpConnection
from goqueue.bench.measure import BenchmarkFailed, require

STAMP_DIGITS = 16
"""How many digits of a paced message are the time when it was due, in microseconds of the system's monotonic clock."""

# Nothing comes any more if nothing comes for so long, also on a machine that has much to do.
_WATCH_WAIT = "3s"
_LEAD_S = 0.05


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What a process is to do; `first` is its number, and with `step` says which of all paced messages are its own."""

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
    step: int = 1


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a process has done: how many requests, which messages (ranges of offsets by partition), and how late."""

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


def carry_out(connection: HttpConnection, order: Order) -> Report:
    """Play a part to its end."""
    if order.part == "publish":
        return _publish(connection, order)
    if order.part == "pace":
        return _pace(connection, order)
    return _consume(connection, order)


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


def _pace(connection: HttpConnection, order: Order) -> Report:
    path = f"/v1/topics/{order.topic}/messages"
    rest = "x" * (order.size_bytes - STAMP_DIGITS)
    began = time.monotonic() + _LEAD_S
    requests = 0
    for number in range(order.first, order.messages, order.step):
        due = began + number / order.per_second
        if (left := due - time.monotonic()) > 0:
            time.sleep(left)
        value = f"{round(due * 1e6):0{STAMP_DIGITS}d}{rest}"
        body = _encode({"messages": [{"value": value, "partition": number % order.partitions}]})
        _require_stored(connection.post(path, body), 1)
        requests += 1
    return Report(requests=requests)


def _require_stored(reply: bytes, count: int) -> None:
    require(reply.count(b'"offset":') == count, f"every message is stored ({reply[:300]!r})")


def _consume(connection: HttpConnection, order: Order) -> Report:
    is_watching = order.part == "watch"
    path = f"/v1/groups/{order.group}/receive"
    wait = _WATCH_WAIT if is_watching else 0
    # Under a name of its own: what one client holds does not count for the others.
    wish = _encode({"topic": order.topic, "max": order.batch, "wait": wait, "consumer": f"bench-{order.first}"})
    offsets: dict[int, list[int]] = {}
    latencies_ms = []
    requests = 0
    while True:
        messages = _read_received(connection.post(path, wish)).messages
        now = time.monotonic()
        requests += 1
        if not messages:
            break
        reply = connection.post("/v1/messages/ack", _encode(_Receipts([each.receipt_handle for each in messages])))
        require(reply.count(b'"status":"done"') == len(messages), f"every message is acked ({reply[:300]!r})")
        for each in messages:
            offsets.setdefault(each.partition, []).append(each.offset)
            if is_watching:
                latencies_ms.append(now * 1e3 - int(each.value[:STAMP_DIGITS]) / 1e3)
    ranges = {partition: ranges_of(found) for partition, found in offsets.items()}
    return Report(requests=requests, ranges=ranges, latencies_ms=latencies_ms)


def main(order: Order) -> None:
    """Connect, say so, wait for the word, and play the part."""
    with HttpConnection(order.host, order.port) as connection:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        try:
            report = carry_out(connection, order)
        except (BenchmarkFailed, OSError) as error:
            report = Report(failure=str(error) or type(error).__name__)
    sys.stdout.write(_encode(report).decode() + "\n")


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1].encode(), type=Order))

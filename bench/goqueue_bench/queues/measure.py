"""Queues: messages are published, leased and acked by HTTP, by clients in other processes.

Afterwards every message has to have been acked once, by one of the clients, and the group has to be empty.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import median
from uuid import uuid4

import msgspec

from goqueue.seams.children import dying_with_parent
from goqueue_bench.broker_process import Broker
from goqueue_bench.cpu import metered
from goqueue_bench.figures import Figures, figures, percentile, rounded
from goqueue_bench.http_connection import HttpConnection
from goqueue_bench.measure import Aim, BenchmarkFailed, Goal, Result, require
from goqueue_bench.queues.client import STAMP_DIGITS, Order, Report, ranges_of

BATCHES_GOAL = Goal(Aim.AT_LEAST, 100_000)
CPU_US_GOAL = Goal(Aim.AT_MOST, 5)
SINGLES_GOAL = Goal(Aim.AT_LEAST, 5_000)
DELIVERY_MS_GOAL = Goal(Aim.AT_MOST, 5)
PER_SECOND = 1000
SIZE_BYTES_MIN = STAMP_DIGITS

# Pacing is of no use if the one before has to be answered first.
_PACERS = 4
_WATCHERS = 2
_WATCHED_AT_ONCE = 100
# Many consumers are in so many processes: more of them would take the cores from the broker.
_PROCESSES_MAX = 4
_SECONDS_MAX = 600.0
_STRETCHES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLoad:
    """How many messages, how many of them at a time, and by how many connections."""

    messages: int
    batch: int = 500
    connections: int = 4
    partitions: int = 4
    size_bytes: int = 100

    @property
    def shares(self) -> list[int]:
        """How many messages each connection publishes."""
        return _parts(self.messages, self.connections)

    @property
    def crews(self) -> list[int]:
        """How many connections each process has that consumes."""
        return _parts(self.connections, _PROCESSES_MAX)


def _parts(whole: int, count_max: int) -> list[int]:
    """Part a number as evenly as can be; no part is zero."""
    count = min(whole, count_max)
    return [whole // count + (number < whole % count) for number in range(count)]


@dataclass(frozen=True, slots=True)
class QueueTopic:
    """A topic for one measurement, and the group that consumes it."""

    broker: Broker
    topic: str
    group: str

    def order(self, **rest: object) -> Order:
        """Return an order for a client of this topic."""
        host, port = self.broker.http_address
        return msgspec.convert({"host": host, "port": port, "topic": self.topic, "group": self.group, **rest}, Order)


@contextmanager
def queue_topic(broker: Broker, partitions: int, flush: str) -> Iterator[QueueTopic]:
    """Make a topic with a queue group, and delete both in the end."""
    name = f"goqueue-bench-{uuid4()}"
    made = QueueTopic(broker, name, name)
    config = {"goqueue.flush": flush}
    with HttpConnection(*broker.http_address) as connection:
        connection.post("/v1/topics", msgspec.json.encode({"name": name, "partitions": partitions, "config": config}))
        # The first receive makes the group, and the broker's own topic for all of them.
        connection.post(f"/v1/groups/{name}/receive", msgspec.json.encode({"topic": name}))
    try:
        yield made
    finally:
        with HttpConnection(*broker.http_address) as connection:
            connection.delete(f"/v1/queues/{name}")
            connection.delete(f"/v1/topics/{name}")


def measure_batches(place: QueueTopic, load: QueueLoad) -> Iterator[Result]:
    """Publish in batches, then receive and ack in batches; yield what came of each."""
    publishing = [
        place.order(
            part="publish",
            messages=share,
            batch=load.batch,
            size_bytes=load.size_bytes,
            partitions=load.partitions,
            first=number,
        )
        for number, share in enumerate(load.shares)
    ]
    with _clients(publishing) as clients, metered(place.broker.pid) as usage:
        published = clients.run()
    measured = figures(load.messages, load.size_bytes, usage)
    yield Result(
        "queue_publish",
        f"messages published by HTTP, {load.batch:,} in a request",
        measured.msgs_per_s,
        "messages/s",
        None,
        _details(load, published, measured.as_dict()),
    )
    consumed, details = _consume(place, load)
    what = f"messages received and acked, {load.batch:,} at a time"
    yield Result("queue_batches", what, consumed.msgs_per_s, "messages/s", BATCHES_GOAL, details)
    if consumed.broker_cpu_us_per_msg is not None:
        what = f"CPU of the broker to deliver a message and take its ack, {load.batch:,} at a time"
        yield Result("queue_cpu", what, consumed.broker_cpu_us_per_msg, "us", CPU_US_GOAL, details)


def measure_singles(place: QueueTopic, load: QueueLoad, goal: Goal | None = None) -> Iterator[Result]:
    """Receive and ack messages one by one, which are published before."""
    fill = place.order(
        part="publish", messages=load.messages, batch=1000, size_bytes=load.size_bytes, partitions=load.partitions
    )
    with _clients([fill]) as clients:
        clients.run()
    consumed, details = _consume(place, load)
    what = f"messages received and acked, one at a time, {load.connections} consumers"
    name = f"queue_singles_{load.connections}"
    yield Result(name, what, consumed.msgs_per_s, "messages/s", goal, details)


def _consume(place: QueueTopic, load: QueueLoad) -> tuple[Figures, dict[str, float]]:
    """Have all messages received and acked; return the figures of that, and what goes with them."""
    firsts = accumulate(load.crews, initial=0)
    orders = [
        place.order(part="consume", batch=load.batch, first=first, connections=crew)
        for first, crew in zip(firsts, load.crews, strict=False)
    ]
    with _clients(orders) as clients, metered(place.broker.pid) as usage:
        reports = clients.run()
    require_each_once(place, reports, load.messages)
    measured = figures(load.messages, load.size_bytes, usage)
    return measured, _details(load, reports, measured.as_dict())


def measure_delivery(place: QueueTopic, load: QueueLoad) -> Iterator[Result]:
    """Publish at a steady pace to waiting consumers; the value is the p99 of the delay after the planned time.

    It is the median of several periods; a single bad second of the machine shows in the p99 of all.
    """
    # Each of them has two connections.
    watch = place.order(part="watch", batch=_WATCHED_AT_ONCE, connections=2 * _WATCHERS)
    pace = place.order(
        part="pace",
        messages=load.messages,
        per_second=PER_SECOND,
        size_bytes=load.size_bytes,
        partitions=load.partitions,
        connections=_PACERS,
    )
    with _clients([watch, pace]) as clients, metered(place.broker.pid) as usage:
        reports = clients.run()
    require_each_once(place, reports, load.messages)
    latencies_ms = [each for report in reports for each in report.latencies_ms]
    measured = figures(load.messages, load.size_bytes, usage, latencies_ms)
    p99s = sorted(p99_of_stretches(latencies_ms))
    what = f"from a publish until its message is received, {PER_SECOND:,} a second (p99, the median of {len(p99s)})"
    details = _details(load, reports, measured.as_dict())
    details["connections"] = watch.connections + pace.connections
    details["p99_of_all_ms"] = details.pop("p99_ms")
    details |= {"least_p99_ms": rounded(p99s[0]), "most_p99_ms": rounded(p99s[-1])}
    yield Result("queue_delivery", what, median(p99s), "ms", DELIVERY_MS_GOAL, details)


def p99_of_stretches(latencies_ms: Sequence[float]) -> list[float]:
    """Part latencies, in the order in which they were measured, into stretches, and return the p99 of each."""
    ends = list(accumulate(_parts(len(latencies_ms), _STRETCHES)))
    stretches = [latencies_ms[start:end] for start, end in pairwise([0, *ends])]
    return [p99 for each in stretches if (p99 := percentile(each, 0.99)) is not None]


def require_each_once(place: QueueTopic, reports: Sequence[Report], messages: int) -> None:
    """Fail unless each message of a topic was acked once, by any of those who report, and nothing is left."""
    acked: dict[int, list[tuple[int, int]]] = {}
    for report in reports:
        for partition, ranges in report.ranges.items():
            acked.setdefault(partition, []).extend(ranges)
    count = sum(end - start for ranges in acked.values() for start, end in ranges)
    distinct = sum(len({each for start, end in ranges for each in range(start, end)}) for ranges in acked.values())
    require(count == distinct == messages, f"each of {messages} messages is acked once ({count}, {distinct} distinct)")
    gaps = {
        partition: ranges_of([each for start, end in ranges for each in range(start, end)])
        for partition, ranges in acked.items()
    }
    require(all(len(ranges) == 1 and ranges[0][0] == 0 for ranges in gaps.values()), "no offset is left out")
    with HttpConnection(*place.broker.http_address) as connection:
        told = msgspec.json.decode(connection.get(f"/v1/queues/{place.group}"))
    require((told["depth"], told["in_flight"]) == (0, 0), "the group is empty")


def _details(load: QueueLoad, reports: Sequence[Report], measured: dict[str, float | None]) -> dict[str, float]:
    details = {name: value for name, value in measured.items() if value is not None}
    # One value is the result itself, or follows from it.
    del details["msgs_per_s"]
    requests = sum(report.requests for report in reports)
    return {"connections": load.connections, "requests": requests, **details}


class _Clients:
    def __init__(self, processes: Sequence[subprocess.Popen[str]]) -> None:
        self._processes = processes

    def run(self) -> list[Report]:
        """Let all of them begin, and return what each has done."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        reports = []
        for process in self._processes:
            try:
                told, _ = process.communicate(timeout=_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                raise BenchmarkFailed(f"a client was not done after {_SECONDS_MAX:g} s") from None
            require(process.returncode == 0, f"a client ends well, not with {process.returncode}")
            reports.append(msgspec.json.decode(told, type=Report))
            require(not reports[-1].failure, reports[-1].failure)
        return reports


@contextmanager
def _clients(orders: Sequence[Order]) -> Iterator[_Clients]:
    """Start a process for each order; all of them are connected at the beginning of the block, and gone at its end."""
    processes = []
    try:
        for order in orders:
            command = [sys.executable, "-m", "goqueue_bench.queues.client", msgspec.json.encode(order).decode()]
            processes.append(
                subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    preexec_fn=dying_with_parent(),  # noqa: PLW1509 - it calls nothing but prctl
                )
            )
        for process in processes:
            assert process.stdout is not None
            require(process.stdout.readline() == "ready\n", "a client is connected")
        yield _Clients(processes)
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
            process.communicate()

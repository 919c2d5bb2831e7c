"""Heavy neighbours: how much slower a modest client becomes while another client works as hard as it can.

For each neighbour the modest client runs alone and beside it, in turns, so that whatever else the machine does hits
both alike; only the ratio of the two counts. The neighbour runs in a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import msgspec

from goqueue_bench.broker_process import Broker, private_broker
from goqueue_bench.fairness.client import STEPS, ModestClient, Timings
from goqueue_bench.fairness.neighbour import Order, Report
from goqueue_bench.http_connection import HttpConnection
from goqueue_bench.kafka.connection import Connection, create_topic
from goqueue_bench.measure import Aim, BenchmarkFailed, Goal, Result, require
from goqueue_bench.messages.publish import payload
from goqueue_bench.options import Neighbour

P50_GOAL = Goal(Aim.AT_MOST, 3)
P99_GOAL = Goal(Aim.AT_MOST, 5)
RATE_GOAL = Goal(Aim.AT_LEAST, 0.95)
"""How the rate of a bulk publisher compares with that of an earlier result."""

_BULK = (Neighbour.BULK_KAFKA, Neighbour.BULK_HTTP)
_FILL_MESSAGES = 1000
_NACK_DELAY = "10m"
# A bulk publisher would fill the disk otherwise.
_RETENTION = {"retention.bytes": str(256 * 1024 * 1024), "segment.bytes": str(64 * 1024 * 1024)}

Announce = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FairnessSize:
    """How many rounds the modest client does in each phase, how often phases alternate, and how large the work is."""

    rounds: int
    cycles: int
    pause_s: float
    batch: int
    http_batch: int
    pipelined: int
    nacks: int
    letters: int
    chunks: int
    messages: int

    def of(self, neighbour: Neighbour) -> int:
        """Return how large one piece of a neighbour's work is."""
        return {
            Neighbour.BULK_KAFKA: self.batch,
            Neighbour.BULK_HTTP: self.http_batch,
            Neighbour.PIPELINED: self.pipelined,
            Neighbour.QUEUE_STATS: self.nacks,
            Neighbour.DEAD_LETTERS: self.letters,
            Neighbour.TINY_CHUNKS: self.chunks,
            Neighbour.MANY_MESSAGES: self.messages,
        }[neighbour]


FULL = FairnessSize(
    rounds=150,
    cycles=3,
    pause_s=0.005,
    batch=9_000,
    http_batch=5_000,
    pipelined=1_000,
    nacks=100_000,
    letters=150_000,
    chunks=10_000_000,
    messages=2_000_000,
)
QUICK = FairnessSize(
    rounds=40,
    cycles=2,
    pause_s=0.005,
    batch=9_000,
    http_batch=5_000,
    pipelined=1_000,
    nacks=20_000,
    letters=20_000,
    chunks=1_000_000,
    messages=200_000,
)
TINY = FairnessSize(
    rounds=2,
    cycles=1,
    pause_s=0.0,
    batch=20,
    http_batch=20,
    pipelined=10,
    nacks=20,
    letters=20,
    chunks=200,
    messages=20_000,
)


def run_fairness(
    workspace: Path,
    size: FairnessSize,
    neighbours: Sequence[Neighbour],
    announce: Announce,
    before: Mapping[str, float] | None = None,
) -> Iterator[Result]:
    """Yield the results of some neighbours one by one; `before` are rates of bulk publishers to compare with."""
    with private_broker(workspace) as broker:
        for neighbour in neighbours:
            announce(f"fairness: {neighbour.replace('_', ' ')}")
            yield from measure_neighbour(broker, neighbour, size, before or {})


def measure_neighbour(
    broker: Broker, neighbour: Neighbour, size: FairnessSize, before: Mapping[str, float]
) -> Iterator[Result]:
    """Measure the modest client alone and beside one neighbour."""
    calm, loaded = Timings(), Timings()
    with _topics(broker) as (modest, heavy):
        _prepare(broker, heavy, neighbour, size)
        order = _order(broker, heavy, neighbour, size)
        with ModestClient(broker, modest, pause_s=size.pause_s) as client, _process(order) as process:
            # First calls take longer.
            client.run(min(size.rounds, 20))
            reports = []
            for _ in range(size.cycles):
                calm.add(client.run(size.rounds))
                process.go()
                loaded.add(client.run(size.rounds))
                reports.append(process.stop())
    yield from _results(neighbour, calm, loaded, reports, before)


def _results(
    neighbour: Neighbour, calm: Timings, loaded: Timings, reports: Sequence[Report], before: Mapping[str, float]
) -> Iterator[Result]:
    what = neighbour.replace("_", " ")
    seconds = sum(report.seconds for report in reports)
    done = {name: sum(getattr(report, name) for report in reports) for name in ("requests", "messages", "refused")}
    for name, fraction, goal in (("p50", 0.5, P50_GOAL), ("p99", 0.99, P99_GOAL)):
        details = {
            "rounds": len(loaded.rounds),
            "calm_ms": calm.round_ms(fraction),
            "loaded_ms": loaded.round_ms(fraction),
            **{f"{step}_calm_ms": calm.step_ms(step, fraction) for step in STEPS},
            **{f"{step}_loaded_ms": loaded.step_ms(step, fraction) for step in STEPS},
            "longest_calm_livez_ms": max(calm.steps["livez"]),
            "longest_loaded_livez_ms": max(loaded.steps["livez"]),
            "neighbour_requests": done["requests"],
            "neighbour_refused": done["refused"],
        }
        ratio = details["loaded_ms"] / details["calm_ms"]
        yield Result(f"{neighbour}_{name}", f"{name} of a modest client beside {what}", ratio, "x", goal, details)
    if neighbour not in _BULK:
        return
    rate = done["messages"] / seconds
    yield Result(f"{neighbour}_rate", f"messages of {what} beside a modest client", rate, "messages/s")
    if f"{neighbour}_rate" in before:
        against = rate / before[f"{neighbour}_rate"]
        yield Result(f"{neighbour}_against_before", f"rate of {what} against before", against, "x", RATE_GOAL)


@contextmanager
def _topics(broker: Broker) -> Iterator[tuple[str, str]]:
    """Make the topics of both clients and the queue group of the modest one; delete them in the end."""
    modest, heavy = f"modest-{uuid4()}", f"heavy-{uuid4()}"
    with Connection(broker) as connection:
        for topic in (modest, f"{modest}-kafka", heavy):
            create_topic(connection, topic, 1, _RETENTION)
        create_topic(connection, f"{heavy}.dlq", 1, {})
    with HttpConnection(*broker.http_address) as http:
        for name in (modest, heavy):
            http.post(f"/v1/groups/{name}/receive", msgspec.json.encode({"topic": name}))
    try:
        yield modest, heavy
    finally:
        with HttpConnection(*broker.http_address) as http:
            for name in (modest, heavy):
                http.delete(f"/v1/queues/{name}")
            for topic in (modest, f"{modest}-kafka", heavy, f"{heavy}.dlq"):
                http.delete(f"/v1/topics/{topic}")


def _prepare(broker: Broker, topic: str, neighbour: Neighbour, size: FairnessSize) -> None:
    """Put what a neighbour looks at where it looks."""
    with HttpConnection(*broker.http_address) as http:
        if neighbour is Neighbour.PIPELINED:
            _fill(http, topic, 100, {})
        elif neighbour is Neighbour.QUEUE_STATS:
            _fill(http, topic, size.nacks, {})
            _nack_all(http, topic, size.nacks)
        elif neighbour is Neighbour.DEAD_LETTERS:
            headers = {"goqueue-dlq-reason": "rejected", "goqueue-dlq-topic": topic, "goqueue-dlq-group": topic}
            _fill(http, f"{topic}.dlq", size.letters, {"headers": headers})


def _fill(http: HttpConnection, topic: str, count: int, rest: Mapping[str, object]) -> None:
    message = {"value": payload(100).decode(), **rest}
    for start in range(0, count, _FILL_MESSAGES):
        messages = [message] * min(_FILL_MESSAGES, count - start)
        http.post(f"/v1/topics/{topic}/messages", msgspec.json.encode({"messages": messages}))


def _nack_all(http: HttpConnection, topic: str, count: int) -> None:
    nacked = 0
    while nacked < count:
        wish = msgspec.json.encode({"topic": topic, "max": _FILL_MESSAGES, "wait": "5s"})
        messages = msgspec.json.decode(http.post(f"/v1/groups/{topic}/receive", wish))["messages"]
        require(bool(messages), f"all {count} messages are received ({nacked})")
        handles = [each["receipt_handle"] for each in messages]
        http.post("/v1/messages/nack", msgspec.json.encode({"receipt_handles": handles, "delay": _NACK_DELAY}))
        nacked += len(messages)


def _order(broker: Broker, topic: str, neighbour: Neighbour, size: FairnessSize) -> Order:
    host, http_port = broker.http_address
    facts = {"kind": str(neighbour), "host": host, "port": broker.port, "http_port": http_port, "topic": topic}
    return msgspec.convert({**facts, "group": topic, "size": size.of(neighbour)}, Order)


class _Process:
    """A neighbour that works between `go` and `stop`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def go(self) -> None:
        """Let it begin."""
        self._tell("go")

    def stop(self) -> Report:
        """Let it end the piece of work that it is at, and return what it has done."""
        self._tell("stop")
        report = msgspec.json.decode(self.hear(), type=Report)
        if report.failure:
            raise BenchmarkFailed(report.failure)
        return report

    def _tell(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()

    def hear(self) -> str:
        """Wait for the next line that it says."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        require(bool(line), "the neighbour is still there")
        return line


@contextmanager
def _process(order: Order) -> Iterator[_Process]:
    command = [sys.executable, "-m", "goqueue_bench.fairness.neighbour", msgspec.json.encode(order).decode()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            started = _Process(process)
            require(started.hear() == "ready\n", "the neighbour is connected")
            yield started
        finally:
            process.kill()

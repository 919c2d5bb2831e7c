"""The modest client of `goqueue bench fairness`: small requests one after another, each of them timed.

A round publishes a message by HTTP, receives and acks it, publishes one by Kafka, and asks for `/livez`. The last one
does nothing but wait for its turn, so its longest time is how long the broker's loop was held.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import msgspec

from goqueue_bench.broker_process import Broker
from goqueue_bench.figures import percentile
from goqueue_bench.http_connection import HttpConnection
from goqueue_bench.kafka import wire
from goqueue_bench.kafka.connection import Connection
from goqueue_bench.measure import require
from goqueue_bench.messages.latency import Probe, one_message_request

STEPS = ("publish", "receive", "ack", "kafka", "livez")

_RECEIVE_WAIT = "20s"


class _Receipt(msgspec.Struct):
    receipt_handle: str


class _Received(msgspec.Struct):
    messages: list[_Receipt]


@dataclass(frozen=True, slots=True)
class Timings:
    """How long rounds took, and each step of them, in milliseconds."""

    rounds: list[float] = field(default_factory=list)
    steps: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def add(self, other: Timings) -> None:
        """Take the timings of other rounds as well."""
        self.rounds.extend(other.rounds)
        for step, times in other.steps.items():
            self.steps[step].extend(times)

    def round_ms(self, fraction: float) -> float:
        """Return the time that this fraction of all rounds did not exceed."""
        return percentile(self.rounds, fraction) or 0.0

    def step_ms(self, step: str, fraction: float) -> float:
        """Return the time that this fraction of one step did not exceed."""
        return percentile(self.steps[step], fraction) or 0.0


class ModestClient:
    """One HTTP and one Kafka connection, with a topic and a queue group of its own."""

    def __init__(self, broker: Broker, topic: str, *, pause_s: float) -> None:
        self._http = HttpConnection(*broker.http_address)
        self._kafka = Connection(broker)
        self._topic = topic
        self._pause_s = pause_s
        self._frame = one_message_request(f"{topic}-kafka", Probe(messages=1))
        self._receipt = ""
        self._steps: dict[str, Callable[[], None]] = {
            "publish": self._publish,
            "receive": self._receive,
            "ack": self._ack,
            "kafka": self._publish_by_kafka,
            "livez": self._livez,
        }

    def run(self, rounds: int) -> Timings:
        """Do so many rounds, with a pause after each."""
        timings = Timings()
        for _ in range(rounds):
            began = time.perf_counter()
            for name, step in self._steps.items():
                timings.steps[name].append(_timed(step))
            timings.rounds.append((time.perf_counter() - began) * 1000)
            time.sleep(self._pause_s)
        return timings

    def _publish(self) -> None:
        self._http.post(f"/v1/topics/{self._topic}/messages", b'{"messages":[{"value":"modest"}]}')

    def _receive(self) -> None:
        wish = msgspec.json.encode({"topic": self._topic, "max": 1, "wait": _RECEIVE_WAIT})
        reply = self._http.post(f"/v1/groups/{self._topic}/receive", wish)
        (message,) = msgspec.json.decode(reply, type=_Received).messages
        self._receipt = message.receipt_handle

    def _ack(self) -> None:
        reply = self._http.post("/v1/messages/ack", msgspec.json.encode({"receipt_handles": [self._receipt]}))
        require(b'"status":"done"' in reply, f"the message is acked ({reply[:300]!r})")

    def _publish_by_kafka(self) -> None:
        reply = wire.parse_produce_reply(self._kafka.call(self._frame), f"{self._topic}-kafka")
        require(reply.error == 0, f"every publish succeeds (error {reply.error})")

    def _livez(self) -> None:
        self._http.get("/livez")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()
        self._kafka.socket.close()


def _timed(step: Callable[[], None]) -> float:
    began = time.perf_counter()
    step()
    return (time.perf_counter() - began) * 1000

"""GoQueue with its default settings, in both durability groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from goqueue import __version__
from goqueue_bench.broker_process import Broker, private_broker
from goqueue_bench.cpu import metered
from goqueue_bench.http_connection import HttpConnection
from goqueue_bench.measure import require
from goqueue_bench.options import Answer, Flush
from goqueue_bench.peers.kafka_protocol import CLIENTS, TOPIC, KafkaServer
from goqueue_bench.peers.peer import QUEUE_BATCH, Durability, Measured, Workload

_CHOICES = {Durability.LAZY: (Flush.INTERVAL, Answer.LEADER), Durability.FSYNC: (Flush.GROUP, Answer.ALL)}


class GoQueue:
    """The broker that the others are compared with."""

    name = "GoQueue"
    settings = {
        Durability.LAZY: "goqueue.flush=interval, acks=1",
        Durability.FSYNC: "goqueue.flush=group, acks=all (the default)",
    }
    clients = {**CLIENTS, Workload.QUEUE: "raw socket, HTTP, 500 at a time"}

    def missing(self) -> str | None:
        """Nothing is missing: it is the package that runs this."""
        return None

    def version(self) -> str:
        """Return the version of the package."""
        return __version__

    @contextmanager
    def running(self, directory: Path, durability: Durability) -> Iterator[_Server]:
        """Run a broker of its own in a directory."""
        flush, answer = _CHOICES[durability]
        with private_broker(directory) as broker:
            yield _Server(broker, answer, {"goqueue.flush": flush})


class _Server(KafkaServer):
    """The broker with a queue group on its topic; acks are on the disk before they are answered, in both groups."""

    def __init__(self, broker: Broker, answer: Answer, topic_settings: Mapping[str, str]) -> None:
        super().__init__(broker, answer, topic_settings)
        self._http = broker.http_address
        self._pid = broker.pid

    def queue(self, count: int) -> Measured:
        """Receive and ack by HTTP."""
        wish = msgspec.json.encode({"topic": TOPIC, "max": QUEUE_BATCH})
        acked = 0
        with HttpConnection(*self._http) as connection, metered(self._pid, with_children=True) as usage:
            while acked < count and (receipts := _receipts(connection.post("/v1/groups/bench/receive", wish))):
                reply = connection.post("/v1/messages/ack", msgspec.json.encode({"receipt_handles": receipts}))
                acked += len(receipts)
                require(reply.count(b'"status":"done"') == len(receipts), f"every message is acked ({reply[:300]!r})")
        return Measured(acked, usage)


class _Message(msgspec.Struct):
    receipt_handle: str


class _Received(msgspec.Struct):
    messages: list[_Message]


_read_received = msgspec.json.Decoder(_Received).decode


def _receipts(reply: bytes) -> list[str]:
    return [message.receipt_handle for message in _read_received(reply).messages]

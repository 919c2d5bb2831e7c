"""RabbitMQ with a quorum queue of one member: its log is synced before a message is confirmed.

A queue forgets what was consumed, so there is no replay. Acks have no answer: each batch but the last one is known to
be acked because the next one comes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from goqueue_bench.cpu import metered
from goqueue_bench.measure import require
from goqueue_bench.peers import rabbit
from goqueue_bench.peers.amqp import Connection, CountConfirms, publish_frames
from goqueue_bench.peers.peer import PAYLOAD, QUEUE_BATCH, Durability, Measured, Workload, connect
from goqueue_bench.peers.pump import Pipeline, publish_pipelined, publish_singly

_QUEUE = "bench"
_ARGUMENTS = {"x-queue-type": "quorum"}
_COUNT_SECONDS_MAX = 30.0
_POLL_SECONDS = 0.1


class RabbitQuorum:
    """The peer; only in the group that syncs first, because a quorum queue always does."""

    name = "RabbitMQ quorum queue"
    settings = {Durability.FSYNC: "x-queue-type quorum, one node, persistent, publisher confirms"}
    clients = {
        Workload.PUBLISH: "raw socket, pipelined",
        Workload.LATENCY: "raw socket",
        Workload.QUEUE: "raw socket, 500 at a time, acks not answered",
    }

    def missing(self) -> str | None:
        """Return what is missing."""
        return rabbit.missing()

    def version(self) -> str:
        """Return the version of RabbitMQ."""
        return rabbit.version()

    @contextmanager
    def running(self, directory: Path, durability: Durability) -> Iterator[_Server]:
        """Run a node in a directory."""
        del durability
        with rabbit.running_node(directory) as node, connect(node.amqp_port) as connection:
            yield _Server(Connection(connection), node.pid, node.amqp_port)


class _Server:
    def __init__(self, connection: Connection, pid: int, port: int) -> None:
        self._connection = connection
        self._pid = pid
        self._port = port
        self._stored = self._acked = 0
        connection.declare(_QUEUE, _ARGUMENTS)

    def publish(self, count: int) -> Measured:
        return self._published(publish_pipelined(self._connection.socket, self._pipeline(), count, self._pid))

    def latency(self, count: int) -> Measured:
        return self._published(publish_singly(self._connection.socket, self._pipeline(), count, self._pid))

    def replays(self) -> Mapping[str, Callable[[], Measured]]:
        return {}

    def queue(self, count: int) -> Measured:
        count = min(count, self._stored - self._acked) // QUEUE_BATCH * QUEUE_BATCH
        # Prefetched messages return to the queue when the connection closes.
        with connect(self._port) as opened, metered(self._pid, with_children=True) as usage:
            consumer = Connection(opened)
            consumer.consume(_QUEUE, QUEUE_BATCH)
            for _ in range(count // QUEUE_BATCH):
                consumer.ack_up_to(consumer.deliveries(QUEUE_BATCH))
        self._acked += count
        self._require_stored()
        return Measured(count, usage)

    def _pipeline(self) -> Pipeline:
        frames = publish_frames(_QUEUE, PAYLOAD)
        return Pipeline(encode=lambda count: frames * count, count_answers=CountConfirms(self._stored + 1))

    def _published(self, measured: Measured) -> Measured:
        self._stored += measured.messages
        self._require_stored()
        return measured

    def _require_stored(self) -> None:
        left = self._stored - self._acked
        deadline = time.monotonic() + _COUNT_SECONDS_MAX
        # The number that the server shows follows its queue after a while.
        while (stored := self._connection.declare(_QUEUE, _ARGUMENTS, is_passive=True)) != left:
            require(time.monotonic() < deadline, f"there have to be {left} messages, and {stored} are stored")
            time.sleep(_POLL_SECONDS)

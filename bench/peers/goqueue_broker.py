"""GoQueue itself, as anybody would start it, in both durability groups."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.peers.kafka_protocol import CLIENTS, KafkaServer
from bench.peers.peer import Durability

from goqueue import __version__
from goqueue.bench.broker import private_broker
from goqueue.bench.options import Answer, Flush

_CHOICES = {Durability.LAZY: (Flush.INTERVAL, Answer.LEADER), Durability.FSYNC: (Flush.GROUP, Answer.ALL)}


class GoQueue:
    """The broker that the others are compared with."""

    name = "GoQueue"
    settings = {
        Durability.LAZY: "goqueue.flush=interval, acks=1",
        Durability.FSYNC: "goqueue.flush=group, acks=all (the default)",
    }
    clients = CLIENTS

    def missing(self) -> str | None:
        """Nothing is missing: it is the package that runs this."""
        return None

    def version(self) -> str:
        """Return the version of the package."""
        return __version__

    @contextmanager
    def running(self, directory: Path, durability: Durability) -> Iterator[KafkaServer]:
        """Run a broker of its own in a directory."""
        flush, answer = _CHOICES[durability]
        with private_broker(directory) as broker:
            yield KafkaServer(broker, answer, {"goqueue.flush": flush})

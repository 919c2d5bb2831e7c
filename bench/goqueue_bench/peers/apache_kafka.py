"""Apache Kafka: one node that is broker and controller, with the Java settings of its own start script.

| durability | setting                                                                      |
|------------|------------------------------------------------------------------------------|
| lazy       | the default: the operating system decides when; acks=1                       |
| fsync      | flush.messages=1: an fsync for each batch, before its answer; acks=all       |
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from goqueue_bench.broker_process import Broker
from goqueue_bench.options import Answer
from goqueue_bench.peers.kafka_protocol import CLIENTS, KafkaServer
from goqueue_bench.peers.peer import Durability, accepts_connections, free_port, server_process

JARS = Path(__file__).parents[3] / "build" / "bench" / "kafka"

_CHOICES: dict[Durability, tuple[dict[str, str], Answer]] = {
    Durability.LAZY: ({}, Answer.LEADER),
    Durability.FSYNC: ({"flush.messages": "1"}, Answer.ALL),
}
# As bin/kafka-server-start.sh and bin/kafka-run-class.sh have them.
_JAVA = [
    "java",
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
]


class ApacheKafka:
    """The peer; its jars are where `bench/install-peers` puts them."""

    name = "Apache Kafka"
    settings = {
        Durability.LAZY: "no flush of its own (the default), acks=1",
        Durability.FSYNC: "flush.messages=1, acks=all",
    }
    clients = CLIENTS

    def missing(self) -> str | None:
        """Return what is missing."""
        if not shutil.which("java"):
            return "java is not installed"
        return None if any(JARS.glob("kafka_*.jar")) else "its jars are not installed"

    def version(self) -> str:
        """Return the version in the name of the server's jar."""
        (jar,) = JARS.glob("kafka_*.jar")
        return jar.stem.rpartition("-")[2]

    @contextmanager
    def running(self, directory: Path, durability: Durability) -> Iterator[KafkaServer]:
        """Run a node with its log below a directory."""
        port, controller = free_port(), free_port()
        properties = directory / "server.properties"
        properties.write_text(_properties(directory, port, controller), "utf-8")
        command = [*_JAVA, "-cp", f"{JARS}/*"]
        with (directory / "format.out").open("wb") as output:
            subprocess.run(
                [*command, "kafka.tools.StorageTool", "format", "-t", str(uuid4()), "-c", str(properties)],
                stdout=output,
                stderr=subprocess.STDOUT,
                check=True,
            )
        command += ["kafka.Kafka", str(properties)]
        topic_settings, answer = _CHOICES[durability]
        with server_process(command, directory, lambda: accepts_connections(port)) as pid:
            yield KafkaServer(Broker("127.0.0.1", port, pid), answer, topic_settings)


def _properties(directory: Path, port: int, controller: int) -> str:
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(directory / "logs"),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())

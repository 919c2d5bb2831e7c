"""Redis Streams: XADD to one stream, replayed with XRANGE, consumed by a group with XREADGROUP and XACK.

| durability | setting                                  |
|------------|------------------------------------------|
| lazy       | appendonly yes, appendfsync everysec     |
| fsync      | appendonly yes, appendfsync always: one fsync for all commands of a turn of its loop |
"""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

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

_STREAM = b"bench"
_FSYNC = {Durability.LAZY: "everysec", Durability.FSYNC: "always"}
_RANGE_MESSAGES = 10_000
# Bytes between the id of an entry and its payload: one field named d.
_FIELD = b"\r\n*2\r\n$1\r\nd\r\n$%d\r\n" % MESSAGE_BYTES
_GROUP = b"bench"
_NOTHING = b"*-1\r\n"
# One stream, its name, and how many entries come.
_BATCH_HEAD = re.compile(rb"\*1\r\n\*2\r\n\$5\r\nbench\r\n\*(\d+)\r\n")
_ID = re.compile(rb"\r\n(\d+-\d+)\r\n")
_ENTRY_BYTES_MIN = len(b"*2\r\n$3\r\n0-1") + len(_FIELD) + MESSAGE_BYTES + 2


class RedisStreams:
    """The peer; its server is whatever redis-server is on the path."""

    name = "Redis Streams"
    settings = {
        Durability.LAZY: "appendonly yes, appendfsync everysec",
        Durability.FSYNC: "appendonly yes, appendfsync always",
    }
    clients = {
        Workload.PUBLISH: "raw socket, pipelined",
        Workload.LATENCY: "raw socket",
        Workload.QUEUE: "raw socket, 500 at a time",
    }

    def missing(self) -> str | None:
        """Return what is missing."""
        return None if shutil.which("redis-server") else "redis-server is not installed"

    def version(self) -> str:
        """Return the number that the server calls itself."""
        shown = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=True).stdout
        return shown.split("v=")[1].split()[0]

    @contextmanager
    def running(self, directory: Path, durability: Durability) -> Iterator[_Server]:
        """Run a server with an append-only file in a directory."""
        port = free_port()
        options = {
            "port": str(port),
            "bind": "127.0.0.1",
            "dir": str(directory),
            "save": "",
            "appendonly": "yes",
            "appendfsync": _FSYNC[durability],
        }
        command = ["redis-server", *(part for name, value in options.items() for part in (f"--{name}", value))]
        with server_process(command, directory, lambda: accepts_connections(port)) as pid, connect(port) as connection:
            yield _Server(connection, pid)


class _Server:
    def __init__(self, connection: socket.socket, pid: int) -> None:
        self._connection = connection
        self._pid = pid
        self._stored = 0

    def publish(self, count: int) -> Measured:
        return self._published(publish_pipelined(self._connection, self._pipeline(), count, self._pid))

    def latency(self, count: int) -> Measured:
        return self._published(publish_singly(self._connection, self._pipeline(), count, self._pid))

    def replays(self) -> Mapping[str, Callable[[], Measured]]:
        return {"raw socket, XRANGE of 10,000": self._replay}

    def _pipeline(self) -> Pipeline:
        frame = _command(b"XADD", _STREAM, b"*", b"d", PAYLOAD)
        return Pipeline(encode=lambda count: frame * count, count_answers=_CountIds())

    def _published(self, measured: Measured) -> Measured:
        self._stored += measured.messages
        self._connection.settimeout(REPLY_SECONDS_MAX)
        self._connection.sendall(_command(b"XLEN", _STREAM))
        answer = receive(self._connection)
        require(answer == b":%d\r\n" % self._stored, f"{self._stored} messages are stored, not {answer!r}")
        return measured

    def _replay(self) -> Measured:
        self._connection.settimeout(REPLY_SECONDS_MAX)
        start, count = b"-", 0
        with metered(self._pid, with_children=True) as usage:
            while True:
                self._connection.sendall(_command(b"XRANGE", _STREAM, start, b"+", b"COUNT", b"%d" % _RANGE_MESSAGES))
                entries, last = self._receive_range()
                if entries == 0:
                    break
                count += entries
                start = b"(" + last
        require(count == self._stored, f"{self._stored} messages are stored and {count} were read")
        return Measured(count, usage)

    def queue(self, count: int) -> Measured:
        self._connection.settimeout(REPLY_SECONDS_MAX)
        # Refused if there is one already, which is as good.
        self._connection.sendall(_command(b"XGROUP", b"CREATE", _STREAM, _GROUP, b"0"))
        receive(self._connection)
        read = _command(
            *(b"XREADGROUP", b"GROUP", _GROUP, b"ann", b"COUNT", b"%d" % QUEUE_BATCH, b"STREAMS", _STREAM, b">")
        )
        acked = 0
        with metered(self._pid, with_children=True) as usage:
            while acked < count and (ids := self._lease(read)):
                self._connection.sendall(_command(b"XACK", _STREAM, _GROUP, *ids))
                answer = receive(self._connection)
                require(answer == b":%d\r\n" % len(ids), f"{len(ids)} messages are acked, not {answer!r}")
                acked += len(ids)
        return Measured(acked, usage)

    def _lease(self, read: bytes) -> list[bytes]:
        """Return the ids of a batch, none if nothing is left."""
        self._connection.sendall(read)
        data = receive(self._connection)
        while not (whole := _BATCH_HEAD.match(data)) and data != _NOTHING:
            require(data.startswith(b"*"), f"the server leases messages: {data[:200]!r}")
            data += receive(self._connection)
        if whole is None:
            return []
        size = whole.end() + int(whole[1]) * _ENTRY_BYTES_MIN
        while len(data) < size or data.count(_FIELD) < int(whole[1]) or not data.endswith(PAYLOAD + b"\r\n"):
            data += receive(self._connection)
        return _ID.findall(data)

    def _receive_range(self) -> tuple[int, bytes]:
        """Return how many entries a range has and the id of the last one."""
        parts = [receive(self._connection)]
        while b"\r\n" not in parts[0]:
            parts[0] += receive(self._connection)
        if not parts[0].startswith(b"*"):
            raise BenchmarkFailed(f"the server refuses a range: {parts[0]!r}")
        entries = int(parts[0][1 : parts[0].index(b"\r\n")])
        if entries == 0:
            return 0, b""
        size = sum(map(len, parts))
        # Nothing has to be searched before the least that so many entries need is there.
        while size < entries * _ENTRY_BYTES_MIN or (found := _whole_range(b"".join(parts), entries)) is None:
            parts.append(receive(self._connection))
            size += len(parts[-1])
        return entries, found


def _whole_range(data: bytes, entries: int) -> bytes | None:
    """Return the id of the last entry if all of them are there."""
    last = data.rfind(_FIELD)
    if len(data) != last + len(_FIELD) + MESSAGE_BYTES + 2 or data.count(_FIELD) != entries:
        return None
    return data[data.rindex(b"\r\n", 0, last) + 2 : last]


class _CountIds:
    """Counts answers to XADD: `$15`, then an id, on a line each."""

    def __init__(self) -> None:
        self._lines = 0

    def __call__(self, data: bytes) -> int:
        if b"-ERR" in data or b"-MISCONF" in data or b"-OOM" in data:
            raise BenchmarkFailed(f"the server refuses a message: {data[-200:]!r}")
        before = self._lines // 2
        self._lines += data.count(b"\n")
        return self._lines // 2 - before


def _command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)

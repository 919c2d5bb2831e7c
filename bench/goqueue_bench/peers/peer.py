"""The interface of a peer, and how the process of its server is started and stopped.

A peer is a broker in one of two durability groups. Its server is fresh for each round: started in an empty directory,
measured, stopped, removed. The clients are part of the peer, since no client speaks to all of them.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from goqueue_bench.cpu import Usage
from goqueue_bench.measure import BenchmarkFailed

MESSAGE_BYTES = 100
# Enough hex digits for a payload that is neither constant nor large enough to notice in memory.
PAYLOAD = os.urandom(MESSAGE_BYTES // 2).hex().encode()

REPLY_SECONDS_MAX = 60.0
QUEUE_BATCH = 500
"""How many messages a consumer of a queue has at a time."""

_START_SECONDS_MAX = 90.0
_STOP_SECONDS_MAX = 30.0
_POLL_SECONDS = 0.05
_SHOWN_BYTES = 1500


class Durability(StrEnum):
    """Durability of a confirmed publish: it survives a crash of the server, or a power loss."""

    LAZY = "lazy"
    FSYNC = "fsync"


class Workload(StrEnum):
    """Workload of the comparison."""

    PUBLISH = "publish"
    REPLAY = "replay"
    LATENCY = "latency"
    QUEUE = "queue"


class Measured(NamedTuple):
    """One workload of one round: how many messages, what it took, and each latency if they were single."""

    messages: int
    usage: Usage
    latencies_ms: Sequence[float] = ()


class Server(Protocol):
    """A running peer with a place for messages in it; every call raises unless all its work was done."""

    def publish(self, count: int) -> Measured:
        """Publish messages in bulk and wait until all of them are confirmed."""

    def latency(self, count: int) -> Measured:
        """Publish one message at a time, each confirmed before the next."""

    def replays(self) -> Mapping[str, Callable[[], Measured]]:
        """Return, by client, how to read everything stored so far from its start; empty if the peer cannot."""


@runtime_checkable
class QueueServer(Server, Protocol):
    """A server whose messages can be leased to consumers as well, as a peer says that has a client for it."""

    def queue(self, count: int) -> Measured:
        """Lease so many of the stored messages, or all that are left, in batches, and ack all of them."""


class Peer(Protocol):
    """A broker that can be compared."""

    @property
    def name(self) -> str:
        """Name in results."""

    @property
    def settings(self) -> Mapping[Durability, str]:
        """The durability groups that it can be in, and how it is set up for each."""

    @property
    def clients(self) -> Mapping[Workload, str]:
        """The client of each workload that it can do but replay, which may have more than one."""

    def missing(self) -> str | None:
        """Return what this machine lacks to run the peer; None if nothing."""

    def version(self) -> str:
        """Return the version of the server."""

    def running(self, directory: Path, durability: Durability) -> AbstractContextManager[Server]:
        """Run a fresh server in an empty directory for as long as the block lasts."""


def free_port() -> int:
    """Return a free port of the loopback interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def connect(port: int) -> socket.socket:
    """Connect to a server on this machine, without waiting to fill packets."""
    connection = socket.create_connection(("127.0.0.1", port), REPLY_SECONDS_MAX)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


@contextmanager
def server_process(
    command: Sequence[str],
    directory: Path,
    is_ready: Callable[[], bool],
    environment: Mapping[str, str] | None = None,
    user: str | None = None,
) -> Iterator[int]:
    """Run a server in a session of its own until the block ends; yield its process id once it is ready.

    With a user, it runs as that one, in the group of the same name; only root can ask for that.
    """
    shown = directory / "server.out"
    with shown.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=directory,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
            user=user,
            group=user,
            extra_groups=None if user is None else [],
        )
    try:
        _wait_until_ready(process, shown, is_ready)
        yield process.pid
    finally:
        _end(process)


def accepts_connections(port: int) -> bool:
    """Tell whether a server listens on a port."""
    try:
        connect(port).close()
    except OSError:
        return False
    return True


def _wait_until_ready(process: subprocess.Popen[bytes], shown: Path, is_ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _START_SECONDS_MAX
    while not is_ready():
        tail = shown.read_text("utf-8", "replace")[-_SHOWN_BYTES:]
        if process.poll() is not None:
            raise BenchmarkFailed(f"the server ended with {process.returncode}: {tail}")
        if time.monotonic() > deadline:
            raise BenchmarkFailed(f"the server was not ready after {_START_SECONDS_MAX:g} s: {tail}")
        time.sleep(_POLL_SECONDS)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the whole session: some servers are scripts that start the real one."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(_STOP_SECONDS_MAX)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue

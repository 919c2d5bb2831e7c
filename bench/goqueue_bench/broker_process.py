"""The broker that is measured: a private one in a process of its own, or one that runs already.

A private broker keeps its data in a directory that does not outlive the benchmark, listens on free ports, and
has to stop cleanly: otherwise the benchmark has failed, whatever its figures.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from goqueue.seams.children import dying_with_parent
from goqueue.server.ready_line import parse_ready_line
from goqueue_bench.measure import BenchmarkFailed, require

_SECONDS_MAX = 30.0
_POLL_SECONDS = 0.01
_SHOWN_BYTES = 2000


@dataclass(frozen=True, slots=True)
class Broker:
    """Where a broker listens for Kafka clients, its process if that is known, and its HTTP port likewise."""

    host: str
    port: int
    pid: int | None
    http: tuple[str, int] | None = None

    @property
    def bootstrap(self) -> str:
        """The address as Kafka clients take it."""
        return f"{self.host}:{self.port}"

    @property
    def http_address(self) -> tuple[str, int]:
        """Host and port for HTTP."""
        if self.http is None:
            raise BenchmarkFailed("it is not known where the broker listens for HTTP")
        return self.http


def running_broker(bootstrap: str, pid: int | None) -> Broker:
    """Return the broker that already runs at HOST:PORT."""
    host, port = split_address(bootstrap)
    return Broker(host, port, pid)


def split_address(address: str) -> tuple[str, int]:
    """Split HOST:PORT; an IPv6 address stands in brackets."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise BenchmarkFailed(f"{address!r} is not HOST:PORT")
    return host.strip("[]"), int(port)


@contextmanager
def private_broker(
    workspace: Path, *, seconds_max: float = _SECONDS_MAX, is_killed: Callable[[], bool] = lambda: False
) -> Iterator[Broker]:
    """Run a broker for as long as the block lasts, with its data below a directory.

    It may take `seconds_max` to start, and to stop. A block that has killed it says so by `is_killed`.
    """
    shown = workspace / "broker.out"
    command = [sys.executable, "-m", "goqueue", "serve", "--data-dir", str(workspace / "data")]
    command += [part for kind in ("kafka", "http", "grpc") for part in (f"--{kind}-port", "0")]
    with shown.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            preexec_fn=dying_with_parent(),  # noqa: PLW1509 - it calls nothing but prctl
        )
    try:
        addresses = _wait_until_ready(process, shown, seconds_max)
        host, port = split_address(addresses["kafka"])
        http = split_address(addresses["http"].removeprefix("http://")) if "http" in addresses else None
        yield Broker(host, port, process.pid, http)
        if not is_killed():
            _stop(process, shown, seconds_max)
    finally:
        # Also when the measurement was interrupted: no broker outlives its benchmark.
        if process.poll() is None:
            process.kill()
            process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes], shown: Path, seconds_max: float) -> dict[str, str]:
    deadline = time.monotonic() + seconds_max
    while time.monotonic() < deadline:
        addresses = parse_ready_line(shown.read_text("utf-8", "replace"))
        if addresses is not None:
            require("kafka" in addresses, "the broker says where it listens for Kafka clients")
            return addresses
        if process.poll() is not None:
            raise BenchmarkFailed(f"the broker did not start and ended with {process.returncode}: {_tail(shown)}")
        time.sleep(_POLL_SECONDS)
    raise BenchmarkFailed(f"the broker was not ready after {seconds_max:g} s: {_tail(shown)}")


def _stop(process: subprocess.Popen[bytes], shown: Path, seconds_max: float) -> None:
    if process.poll() is not None:
        raise BenchmarkFailed(f"the broker ended with {process.returncode} during the benchmark: {_tail(shown)}")
    os.kill(process.pid, signal.SIGTERM)
    try:
        code = process.wait(seconds_max)
    except subprocess.TimeoutExpired:
        raise BenchmarkFailed(f"the broker did not stop within {seconds_max:g} s: {_tail(shown)}") from None
    if code != 0:
        raise BenchmarkFailed(f"the broker stopped with {code}: {_tail(shown)}")


def _tail(shown: Path) -> str:
    return shown.read_text("utf-8", "replace")[-_SHOWN_BYTES:].strip() or "it printed nothing"

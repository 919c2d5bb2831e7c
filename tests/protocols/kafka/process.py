"""A broker as a process of its own, and raw sockets that talk to it."""

from __future__ import annotations

import contextlib
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.protocols.kafka.messages import Plain, request_bytes, response_class, response_values
from tests.protocols.kafka.raw import API_VERSIONS, frame

WAIT_S = 180


class ServeProcess:
    """`goqueue serve` on a directory; what it reports goes to a file, which `reports` returns."""

    def __init__(self, data_dir: Path, *options: str, kafka_port: int = 0) -> None:
        self.data_dir = data_dir
        self.port = kafka_port
        self._options = options
        self._reports = data_dir.with_suffix(".err")
        self.process: subprocess.Popen[str]
        self.http = ""

    def command(self) -> list[str]:
        """Return the command line."""
        ports = ["--kafka-port", str(self.port), "--http-port", "0", "--grpc-port", "0"]
        guard = ["--disk-guard-free-fraction", "0"]
        return [
            *(sys.executable, "-m", "goqueue", "serve", "--data-dir", str(self.data_dir)),
            *(*ports, *guard, *self._options),
        ]

    def start(self) -> Self:
        """Start the process and wait until it is ready; its port stays the same when it is started again."""
        with self._reports.open("a") as reports:
            self.process = subprocess.Popen(self.command(), stdout=subprocess.PIPE, stderr=reports, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"ready .*kafka=\S+:(\d+) .*http=(\S+)", line)
        assert found, f"no ready line, but {line!r}; it reported: {self.reports()}"
        self.port = int(found[1])
        self.http = f"http://{found[2]}"
        return self

    @property
    def bootstrap(self) -> str:
        """Where Kafka clients connect to."""
        return f"127.0.0.1:{self.port}"

    def memory_bytes(self) -> int:
        """Return how much memory it has now."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * resource.getpagesize()

    def reports(self) -> str:
        """Return all that it has reported so far."""
        return self._reports.read_text()

    def kill(self) -> None:
        """End it as `kill -9` does."""
        self.process.kill()
        self._reap()

    def terminate(self) -> int:
        """Ask it to stop, and return its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self._reap()

    def _reap(self) -> int:
        status = self.process.wait(WAIT_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return status

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.kill()


class RawSocket:
    """A blocking connection that sends requests and reads replies."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)

    def send(self, api: int, version: int, values: Plain) -> None:
        """Send a request."""
        self._socket.sendall(frame(api, version, 7, request_bytes(api, version, values)))

    def reply(self, api: int, version: int) -> Plain:
        """Read the reply to it."""
        (size,) = struct.unpack(">i", self._read(4))
        data = self._read(size)
        is_flexible = response_class(api, version).__flexible__ and api != API_VERSIONS
        return response_values(api, version, data[5:] if is_flexible else data[4:])

    def call(self, api: int, version: int, values: Plain) -> Plain:
        """Send a request and read its reply."""
        self.send(api, version, values)
        return self.reply(api, version)

    def is_ended(self) -> bool:
        """Wait for the end of the connection; False if bytes come instead."""
        try:
            return self._socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def write(self, data: bytes) -> None:
        """Send bytes, unless the other side has had enough."""
        with contextlib.suppress(OSError):
            self._socket.sendall(data)

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            assert part, f"the connection ended after {len(data)} of {size} bytes"
            data += part
        return data


@contextlib.contextmanager
def raw(port: int) -> Iterator[RawSocket]:
    """Open a connection for the length of a block."""
    connection = RawSocket(port)
    try:
        yield connection
    finally:
        connection.close()

"""One HTTP connection over a bare socket: sends a request, reads its reply, and does as little else as possible.

A caller with other work in between sends first, and takes the reply later.
"""

from __future__ import annotations

import re
import socket
from types import TracebackType
from typing import Self

from goqueue_bench.measure import require

_REPLY_SECONDS_MAX = 60.0
_RECEIVE_BYTES = 256 * 1024
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_HEAD_END = b"\r\n\r\n"


class HttpConnection:
    """A connection to a broker's HTTP port, for one request at a time."""

    def __init__(self, host: str, port: int) -> None:
        self._host = f"[{host}]" if ":" in host else host
        self._socket = socket.create_connection((host, port), timeout=_REPLY_SECONDS_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def post(self, path: str, body: bytes) -> bytes:
        """Send JSON, and return the body of the reply; the benchmark has failed unless that is a success."""
        self.send(path, body)
        return self.receive()

    def send(self, path: str, body: bytes) -> None:
        """Send JSON; the reply is to be received."""
        head = f"POST {path} HTTP/1.1\r\nhost: {self._host}\r\ncontent-type: application/json\r\n"
        head += f"content-length: {len(body)}"
        self._socket.sendall(head.encode() + _HEAD_END + body)

    def get(self, path: str) -> bytes:
        """Ask for something, and return the body of the reply."""
        self._ask("GET", path)
        return self.receive()

    def delete(self, path: str) -> None:
        """Have something deleted."""
        self._ask("DELETE", path)
        self.receive()

    def _ask(self, method: str, path: str) -> None:
        self._socket.sendall(f"{method} {path} HTTP/1.1\r\nhost: {self._host}".encode() + _HEAD_END)

    def receive(self) -> bytes:
        """Wait for the reply to what was sent, and return its body; the benchmark has failed unless it succeeded."""
        received = b""
        while (end := received.find(_HEAD_END)) < 0:
            received += self._more()
        length = _LENGTH.search(received, 0, end)
        start = end + len(_HEAD_END)
        size = int(length[1]) if length else 0
        parts, missing = [received[start:]], start + size - len(received)
        while missing > 0:
            parts.append(self._more())
            missing -= len(parts[-1])
        body = b"".join(parts)
        require(received.startswith(b"HTTP/1.1 2") and len(body) == size, f"a request succeeds ({received[:300]!r})")
        return body

    def fileno(self) -> int:
        """Return what a selector knows it by."""
        return self._socket.fileno()

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def _more(self) -> bytes:
        data = self._socket.recv(_RECEIVE_BYTES)
        require(len(data) > 0, "the broker keeps the connection open")
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

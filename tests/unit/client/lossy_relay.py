"""A relay between a client and a broker that loses replies on demand: it was done, and nobody hears of it."""

from __future__ import annotations

import re
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

_CHUNK = 64 * 1024
_REQUEST_LINE = re.compile(rb"[A-Z]+ (\S+) HTTP/")


class LossyRelay:
    """Listens on a port of its own; a reply to a request for one of the `doomed` paths is lost with its connection."""

    def __init__(self, target: str) -> None:
        parts = urlsplit(target)
        self._target = (parts.hostname, parts.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.doomed: list[str] = []
        self.lost: list[str] = []
        self.has_lost = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                threading.Thread(target=self._relay, args=(near,), daemon=True).start()

    def _relay(self, near: socket.socket) -> None:
        """Carry bytes both ways; clients here send a request when the one before was answered."""
        path = ""
        with near, suppress(OSError), socket.create_connection(self._target) as far:
            while True:
                for side in select.select([near, far], [], [])[0]:
                    data = side.recv(_CHUNK)
                    if not data:
                        return
                    if side is near and (head := _REQUEST_LINE.match(data)):
                        path = head[1].decode()
                    if side is far and self._is_lost(path):
                        return
                    (far if side is near else near).sendall(data)

    def _is_lost(self, path: str) -> bool:
        for doomed in self.doomed:
            if path.endswith(doomed):
                self.doomed.remove(doomed)
                self.lost.append(path)
                self.has_lost.set()
                return True
        return False

    def close(self) -> None:
        """Take no more connections."""
        self._listener.close()


@contextmanager
def lossy_relay(target: str) -> Iterator[LossyRelay]:
    """Run a relay for the length of a block."""
    relay = LossyRelay(target)
    try:
        yield relay
    finally:
        relay.close()

"""Limits the connections of all listeners, and reports those that were refused or closed.

Reports are batched: a thousand silent connections make one event a second, not a thousand.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from goqueue.protocols.neighbours import Neighbours
from goqueue.seams.sink import Event, Severity, Sink

_REPORT_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class ConnectionsDropped(Event):
    """The broker refused or closed connections; `address` and `detail` are those of the last one."""

    severity: ClassVar[Severity] = Severity.WARNING
    reason: str
    count: int
    address: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Limits of connections. `connections_per_address_max` of 0 means unlimited."""

    connections_max: int = 10_000
    connections_per_address_max: int = 0
    frame_bytes_max: int = 100 * 1024 * 1024
    request_elements_max: int = 100_000
    first_byte_timeout_ms: int = 10_000
    idle_timeout_ms: int = 600_000
    slow_reader_timeout_ms: int = 30_000
    reply_buffer_bytes_max: int = 8 * 1024 * 1024
    http_body_bytes_max: int = 24 * 1024 * 1024


class ConnectionLimiter:
    """Counts open connections over all listeners, and knows whether several of them are busy."""

    def __init__(self, limits: ConnectionLimits, sink: Sink) -> None:
        self.limits = limits
        self.connections = 0
        self.neighbours = Neighbours()
        self.dropped: Counter[str] = Counter()
        self._sink = sink
        self._by_address: Counter[str] = Counter()
        self._unreported: dict[str, tuple[int, str, str]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def acquire(self, host: str) -> str:
        """Count a new connection; return why it is refused, or an empty string."""
        if self.connections >= self.limits.connections_max:
            return "too many connections"
        per_address = self.limits.connections_per_address_max
        if per_address and self._by_address[host] >= per_address:
            return "too many connections from its address"
        self.connections += 1
        if per_address:
            self._by_address[host] += 1
        return ""

    def release(self, host: str) -> None:
        """Uncount a connection that has closed."""
        self.connections -= 1
        if self.limits.connections_per_address_max:
            self._by_address[host] -= 1
            if not self._by_address[host]:
                del self._by_address[host]

    def note_dropped(self, reason: str, address: str, detail: str = "") -> None:
        """Report a refused or closed connection: the first one at once, those of the next second together.

        Reasons are few and fixed; whatever differs between two connections belongs into `detail`.
        """
        self.dropped[reason] += 1
        count, _, _ = self._unreported.get(reason, (0, "", ""))
        self._unreported[reason] = (count + 1, address, detail)
        if self._timer is None:
            self._report()
            self._timer = asyncio.get_running_loop().call_later(_REPORT_EVERY_S, self._report_again)

    def close(self) -> None:
        """Report what is left."""
        self._report()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _report_again(self) -> None:
        self._timer = None
        if self._unreported:
            self._report()
            self._timer = asyncio.get_running_loop().call_later(_REPORT_EVERY_S, self._report_again)

    def _report(self) -> None:
        unreported, self._unreported = self._unreported, {}
        for reason, (count, address, detail) in unreported.items():
            self._sink.emit(ConnectionsDropped(reason, count, address, detail))

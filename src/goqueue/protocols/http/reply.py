"""Replies as bytes."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from goqueue.errors import GoQueueError
from goqueue.protocols.http.problems import MEDIA_TYPE, problem_of

# Up to here copying is cheaper than a second write.
_JOINED_BYTES_MAX = 64 * 1024


class Reply:
    """Sends head and body with one write; uvicorn would take two, and wake the client twice."""

    __slots__ = ("_cycle", "_flow", "_start", "_transport")

    def __init__(self, transport: asyncio.Transport, flow: FlowControl, cycle: RequestResponseCycle) -> None:
        self._transport = transport
        self._flow = flow
        self._cycle = cycle
        self._start: Any = None

    async def send(self, event: Any) -> None:
        """Take note of the head; send it with the body, which is always whole."""
        if event["type"] == "http.response.start":
            self._start = event
            return
        cycle, flow, transport = self._cycle, self._flow, self._transport
        if flow.write_paused and not cycle.disconnected:
            await flow.drain()
        if cycle.disconnected:
            return
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        headers = [*cycle.default_headers, *self._start["headers"]]
        if not cycle.keep_alive:
            headers.append((b"connection", b"close"))
        head = _head(self._start["status"], headers)
        body = b"" if cycle.scope["method"] == "HEAD" else event["body"]
        transport.write(head + body if len(body) < _JOINED_BYTES_MAX else head)
        if len(body) >= _JOINED_BYTES_MAX:
            transport.write(body)
        cycle.message_event.set()
        if not cycle.keep_alive:
            transport.close()
        cycle.on_response()


def _head(status: int, headers: list[tuple[bytes, bytes]]) -> bytes:
    return b"".join([STATUS_LINE[status], *(b"%s: %s\r\n" % header for header in headers), b"\r\n"])


def refusal(error: GoQueueError, headers: list[tuple[bytes, bytes]]) -> bytes:
    """Return a whole reply that tells an error, after which the connection ends."""
    problem = problem_of(error, "")
    body = msgspec.json.encode(problem)
    told = [
        *headers,
        (b"content-type", MEDIA_TYPE.encode()),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),
    ]
    return _head(problem.status, told) + body

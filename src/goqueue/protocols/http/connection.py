"""One HTTP connection: uvicorn's, which speaks HTTP, with the limits that it does not have.

| limit                                                      | what happens                                   |
|------------------------------------------------------------|------------------------------------------------|
| too many connections                                       | closed at once                                 |
| nothing arrives at first                                   | closed                                         |
| a request arrives too slowly                               | 408, closed                                    |
| no request for long                                        | closed, without a word                         |
| head larger than 64 KiB, body larger than the setting      | 431, 413, before it is kept; closed            |
| requests that come before the last one is answered         | wait in the socket, but for 64 KiB             |
| replies that are not read                                  | closed                                         |

Requests run as tasks of the front. A request whose client leaves is cancelled: what must not stop half-way is shielded
by the operation itself. A refusal is sent before the request has been read to its end; what is left of it is read and
thrown away for a while, since closing at once could destroy the reply on its way.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import httptools
from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from goqueue.errors import GoQueueError, MalformedRequest
from goqueue.protocols.http.problems import BodyTooLarge, HeadTooLarge, RequestTimeout
from goqueue.protocols.http.reply import Reply, refusal
from goqueue.protocols.patience import Patience, Reason

if TYPE_CHECKING:
    from goqueue.protocols.http.front import HttpFront

_HEAD_BYTES_MAX = 64 * 1024
_HELD_BYTES_MAX = 64 * 1024
# Slower than this no body may arrive: it would hold its place for hours.
_BODY_BYTES_PER_S_MIN = 1024
_LINGER_S = 2.0


class HttpConnection(HttpToolsProtocol):
    """The protocol of one connection; made by `HttpFront`."""

    def __init__(self, front: HttpFront) -> None:
        super().__init__(front.config, front.state, {}, front.loop)
        self.access_log = False
        self.host = ""
        self.address = ""
        self._front = front
        self._task: asyncio.Task[None] | None = None
        self._patience = Patience(
            front.loop,
            front.limits,
            is_owed=self._is_answering,
            drop=self._lose_patience,
            slowest_bytes_per_s=_BODY_BYTES_PER_S_MIN,
        )
        self._linger_timer: asyncio.TimerHandle | None = None
        # A request is arriving between its first byte and its last.
        self._is_arriving = False
        self._is_in_head = False
        self._head_bytes = 0
        self._body_bytes = 0
        self._held = bytearray()
        self._is_admitted = False
        self._is_discarding = False

    # -- what the transport calls

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        host, port = (transport.get_extra_info("peername") or ("unknown", 0))[:2]
        self.host, self.address = host, f"{host}:{port}"
        stream = cast(asyncio.Transport, transport)
        reason = self._front.admit(self)
        if reason:
            self._front.door.note_dropped(reason, self.address)
            stream.abort()
            return
        self._is_admitted = True
        super().connection_made(stream)
        stream.set_write_buffer_limits(high=self._front.limits.reply_buffer_bytes_max)
        self._patience.start()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if not self._is_admitted:
            return
        self._front.forget(self)
        self._patience.end()
        if self._linger_timer is not None:
            self._linger_timer.cancel()
        if self._task is not None:
            self._task.cancel()
        super().connection_lost(exc)

    @override
    def data_received(self, data: bytes) -> None:
        if self._is_discarding:
            return
        if self._held or self._is_answering():
            self._hold(data)
            return
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            (end_of_head,) = upgrade.args
            self._ignore_upgrade(data[end_of_head:])
            return
        except httptools.HttpParserError:
            self._refuse(MalformedRequest("what arrived is no HTTP request"))
        if self._is_in_head:
            # Where in the first read a head began is not known, so that one does not count.
            self._head_bytes = 0 if self._head_bytes < 0 else self._head_bytes + len(data)
            if self._head_bytes > _HEAD_BYTES_MAX:
                self._refuse(HeadTooLarge(f"the head of a request has more than {_HEAD_BYTES_MAX} bytes"))

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._patience.reading_stopped()

    @override
    def resume_writing(self) -> None:
        self._patience.reading_resumed()
        super().resume_writing()

    # -- what the parser calls

    @override
    def on_message_begin(self) -> None:
        # Not when bytes arrive: empty lines between requests are allowed, and would keep a connection for ever.
        self._patience.expects_rest(0)
        self._is_arriving = self._is_in_head = True
        self._head_bytes = -1
        self._body_bytes = 0
        super().on_message_begin()

    @override
    def on_headers_complete(self) -> None:
        self._is_in_head = False
        if self.parser.should_upgrade():
            return
        announced = next((value for name, value in self.headers if name == b"content-length"), b"0")
        # The parser has made sure that it is a number.
        if int(announced) > self._front.limits.http_body_bytes_max:
            self._refuse_body()
            return
        self._front.refresh_headers()
        super().on_headers_complete()

    @override
    def on_body(self, body: bytes) -> None:
        if self._is_discarding:
            return
        self._body_bytes += len(body)
        if self._body_bytes > self._front.limits.http_body_bytes_max:
            self._refuse_body()
            return
        self._patience.expects_rest(self._body_bytes)
        super().on_body(body)

    @override
    def on_message_complete(self) -> None:
        self._is_arriving = False
        self._patience.expects_nothing()
        if not self._is_discarding and not self.parser.should_upgrade():
            super().on_message_complete()

    # -- requests

    @override
    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._task = self._front.tasks.start(self._answer(cycle, app), f"http request of {self.address}")

    async def _answer(self, cycle: RequestResponseCycle, app: Any) -> None:
        try:
            await app(cycle.scope, cycle.receive, Reply(self.transport, self.flow, cycle).send)
        except Exception:
            # Endpoints let nothing through, so the reply could not be sent.
            self.abort()
            raise

    @override
    def on_response_complete(self) -> None:
        super().on_response_complete()
        # Idle connections are ours to end.
        self._unset_keepalive_if_required()
        self._patience.answered()
        if self._held and not self.pipeline:
            self.loop.call_soon(self._go_on)

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Read a request again as if it had not asked for another protocol: that is how servers decline.

        Many clients ask every server for HTTP/2. The parser takes what follows for that protocol and is of no use any
        more.
        """
        method = self.parser.get_method()
        if method == b"CONNECT":
            self._refuse(MalformedRequest("this is no proxy"))
            return
        first = b"%s %s HTTP/%s\r\n" % (method, self.url, self.parser.get_http_version().encode())
        lines = [b"%s: %s\r\n" % header for header in self.headers if header[0] != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        self.data_received(b"".join([first, *lines, b"\r\n", rest]))

    def _is_answering(self) -> bool:
        """Tell whether a request that has arrived is being answered; others behind it may have begun."""
        if self._open_cycle() is None:
            return False
        return not self._is_arriving or self._is_in_head or bool(self.pipeline)

    def _open_cycle(self) -> RequestResponseCycle | None:
        """Return the latest request and its reply, unless that has been sent."""
        cycle: RequestResponseCycle | None = self.cycle
        return None if cycle is None or cycle.response_complete else cycle

    def _hold(self, data: bytes) -> None:
        """Keep the beginning of the next request until the one before is answered."""
        self._held += data
        if len(self._held) > _HELD_BYTES_MAX:
            # Past uvicorn's own bookkeeping, which would go on reading for the request under way.
            self.transport.pause_reading()

    def _go_on(self) -> None:
        held, self._held = bytes(self._held), bytearray()
        if held and not self.transport.is_closing():
            self.transport.resume_reading()
            self.data_received(held)

    # -- the end

    def abort(self) -> None:
        """Close the connection now; what was not sent is lost."""
        self.transport.abort()

    def _drop(self, reason: str) -> None:
        if not self.transport.is_closing():
            self._front.door.note_dropped(reason, self.address)
            self.abort()

    def _lose_patience(self, reason: Reason) -> None:
        if reason is Reason.SLOW:
            self._refuse(RequestTimeout("a request took too long to arrive"))
        elif reason is Reason.IDLE:
            # Clients expect that of kept connections, and open another one.
            self.transport.close()
        else:
            self._drop(reason)

    def _refuse_body(self) -> None:
        bytes_max = self._front.limits.http_body_bytes_max
        self._refuse(BodyTooLarge(f"the body of a request has more than {bytes_max} bytes"))

    def _refuse(self, error: GoQueueError) -> None:
        """Answer what has arrived of a request with an error, and close the connection."""
        if self._is_discarding or self.transport.is_closing():
            return
        self._is_discarding = True
        self._patience.expects_nothing()
        cycle = self._open_cycle()
        if cycle is not None and (self._is_in_head or not self._is_arriving):
            # The error is in what follows good requests, which get their replies.
            cycle.keep_alive = False
            return
        if self.pipeline or (cycle is not None and cycle.response_started):
            self._drop(error.message)
            return
        self._front.door.note_dropped(error.message, self.address)
        if self._task is not None:
            self._task.cancel()
        self.transport.write(refusal(error, self._front.refresh_headers()))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._linger_timer = self.loop.call_later(_LINGER_S, self.abort)

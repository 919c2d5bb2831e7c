"""One HTTP connection: requests are answered one after another, in the order of their arrival.

| limit                                                      | what happens                                   |
|------------------------------------------------------------|------------------------------------------------|
| too many connections                                       | closed at once                                 |
| nothing arrives at first                                   | closed                                         |
| a request arrives too slowly                               | 408, closed                                    |
| no request for long                                        | closed without a reply                         |
| headers larger than 64 KiB, body larger than the setting   | 431, 413, before it is stored; closed          |
| no `Host`, two, or a refused one; foreign `Origin`         | 400, 403, before the body arrives; closed      |
| a `Content-Encoding`                                       | 415, before the body arrives; closed           |
| a URL longer than 64 KiB                                   | 431, closed                                    |
| requests that arrive before the last one is answered       | wait in the socket, except for 64 KiB          |
| many requests that arrive at once                          | are parsed 4 KiB at a time                     |
| a body in very many small chunks                           | 400, closed                                    |
| more than 512 KiB at once                                  | the rest is read after other connections       |
| many requests that arrive at once                          | other connections have turns in between        |
| replies that are not read                                  | closed                                         |

Requests run as tasks of the listener. If the client disconnects, its request is cancelled; an operation that must not
stop half-way shields itself. A client that closes only its sending side has disconnected as well: the two look alike.
A refusal is sent before the request has arrived completely. The rest is read and discarded for a while, since closing
at once could destroy the reply on its way.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from typing_extensions import override

from goqueue.broker.admission import Caller
from goqueue.errors import GoQueueError
from goqueue.protocols.connection_timeouts import ConnectionTimeouts, TimeoutReason
from goqueue.protocols.http.wire.hosts import HostNotAllowed, OriginNotAllowed, cors_headers
from goqueue.protocols.http.wire.problems import RequestTimeout
from goqueue.protocols.http.wire.reply import CONTINUE, lines, refusal, reply
from goqueue.protocols.http.wire.requests import Request, RequestReader

if TYPE_CHECKING:
    from goqueue.protocols.http.wire.listener import HttpListener

_HELD_BYTES_MAX = 64 * 1024
SLICE_BYTES = 4 * 1024
"""How much is parsed at a time: this may be a hundred requests. The rest of a body of known size is read at once."""

TURN_BYTES = 512 * 1024
"""How much of one connection is read before other connections have a turn."""

TURN_S = 0.0003
"""How long pipelined requests of one connection are answered before other connections have a turn."""

# A body that arrives more slowly would hold its connection for hours.
_BODY_BYTES_PER_S_MIN = 1024
# Up to here copying is cheaper than a second write.
_JOINED_BYTES_MAX = 64 * 1024
_LINGER_S = 2.0
# Their messages quote the client, but there must be few reasons.
_FOREIGN: Mapping[type[GoQueueError], str] = {
    HostNotAllowed: "the Host of a request is not allowed",
    OriginNotAllowed: "the Origin of a request is not allowed",
}


class HttpConnection(asyncio.Protocol):
    """The protocol of one connection; made by `HttpListener`."""

    def __init__(self, listener: HttpListener) -> None:
        self.host = ""
        self._listener = listener
        self._transport: asyncio.Transport
        self._caller = Caller("http")
        self._agent = b""
        self._reader = RequestReader(listener.limits.http_body_bytes_max, listener.hosts)
        # Complete requests, and unparsed bytes: both wait until the request before is answered.
        self.waiting: deque[Request] = deque()
        self._held = bytearray()
        self._task: asyncio.Task[None] | None = None
        self._timeouts = ConnectionTimeouts(
            listener.loop,
            listener.limits,
            is_owed=self._is_answering,
            drop=self._time_out,
            slowest_bytes_per_s=_BODY_BYTES_PER_S_MIN,
        )
        self._end_timer: asyncio.TimerHandle | None = None
        self._is_admitted = False
        self._is_unread = False
        # How much of the budget of a turn was read, and whether it is spent.
        self._turn_bytes = 0
        self._turn_began_s = 0.0
        self._is_spent = False
        self._is_paused = False
        # Nothing more is read; requests that were read before are still answered.
        self._is_ending = False
        # The bytes that follow are not a request, and are discarded.
        self._is_faulty = False

    # -- what the transport calls

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        host, port = (transport.get_extra_info("peername") or ("unknown", 0))[:2]
        self.host, self._caller = host, Caller("http", f"{host}:{port}")
        self._transport = cast(asyncio.Transport, transport)
        reason = self._listener.admit(self)
        if reason:
            self._listener.limiter.note_dropped(reason, self._caller.address)
            self._transport.abort()
            return
        self._is_admitted = True
        self._transport.set_write_buffer_limits(high=self._listener.limits.reply_buffer_bytes_max)
        self._timeouts.start()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if not self._is_admitted:
            return
        self._listener.forget(self)
        self._timeouts.end()
        self._is_ending = True
        self.waiting.clear()
        if self._end_timer is not None:
            self._end_timer.cancel()
        if self._task is not None:
            self._task.cancel()

    @override
    def data_received(self, data: bytes) -> None:
        self._listener.limiter.neighbours.note(self)
        self._turn_bytes += len(data)
        if not self._is_answering():
            self._turn_began_s = self._listener.loop.time()
        if self._turn_bytes >= TURN_BYTES and not self._is_spent:
            self._end_turn()
        if self._is_ending:
            self._pace()
            return
        if self._held or self._is_answering():
            self._held += data
        else:
            self._read(data)
        self._pace()
        self._go_on()

    @override
    def pause_writing(self) -> None:
        self._is_unread = True
        self._timeouts.reading_stopped()

    @override
    def resume_writing(self) -> None:
        self._is_unread = False
        self._timeouts.reading_resumed()
        self._go_on()

    # -- requests

    def _is_answering(self) -> bool:
        return self._task is not None or bool(self.waiting)

    def _end_turn(self) -> None:
        """Pause until all other busy connections have had a turn."""
        self._is_spent = True
        self._listener.limiter.neighbours.give_way(self._begin_turn)

    def _begin_turn(self) -> None:
        self._turn_bytes = 0
        self._turn_began_s = self._listener.loop.time()
        self._is_spent = False
        self._pace()
        self._go_on()

    def _pace(self) -> None:
        """Stop reading while too much waits, or until other connections have had a turn."""
        must_pause = self._is_spent or (len(self._held) > _HELD_BYTES_MAX and not self._is_ending)
        if must_pause is not self._is_paused and not self._transport.is_closing():
            self._is_paused = must_pause
            if must_pause:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _read(self, data: bytes) -> None:
        """Parse until some requests are complete; hold the bytes after them."""
        rest = memoryview(data)
        while rest and not self.waiting and not self._is_ending:
            size = max(self._reader.body_bytes_left, SLICE_BYTES)
            self._read_slice(rest[:size])
            rest = rest[size:]
        if not self._is_ending:
            self._held += rest

    def _read_slice(self, data: memoryview) -> None:
        reader = self._reader
        fault = None
        try:
            reader.feed(data)
        except GoQueueError as error:
            fault = error
        for request in reader.take():
            self._timeouts.expects_nothing()
            self.waiting.append(request)
            if request.is_last:
                self._is_ending = True
                return
        if fault is not None:
            self._refuse(fault)
        elif reader.is_arriving:
            # Not for other bytes: empty lines between requests are allowed, and would keep a connection open forever.
            self._timeouts.expects_rest(reader.arrived_bytes)

    def _go_on(self) -> None:
        """Start the next request, unless one is being answered or the client does not read its replies."""
        if self._task is not None or self._is_unread or self._is_spent or self._transport.is_closing():
            return
        if not self.waiting and self._held:
            held, self._held = bytes(self._held), bytearray()
            self._read(held)
            self._pace()
        if self.waiting:
            request = self.waiting.popleft()
            self._task = self._listener.tasks.start(self._answer(request), "http request")
        elif self._is_faulty:
            self._linger()
        elif self._is_ending:
            self._close()
        elif self._reader.is_asked_first:
            self._reader.go_on()
            self._transport.write(CONTINUE)

    async def _answer(self, request: Request) -> None:
        try:
            answer = await self._listener.switch.answer(self._caller_of(request), request)
            is_last = self._is_ending and not self.waiting
            common = self._listener.common_headers()
            if request.origin:
                common += lines(cors_headers(request.origin))
            head, body = reply(answer, common, is_last=is_last, is_for_head=request.method == "HEAD")
        except Exception:
            # Endpoints raise nothing, so the reply could not be written.
            self.abort()
            raise
        if len(body) < _JOINED_BYTES_MAX:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(body)
        self._task = None
        self._timeouts.answered()
        has_more = bool(self.waiting or self._held)
        if has_more and not self._is_spent and self._listener.loop.time() - self._turn_began_s >= TURN_S:
            self._end_turn()
            self._pace()
        self._go_on()

    def _caller_of(self, request: Request) -> Caller:
        """Return the caller, with the User-Agent of a request; most clients always send the same one."""
        agent = next((value for name, value in request.headers if name == b"user-agent"), b"")
        if agent != self._agent:
            self._agent = agent
            self._caller = self._caller._replace(client_id=agent.decode("latin-1"))
        return self._caller

    # -- the end

    def finish(self) -> None:
        """Answer the requests that have arrived, then close the connection."""
        self._is_ending = True
        self._held.clear()
        self._go_on()

    def abort(self) -> None:
        """Close the connection now; unsent bytes are lost."""
        self._transport.abort()

    def _time_out(self, reason: TimeoutReason) -> None:
        if reason is TimeoutReason.SLOW:
            self._refuse(RequestTimeout("a request took too long to arrive"))
        elif reason is TimeoutReason.IDLE:
            # Clients expect this of idle connections, and open another one.
            self._close()
        elif not self._transport.is_closing():
            self._listener.limiter.note_dropped(reason, self._caller.address)
            self.abort()

    def _refuse(self, error: GoQueueError) -> None:
        """Answer an incomplete request with an error, and close the connection."""
        if self._is_ending or self._transport.is_closing():
            return
        self._is_ending = self._is_faulty = True
        self._timeouts.expects_nothing()
        if self._is_answering():
            # The error comes after valid requests, which get their replies.
            return
        reason = _FOREIGN.get(type(error))
        if reason is None:
            self._listener.limiter.note_dropped(error.message, self._caller.address)
        else:
            self._listener.limiter.note_dropped(reason, self._caller.address, error.message)
        self._transport.write(b"".join(reply(refusal(error), self._listener.common_headers(), is_last=True)))
        self._linger()

    def _linger(self) -> None:
        """Close the sending side of the connection, and soon the connection."""
        if self._end_timer is None:
            if self._transport.can_write_eof():
                self._transport.write_eof()
            self._end_timer = self._listener.loop.call_later(_LINGER_S, self.abort)

    def _close(self) -> None:
        """Close the connection once all is sent, or after a while if the client does not read."""
        if self._end_timer is None:
            self._transport.close()
            timeout_s = self._listener.limits.slow_reader_timeout_ms / 1000
            self._end_timer = self._listener.loop.call_later(timeout_s, self.abort)

"""One Kafka connection: requests in, replies out in the same order.

The complete frames of a read are handled before anything is sent. Consecutive produce requests are gathered and
published as one burst; then all replies that are ready leave with one write.

A connection has a budget of work: after `TURN_FRAMES` requests, or `TURN_BYTES` of them, it stops reading and goes on
in the next turn of the loop, so that other connections are served in between. The event loop itself would call a
connection up to 32 times in a row while its socket is full. Requests of more than `OWED_BYTES_MAX` that wait for the
disk stop the connection, too: a small publish of another client shares the disk with all of them.

A reply that is not ready has a slot, and later replies wait for it. While a slot belongs to a waiting fetch or another
slow request, no further request of this connection is handled, as in Kafka; bytes are still read, up to a limit, so
that a disconnect is noticed. Publishing and committing offsets do not wait: many of
these requests may be on their way to the disk at once.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

from typing_extensions import override

from goqueue.broker.admission import Caller
from goqueue.broker.messages.fetch import Fetch
from goqueue.broker.messages.produce import Acks, Publish, Section, publish
from goqueue.broker.transactions.coordination import is_known
from goqueue.broker.transactions.publish import publish_when_known
from goqueue.errors import GoQueueError, MalformedRequest
from goqueue.kafka_wire.decode import Cursor, Request, decode_request, skip_tags
from goqueue.kafka_wire.encode import encode_response
from goqueue.protocols.connection_timeouts import ConnectionTimeouts
from goqueue.protocols.kafka.api.context import Context
from goqueue.protocols.kafka.api.messages.fetch import fetch_of
from goqueue.protocols.kafka.api.messages.produce import (
    ADDS_PARTITIONS_FROM,
    ProduceRequest,
    parse,
    parse_slowly,
    pieces_of,
    reply_body,
)
from goqueue.protocols.kafka.api.messages.produce_plan import Plan, PlannedRun, plan_of
from goqueue.protocols.kafka.apis import API_VERSIONS, APIS, FETCH, PRODUCE, Api, api_versions
from goqueue.protocols.kafka.wire.frames import Frames
from goqueue.protocols.kafka.wire.replies import Parts, Replies, Slot, frame_head
from goqueue.protocols.wrong_port import BEGIN_BYTES, HTTP, KAFKA, TLS, http_answer, mismatch, spoken
from goqueue.runtime.partition import Outcome
from goqueue.runtime.waiters import hand_over, turns

if TYPE_CHECKING:
    from goqueue.protocols.kafka.wire.listener import KafkaListener

_HEADER = struct.Struct(">hhih")
_OWED_MAX = 1000
# Larger requests are handled in several turns: those of all usual clients are smaller.
_LARGE_BYTES = 4 * 1024 * 1024
_LARGE_BODY_BYTES = 64 * 1024
_UNREAD_MAX = 256 * 1024
TURN_FRAMES = 100
"""Requests of one connection that are handled before other connections have a turn."""

TURN_BYTES = 128 * 1024
"""Bytes of requests that are handled before other connections have a turn; a single request may be larger."""

OWED_BYTES_MAX = 8 * 1024 * 1024
"""Bytes of requests without a reply above which no more requests are handled."""

# Receiving costs much less than handling.
_TURN_READ_BYTES = 1024 * 1024


class KafkaConnection(asyncio.BufferedProtocol):
    """The protocol of one connection; made by `KafkaListener`."""

    def __init__(self, listener: KafkaListener) -> None:
        self._listener = listener
        self._frames = Frames(listener.pool, frame_bytes_max=listener.limits.frame_bytes_max)
        self._replies = Replies()
        self._ready_bytes_max = listener.limits.reply_buffer_bytes_max
        self._burst: list[Publish] = []
        # The run that the next request joins if it is like the last one.
        self._run: PlannedRun | None = None
        self._is_bursting = False
        self._is_to_be_sent = False
        # The number of reasons to handle no further request for now; and whether too many replies are due.
        self._holds = 0
        self._is_full = False
        # The part of the budget of one turn that was read and handled, and whether the budget is spent.
        self._turn_read_bytes = 0
        self._turn_frames = 0
        self._turn_bytes = 0
        self._is_spent = False
        self._is_paused = False
        self._fetch: Fetch | None = None
        self._plan: Plan | None = None
        self._transport: asyncio.Transport | None = None
        self._context: Context | None = None
        self._client_id = b""
        self._timeouts = ConnectionTimeouts(
            listener.loop, listener.limits, is_owed=lambda: bool(self._replies.owed), drop=self._drop
        )
        self.host = ""
        self.address = ""

    # -- called by the transport

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        host, port = (transport.get_extra_info("peername") or ("unknown", 0))[:2]
        self.host, self.address = host, f"{host}:{port}"
        refusal = self._listener.admit(self)
        if refusal:
            self._listener.limiter.note_dropped(refusal, self.address)
            self._transport.abort()
            self._transport = None
            return
        reached = (transport.get_extra_info("sockname") or ("localhost", 0))[:2]
        caller = Caller("kafka", self.address)
        self._context = self._listener.context(caller, reached)
        self._transport.set_write_buffer_limits(high=self._ready_bytes_max)
        self._timeouts.start()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is not None:
            self._transport = None
            self._listener.forget(self)
        self._timeouts.end()
        if self._fetch is not None:
            self._fetch.cancel()
        if self._context is not None:
            self._context.presence.end()
        self._replies.forget()

    @override
    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.buffer()[:_TURN_READ_BYTES]

    @override
    def buffer_updated(self, nbytes: int) -> None:
        self._timeouts.heard()
        self._listener.limiter.neighbours.note(self)
        self._frames.received(nbytes)
        self._turn_read_bytes += nbytes
        self._handle_frames()

    @override
    def pause_writing(self) -> None:
        self._holds += 1
        self._timeouts.reading_stopped()

    @override
    def resume_writing(self) -> None:
        self._timeouts.reading_resumed()
        self._release()

    # -- requests

    def _handle_frames(self) -> None:
        """Handle all complete frames, up to a request that must wait, and send the replies that are ready."""
        self._is_bursting = True
        try:
            while self._handle_some():
                # Publishes may have been answered at once, which makes room for more.
                self._publish_burst()
                # If the rest of a request is awaited now, it is that of another one.
                self._timeouts.expects_nothing()
            self._frames.keep()
            self._is_full = self._owes_much()
        except MalformedRequest as error:
            self._drop_malformed(error)
            return
        except Exception as error:  # noqa: BLE001 - the edge of a connection: whatever broke must not touch others
            self._listener.failed(self, error)
            self._drop("its request could not be handled")
            return
        finally:
            self._is_bursting = False
        if self._frames.unread and not self._holds and not self._is_full and not self._is_spent:
            self._timeouts.expects_rest(self._frames.unread)
        else:
            self._timeouts.expects_nothing()
        if self._turn_read_bytes >= _TURN_READ_BYTES:
            self._end_turn()
        self._pace()
        self._send()

    def _handle_some(self) -> bool:
        """Handle frames until there are no more, or a request must wait; return whether there was any."""
        has_any = False
        while (
            not self._holds
            and not self._is_spent
            and not self._owes_much()
            and (frame := self._frames.next()) is not None
        ):
            has_any = True
            self._handle(frame)
            self._turn_frames += 1
            self._turn_bytes += len(frame)
            if self._turn_frames >= TURN_FRAMES or self._turn_bytes >= TURN_BYTES:
                self._end_turn()
            if self._replies.ready_bytes > self._ready_bytes_max:
                self._send()
        return has_any

    def _owes_much(self) -> bool:
        return self._replies.owed >= _OWED_MAX or self._replies.owed_bytes >= OWED_BYTES_MAX

    def _end_turn(self) -> None:
        """Handle no more until all other ready connections have had their turns."""
        if not self._is_spent:
            self._is_spent = True
            self._listener.limiter.neighbours.give_way(self._begin_turn)

    def _begin_turn(self) -> None:
        self._is_spent = False
        self._turn_read_bytes = self._turn_frames = self._turn_bytes = 0
        if self._transport is None or self._is_bursting:
            return
        if self._frames.unread and not self._holds:
            self._handle_frames()
        else:
            self._pace()

    def _handle(self, frame: memoryview) -> None:
        if len(frame) < _HEADER.size:
            raise MalformedRequest(f"a frame of {len(frame)} bytes has no header")
        key, version, correlation, client_id_size = _HEADER.unpack_from(frame)
        if key == PRODUCE and self._follow_plan(version, correlation, frame):
            return
        cursor = Cursor(frame, _HEADER.size, elements_max=self._listener.limits.request_elements_max)
        client_id = self._take_client_id(cursor, client_id_size)
        api = APIS.get(key)
        if key == API_VERSIONS:
            self._publish_burst()
            body = api_versions(version)
            self._reply(self._new_slot(), [frame_head(correlation, len(body), is_flexible=False), body])
            return
        if api is None or not api.offers(version):
            raise MalformedRequest(f"api {key} in version {version} is not offered")
        if version >= api.flexible_from:
            try:
                skip_tags(cursor)
            except IndexError:
                raise MalformedRequest("a request ends in its header") from None
        if key == PRODUCE:
            self._handle_produce(version, correlation, cursor, frame)
            return
        self._publish_burst()
        values = Cursor(bytes(frame[cursor.position :]), elements_max=cursor.elements_left)
        name = client_id.decode("utf-8", "replace")
        if key != FETCH and len(frame) > _LARGE_BODY_BYTES:
            self._holds += 1
            read = partial(_decoded, key, version, values, name)
            work = self._answer_large(self._new_slot(), api, version, correlation, read)
            self._listener.tasks.start(work, f"large kafka api {key} for {self.address}")
            return
        request = _decoded(key, version, values, name)
        if key == FETCH:
            self._handle_fetch(version, correlation, request)
        else:
            self._handle_other(api, version, correlation, request)

    def _follow_plan(self, version: int, correlation: int, frame: memoryview) -> bool:
        """Handle a produce request by the short path, if it is like the previous one."""
        plan = self._plan
        if plan is None or plan.version != version or plan.revision != self._listener.broker.topics.revision:
            return False
        records = plan.records_of(frame)
        if records is None:
            return False
        run = self._run
        if run is None or run.plan is not plan:
            slot = self._new_slot(len(frame))
            run = self._run = plan.run(partial(self._reply, slot))
            self._burst.append(run)
        else:
            self._replies.expect_more(len(frame))
        run.add_request(correlation, records)
        return True

    def _handle_produce(self, version: int, correlation: int, cursor: Cursor, frame: memoryview) -> None:
        begin, elements_max = cursor.position, cursor.elements_left
        request = None if len(frame) > _LARGE_BYTES else parse(self._listener.broker, version, cursor)
        if request is None:
            cursor = Cursor(self._frames.take_over(frame), begin, elements_max=elements_max)
            self._holds += 1
            self._publish_burst()
            work = self._publish_large(self._new_slot(len(frame)), version, correlation, cursor)
            self._listener.tasks.start(work, f"large publish for {self.address}")
            return
        self._plan = plan_of(request, version, frame, self._listener.broker.topics.revision)
        slot = self._new_slot(len(frame))
        done = partial(self._tell_published, slot, version, correlation, request)
        adds_partitions = version >= ADDS_PARTITIONS_FROM
        name = request.transactional_id
        if name is not None and (adds_partitions or not is_known(self._listener.broker.transactions, name)):
            self._holds += 1
            self._publish_burst()
            # The next read may overwrite the buffer of the request before the task begins.
            copied = [Section(partition, bytearray(records)) for partition, records in request.sections]
            work = self._publish_later(Publish(request.acks, copied, done, name), adds_partitions=adds_partitions)
            self._listener.tasks.start(work, f"transactional publish for {self.address}")
        else:
            self._burst.append(Publish(request.acks, request.sections, done, name))

    def _tell_published(
        self,
        slot: Slot,
        version: int,
        correlation: int,
        request: ProduceRequest,
        outcomes: Sequence[Outcome],
        body: bytes = b"",
    ) -> None:
        if request.acks is not Acks.NONE:
            body = body or reply_body(request, version, outcomes)
            head = frame_head(correlation, len(body), is_flexible=version >= APIS[PRODUCE].flexible_from)
            self._reply(slot, [head, body])
            return
        # It has no reply, but a slot like the others: it must wait if the disk is slow. The only way to report an error
        # is to close the connection, so that the client asks for the leaders of its partitions.
        self._reply(slot, [])
        if any(isinstance(outcome, GoQueueError) for outcome in outcomes):
            self._drop("its request with acks=0 failed")

    async def _publish_large(self, slot: Slot, version: int, correlation: int, cursor: Cursor) -> None:
        """Publish a request in pieces, stored in their order; each of its partitions succeeds or fails on its own."""
        context = self._require_context()
        try:
            request = await parse_slowly(context.broker, version, cursor)
        except MalformedRequest as error:
            self._drop("its request could not be read", error.message)
            return
        pending: list[asyncio.Future[Sequence[Outcome]]] = []
        adds_partitions = version >= ADDS_PARTITIONS_FROM
        for piece in pieces_of(request.sections):
            await turns(1)
            told: asyncio.Future[Sequence[Outcome]] = self._listener.loop.create_future()
            pending.append(told)
            part = Publish(request.acks, piece, partial(hand_over, told), request.transactional_id)
            if request.transactional_id is None:
                publish(context.broker.messages, context.caller, [part])
            else:
                await publish_when_known(
                    context.broker.transactions, context.caller, part, adds_partitions=adds_partitions
                )
        self._release()
        outcomes = [outcome for told in pending for outcome in await told]
        write = partial(reply_body, request, version, outcomes)
        body = await self._listener.loop.run_in_executor(self._listener.broker.core.threads, write)
        self._tell_published(slot, version, correlation, request, outcomes, body)

    async def _publish_later(self, request: Publish, *, adds_partitions: bool) -> None:
        """Publish batches of a transaction, once the coordinator knows all their partitions."""
        context = self._require_context()
        await publish_when_known(context.broker.transactions, context.caller, request, adds_partitions=adds_partitions)
        self._release()

    def _publish_burst(self) -> None:
        if self._burst:
            burst, self._burst, self._run = self._burst, [], None
            publish(self._listener.broker.messages, self._require_context().caller, burst)

    def _handle_fetch(self, version: int, correlation: int, request: Request) -> None:
        slot = self._new_slot()
        is_flexible = version >= APIS[FETCH].flexible_from

        def send(body: Parts) -> None:
            size = sum(map(len, body))
            self._reply(slot, [frame_head(correlation, size, is_flexible=is_flexible), *body])
            if self._fetch is not None:
                self._fetch = None
                self._release()

        fetch = fetch_of(self._require_context(), version, request, send)
        if fetch is not None:
            fetch.begin()
            if not fetch.is_over:
                self._fetch = fetch
                self._holds += 1

    def _handle_other(self, api: Api, version: int, correlation: int, request: Request) -> None:
        if not api.lets_others_pass:
            self._holds += 1
        work = self._answer(self._new_slot(), api, version, correlation, request)
        self._listener.tasks.start(work, f"kafka api {api.key} for {self.address}")

    async def _answer_large(
        self, slot: Slot, api: Api, version: int, correlation: int, read: Callable[[], Request]
    ) -> None:
        """Read a request in a thread, since it may have very many elements, and answer it."""
        try:
            request = await self._listener.loop.run_in_executor(self._listener.broker.core.threads, read)
        except MalformedRequest as error:
            self._drop("its request could not be read", error.message)
            return
        await self._answer(slot, api, version, correlation, request, is_large=True)
        if api.lets_others_pass:
            self._release()

    async def _answer(
        self, slot: Slot, api: Api, version: int, correlation: int, request: Request, *, is_large: bool = False
    ) -> None:
        assert api.handler is not None
        try:
            reply = await api.handler(self._require_context(), request)
            if isinstance(reply, bytes):
                body = reply
            elif is_large:
                write = partial(encode_response, api.key, version, reply)
                body = bytes(await self._listener.loop.run_in_executor(self._listener.broker.core.threads, write))
            else:
                body = bytes(encode_response(api.key, version, reply))
        except GoQueueError as error:
            # Handlers put errors into their replies; other errors have no field there.
            self._drop("its request could not be handled", error.message)
            return
        except Exception as error:  # noqa: BLE001 - the edge of a task
            self._listener.failed(self, error)
            self._drop("its request could not be handled")
            return
        is_flexible = version >= api.flexible_from
        self._reply(slot, [frame_head(correlation, len(body), is_flexible=is_flexible), body])
        if not api.lets_others_pass:
            self._release()

    def _take_client_id(self, cursor: Cursor, size: int) -> bytes:
        """Read the client id of a request, and remember it for the caller: most clients send the same every time."""
        client_id = cursor.take(size) if size > 0 else b""
        if client_id != self._client_id:
            # Requests before this one are published with the client id that came with them.
            self._publish_burst()
            self._client_id = client_id
            context = self._require_context()
            caller = context.caller._replace(client_id=client_id.decode("utf-8", "replace"))
            self._context = replace(context, caller=caller)
        return client_id

    def _require_context(self) -> Context:
        assert self._context is not None
        return self._context

    # -- replies

    def _new_slot(self, request_bytes: int = 0) -> Slot:
        # Later requests are answered after it.
        self._run = None
        return self._replies.expect(request_bytes)

    def _reply(self, slot: Slot, parts: Parts) -> None:
        """Put a reply into its slot, and send all ready replies from the first slot on."""
        self._replies.fill(slot, parts)
        if not self._is_bursting:
            self._send_soon()
            if self._is_full:
                self._is_full = False
                self._listener.loop.call_soon(self._go_on)

    def _send_soon(self) -> None:
        """Send after all ready callbacks have run: more replies may be ready by then."""
        if not self._is_to_be_sent:
            self._is_to_be_sent = True
            self._listener.loop.call_soon(self._send)

    def _send(self) -> None:
        self._is_to_be_sent = False
        ready = self._replies.take()
        if not ready or self._transport is None:
            return
        if len(ready) == 1:
            self._transport.write(ready[0])
        else:
            self._transport.writelines(ready)

    # -- waiting

    def _release(self) -> None:
        """End one reason to wait; after the last one, handle the requests that have arrived meanwhile."""
        self._holds -= 1
        if not self._holds and not self._is_bursting and self._transport is not None:
            self._listener.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        # If the budget of this turn is spent, the next one goes on by itself.
        if self._transport is not None and not self._holds and not self._is_bursting and not self._is_spent:
            self._handle_frames()

    def _pace(self) -> None:
        """Pause reading while too many bytes wait to be handled."""
        if self._transport is None:
            return
        is_waiting = bool(self._holds or self._is_full)
        must_pause = self._is_spent or (is_waiting and self._frames.unread > _UNREAD_MAX)
        if must_pause and not self._is_paused:
            self._transport.pause_reading()
        elif not must_pause and self._is_paused:
            self._transport.resume_reading()
        self._is_paused = must_pause

    # -- the end

    def drain(self) -> None:
        """Answer the fetch that waits for records, and handle no further request."""
        self._holds += 1
        if self._fetch is not None:
            self._fetch.finish_now()

    def close(self) -> None:
        """Close the connection after everything written was sent."""
        self._send()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close the connection now; replies that were not sent yet are lost."""
        if self._transport is not None:
            self._transport.abort()

    def _drop_malformed(self, error: MalformedRequest) -> None:
        """Close the connection of a malformed request; a client that speaks HTTP gets the address of the HTTP port."""
        protocol = spoken(self._frames.peek(BEGIN_BYTES))
        if protocol not in {HTTP, TLS}:
            self._drop("its request could not be read", error.message)
            return
        if protocol == HTTP and self._transport is not None and not self._replies.owed:
            self._transport.write(http_answer(self._listener.http_address(self._require_context())))
            self._drop(mismatch(protocol, KAFKA), is_after_reply=True)
            return
        self._drop(mismatch(protocol, KAFKA))

    def _drop(self, reason: str, detail: str = "", *, is_after_reply: bool = False) -> None:
        """Close the connection, for a reason that is reported: now, or once the reply has left."""
        if self._transport is not None:
            self._listener.limiter.note_dropped(reason, self.address, detail)
            if is_after_reply:
                self._transport.close()
            else:
                self._transport.abort()
            # Until it is closed, no further request is handled: their bytes lie in a buffer that other connections use.
            self._holds += 1
            self._burst.clear()
            self._run = None


def _decoded(key: int, version: int, body: Cursor, client_id: str) -> Request:
    request = decode_request(key, version, body)
    request.version = version
    request.client_id = client_id
    return request

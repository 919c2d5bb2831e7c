"""One connection of the simulated network: two transports over two pipes.

    transport --write--> [unsent] --pump--> [on the way] --arrive--> [unread] --read--> protocol of the peer

`unsent` is the transport's buffer, which the write limits watch. `on the way` and `unread` are the kernels'
and together hold no more than the window, so that a reader that pauses fills the buffer of the writer.

A `Pipe` owns one direction: what is where, when it arrives, and how it ends. A `SimTransport` owns one end: it
keeps asyncio's promises to a protocol. Neither knows hosts or ports; `network` makes them and hurts them.

What holds, as with TCP:

- Bytes of one pipe arrive in order, once each, cut and joined at drawn points. Pipes overtake each other. - A lost
segment comes late, and so does everything after it. A dropped link holds everything back silently. - `close` sends what
is unsent and then the end; `abort` forgets what is unsent. An end that closes with bytes unread, or gets bytes after
closing, answers with a reset; a reset destroys what the other side has not read
  yet.
- `connection_made` comes first and `connection_lost` last, each once; nothing comes after it.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, cast

from typing_extensions import override

from goqueue.seams.network import Address
from goqueue.testing.entropy import SeededEntropy

_WRITE_HIGH_BYTES = 64 * 1024
_RETRANSMIT_S = 0.2
_RETRANSMITS_MAX = 6


@dataclass(slots=True)
class Link:
    """One direction between two hosts; change its fields at any time."""

    delay_s: float
    jitter_s: float
    loss: float
    is_dropped: bool = False

    def travel_s(self, entropy: SeededEntropy) -> float:
        """Draw how long one segment takes, with the retransmissions it needs."""
        travel = self.delay_s + self.jitter_s * entropy.fraction()
        wait = _RETRANSMIT_S
        for _ in range(_RETRANSMITS_MAX):
            if not entropy.chance(self.loss):
                break
            travel += wait
            wait *= 2
        return travel


class End(Enum):
    """How a pipe ends: after all bytes, or at once and with an error."""

    FINISHED = "finished"
    RESET = "reset"


class SimTransport(asyncio.Transport):
    """One end of a connection."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        local: Address,
        remote: Address,
        incoming: Pipe,
        outgoing: Pipe,
    ) -> None:
        super().__init__({"sockname": local, "peername": remote})
        self.local = local
        self.remote = remote
        self.incoming = incoming
        self.outgoing = outgoing
        self.is_lost = False
        self._loop = loop
        self._protocol: asyncio.BaseProtocol | None = None
        self._is_closing = False
        self._is_eof_written = False
        self._is_eof_read = False
        self._is_reading_paused = False
        self._is_read_scheduled = False
        self._is_writing_paused = False
        self._high_bytes, self._low_bytes = _WRITE_HIGH_BYTES, _WRITE_HIGH_BYTES // 4
        incoming.receiver = self
        outgoing.sender = self

    def start(self, protocol: asyncio.BaseProtocol) -> None:
        """Give the connection to its protocol, and let it read."""
        self._protocol = protocol
        protocol.connection_made(self)
        self.wake()

    @override
    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    @override
    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    @override
    def is_closing(self) -> bool:
        return self._is_closing

    @override
    def is_reading(self) -> bool:
        return not self._is_closing and not self._is_reading_paused

    @override
    def pause_reading(self) -> None:
        if not self._is_closing:
            self._is_reading_paused = True

    @override
    def resume_reading(self) -> None:
        self._is_reading_paused = False
        self.wake()

    @override
    def get_write_buffer_size(self) -> int:
        return len(self.outgoing.unsent)

    @override
    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low_bytes, self._high_bytes

    @override
    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = _WRITE_HIGH_BYTES if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high}) must be at least low ({low}), and low at least 0")
        self._high_bytes, self._low_bytes = high, low
        self._pause_writer_if_full()

    @override
    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"data must be bytes-like, not {type(data).__name__}")
        if self._is_eof_written:
            raise RuntimeError("write() after write_eof()")
        if self._is_closing or not data:
            return
        self.outgoing.unsent += data
        self.outgoing.pump()
        self._pause_writer_if_full()

    @override
    def can_write_eof(self) -> bool:
        return True

    @override
    def write_eof(self) -> None:
        if not self._is_closing and not self._is_eof_written:
            self._is_eof_written = True
            self.sent()

    @override
    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self.sent()

    @override
    def abort(self) -> None:
        self.outgoing.unsent.clear()
        self._close_socket()

    def kill(self) -> None:
        """End the connection as a kernel does for a process that died: its protocol hears nothing of it."""
        self._protocol = None
        self.abort()

    def reset_both(self) -> None:
        """Lose the connection at both ends."""
        for end in (self, self.outgoing.receiver):
            end.lose(socket_error(errno.ECONNRESET, "the connection was cut"))

    def lose(self, error: Exception | None) -> None:
        """Forget all buffers and tell the protocol that it is over."""
        if self.is_lost:
            return
        self.is_lost = self._is_closing = True
        self.outgoing.unsent.clear()
        self.incoming.unread.clear()
        self._loop.call_soon(self._tell_lost, error)

    def sent(self) -> None:
        """Go on after bytes have left: let the protocol write again, or send the end that waits."""
        size = self.get_write_buffer_size()
        if self._is_writing_paused and size <= self._low_bytes and self._protocol is not None:
            self._is_writing_paused = False
            self._protocol.resume_writing()
        if self.get_write_buffer_size():
            return
        if self._is_closing:
            self._close_socket()
        elif self._is_eof_written:
            self.outgoing.end(End.FINISHED)

    def wake(self) -> None:
        """Schedule a read, if there are bytes and a reader for them."""
        has_input = self.incoming.unread or (self.incoming.is_finished and not self._is_eof_read)
        if has_input and self._protocol is not None and self.is_reading() and not self._is_read_scheduled:
            self._is_read_scheduled = True
            self._loop.call_soon(self._read)

    def _read(self) -> None:
        self._is_read_scheduled = False
        if self._protocol is None or not self.is_reading():
            return
        try:
            if self.incoming.unread:
                self._hand_over(self._protocol)
            else:
                self._hand_over_eof(self._protocol)
        except Exception as error:  # noqa: BLE001 - the edge of a connection: it ends, the loop goes on
            context = {"message": "protocol failed on input", "exception": error, "transport": self}
            self._loop.call_exception_handler(context)
            self._close_socket(error)
        self.wake()

    def _hand_over(self, protocol: asyncio.BaseProtocol) -> None:
        if isinstance(protocol, asyncio.BufferedProtocol):
            with memoryview(protocol.get_buffer(-1)).cast("B") as buffer:
                if not buffer:
                    raise RuntimeError("get_buffer() returned an empty buffer")
                chunk = self.incoming.take(len(buffer))
                buffer[: len(chunk)] = chunk
            protocol.buffer_updated(len(chunk))
        else:
            chunk = self.incoming.take(len(self.incoming.unread))
            cast("asyncio.Protocol", protocol).data_received(chunk)

    def _hand_over_eof(self, protocol: asyncio.BaseProtocol) -> None:
        self._is_eof_read = True
        if not cast("asyncio.Protocol", protocol).eof_received():
            self.close()

    def _close_socket(self, error: Exception | None = None) -> None:
        if not self.is_lost:
            self.outgoing.end(End.RESET if self.incoming.unread else End.FINISHED)
            self.lose(error)

    def _tell_lost(self, error: Exception | None) -> None:
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.connection_lost(error)

    def _pause_writer_if_full(self) -> None:
        is_full = self.get_write_buffer_size() > self._high_bytes
        if is_full and not self._is_writing_paused and self._protocol is not None:
            self._is_writing_paused = True
            self._protocol.pause_writing()


class Pipe:
    """One direction of a connection."""

    sender: SimTransport
    receiver: SimTransport

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        entropy: SeededEntropy,
        link: Link,
        back: Link,
        *,
        window_bytes: int,
    ) -> None:
        self.unsent = bytearray()
        self.unread = bytearray()
        self.is_finished = False
        self.is_stalled = False
        self._loop = loop
        self._entropy = entropy
        self._window_bytes = window_bytes
        self._link = link
        self._back = back
        self._on_the_way: deque[tuple[float, bytes | End]] = deque()
        self._unacknowledged_bytes = 0
        self._is_acknowledgement_due = False
        self._ended: End | None = None

    def pump(self) -> None:
        """Send as much of the unsent bytes as the window takes."""
        while self.unsent and (room := self._window_bytes - self._unacknowledged_bytes) > 0:
            segment = bytes(self.unsent[: self._cut(min(len(self.unsent), room))])
            del self.unsent[: len(segment)]
            self._unacknowledged_bytes += len(segment)
            self._send(segment)

    def end(self, end: End) -> None:
        """Send the end, once; a reset may still follow a finish."""
        if self._ended not in (end, End.RESET):
            self._ended = end
            self._send(end)

    def take(self, size_max: int) -> bytes:
        """Remove and return some of the unread bytes."""
        chunk = bytes(self.unread[: self._cut(min(len(self.unread), size_max))])
        del self.unread[: len(chunk)]
        self._acknowledge_later()
        return chunk

    def acknowledge(self) -> None:
        """Open the window by what the receiver has taken, unless the way back is dropped."""
        self._is_acknowledgement_due = False
        if self._back.is_dropped:
            return
        on_the_way = sum(len(segment) for _, segment in self._on_the_way if isinstance(segment, bytes))
        self._unacknowledged_bytes = on_the_way + len(self.unread)
        if self.unsent and not self.sender.is_lost:
            self.pump()
            self.sender.sent()

    def retransmit(self) -> None:
        """Retransmit the bytes that a dropped link has lost."""
        if self.is_stalled:
            self.is_stalled = False
            _, segment = self._on_the_way.popleft()
            due = self._loop.time() + _RETRANSMIT_S * self._entropy.fraction() + self._link.travel_s(self._entropy)
            self._on_the_way.appendleft((due, segment))
            self._loop.call_at(due, self._arrive)

    def _send(self, segment: bytes | End) -> None:
        due = self._loop.time() + self._link.travel_s(self._entropy)
        if self._on_the_way:
            due = max(due, self._on_the_way[-1][0])
        self._on_the_way.append((due, segment))
        # One timer, for the first on the way: the loop may run timers of one moment in any order.
        if len(self._on_the_way) == 1:
            self._loop.call_at(due, self._arrive)

    def _arrive(self) -> None:
        if self._link.is_dropped:
            self.is_stalled = True
            return
        for segment in self._arrived():
            self._accept(segment)
        if self._on_the_way:
            self._loop.call_at(self._on_the_way[0][0], self._arrive)

    def _arrived(self) -> Iterator[bytes | End]:
        now = self._loop.time()
        while self._on_the_way and self._on_the_way[0][0] <= now:
            yield self._on_the_way.popleft()[1]

    def _accept(self, segment: bytes | End) -> None:
        if segment is End.RESET:
            self.receiver.lose(socket_error(errno.ECONNRESET, "the peer reset the connection"))
        elif segment is End.FINISHED:
            self.is_finished = True
            self.receiver.wake()
        elif self.receiver.is_lost:
            # The bytes will never be read; the sender's kernel learns that.
            self.receiver.outgoing.end(End.RESET)
        else:
            self.unread += segment
            self.receiver.wake()

    def _acknowledge_later(self) -> None:
        # Without unsent bytes the moment when the window opens has no effect, so an event is saved.
        if not self.unsent:
            self.acknowledge()
        elif not self._is_acknowledgement_due:
            self._is_acknowledgement_due = True
            self._loop.call_later(self._back.travel_s(self._entropy), self.acknowledge)

    def _cut(self, size: int) -> int:
        """Draw how much of `size` bytes goes together: all of it half of the time."""
        return size if self._entropy.chance(0.5) else 1 + self._entropy.below(size)


def socket_error(number: int, detail: str) -> OSError:
    """Return the operating system's error; Python picks the subclass, such as ConnectionRefusedError."""
    return OSError(number, f"{os.strerror(number)}: {detail}")

"""A raw client that keeps a window of messages in flight: one socket, frames made beforehand, answers only counted.

It stands in for stock clients that cost so much themselves that they would be what is measured.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from goqueue_bench.cpu import metered
from goqueue_bench.measure import require
from goqueue_bench.peers.peer import REPLY_SECONDS_MAX, Measured

_RECEIVE_BYTES = 1 << 18

# Takes received bytes; returns how many more messages are confirmed by them, and raises if one was refused.
CountAnswers = Callable[[bytes], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """How to publish over a socket: the bytes of so many messages, how many go into a write, how many may be open."""

    encode: Callable[[int], bytes]
    count_answers: CountAnswers
    chunk_messages: int = 500
    window: int = 5_000


def publish_pipelined(connection: socket.socket, pipeline: Pipeline, count: int, server_pid: int) -> Measured:
    """Publish so many messages and measure until the last one is confirmed."""
    with metered(server_pid, with_children=True) as usage:
        _pump(connection, pipeline, count)
    return Measured(count, usage)


def publish_singly(connection: socket.socket, pipeline: Pipeline, count: int, server_pid: int) -> Measured:
    """Publish so many messages, each confirmed before the next."""
    connection.settimeout(REPLY_SECONDS_MAX)
    latencies = []
    frame = pipeline.encode(1)
    with metered(server_pid, with_children=True) as usage:
        for _ in range(count):
            started = time.perf_counter()
            connection.sendall(frame)
            confirmed = 0
            while confirmed == 0:
                confirmed = pipeline.count_answers(receive(connection))
            latencies.append((time.perf_counter() - started) * 1000)
            require(confirmed == 1, "one message has one answer")
    return Measured(count, usage, latencies)


def receive(connection: socket.socket) -> bytes:
    """Return the next bytes that arrive."""
    data = connection.recv(_RECEIVE_BYTES)
    require(len(data) > 0, "the server keeps the connection open")
    return data


def _pump(connection: socket.socket, pipeline: Pipeline, count: int) -> None:
    connection.settimeout(0)
    chunk = pipeline.encode(pipeline.chunk_messages)
    unsent = memoryview(b"")
    sent = confirmed = 0
    while confirmed < count:
        if not unsent and sent < count and sent - confirmed < pipeline.window:
            messages = min(pipeline.chunk_messages, count - sent)
            unsent = memoryview(chunk if messages == pipeline.chunk_messages else pipeline.encode(messages))
            sent += messages
        readable, writable, _ = select.select([connection], [connection] if unsent else [], [], REPLY_SECONDS_MAX)
        require(bool(readable or writable), "the server answers for every message")
        if writable:
            unsent = unsent[connection.send(unsent) :]
        if readable:
            confirmed += pipeline.count_answers(receive(connection))
    require(confirmed == count, f"{count} messages have {confirmed} answers")

"""Replay: read a topic from its start, every offset exactly once and in order.

Two clients, since they show different things. The stock one makes an object of each message, and is what a user
gets. The raw one looks at nothing but the headers of batches, and shows what the broker can send.
"""

from __future__ import annotations

import time
from typing import Any

from goqueue.records.layout import headers
from goqueue_bench.broker_process import Broker
from goqueue_bench.cpu import Usage, metered
from goqueue_bench.figures import Figures, figures
from goqueue_bench.kafka import confluent, wire
from goqueue_bench.kafka.connection import Connection
from goqueue_bench.measure import BenchmarkFailed, require

FETCH_BYTES_MAX = 1024 * 1024

# More at a time is slower: the objects no longer fit into the caches of a processor.
_CONSUME_MESSAGES_MAX = 10_000
_IDLE_SECONDS_MAX = 30.0


def measure_replay(broker: Broker, topic: str, messages: int, size_bytes: int, *, is_raw: bool) -> Figures:
    """Read a topic of so many messages with the raw or the stock client."""
    usage = (replay_raw if is_raw else replay_with_confluent)(broker, topic, messages)
    return figures(messages, size_bytes, usage)


def replay_with_confluent(broker: Broker, topic: str, messages: int, *, with_children: bool = False) -> Usage:
    """Read partition 0 with the stock client in large calls; return what it took, connecting included."""
    # A client whose queue was full goes on soon: by default it would wait for a second.
    settings = {"fetch.queue.backoff.ms": 5}
    with metered(broker.pid, with_children=with_children) as usage:
        client = confluent.consumer(broker.bootstrap, topic, settings)
        _consume(client, messages)
    client.close()
    return usage


def replay_raw(broker: Broker, topic: str, messages: int, *, with_children: bool = False) -> Usage:
    """Read partition 0 with one fetch at a time; return what it took."""
    offset = 0
    with Connection(broker) as connection, metered(broker.pid, with_children=with_children) as usage:
        while offset < messages:
            reply = wire.parse_fetch_reply(
                connection.call(wire.fetch_request(topic, 0, offset, bytes_max=FETCH_BYTES_MAX))
            )
            require(reply.error == 0, f"every fetch succeeds (error {reply.error} at offset {offset})")
            next_offset = follow(reply.records, offset)
            require(next_offset > offset, f"the broker has records at offset {offset} of {messages}")
            offset = next_offset
    require(offset == messages, f"{messages} messages are stored and {offset} were read")
    return usage


def follow(records: memoryview, offset: int) -> int:
    """Check that batches start at an offset and have no gaps; return the offset after them."""
    for _, header in headers(records):
        if header.base_offset != offset or header.next_offset - offset != header.record_count:
            raise BenchmarkFailed(
                f"expected offset {offset}, got {header.record_count} records from {header.base_offset} on"
            )
        offset = header.next_offset
    return offset


def _consume(client: Any, messages: int) -> None:
    offset = 0
    deadline = time.monotonic() + _IDLE_SECONDS_MAX
    while offset < messages:
        # Never more than there are: the call waits for all that it was asked for.
        got = client.consume(min(_CONSUME_MESSAGES_MAX, messages - offset), 1.0)
        if got:
            check_messages(got, offset)
            offset += len(got)
            deadline = time.monotonic() + _IDLE_SECONDS_MAX
        require(time.monotonic() < deadline, f"the broker has messages at offset {offset} of {messages}")
    require(offset == messages, f"{messages} messages are stored and {offset} were read")


def check_messages(got: list[Any], offset: int) -> None:
    """Check that messages of the stock client carry no error and go on at an offset without a gap."""
    errors = [message.error() for message in got if message.error() is not None]
    require(not errors, f"every message can be read ({errors[0] if errors else ''})")
    offsets = [message.offset() for message in got]
    if offsets != list(range(offset, offset + len(got))):
        raise BenchmarkFailed(f"expected {len(got)} messages from offset {offset} on, got others from {offsets[0]} on")

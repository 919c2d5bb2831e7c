"""Bulk publishing with the stock client: small messages in large batches, as many as it can send.

Every message has to be reported as stored, and the ends of the partitions have to agree with the number sent.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

from goqueue_bench.broker_process import Broker
from goqueue_bench.cpu import Usage, metered
from goqueue_bench.figures import Figures, figures
from goqueue_bench.kafka import confluent
from goqueue_bench.kafka.connection import end_offsets
from goqueue_bench.measure import BenchmarkFailed, require

LINGER_MS = 5

_POOL_MESSAGES_MAX = 10_000
_POOL_BYTES_MAX = 16 * 1024 * 1024
_FLUSH_SECONDS_MAX = 120
_ROOM_POLL_SECONDS = 0.005
_LOOKS_MAX = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Bulk:
    """How much to publish, and how: `acks` and `codec` are in the words of Kafka clients."""

    messages: int
    size_bytes: int = 100
    acks: str = "all"
    codec: str = "none"
    partitions: int = 1


def measure_publish(broker: Broker, topic: str, bulk: Bulk) -> Figures:
    """Publish to a topic, and measure from the first message until the last one is reported."""
    usage = publish(broker, topic, bulk)
    return figures(bulk.messages, bulk.size_bytes, usage)


def publish(broker: Broker, topic: str, bulk: Bulk, *, with_children: bool = False) -> Usage:
    """Publish to a topic and return what it took; raise unless every message was stored."""
    errors: list[str] = []
    settings = {"acks": bulk.acks, "compression.type": bulk.codec, "linger.ms": LINGER_MS}
    client = confluent.producer(broker.bootstrap, settings)
    pool = payloads(bulk.size_bytes)
    # Connects and learns about the topic, which is not what is measured.
    _send(client, topic, pool, 1, errors)
    _finish(client, errors)
    before = _visible_ends(broker, topic, bulk.partitions)
    with metered(broker.pid, with_children=with_children) as usage:
        _send(client, topic, pool, bulk.messages, errors)
        _finish(client, errors)
    stored = sum(end_offsets(broker, topic, bulk.partitions)) - sum(before)
    require(stored == bulk.messages, f"{bulk.messages} messages were sent and {stored} are stored")
    return usage


def _visible_ends(broker: Broker, topic: str, partitions: int) -> list[int]:
    """Return the end offsets once the first message can be read, for which replies with acks=1 do not wait."""
    for _ in range(_LOOKS_MAX):
        ends = end_offsets(broker, topic, partitions)
        if any(ends):
            return ends
    raise BenchmarkFailed("the first message was stored and cannot be read")


def payloads(size_bytes: int) -> list[dict[str, Any]]:
    """Return different messages in the form that a client takes; of large ones only a few."""
    count = max(1, min(_POOL_MESSAGES_MAX, _POOL_BYTES_MAX // size_bytes))
    return [{"value": payload(size_bytes)} for _ in range(count)]


def payload(size_bytes: int) -> bytes:
    """Return a message that compresses to about half its size."""
    return secrets.token_hex((size_bytes + 1) // 2)[:size_bytes].encode()


def _send(client: Any, topic: str, pool: list[dict[str, Any]], count: int, errors: list[str]) -> None:
    def note(error: Any, message: Any) -> None:
        del message
        errors.append(str(error))

    has_batches = hasattr(client, "produce_batch")
    for start in range(0, count, len(pool)):
        part = pool[: count - start]
        while len(client) > confluent.QUEUE_MESSAGES_MAX - len(part):
            client.poll(_ROOM_POLL_SECONDS)
        if has_batches:
            queued = client.produce_batch(topic, part, on_delivery=note)
            require(queued == len(part), "the client takes every message")
        else:
            for message in part:
                client.produce(topic, message["value"], on_delivery=note)
        client.poll(0)


def _finish(client: Any, errors: list[str]) -> None:
    unreported = client.flush(_FLUSH_SECONDS_MAX)
    require(unreported == 0, f"the broker answers for every message ({unreported} are open)")
    require(not errors, f"every message is stored ({len(errors)} are not, first: {errors[0] if errors else ''})")

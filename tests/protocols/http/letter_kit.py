"""Messages that died, and redrives of them, in as few words as possible."""

from __future__ import annotations

import hashlib
import time
from typing import Any

import httpx
from confluent_kafka import Producer

from goqueue.testing import Broker
from tests.protocols.http.queue_kit import Consumer, fill

_WAIT_S = 120


def noise(size: int) -> str:
    """Return so many characters that no codec makes much smaller without looking at single bits."""
    digests = (hashlib.sha256(str(number).encode()).hexdigest() for number in range(size // 64 + 1))
    return "".join(digests)[:size]


def produce_zipped(broker: Broker, topic: str, key: bytes, value: bytes, headers: list[Any]) -> None:
    """Publish one message as a Kafka client does that compresses it first."""
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "compression.type": "zstd", "message.max.bytes": 50_000_000}
    )
    producer.produce(topic, value, key, headers=headers, partition=1)
    assert producer.flush(30) == 0


def bury(
    http: httpx.Client, topic: str, values: list[str], reason: str = "no luck", *, more: int = 0, **said: Any
) -> None:
    """Publish messages that die at once, with so many more that are there already, and wait for their letters."""
    before = count(http, topic)
    fill(http, topic, values, **said)
    consumer = Consumer(http, f"{topic}-group", topic)
    received: list[Any] = []

    def has_all() -> bool:
        received.extend(consumer.receive(wait="1s"))
        return len(received) == len(values) + more

    wait_for(has_all)
    consumer.settle("reject", received, reason=reason)
    wait_for(lambda: count(http, topic) == before + len(received))


def count(http: httpx.Client, topic: str) -> int:
    """Return how many letters there are, redriven or not."""
    return int(letters(http, topic, totals="true", redriven="true")["totals"]["letters"])


def letters(http: httpx.Client, topic: str, **query: Any) -> dict[str, Any]:
    """Return a page of dead letters."""
    reply = http.get(f"/topics/{topic}/dlq", params=query)
    assert reply.status_code == 200, reply.text
    return dict(reply.json())


def values(page: dict[str, Any]) -> list[str]:
    """Return what letters say."""
    return [each["value"] for each in page["letters"]]


def start(http: httpx.Client, topic: str, **terms: Any) -> dict[str, Any]:
    """Begin a redrive."""
    reply = http.post(f"/topics/{topic}/dlq/redrive", json=terms)
    assert reply.status_code == 202, reply.text
    return dict(reply.json()["redrive"])


def preview(http: httpx.Client, topic: str, **terms: Any) -> dict[str, Any]:
    """Ask what a redrive would do."""
    reply = http.post(f"/topics/{topic}/dlq/redrive", json={**terms, "dry_run": True})
    assert reply.status_code == 200, reply.text
    return dict(reply.json()["preview"])


def find(http: httpx.Client, redrive: str) -> dict[str, Any]:
    """Return how a redrive is."""
    reply = http.get(f"/dlq/redrives/{redrive}")
    assert reply.status_code == 200, reply.text
    return dict(reply.json())


def ended(http: httpx.Client, redrive: dict[str, Any]) -> dict[str, Any]:
    """Wait for the end of a redrive, and return how that was."""
    wait_for(lambda: find(http, redrive["id"])["ended"] is not None)
    return find(http, redrive["id"])


def redrive(http: httpx.Client, topic: str, **terms: Any) -> dict[str, Any]:
    """Publish letters again, and return what became of it."""
    return ended(http, start(http, topic, **terms))


def moves(moved: int = 0, redriven: int = 0, looping: int = 0, failed: int = 0) -> dict[str, int]:
    """Return what became of letters, as a redrive says it."""
    return {"moved": moved, "skipped_redriven": redriven, "skipped_looping": looping, "failed": failed}


def wait_for(fact: Any) -> None:
    """Ask until something is true."""
    deadline = time.monotonic() + _WAIT_S
    while not fact():
        assert time.monotonic() < deadline, "it did not become true in time"

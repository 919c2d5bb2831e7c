"""A queue in which very much is in flight at once, acknowledged in any order: it stays small, and starts quickly."""

from __future__ import annotations

from pathlib import Path
from random import Random

import httpx
import pytest
from confluent_kafka import Producer

from goqueue_bench.cpu import process_cpu_seconds
from tests.protocols.kafka.process import ServeProcess

SHARE = 1_000
# Done messages must take no memory, and each message in flight about an entry of a dictionary.
BYTES_PER_FLIGHT_MAX = 400
FREE_BYTES = 32 * 1024 * 1024
START_CPU_S_MAX = 10.0


def test_a_queue_with_much_in_flight_stays_small_and_starts_quickly(tmp_path: Path) -> None:
    _run(tmp_path, 40_000)


@pytest.mark.long
def test_a_million_messages_half_of_them_acked_in_random_order(tmp_path: Path) -> None:
    _run(tmp_path, 1_000_000)


def _run(tmp_path: Path, count: int) -> None:
    random = Random(count)
    with ServeProcess(tmp_path / "data") as broker:
        _fill(broker.bootstrap, count)
        with httpx.Client(base_url=broker.http, timeout=60) as http:
            settings = {"in_flight_max": 100_000, "visibility_timeout": "1h"}
            http.patch("/queues/g", json=settings).raise_for_status()
            before = broker.memory_bytes()
            receipts: list[str] = []
            while len(receipts) < count:
                receipts += _receive(http, consumer=f"c{len(receipts) // 100_000}")
            random.shuffle(receipts)
            acked, left = receipts[: count // 2], receipts[count // 2 :]
            _ack(http, acked)
            assert _queue(http) == (len(left), len(left))
            grown = broker.memory_bytes() - before
            assert grown < BYTES_PER_FLIGHT_MAX * count + FREE_BYTES, f"{grown / count:.0f} bytes for each message"
        broker.kill()
        broker.start()
        # Time of the processor: how busy the machine is has nothing to do with it.
        assert process_cpu_seconds(broker.process.pid) < START_CPU_S_MAX
        with httpx.Client(base_url=broker.http, timeout=60) as http:
            assert _queue(http) == (len(left), len(left))
            _ack(http, left)
            assert _queue(http) == (0, 0)
            assert _receive(http) == []


def _fill(bootstrap: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.messages": count})
    for number in range(count):
        producer.produce("t", b"%d" % number)
    assert producer.flush(120) == 0


def _receive(http: httpx.Client, consumer: str = "") -> list[str]:
    reply = http.post("/groups/g/receive", json={"topic": "t", "max": SHARE, "consumer": consumer})
    return [each["receipt_handle"] for each in reply.raise_for_status().json()["messages"]]


def _ack(http: httpx.Client, receipts: list[str]) -> None:
    for start in range(0, len(receipts), SHARE):
        reply = http.post("/messages/ack", json={"receipt_handles": receipts[start : start + SHARE]})
        assert {each["status"] for each in reply.json()["results"]} == {"done"}


def _queue(http: httpx.Client) -> tuple[int, int]:
    """Return how many messages are not done, and how many of them are in flight."""
    told = http.get("/queues/g").json()
    return told["depth"], told["in_flight"]

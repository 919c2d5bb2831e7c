"""Makes the golden batches again: `python tests/golden/make.py`.

Needs confluent-kafka (librdkafka), whose mock cluster listens on a loopback port: records go in through its
producer, and the stored batches come out as raw bytes through a Fetch request written by hand. The others
come from aiokafka's batch builder. Tests read only the stored files; producer ids and compressed bytes may
differ after a run, the records never.
"""

from __future__ import annotations

import json
import socket
import struct
from pathlib import Path
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from confluent_kafka import Producer

DIRECTORY = Path(__file__).parent
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FIRST_TIMESTAMP = 1_700_000_000_000

GoldenRecord = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]


def repetitive() -> list[GoldenRecord]:
    """Records that every codec makes smaller, with growing and falling timestamps."""
    return [
        (FIRST_TIMESTAMP + i * 7 - (i % 3) * 50, b"key-%d" % (i % 4), b"the same words again " * 20, [])
        for i in range(30)
    ]


def unusual() -> list[GoldenRecord]:
    """Null and empty fields, headers with null and empty values, a repeated and a non-ASCII header key."""
    return [
        (FIRST_TIMESTAMP, None, b"no key", []),
        (FIRST_TIMESTAMP + 1, b"no value", None, []),
        (FIRST_TIMESTAMP + 2, None, None, []),
        (FIRST_TIMESTAMP + 3, b"", b"", []),
        (FIRST_TIMESTAMP - 5, b"k", b"v", [("trace", b"\x00\xff"), ("empty", b""), ("null", None)]),
        (FIRST_TIMESTAMP + 500, b"k" * 200, b"v" * 3000, [("a", b"1"), ("a", b"2"), ("schlüssel", b"3")]),
    ]


def by_librdkafka(records: list[GoldenRecord], codec: str, **settings: object) -> bytes:
    """Produce the records in one batch to a mock cluster and return the batch as it stored it."""
    producer = Producer(
        {
            # librdkafka wants some name; the mock cluster replaces it by its own address.
            "bootstrap.servers": "mock",
            "test.mock.num.brokers": 1,
            "compression.type": codec,
            "linger.ms": 500,
            "log_level": 2,
            **settings,
        }
    )
    if "transactional.id" in settings:
        producer.init_transactions(10)
        producer.begin_transaction()
    for timestamp, key, value, headers in records:
        producer.produce("golden", value=value, key=key, partition=0, timestamp=timestamp, headers=[*headers])
    if producer.flush(10):
        raise RuntimeError("the mock cluster did not take all records")
    (broker,) = producer.list_topics(timeout=10).brokers.values()
    batch = fetch(broker.host, broker.port)
    if "transactional.id" in settings:
        producer.commit_transaction(10)
    return batch


def fetch(host: str, port: int) -> bytes:
    """Return the record bytes of partition 0 from its start, by a Fetch request of version 4."""
    topic = b"golden"
    body = struct.pack(">iiiib", -1, 100, 1, 1 << 20, 0)
    body += struct.pack(">ih", 1, len(topic)) + topic + struct.pack(">iiqi", 1, 0, 0, 1 << 20)
    request = struct.pack(">hhih", 1, 4, 1, -1) + body
    with (
        socket.create_connection((host, port), timeout=10) as connection,
        connection.makefile("rb") as stream,
    ):
        connection.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", stream.read(4))
        response = stream.read(size)
    # Correlation id, throttle time, one topic with its name, one partition: number, error, two watermarks.
    position = 4 + 4 + 4 + 2 + len(topic) + 4 + 4
    (error,) = struct.unpack_from(">h", response, position)
    if error:
        raise RuntimeError(f"the mock cluster answered the fetch with error {error}")
    position += 2 + 8 + 8
    (aborted_count,) = struct.unpack_from(">i", response, position)
    position += 4 + 16 * max(aborted_count, 0)
    (records_bytes,) = struct.unpack_from(">i", response, position)
    return response[position + 4 : position + 4 + records_bytes]


def by_aiokafka(records: list[GoldenRecord], codec: str, **producer: int) -> bytes:
    """Build the records as aiokafka's producer does."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=CODECS.index(codec),
        is_transactional=0,
        producer_id=producer.get("producer_id", -1),
        producer_epoch=producer.get("producer_epoch", -1),
        base_sequence=producer.get("base_sequence", -1),
        batch_size=1 << 20,
    )
    for offset, (timestamp, key, value, headers) in enumerate(records):
        builder.append(offset, timestamp=timestamp, key=key, value=value, headers=headers)
    return bytes(builder.build())


def as_json(records: list[GoldenRecord]) -> list[dict[str, Any]]:
    """Return the records with their bytes in hexadecimal."""

    def text(data: bytes | None) -> str | None:
        return None if data is None else data.hex()

    return [
        {
            "timestamp": timestamp,
            "key": text(key),
            "value": text(value),
            "headers": [[name, text(content)] for name, content in headers],
        }
        for timestamp, key, value, headers in records
    ]


def main() -> None:
    """Write one file per batch, and one with the records they hold."""
    inputs = {"repetitive": repetitive(), "unusual": unusual()}
    batches: dict[str, bytes] = {}
    for codec in CODECS:
        batches[f"librdkafka-repetitive-{codec}"] = by_librdkafka(inputs["repetitive"], codec)
        batches[f"aiokafka-repetitive-{codec}"] = by_aiokafka(inputs["repetitive"], codec)
    idempotent = {"enable.idempotence": True}
    transactional = {"transactional.id": "golden"}
    batches["librdkafka-unusual-none"] = by_librdkafka(inputs["unusual"], "none")
    batches["librdkafka-unusual-none-idempotent"] = by_librdkafka(inputs["unusual"], "none", **idempotent)
    batches["librdkafka-unusual-none-transactional"] = by_librdkafka(inputs["unusual"], "none", **transactional)
    batches["aiokafka-unusual-none-idempotent"] = by_aiokafka(
        inputs["unusual"], "none", producer_id=4000, producer_epoch=3, base_sequence=17
    )
    for name, batch in batches.items():
        (DIRECTORY / f"{name}.bin").write_bytes(batch)
    expected = {name: as_json(records) for name, records in inputs.items()}
    (DIRECTORY / "records.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""kafka-python: pure Python, the newest API versions of all clients here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition  # type: ignore[import-untyped]
from kafka.errors import KafkaError  # type: ignore[import-untyped]

from goqueue.records.compression import Codec
from tests.clients.contract import (
    DEADLINE_S,
    FROM_BEGINNING,
    PLAIN,
    Acks,
    Bounds,
    Edge,
    Message,
    Place,
    Reading,
    Record,
    Refused,
    Reset,
    Sending,
    Traits,
)
from tests.clients.expect import take_until

_ACKS: dict[Acks, int | str] = {Acks.NONE: 0, Acks.LEADER: 1, Acks.ALL: "all"}


class KafkaPythonClient:
    """Producers and consumers of kafka-python."""

    # Both are refused by the library's own checks.
    traits = Traits(writes_null_header_values=False, writes_null_key_with_null_value=False)

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._producers: dict[Sending, Any] = {}
        self._lookup = self._consumer(FROM_BEGINNING)

    def send(self, topic: str, messages: Sequence[Message], sending: Sending = PLAIN) -> list[int]:
        producer = self._producer(sending)
        with broker_refusals():
            sent = [
                producer.send(
                    topic,
                    value=message.value,
                    key=message.key,
                    partition=message.partition,
                    timestamp_ms=message.timestamp_ms,
                    headers=list(message.headers),
                )
                for message in messages
            ]
            producer.flush(timeout=DEADLINE_S)
            return [future.get(timeout=DEADLINE_S).offset for future in sent]

    @contextmanager
    def reader(self, places: Sequence[Place], reading: Reading = FROM_BEGINNING) -> Iterator[KafkaPythonReader]:
        consumer = self._consumer(reading)
        partitions = [TopicPartition(*place) for place in places]
        consumer.assign(partitions)
        if reading.start is Edge.BEGINNING:
            consumer.seek_to_beginning(*partitions)
        elif reading.start is Edge.END:
            consumer.seek_to_end(*partitions)
        else:
            for partition in partitions:
                consumer.seek(partition, reading.start)
        try:
            yield KafkaPythonReader(consumer)
        finally:
            consumer.close()

    def bounds(self, place: Place) -> Bounds:
        partition = TopicPartition(*place)
        earliest = self._lookup.beginning_offsets([partition])
        return Bounds(earliest[partition], self._lookup.end_offsets([partition])[partition])

    def offset_at(self, place: Place, timestamp_ms: int) -> int | None:
        partition = TopicPartition(*place)
        found = self._lookup.offsets_for_times({partition: timestamp_ms})[partition]
        return None if found is None else int(found.offset)

    def close(self) -> None:
        for producer in self._producers.values():
            producer.close(timeout=DEADLINE_S)
        self._lookup.close()

    def _producer(self, sending: Sending) -> Any:
        if sending not in self._producers:
            self._producers[sending] = KafkaProducer(
                bootstrap_servers=self._bootstrap,
                compression_type=None if sending.codec is Codec.NONE else sending.codec.name.lower(),
                acks=_ACKS[sending.acks],
                enable_idempotence=sending.is_idempotent,
                max_request_size=4 * 1024 * 1024,
                max_block_ms=int(DEADLINE_S * 1000),
                linger_ms=1,
            )
        return self._producers[sending]

    def _consumer(self, reading: Reading) -> Any:
        return KafkaConsumer(
            bootstrap_servers=self._bootstrap,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none" if reading.reset is Reset.ERROR else reading.reset.value,
            fetch_max_wait_ms=reading.wait_ms_max,
            max_partition_fetch_bytes=reading.partition_bytes_max,
        )


class KafkaPythonReader:
    """A consumer with its partitions assigned."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer

    def take(self, count: int, within_s: float = DEADLINE_S) -> list[Record]:
        with broker_refusals():
            return take_until(count, within_s, self._poll)

    def _poll(self, count: int, within_s: float) -> list[Record]:
        polled = self._consumer.poll(timeout_ms=int(within_s * 1000), max_records=count)
        return [record_of(record) for records in polled.values() for record in records]


@contextmanager
def broker_refusals() -> Iterator[None]:
    """Turn what kafka-python raises into Refused."""
    try:
        yield
    except KafkaError as error:
        raise Refused(getattr(error, "errno", -1), repr(error)) from error


def record_of(record: Any) -> Record:
    """Return what was read."""
    return Record(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp,
        record.key,
        record.value,
        tuple(record.headers or ()),
    )

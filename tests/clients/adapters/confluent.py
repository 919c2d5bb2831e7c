"""confluent-kafka: librdkafka of today, the library below most clients that are not Java."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.clients.contract import (
    DEADLINE_S,
    FROM_BEGINNING,
    PLAIN,
    Bounds,
    Edge,
    ErrorCode,
    Message,
    Place,
    Reading,
    Record,
    Refused,
    Sending,
    Traits,
)
from tests.clients.expect import take_until

_EDGES = {Edge.BEGINNING: confluent_kafka.OFFSET_BEGINNING, Edge.END: confluent_kafka.OFFSET_END}


class ConfluentClient:
    """Producers and consumers of confluent-kafka."""

    traits = Traits()

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._producers: dict[Sending, Producer] = {}
        self._lookup = self._consumer(FROM_BEGINNING)

    def send(self, topic: str, messages: Sequence[Message], sending: Sending = PLAIN) -> list[int]:
        producer = self._producer(sending)
        reports: list[_Report] = []
        for message in messages:
            report = _Report()
            reports.append(report)
            producer.produce(
                topic,
                value=message.value,
                key=message.key,
                partition=-1 if message.partition is None else message.partition,
                timestamp=message.timestamp_ms or 0,
                headers=list(message.headers),
                on_delivery=report.note,
            )
        if producer.flush(DEADLINE_S):
            raise TimeoutError(f"{len(producer)} messages were not delivered")
        return [report.offset() for report in reports]

    @contextmanager
    def reader(self, places: Sequence[Place], reading: Reading = FROM_BEGINNING) -> Iterator[ConfluentReader]:
        consumer = self._consumer(reading)
        start = _EDGES[reading.start] if isinstance(reading.start, Edge) else reading.start
        consumer.assign([TopicPartition(*place, start) for place in places])
        try:
            yield ConfluentReader(consumer)
        finally:
            consumer.close()

    def bounds(self, place: Place) -> Bounds:
        return Bounds(*self._lookup.get_watermark_offsets(TopicPartition(*place), timeout=DEADLINE_S))

    def offset_at(self, place: Place, timestamp_ms: int) -> int | None:
        (found,) = self._lookup.offsets_for_times([TopicPartition(*place, timestamp_ms)], timeout=DEADLINE_S)
        if found.error is not None:
            raise refusal_of(found.error)
        return None if found.offset == confluent_kafka.OFFSET_END else found.offset

    def close(self) -> None:
        for producer in self._producers.values():
            producer.close()
        self._lookup.close()

    def _producer(self, sending: Sending) -> Producer:
        if sending not in self._producers:
            self._producers[sending] = Producer(
                {
                    "bootstrap.servers": self._bootstrap,
                    "compression.type": sending.codec.name.lower(),
                    "acks": sending.acks,
                    "enable.idempotence": sending.is_idempotent,
                    "partitioner": "murmur2_random",
                    "message.max.bytes": 4 * 1024 * 1024,
                    "message.timeout.ms": int(DEADLINE_S * 1000),
                    "linger.ms": 1,
                }
            )
        return self._producers[sending]

    def _consumer(self, reading: Reading) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                # Wanted by the library; nothing joins a group as long as partitions are assigned by hand.
                "group.id": "assigned-by-hand",
                "enable.auto.commit": False,
                "auto.offset.reset": reading.reset,
                "fetch.wait.max.ms": reading.wait_ms_max,
                "max.partition.fetch.bytes": reading.partition_bytes_max,
                # librdkafka waits this long before it asks again after an error; a test should not.
                "fetch.error.backoff.ms": 20,
            }
        )


class _Report:
    """Outcome of one message."""

    def __init__(self) -> None:
        self._error: KafkaError | None = None
        self._offset = -1

    def note(self, error: KafkaError | None, delivered: confluent_kafka.Message) -> None:
        offset = delivered.offset()
        self._error = error
        self._offset = -1 if offset is None else max(offset, -1)

    def offset(self) -> int:
        if self._error is not None:
            raise refusal_of(self._error)
        return self._offset


class ConfluentReader:
    """A consumer with its partitions assigned."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def take(self, count: int, within_s: float = DEADLINE_S) -> list[Record]:
        return take_until(count, within_s, self._poll)

    def _poll(self, count: int, within_s: float) -> list[Record]:
        # consume() collects until it has `count` or the time is over, so a short time keeps the deadline honest.
        return [record_of(message) for message in self._consumer.consume(count, min(within_s, 0.1))]


@contextmanager
def broker_refusals() -> Iterator[None]:
    """Turn what librdkafka raises into Refused."""
    try:
        yield
    except KafkaException as error:
        raise refusal_of(error.args[0]) from error


def refusal_of(error: KafkaError) -> Refused:
    """Return what an error of the library says of the broker."""
    code = error.code()
    if code == KafkaError._AUTO_OFFSET_RESET:
        # The library's own code if a reset is not allowed; the broker's error is in the text only.
        assert "Offset out of range" in error.str()
        code = ErrorCode.OFFSET_OUT_OF_RANGE
    return Refused(code, error.str())


def record_of(message: confluent_kafka.Message) -> Record:
    """Return what was read; Refused if it is an error instead."""
    error = message.error()
    if error is not None:
        raise refusal_of(error)
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    headers = message.headers() or []
    assert isinstance(headers, list)
    return Record(
        topic,
        partition,
        offset,
        message.timestamp()[1],
        message.key(),
        message.value(),
        tuple((name, value.encode() if isinstance(value, str) else value) for name, value in headers),
    )

"""aiokafka: asyncio, its own protocol code of older API versions. Its loop runs in a thread, so tests stay plain."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Thread
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

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

_Result = TypeVar("_Result")
_ACKS: dict[Acks, int | str] = {Acks.NONE: 0, Acks.LEADER: 1, Acks.ALL: "all"}


class LoopThread:
    """An event loop that runs until it is closed."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Run on the loop and wait; Refused if the broker refused, TimeoutError at the deadline."""
        future: Future[_Result] = asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, DEADLINE_S * 2), self._loop)
        try:
            return future.result()
        except KafkaError as error:
            raise Refused(getattr(error, "errno", -1), repr(error)) from error

    def close(self) -> None:
        """Stop the loop."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DEADLINE_S)
        self._loop.close()


class AiokafkaClient:
    """Producers and consumers of aiokafka."""

    # Refused by the library's own check.
    traits = Traits(writes_null_key_with_null_value=False)

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._loop = LoopThread()
        self._producers: dict[Sending, Any] = {}
        self._lookup = self._loop.run(self._start_consumer(FROM_BEGINNING))

    def send(self, topic: str, messages: Sequence[Message], sending: Sending = PLAIN) -> list[int]:
        return self._loop.run(self._send(topic, messages, sending))

    @contextmanager
    def reader(self, places: Sequence[Place], reading: Reading = FROM_BEGINNING) -> Iterator[AiokafkaReader]:
        consumer = self._loop.run(self._start_consumer(reading))
        try:
            self._loop.run(_assign(consumer, [TopicPartition(*place) for place in places], reading.start))
            yield AiokafkaReader(self._loop, consumer)
        finally:
            self._loop.run(consumer.stop())

    def bounds(self, place: Place) -> Bounds:
        partition = TopicPartition(*place)
        earliest = self._loop.run(self._lookup.beginning_offsets([partition]))
        latest = self._loop.run(self._lookup.end_offsets([partition]))
        return Bounds(earliest[partition], latest[partition])

    def offset_at(self, place: Place, timestamp_ms: int) -> int | None:
        partition = TopicPartition(*place)
        found = self._loop.run(self._lookup.offsets_for_times({partition: timestamp_ms}))[partition]
        return None if found is None else int(found.offset)

    def close(self) -> None:
        for part in (*self._producers.values(), self._lookup):
            self._loop.run(part.stop())
        self._loop.close()

    async def _send(self, topic: str, messages: Sequence[Message], sending: Sending) -> list[int]:
        if sending not in self._producers:
            self._producers[sending] = await self._start_producer(sending)
        producer = self._producers[sending]
        sent = [
            await producer.send(
                topic,
                value=message.value,
                key=message.key,
                partition=message.partition,
                timestamp_ms=message.timestamp_ms,
                headers=list(message.headers),
            )
            for message in messages
        ]
        # None for those of which the broker says nothing.
        return [-1 if done is None else done.offset for done in await asyncio.gather(*sent)]

    async def _start_producer(self, sending: Sending) -> Any:
        producer = AIOKafkaProducer(
            bootstrap_servers=self._bootstrap,
            compression_type=None if sending.codec is Codec.NONE else sending.codec.name.lower(),
            acks=_ACKS[sending.acks],
            enable_idempotence=sending.is_idempotent,
            max_request_size=4 * 1024 * 1024,
            request_timeout_ms=int(DEADLINE_S * 1000),
            linger_ms=1,
        )
        await producer.start()
        return producer

    async def _start_consumer(self, reading: Reading) -> Any:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none" if reading.reset is Reset.ERROR else reading.reset.value,
            fetch_max_wait_ms=reading.wait_ms_max,
            max_partition_fetch_bytes=reading.partition_bytes_max,
        )
        await consumer.start()
        return consumer


class AiokafkaReader:
    """A consumer with its partitions assigned."""

    def __init__(self, loop: LoopThread, consumer: Any) -> None:
        self._loop = loop
        self._consumer = consumer

    def take(self, count: int, within_s: float = DEADLINE_S) -> list[Record]:
        return take_until(count, within_s, self._poll)

    def _poll(self, count: int, within_s: float) -> list[Record]:
        polled = self._loop.run(self._consumer.getmany(timeout_ms=int(within_s * 1000), max_records=count))
        return [record_of(record) for records in polled.values() for record in records]


async def _assign(consumer: Any, partitions: list[TopicPartition], start: int | Edge) -> None:
    consumer.assign(partitions)
    if start is Edge.BEGINNING:
        await consumer.seek_to_beginning(*partitions)
    elif start is Edge.END:
        await consumer.seek_to_end(*partitions)
    else:
        for partition in partitions:
            consumer.seek(partition, start)


def record_of(record: Any) -> Record:
    """Return what was read."""
    return Record(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp,
        record.key,
        record.value,
        tuple(record.headers),
    )

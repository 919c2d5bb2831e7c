"""Transactions of the clients that have them: one interface for producers, and readers of either isolation."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from time import monotonic
from typing import Any, Protocol

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from aiokafka.errors import ProducerFenced
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer  # type: ignore[import-untyped]
from kafka import TopicPartition as PythonPartition
from kafka.errors import InvalidProducerEpochError, ProducerFencedError  # type: ignore[import-untyped]
from kafka.structs import OffsetAndMetadata  # type: ignore[import-untyped]

from tests.clients.adapters.aio import LoopThread
from tests.clients.contract import DEADLINE_S, Place

COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"
_FENCED = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}


class Fenced(Exception):
    """The broker knows a newer producer with the same transactional id, or has aborted the transaction."""


class TransactionalProducer(Protocol):
    """A producer that has taken its transactional id. Every call but `close` may raise Fenced."""

    def begin(self) -> None:
        """Begin a transaction."""
        ...

    def send(self, place: Place, *values: bytes) -> None:
        """Write values; returns when they are acknowledged."""
        ...

    def send_offsets(self, group: str, offsets: Mapping[Place, int]) -> None:
        """Set offsets of a group if the transaction commits."""
        ...

    def commit(self) -> None:
        """Commit the transaction."""
        ...

    def abort(self) -> None:
        """Abort the transaction."""
        ...

    def close(self) -> None:
        """End everything that the producer started."""
        ...


class ConfluentTransactions:
    """Of librdkafka, which keeps its epoch from transaction to transaction."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self._bootstrap = bootstrap
        self._errors: list[KafkaError] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "message.timeout.ms": min(timeout_ms, 15_000),
                "linger.ms": 0,
                "log_level": 0,
                # Without it, what is fatal is raised in the middle of a callback.
                "error_cb": lambda error: None,
            }
        )
        self._told(self._producer.init_transactions, DEADLINE_S)

    def begin(self) -> None:
        self._told(self._producer.begin_transaction)

    def send(self, place: Place, *values: bytes) -> None:
        for value in values:
            self._told(self._producer.produce, place.topic, value, partition=place.partition, on_delivery=self._note)
        # Not flush, which loses what a fatal error was.
        deadline = monotonic() + DEADLINE_S
        while len(self._producer) and monotonic() < deadline:
            self._told(self._producer.poll, 0.05)
        if self._errors:
            raise _refusal(self._errors[0])

    def send_offsets(self, group: str, offsets: Mapping[Place, int]) -> None:
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": group})
        wanted = [TopicPartition(*place, offset) for place, offset in offsets.items()]
        self._told(self._producer.send_offsets_to_transaction, wanted, consumer.consumer_group_metadata(), DEADLINE_S)
        consumer.close()

    def commit(self) -> None:
        self._told(self._producer.commit_transaction, DEADLINE_S)

    def abort(self) -> None:
        self._told(self._producer.abort_transaction, DEADLINE_S)

    def close(self) -> None:
        self._producer.purge()

    def _note(self, error: KafkaError | None, _: object) -> None:
        if error is not None:
            self._errors.append(error)

    @staticmethod
    def _told(call: Any, *arguments: Any, **options: Any) -> None:
        try:
            call(*arguments, **options)
        except KafkaException as error:
            raise _refusal(error.args[0]) from error


def _refusal(error: KafkaError) -> Exception:
    return Fenced(error.str()) if error.code() in _FENCED else KafkaException(error)


class AiokafkaTransactions:
    """Of aiokafka, on a loop of its own."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self._loop = LoopThread()
        self._producer = self._run(self._start(bootstrap, transactional_id, timeout_ms))

    @staticmethod
    async def _start(bootstrap: str, transactional_id: str, timeout_ms: int) -> Any:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        await producer.start()
        return producer

    def _run(self, work: Any) -> Any:
        async def watched() -> Any:
            try:
                return await work
            except ProducerFenced as error:
                raise Fenced(str(error)) from error

        return self._loop.run(watched())

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, place: Place, *values: bytes) -> None:
        async def sent() -> None:
            waiting = [await self._producer.send(place.topic, value, partition=place.partition) for value in values]
            await asyncio.gather(*waiting)

        self._run(sent())

    def send_offsets(self, group: str, offsets: Mapping[Place, int]) -> None:
        wanted = {AioPartition(*place): offset for place, offset in offsets.items()}
        self._run(self._producer.send_offsets_to_transaction(wanted, group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        self._run(self._producer.stop())
        self._loop.close()


class KafkaPythonTransactions:
    """Of kafka-python."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        self._told(self._producer.init_transactions)

    def begin(self) -> None:
        self._told(self._producer.begin_transaction)

    def send(self, place: Place, *values: bytes) -> None:
        def sent() -> None:
            waiting = [self._producer.send(place.topic, value, partition=place.partition) for value in values]
            for each in waiting:
                each.get(timeout=DEADLINE_S)

        self._told(sent)

    def send_offsets(self, group: str, offsets: Mapping[Place, int]) -> None:
        wanted = {PythonPartition(*place): OffsetAndMetadata(offset, "", -1) for place, offset in offsets.items()}
        self._told(self._producer.send_offsets_to_transaction, wanted, group)

    def commit(self) -> None:
        self._told(self._producer.commit_transaction)

    def abort(self) -> None:
        self._told(self._producer.abort_transaction)

    def close(self) -> None:
        self._producer.close(timeout=1)

    @staticmethod
    def _told(call: Any, *arguments: Any) -> None:
        try:
            call(*arguments)
        except (ProducerFencedError, InvalidProducerEpochError) as error:
            raise Fenced(str(error)) from error


# -- readers: all values of a partition, from its beginning to where its end was


def read_with_confluent(bootstrap: str, place: Place, isolation: str) -> list[bytes]:
    """Read with confluent-kafka."""
    settings: dict[str, Any] = {"group.id": "none", "isolation.level": isolation, "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": bootstrap, "enable.auto.commit": False, **settings})
    consumer.assign([TopicPartition(*place, 0)])
    values: list[bytes] = []
    while (message := consumer.poll(DEADLINE_S)) is not None and message.error() is None:
        values.append(message.value() or b"")
    consumer.close()
    assert message is not None, "the end was never reached"
    return values


def read_with_aiokafka(bootstrap: str, place: Place, isolation: str) -> list[bytes]:
    """Read with aiokafka."""

    async def read() -> list[bytes]:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level=isolation, group_id=None)
        await consumer.start()
        try:
            partition = AioPartition(*place)
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            end = (await consumer.end_offsets([partition]))[partition]
            values: list[bytes] = []
            async with asyncio.timeout(DEADLINE_S):
                while await consumer.position(partition) < end:
                    found = await consumer.getmany(partition, timeout_ms=100)
                    values += [record.value for records in found.values() for record in records]
            return values
        finally:
            await consumer.stop()

    return asyncio.run(read())


def read_with_kafka_python(bootstrap: str, place: Place, isolation: str) -> list[bytes]:
    """Read with kafka-python."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, isolation_level=isolation, enable_auto_commit=False)
    partition = PythonPartition(*place)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    end = consumer.end_offsets([partition])[partition]
    values: list[bytes] = []
    deadline = monotonic() + DEADLINE_S
    while consumer.position(partition) < end:
        assert monotonic() < deadline, "the end was never reached"
        values += [record.value for records in consumer.poll(timeout_ms=100).values() for record in records]
    consumer.close()
    return values


def committed_offset(bootstrap: str, group: str, place: Place) -> int | None:
    """Return the offset of a group; waits for transactions that are about to change it."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "isolation.level": COMMITTED})
    (found,) = consumer.committed([TopicPartition(*place)], timeout=DEADLINE_S)
    consumer.close()
    return found.offset if found.offset >= 0 else None

"""What publishers and consumers of queues ask of a broker in a simulation. Every value is published once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from goqueue.broker.broker import Broker
from goqueue.broker.messages.produce import Acks
from goqueue.broker.messages.publish import Fate, NewMessage, PartitionTurns, publish_messages
from goqueue.broker.messages.reading import Polls, ReadRequest, read_messages
from goqueue.broker.queues import admin as queue_admin
from goqueue.broker.queues import receive_and_settle as queues
from goqueue.broker.queues.receiving import ReceiveTerms, Source
from goqueue.broker.queues.settling import Settlement
from goqueue.broker.transactions.coordination import end_transaction, init_transactions
from goqueue.broker.transactions.publish import TransactionWriter, publish_in_transaction
from goqueue.errors import GoQueueError
from goqueue.machines.queues.steps import Result
from goqueue.machines.queues.values import AckType
from goqueue.model.dead_letters import GROUP_HEADER
from goqueue.model.queue_settings import QueueSettings
from goqueue.model.topic import TopicPartition
from tests.simulation.group_calls import CALLER

_TURNS = PartitionTurns()
_TRANSACTIONAL_ID = "several"
_TRANSACTION_MS = 1_000


@dataclass(frozen=True, slots=True)
class PublishValue:
    """Publish one message."""

    topic: str
    value: str
    key: str | None

    async def perform(self, broker: Broker) -> Fate:
        message = NewMessage(None if self.key is None else self.key.encode(), self.value.encode())
        (fate,) = _require_stored(
            await publish_messages(broker.messages, CALLER, _TURNS, self.topic, [message], Acks.ALL)
        )
        return fate


class Ending(StrEnum):
    """How several messages come into the log: as a batch of their own, or by a transaction that ends so."""

    PLAIN = "plain"
    COMMIT = "commit"
    ABORT = "abort"


@dataclass(frozen=True, slots=True)
class PublishSeveral:
    """Publish messages to one partition at once."""

    place: TopicPartition
    values: tuple[str, ...]
    key: str | None
    ending: Ending

    async def perform(self, broker: Broker) -> object:
        topic, index = self.place
        key = None if self.key is None else self.key.encode()
        messages = [NewMessage(key, value.encode(), partition=index) for value in self.values]
        if self.ending is Ending.PLAIN:
            return _require_stored(await publish_messages(broker.messages, CALLER, _TURNS, topic, messages, Acks.ALL))
        identity = await init_transactions(broker.transactions, CALLER, _TRANSACTIONAL_ID, _TRANSACTION_MS)
        writer = TransactionWriter(_TRANSACTIONAL_ID, identity)
        _require_stored(await publish_in_transaction(broker.transactions, CALLER, _TURNS, writer, topic, messages))
        is_commit = self.ending is Ending.COMMIT
        return await end_transaction(broker.transactions, CALLER, *writer, is_commit=is_commit, bumps_epoch=True)


def _require_stored(fates: Sequence[Fate]) -> Sequence[Fate]:
    for fate in fates:
        if isinstance(fate, GoQueueError):
            raise fate
    return fates


@dataclass(frozen=True, slots=True)
class SetQueue:
    """Give a group its settings."""

    group: str
    settings: QueueSettings

    async def perform(self, broker: Broker) -> object:
        return await queue_admin.configure_queue(broker.queues, CALLER, self.group, lambda _: self.settings)


class Given(NamedTuple):
    """A message that a consumer was given."""

    value: str
    key: bytes | None
    place: TopicPartition
    offset: int
    deliveries: int
    receipt: str


@dataclass(frozen=True, slots=True)
class ReceiveSome:
    """Ask for messages; `life` is the broker's life in which that was."""

    group: str
    topics: tuple[str, ...]
    consumer: str
    limit: int
    wait_ms: int
    visibility_ms: int
    life: int

    async def perform(self, broker: Broker) -> list[Given]:
        wish = ReceiveTerms(
            Source(self.group, self.topics), self.consumer, self.limit, self.wait_ms, self.visibility_ms
        )
        received = await queues.receive(broker.queues, CALLER, wish)
        return [
            Given(
                (record.value or b"").decode(),
                record.key,
                each.delivery.partition,
                record.offset,
                each.delivery.deliveries,
                receipt,
            )
            for each in received.received
            for receipt, record in zip(each.receipts, each.records, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class SettleSome:
    """Say something about messages."""

    group: str
    given: tuple[Given, ...]
    verdict: AckType
    delay_ms: int | None = None

    async def perform(self, broker: Broker) -> list[Result]:
        receipts = [each.receipt for each in self.given]
        return list(
            await queues.settle(broker.queues, CALLER, receipts, Settlement(self.verdict, self.delay_ms, "no luck"))
        )


class Letter(NamedTuple):
    """A dead letter, and of which group it is."""

    group: str
    value: str


@dataclass(frozen=True, slots=True)
class ReadLetters:
    """Read all dead letters of a topic."""

    topic: str

    async def perform(self, broker: Broker) -> list[Letter]:
        letters = []
        for index in range(broker.topics.partition_count(self.topic)):
            offset = 0
            while True:
                reading = ReadRequest(offset, limit=1000)
                found = await read_messages(broker.messages, CALLER, Polls(), self.topic, index, reading)
                for record in found.records:
                    headers = dict(record.headers)
                    letters.append(
                        Letter((headers[GROUP_HEADER] or b"").decode(), (record.value or b"").decode(errors="replace"))
                    )
                if found.next_offset >= found.end_offset:
                    break
                offset = found.next_offset
        return letters


@dataclass(frozen=True, slots=True)
class Depth:
    """Ask how many messages of a group are not done."""

    group: str

    async def perform(self, broker: Broker) -> int:
        view = await queue_admin.describe_queue(broker.queues, CALLER, self.group)
        return sum(each.backlog + sum(each.in_flight.values()) for each in view.partitions)

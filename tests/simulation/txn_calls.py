"""What producers and readers ask of a broker in a simulation.

Whatever belongs to a transaction carries its label, `CLIENT.NUMBER`, by which the client means it; the broker does not
see it. Values are `CLIENT.NUMBER.INDEX`, and none is sent twice but in repetitions of the same request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple
from uuid import UUID

from goqueue.broker.broker import Broker
from goqueue.broker.messages.produce import Acks, Publish, Section, publish
from goqueue.broker.messages.reading import Polls, ReadRequest, read_messages
from goqueue.broker.transactions import coordination as transactions
from goqueue.broker.transactions.publish import publish_when_known
from goqueue.errors import GoQueueError
from goqueue.machines.groups.commands import CommitOffsets
from goqueue.machines.transactions.values import ProducerEpoch
from goqueue.model.topic import TopicPartition
from goqueue.records.builder import NewRecord, build_batch
from goqueue.runtime.partition import Outcome
from goqueue.runtime.waiters import hand_over
from tests.simulation.group_calls import CALLER

NOBODY = ProducerEpoch(-1, -1)


@dataclass(frozen=True, slots=True)
class InitProducer:
    """Take a transactional id, or go on with it."""

    id: str
    timeout_ms: int
    known: ProducerEpoch | None = None

    async def perform(self, broker: Broker) -> ProducerEpoch:
        return await transactions.init_transactions(broker.transactions, CALLER, self.id, self.timeout_ms, self.known)


@dataclass(frozen=True, slots=True)
class AddPartition:
    """Say that a transaction writes to a partition."""

    label: str
    id: str
    identity: ProducerEpoch
    place: TopicPartition

    async def perform(self, broker: Broker) -> Mapping[TopicPartition, GoQueueError]:
        missing = await transactions.add_partitions(
            broker.transactions, CALLER, self.id, self.identity, frozenset({self.place})
        )
        for error in missing.values():
            raise error
        return missing


@dataclass(frozen=True, slots=True)
class AddGroup:
    """Say that a transaction sets offsets of a group."""

    label: str
    id: str
    identity: ProducerEpoch
    group: str

    async def perform(self, broker: Broker) -> None:
        await transactions.add_offsets(broker.transactions, CALLER, self.id, self.identity, self.group)


@dataclass(frozen=True, slots=True)
class SendOffsets:
    """Set offsets of a group when the transaction commits."""

    label: str
    id: str
    identity: ProducerEpoch
    command: CommitOffsets
    adds_group: bool

    async def perform(self, broker: Broker) -> Sequence[GoQueueError | None]:
        results = await transactions.commit_transaction_offsets(
            broker.transactions, CALLER, self.id, self.identity, self.command, adds_group=self.adds_group
        )
        for error in filter(None, results):
            raise error
        return results


class Sent(NamedTuple):
    """Records are in a topic, from an offset on."""

    topic_id: UUID
    offset: int


@dataclass(frozen=True, slots=True)
class Send:
    """Publish records, within a transaction if there is an id; with `adds_partition`, that makes it part of it."""

    label: str
    id: str | None
    identity: ProducerEpoch
    place: TopicPartition
    sequence: int
    values: tuple[bytes, ...]
    adds_partition: bool = False

    async def perform(self, broker: Broker) -> Sent:
        opened = broker.topics.topic(self.place.topic)
        batch = build_batch(
            [NewRecord(broker.core.clock.now_ms(), None, value) for value in self.values],
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            base_sequence=self.sequence,
            is_transactional=self.id is not None,
        )
        section = Section(opened.partition(self.place.partition), batch)
        settled: asyncio.Future[Sequence[Outcome]] = asyncio.get_running_loop().create_future()
        request = Publish(Acks.ALL, [section], partial(hand_over, settled), self.id)
        if self.id is None:
            publish(broker.messages, CALLER, [request])
        else:
            await publish_when_known(broker.transactions, CALLER, request, adds_partitions=self.adds_partition)
        (outcome,) = await settled
        if isinstance(outcome, GoQueueError):
            raise outcome
        return Sent(opened.topic.id, outcome.base_offset)


@dataclass(frozen=True, slots=True)
class End:
    """End a transaction; the answer is the identity to go on with."""

    label: str
    id: str
    identity: ProducerEpoch
    is_commit: bool
    bumps: bool

    async def perform(self, broker: Broker) -> ProducerEpoch:
        return await transactions.end_transaction(
            broker.transactions, CALLER, self.id, self.identity, is_commit=self.is_commit, bumps_epoch=self.bumps
        )


Records = tuple[tuple[int, bytes], ...]


class Seen(NamedTuple):
    """What there is in a topic between two offsets."""

    topic_id: UUID
    start: int
    end: int
    records: Records


@dataclass(frozen=True, slots=True)
class Read:
    """Read on from an offset, as far as there is something and the limits allow."""

    place: TopicPartition
    offset: int
    is_committed_only: bool
    limit: int = 100
    bytes_max: int = 1_000_000
    wait_ms: int = 0

    async def perform(self, broker: Broker) -> Seen:
        topic_id = broker.topics.topic(self.place.topic).topic.id
        reading = ReadRequest(
            offset=self.offset,
            limit=self.limit,
            bytes_max=self.bytes_max,
            wait_ms=self.wait_ms,
            is_committed_only=self.is_committed_only,
        )
        found = await read_messages(broker.messages, CALLER, Polls(), *self.place, reading)
        records = tuple((record.offset, record.value or b"") for record in found.records)
        return Seen(topic_id, self.offset, found.next_offset, records)


@dataclass(frozen=True, slots=True)
class ReadAll:
    """Read a whole partition; nobody else is at work."""

    place: TopicPartition
    is_committed_only: bool

    async def perform(self, broker: Broker) -> Seen:
        records: Records = ()
        offset = 0
        while True:
            seen = await Read(self.place, offset, self.is_committed_only).perform(broker)
            if seen.end == offset:
                return Seen(seen.topic_id, 0, offset, records)
            records, offset = records + seen.records, seen.end


class Ends(NamedTuple):
    """Where the readers of committed records, all readers, and the log stand."""

    last_stable_offset: int
    high_watermark: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class FindEnds:
    """Ask where a partition ends."""

    place: TopicPartition

    async def perform(self, broker: Broker) -> Ends:
        partition = broker.topics.topic(self.place.topic).partition(self.place.partition)
        return Ends(partition.last_stable_offset, partition.high_watermark, partition.log.end_offset)

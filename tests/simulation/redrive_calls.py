"""What those who look after dead letters ask of a broker in a simulation. Every value is published once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from goqueue.broker.broker import Broker
from goqueue.broker.messages.produce import Acks
from goqueue.broker.messages.publish import NewMessage, PartitionTurns, PublishedMessage, publish_messages
from goqueue.broker.messages.reading import Polls, ReadRequest, read_messages
from goqueue.broker.redrives import admin as redrives
from goqueue.errors import GoQueueError
from goqueue.machines.redrives.values import Moves, Redrive, RedriveTerms
from goqueue.model import dead_letters
from tests.simulation.group_calls import CALLER

_TURNS = PartitionTurns()


@dataclass(frozen=True, slots=True)
class WriteLetter:
    """Write a dead letter of a message that was in a partition of a topic."""

    letters: str
    value: str
    reason: str
    topic: str
    partition: int

    async def perform(self, broker: Broker) -> PublishedMessage:
        headers = [
            ("h", self.value.encode()),
            (dead_letters.REASON_HEADER, self.reason.encode()),
            (dead_letters.TOPIC_HEADER, self.topic.encode()),
            (dead_letters.PARTITION_HEADER, str(self.partition).encode()),
        ]
        message = NewMessage(f"key {self.value}".encode(), self.value.encode(), headers)
        (fate,) = await publish_messages(broker.messages, CALLER, _TURNS, self.letters, [message], Acks.ALL)
        if isinstance(fate, GoQueueError):
            raise fate
        return fate


@dataclass(frozen=True, slots=True)
class StartRedrive:
    """Begin a redrive; the answer is its id."""

    letters: str
    terms: RedriveTerms

    async def perform(self, broker: Broker) -> str:
        return (await redrives.start_redrive(broker.redrives, CALLER, self.letters, self.terms)).redrive.id


@dataclass(frozen=True, slots=True)
class LookAtRedrives:
    """Ask for all redrives."""

    async def perform(self, broker: Broker) -> list[Redrive]:
        return [view.redrive for view in await redrives.list_redrives(broker.redrives, CALLER)]


@dataclass(frozen=True, slots=True)
class CancelRedrive:
    """Cancel a redrive."""

    id: str

    async def perform(self, broker: Broker) -> Redrive:
        return (await redrives.cancel_redrive(broker.redrives, CALLER, self.id)).redrive


@dataclass(frozen=True, slots=True)
class CountLeft:
    """Ask what a redrive of everything would still do."""

    letters: str

    async def perform(self, broker: Broker) -> Moves:
        return (await redrives.preview_redrive(broker.redrives, CALLER, self.letters, RedriveTerms())).moves


class Copy(NamedTuple):
    """A message that a redrive has published."""

    topic: str
    partition: int
    key: bytes | None
    value: str
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class ReadCopies:
    """Read all committed messages of a topic."""

    topic: str

    async def perform(self, broker: Broker) -> list[Copy]:
        copies = []
        for index in range(broker.topics.partition_count(self.topic)):
            offset = 0
            while True:
                found = await read_messages(
                    broker.messages, CALLER, Polls(), self.topic, index, ReadRequest(offset, limit=1000)
                )
                copies += [
                    Copy(self.topic, index, record.key, (record.value or b"").decode(), tuple(record.headers))
                    for record in found.records
                ]
                if found.next_offset >= found.end_offset:
                    break
                offset = found.next_offset
        return copies

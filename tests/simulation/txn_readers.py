"""Readers that follow all partitions, of committed records or of all, and go on where they were after every crash."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from goqueue.errors import OffsetOutOfRange
from goqueue.model.topic import TopicPartition
from tests.simulation.group_calls import FetchOffsets
from tests.simulation.group_classic import commit
from tests.simulation.group_life import Life
from tests.simulation.group_people import PASSING, STABLE
from tests.simulation.txn_calls import Read, Seen
from tests.simulation.txn_producers import GROUP


@dataclass(slots=True)
class Reader:
    """Reads on, here and there; how far it is depends on the topic, which may be another one of the same name."""

    name: str
    is_committed_only: bool
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    topics: dict[str, UUID] = field(default_factory=dict)

    async def run(self, life: Life) -> None:
        """Read, for ever."""
        while not life.is_over:
            await life.pause(0.5)
            places = life.partitions(*STABLE, PASSING)
            if places:
                await self._read(life, life.entropy.choice(places))

    async def _read(self, life: Life, place: TopicPartition) -> None:
        request = Read(
            place,
            self.positions.get(place, 0),
            self.is_committed_only,
            limit=life.entropy.choice([1, 3, 100]),
            bytes_max=life.entropy.choice([20, 1_000_000]),
            wait_ms=life.entropy.choice([0, 300]),
        )
        answer = await life.call(self.name, request)
        if isinstance(answer, Seen) and self.topics.setdefault(place.topic, answer.topic_id) == answer.topic_id:
            self.positions[place] = answer.end
        elif isinstance(answer, Seen | OffsetOutOfRange):
            for each in [each for each in self.positions if each.topic == place.topic]:
                del self.positions[each]
            self.topics.pop(place.topic, None)


@dataclass(slots=True)
class SumKeeper:
    """Looks at the offsets that transactions set, and sets some itself now and then."""

    name: str = "sums"

    async def run(self, life: Life) -> None:
        """Look, for ever."""
        while not life.is_over:
            await life.pause(0.5)
            partitions = life.partitions("orders")
            if not partitions:
                continue
            await life.ask(self.name, FetchOffsets(GROUP, tuple(partitions), needs_stable=life.entropy.chance(0.5)))
            if not life.is_settling and life.entropy.chance(0.1):
                await life.ask(self.name, commit(life, GROUP, frozenset(partitions)))

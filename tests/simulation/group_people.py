"""Those around the groups: the owner of the topics, and people who set, look at and remove offsets by hand."""

from __future__ import annotations

from dataclasses import dataclass

from goqueue.machines.groups.commands import DeleteGroup, DeleteOffsets
from goqueue.model.topic import TopicPartition
from tests.simulation.group_calls import DeleteTopic, FetchOffsets, GrowTopic, MakeTopic
from tests.simulation.group_classic import commit
from tests.simulation.group_life import Life

PARTITIONS_MAX = 5
STABLE = ("orders", "events")
PASSING = "tmp"


@dataclass(slots=True)
class TopicOwner:
    """Makes the topics, lets one of them grow, and deletes and makes another one."""

    name: str = "owner"
    pause_s: float = 4.0

    async def run(self, life: Life) -> None:
        """See to it that there are topics, and change them."""
        while not life.is_over:
            for topic in (*STABLE, PASSING):
                if topic not in life.broker.topics.by_name and (topic != PASSING or life.entropy.chance(0.7)):
                    await life.ask(self.name, MakeTopic(topic, 2 + life.entropy.below(2)))
            await life.pause(self.pause_s)
            if not life.is_settling:
                await self._change(life)

    async def _change(self, life: Life) -> None:
        match life.entropy.below(6):
            case 0:
                count = len(life.partitions("orders"))
                if 0 < count < PARTITIONS_MAX:
                    await life.ask(self.name, GrowTopic("orders", count + 1))
            case 1 | 2 if PASSING in life.broker.topics.by_name:
                await life.ask(self.name, DeleteTopic(PASSING))


@dataclass(slots=True)
class OffsetKeeper:
    """Somebody without membership: sets the offsets of a group of its own, and removes them; looks at those of all."""

    name: str
    group: str
    groups: tuple[str, ...]

    async def run(self, life: Life) -> None:
        """Set, look, remove."""
        while not life.is_over:
            await life.pause(1.5)
            partitions = life.partitions(*STABLE, PASSING)
            if not partitions:
                continue
            await self._look(life, life.entropy.choice(self.groups), tuple(partitions))
            if not life.is_settling:
                await self._change(life, frozenset(partitions))

    async def _look(self, life: Life, group: str, partitions: tuple[TopicPartition, ...]) -> None:
        await life.ask(self.name, FetchOffsets(group, partitions, needs_stable=life.entropy.chance(0.3)))

    async def _change(self, life: Life, partitions: frozenset[TopicPartition]) -> None:
        match life.entropy.below(20):
            case 0:
                await life.ask(self.name, DeleteGroup(self.group))
            case 1 | 2:
                await life.ask(self.name, DeleteOffsets(self.group, sorted(partitions)[:2]))
            case 3:
                # A group that has members does not let go of what they read.
                await life.ask(self.name, DeleteGroup(life.entropy.choice(self.groups)))
            case _:
                await life.ask(self.name, commit(life, self.group, partitions))

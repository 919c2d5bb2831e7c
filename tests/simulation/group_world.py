"""A world of groups: who is in it, what is looked at in the end, and what must have held."""

from __future__ import annotations

from collections import Counter
from typing import Any

from goqueue.machines.groups.classic.values import Join, Sync
from goqueue.machines.groups.commands import CommitOffsets, DeleteGroup
from goqueue.machines.groups.consumer.values import ConsumerHeartbeat
from goqueue.model.log_settings import FlushPolicy
from tests.simulation.group_assigned import TOPICS, AssignedMember
from tests.simulation.group_calls import DeleteTopic, DescribeGroup, FetchOffsets
from tests.simulation.group_checks import check_generations, check_zombies
from tests.simulation.group_classic import TOPIC, ClassicMember
from tests.simulation.group_life import Client, Life
from tests.simulation.group_lives import World
from tests.simulation.group_offset_checks import check_offsets
from tests.simulation.group_owner_checks import check_owners
from tests.simulation.group_people import PASSING, STABLE, OffsetKeeper, TopicOwner

CLASSIC = "classic"
ASSIGNED = "assigned"
ALONE = "alone"
GROUPS = (CLASSIC, ASSIGNED, ALONE)
THREATS = (Join, Sync, ConsumerHeartbeat, CommitOffsets, DeleteGroup, DeleteTopic)


class GroupWorld:
    """Two groups of either kind, one without members, and topics that change."""

    def __init__(self, seed: int, flush: FlushPolicy = FlushPolicy.GROUP, **options: Any) -> None:
        self.classic = [
            ClassicMember("c0", CLASSIC, may_go=False),
            ClassicMember("c1", CLASSIC),
            ClassicMember("c2", CLASSIC, instance_id="first"),
        ]
        self.assigned = [
            AssignedMember("a0", ASSIGNED, may_go=False),
            AssignedMember("a1", ASSIGNED),
            AssignedMember("a2", ASSIGNED, instance_id="second"),
        ]
        people: list[Client] = [TopicOwner(), OffsetKeeper("keeper", ALONE, GROUPS)]
        clients: list[Client] = [*self.classic, *self.assigned, *people]
        self.unsettled: list[str] = []
        self.world = World(seed, clients, self._look, flush=flush, threats=THREATS, **options)

    def run(self, lives: int) -> list[str]:
        """Live, and return all that is wrong."""
        violations = self.world.run(lives)
        history = self.world.history
        return [
            *violations,
            *self.unsettled,
            *check_offsets(history),
            *check_owners(history),
            *check_generations(history),
            *check_zombies(history),
        ]

    async def _look(self, life: Life) -> None:
        """Read all offsets, and see whether everybody has a share."""
        partitions = tuple(life.partitions(*STABLE, PASSING))
        for group in GROUPS:
            await life.ask("end", FetchOffsets(group, partitions))
        for name, members, topics in (
            (CLASSIC, self.classic, {TOPIC}),
            (ASSIGNED, self.assigned, TOPICS),
        ):
            shares = {
                each.member_id: each.held if isinstance(each, ClassicMember) else each.owned
                for each in members
                if not each.is_gone
            }
            told = await life.call("end", DescribeGroup(name))
            if told.member_ids != shares.keys():
                self.unsettled.append(f"{name} has {sorted(told.member_ids)}, there are {sorted(shares)}")
            owners = Counter(partition for share in shares.values() for partition in share)
            if owners != Counter(life.partitions(*sorted(topics))):
                self.unsettled.append(f"{name} does not have each partition once: {shares}")

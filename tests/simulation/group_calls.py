"""What can be asked of a broker in a simulation, beside the commands of groups, and how each of them is carried out.

A request is a value that says all about itself, so that a history of them can be understood without its authors.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, cast
from uuid import UUID

from goqueue.broker.admission import Caller
from goqueue.broker.broker import Broker
from goqueue.broker.groups import membership as groups
from goqueue.broker.groups.service import GroupService
from goqueue.broker.topics import admin as topics
from goqueue.errors import GoQueueError
from goqueue.machines.groups.classic.values import ClassicGroup, Heartbeat, Join, Leave, Sync
from goqueue.machines.groups.commands import CommitOffsets, DeleteGroup, DeleteOffsets
from goqueue.machines.groups.consumer.values import ConsumerHeartbeat
from goqueue.machines.groups.offsets import CommittedOffset
from goqueue.model.topic import TopicPartition

CALLER = Caller("simulation")


class Request(Protocol):
    """A request that knows how it is carried out."""

    async def perform(self, broker: Broker) -> object:
        """Ask the broker, and return what it answers."""
        ...


Offsets = Mapping[TopicPartition, CommittedOffset | GoQueueError | None]


@dataclass(frozen=True, slots=True)
class FetchOffsets:
    """Ask for the offsets of a group: all of these partitions, whether there is one or not."""

    group: str
    partitions: tuple[TopicPartition, ...]
    needs_stable: bool = False

    async def perform(self, broker: Broker) -> Offsets:
        return await groups.fetch_offsets(
            broker.groups, CALLER, self.group, self.partitions, needs_stable=self.needs_stable
        )


class Described(NamedTuple):
    """The ids of a group's members."""

    member_ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class DescribeGroup:
    """Ask who is in a group."""

    group: str

    async def perform(self, broker: Broker) -> Described:
        listed = await groups.find_group(broker.groups, CALLER, self.group)
        if listed is None or listed.group is None:
            return Described(frozenset())
        is_classic = isinstance(listed.group, ClassicGroup) and listed.group.round is not None
        joiners = listed.group.round.joiners if is_classic else {}  # type: ignore[union-attr]
        return Described(frozenset(listed.group.members) | frozenset(joiners))


@dataclass(frozen=True, slots=True)
class MakeTopic:
    """Make a topic; the answer is its id."""

    name: str
    partitions: int
    config: tuple[tuple[str, str], ...] = ()

    async def perform(self, broker: Broker) -> UUID:
        made = await topics.create_topic(
            broker.topics, CALLER, self.name, partitions=self.partitions, config=dict(self.config)
        )
        return made.id


@dataclass(frozen=True, slots=True)
class GrowTopic:
    """Give a topic more partitions."""

    name: str
    partitions: int

    async def perform(self, broker: Broker) -> None:
        await topics.grow_topic(broker.topics, CALLER, self.name, self.partitions)


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """Delete a topic."""

    name: str

    async def perform(self, broker: Broker) -> None:
        await topics.delete_topic(broker.topics, CALLER, self.name)


async def _delete_offsets(service: GroupService, caller: Caller, command: DeleteOffsets) -> object:
    return await groups.delete_offsets(service, caller, command.group, command.partitions)


async def _delete_group(service: GroupService, caller: Caller, command: DeleteGroup) -> None:
    await groups.delete_group(service, caller, command.group)


_OPERATIONS: Mapping[type, Callable[[GroupService, Caller, Any], Awaitable[object]]] = {
    Join: groups.join_group,
    Sync: groups.sync_group,
    Heartbeat: groups.heartbeat,
    Leave: groups.leave_group,
    ConsumerHeartbeat: groups.consumer_heartbeat,
    CommitOffsets: groups.commit_offsets,
    DeleteOffsets: _delete_offsets,
    DeleteGroup: _delete_group,
}


async def perform(broker: Broker, request: object) -> object:
    """Carry out any request."""
    operation = _OPERATIONS.get(type(request))
    if operation is not None:
        return await operation(broker.groups, CALLER, request)
    return await cast(Request, request).perform(broker)

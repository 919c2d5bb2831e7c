"""An internal topic and the machines over its partitions: each name of a group or transaction belongs to one of them.

The topic is created with its first use. Names belong to partitions by Kafka's rule, so that tools which
look into these topics find what they expect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Generic, TypeVar

from typing_extensions import override

from goqueue.broker.core import Core, Service
from goqueue.broker.events import PartitionUnavailable
from goqueue.broker.internal_topics import COORDINATOR_PARTITIONS, INTERNAL_CONFIG
from goqueue.broker.topics.admin import ensure_internal_topic
from goqueue.broker.topics.service import TopicService
from goqueue.errors import CoordinatorUnavailable, Corrupt, GoQueueError, LogOffline
from goqueue.model.partitioners import name_partition
from goqueue.runtime.partition import Partition
from goqueue.runtime.shard import Machine, Shard

CommandT = TypeVar("CommandT")
MachineT = TypeVar("MachineT", bound=Machine[Any])


class Coordinator(Service, Generic[MachineT, CommandT]):
    """The machines of one kind, by the names that they look after; `changed` as of a `Shard`.

    Names with the same key (`key_of`) are looked after by the same machine.
    """

    def __init__(
        self,
        core: Core,
        topics: TopicService,
        topic: str,
        new_machine: Callable[[], MachineT],
        changed: Callable[[MachineT], None] | None = None,
        key_of: Callable[[str], str] = str,
        *,
        partitions: int | None = None,
    ) -> None:
        super().__init__(core)
        self.topics = topics
        self.topic = topic
        self._key_of = key_of
        self._changed = changed
        self._partitions = COORDINATOR_PARTITIONS if partitions is None else partitions
        self._new_machine = new_machine
        self._machines: list[MachineT | GoQueueError] = []
        self._shards: list[Shard[CommandT] | None] = []

    @override
    async def load(self) -> None:
        self._load()

    def _load(self) -> None:
        """Make the machines from what is stored, if the topic is there; blocks the loop while it reads."""
        opened = self.topics.by_name.get(self.topic)
        if opened is None or self._machines:
            return
        for partition in opened.partitions:
            machine = self._new_machine()
            try:
                if isinstance(partition, GoQueueError):
                    raise partition
                changed = partial(self._changed, machine) if self._changed is not None else None
                self._shards.append(Shard(machine, partition, self.core.clock, changed))
                self._machines.append(machine)
            except GoQueueError as error:
                self._shards.append(None)
                self._machines.append(error)
                if isinstance(partition, Partition):
                    reason = f"{error}; stop the broker and run: goqueue log repair {self.core.directory}"
                    self.core.sink.emit(PartitionUnavailable(self.topic, partition.index, reason))

    async def submit(self, name: str, command: CommandT) -> Any:
        """Have a command carried out by the machine that a name belongs to; durable at return as of a `Shard`."""
        shard = await self._shard(name)
        try:
            return await shard.submit(command)
        except LogOffline as error:
            raise CoordinatorUnavailable(f"{self.topic} takes no writes: {error.message}") from error

    async def machine(self, name: str) -> MachineT:
        """Return the machine that a name belongs to, with everything durable that it knows."""
        shard = await self._shard(name)
        await shard.settled()
        return self._require(self._machines[self._index(name)])

    def peek(self, name: str) -> MachineT | None:
        """Return the machine that a name belongs to as it is now; None if there is none yet.

        It may know changes that are not durable yet. Raises CoordinatorUnavailable once they cannot become durable.
        """
        if not self._machines:
            return None
        index = self._index(name)
        shard = self._shards[index]
        if shard is not None and shard.partition.log.fault:
            raise CoordinatorUnavailable(f"{self.topic} takes no writes: {shard.partition.log.fault}")
        return self._require(self._machines[index])

    def is_settled(self, name: str) -> bool:
        """Tell whether everything is durable that is known to the machine that a name belongs to."""
        shard = self._shards[self._index(name)] if self._shards else None
        return shard is None or shard.is_settled

    def is_damaged(self, name: str) -> bool:
        """Tell whether the log is damaged that a name belongs to, and so what was known of it is lost."""
        return bool(self._machines) and isinstance(self._machines[self._index(name)], Corrupt)

    @property
    def is_whole(self) -> bool:
        """Whether all machines can be used."""
        return all(shard is not None and not shard.partition.log.fault for shard in self._shards)

    @property
    def machines(self) -> Iterable[MachineT]:
        """All machines that can be used."""
        return [machine for machine in self._machines if not isinstance(machine, GoQueueError)]

    async def submit_to_all(self, command: CommandT) -> None:
        """Have a command carried out by every machine; CoordinatorUnavailable if one of them cannot be used now.

        A log that could not be read may be read after the next start, and must not know then what it should have
        forgotten. A damaged log has lost its content already, so it is skipped.
        """
        for machine in self._machines:
            if isinstance(machine, LogOffline):
                self._require(machine)
        for shard in self._shards:
            if shard is not None:
                await shard.submit(command)

    @override
    def pass_time(self) -> None:
        """Carry out what is due by now."""
        for shard in self._shards:
            if shard is not None:
                shard.pass_time()

    @override
    def close(self) -> None:
        """Let no more time pass, and answer all who wait: the broker is about to stop."""
        for shard in self._shards:
            if shard is not None:
                shard.close()

    async def _shard(self, name: str) -> Shard[CommandT]:
        if not self._machines:
            await ensure_internal_topic(self.topics, self.topic, self._partitions, INTERNAL_CONFIG)
            self._load()
            if not self._machines:
                raise CoordinatorUnavailable(
                    f"{self.topic} could not be made, and what is there of it could not be removed yet",
                    hint="the next start of the broker tries again",
                )
        index = self._index(name)
        self._require(self._machines[index])
        shard = self._shards[index]
        assert shard is not None
        return shard

    def _index(self, name: str) -> int:
        return name_partition(self._key_of(name), len(self._machines))

    def _require(self, machine: MachineT | GoQueueError) -> MachineT:
        if isinstance(machine, GoQueueError):
            raise CoordinatorUnavailable(f"a log of {self.topic} cannot be used: {machine.message}")
        return machine

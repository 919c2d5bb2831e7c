"""All groups of a shard on a stage: commands are decided, stored and adopted as a shard does."""

from __future__ import annotations

from itertools import count
from typing import Any
from uuid import UUID

from goqueue.errors import GoQueueError
from goqueue.machines.decision import KeyedRecord, Now
from goqueue.machines.groups.classic.values import ClassicGroup, Heartbeat, Join, Joined, Protocol, Sync
from goqueue.machines.groups.commands import CommitOffsets
from goqueue.machines.groups.consumer.heartbeat_pace import HeartbeatPace
from goqueue.machines.groups.consumer.values import ConsumerHeartbeat
from goqueue.machines.groups.machine import Command, GroupMachine
from goqueue.machines.groups.offsets import CommittedOffset, NewOffset
from goqueue.machines.groups.values import KnownTopic
from goqueue.model.topic import TopicPartition
from tests.unit.machines.compaction import compactions
from tests.unit.machines.groups.classic.consumer_bytes import assignment, subscription

START = Now(1_700_000_000_000, 50_000)
DAY_MS = 86_400_000
ORDERS = [TopicPartition("orders", index) for index in range(3)]


class GroupsStage:
    """A machine, its stored records, and what everybody was told."""

    _made = 0

    def __init__(self, topics: dict[str, int] | None = None) -> None:
        self.topics: dict[str, KnownTopic] = {}
        for name, partitions in ({"orders": 3} if topics is None else topics).items():
            self.make(name, partitions)
        self.pace = HeartbeatPace()
        self.groups = GroupMachine(self.topics, self.pace)
        self.now = START
        self.records: list[KeyedRecord] = []
        self.answers: dict[int, object] = {}
        self._tickets = count(1)
        self.groups.revive(self.now)

    def submit(self, command: Command) -> int:
        """Carry out a command; return its ticket. Checks that deciding changes nothing."""
        ticket = next(self._tickets)
        before = self.groups.records()
        try:
            decision = self.groups.decide(command, ticket, self.now)
        except GoQueueError as error:
            self.answers[ticket] = error
            assert self.groups.records() == before
            return ticket
        assert self.groups.records() == before
        self.records += decision.records
        self.groups.adopt(decision)
        for told, reply in decision.answers:
            assert told not in self.answers, "each ticket is answered once"
            self.answers[told] = reply
        return ticket

    def told(self, command: Command) -> Any:
        """Carry out a command and return its answer: the code of an error, or a list of codes where there are many."""
        return self.word(self.submit(command))

    def word(self, ticket: int) -> Any:
        """Return what came of a ticket."""
        answer = self.answers.get(ticket, "waits")
        if isinstance(answer, GoQueueError):
            return answer.code
        if isinstance(answer, tuple):
            return [each.code if isinstance(each, GoQueueError) else "ok" for each in answer]
        return answer

    def pass_ms(self, duration_ms: int) -> None:
        """Let time pass; what is due happens at its moment."""
        end = self.now.monotonic_ms + duration_ms
        while (due := self.groups.deadline_ms()) is not None and due <= end:
            self._set_time(max(due, self.now.monotonic_ms))
            done = self.look()
            after = self.groups.deadline_ms()
            assert done or after is None or after > self.now.monotonic_ms
        self._set_time(end)

    def look(self) -> int:
        """Carry out what is due now; return how much that was."""
        done = 0
        for command in self.groups.due(self.now):
            assert not isinstance(self.answers[self.submit(command)], GoQueueError)
            done += 1
        return done

    def restart(self, *, is_compacted: bool = False) -> None:
        """Begin again with what is stored."""
        self.pace = HeartbeatPace()
        before = sorted(self.groups.records())
        for records in compactions(self.records) if is_compacted else [self.records]:
            self.groups = GroupMachine(self.topics, self.pace)
            for record in records:
                self.groups.apply(record)
            assert sorted(self.groups.records()) == before, "whatever compaction leaves, they are the same groups"
        self.groups.revive(self.now)

    def make(self, name: str, partitions: int) -> None:
        """Make a topic, or make it anew."""
        self._made += 1
        self.topics[name] = KnownTopic(UUID(int=self._made), partitions)

    def grow(self, name: str, partitions: int) -> None:
        """Give a topic another number of partitions; it is the same topic."""
        self.topics[name] = self.topics[name]._replace(partitions=partitions)

    def _set_time(self, monotonic_ms: int) -> None:
        self.now = Now(self.now.wall_ms + monotonic_ms - self.now.monotonic_ms, monotonic_ms)

    # -- in short

    def offsets(self, group: str = "g") -> dict[int, int]:
        """Return the offsets that a group has for `orders`."""
        found = self.groups.offsets.of_group(group)
        return {each.partition: value.offset for each, value in found.items() if each.topic == "orders"}

    def classic_member(self, group: str = "g", member_id: str = "a") -> int:
        """Let a classic group begin with one member that has partition 0; return its generation."""
        ticket = self.submit(join(group, member_id))
        self.pass_ms(200)
        joined = self.answers[ticket]
        assert isinstance(joined, Joined)
        shares = {member_id: assignment(ORDERS[0])}
        self.submit(Sync(group=group, member_id=member_id, generation=joined.generation, assignments=shares))
        found = self.groups.find(group)
        assert isinstance(found, ClassicGroup)
        assert found.is_assigned
        return joined.generation


def join(group: str, new_id: str, member_id: str = "", **fields: Any) -> Join:
    """Return the command of a consumer that joins a classic group."""
    fields.setdefault("protocols", (Protocol("range", subscription("orders")),))
    fields.setdefault("protocol_type", "consumer")
    return Join(group=group, member_id=member_id, new_id=new_id, session_timeout_ms=10_000, **fields)


def beat(group: str, member_id: str, epoch: int = 0, **fields: Any) -> ConsumerHeartbeat:
    """Return the heartbeat of a member whose broker assigns; it reads `orders`."""
    if epoch == 0:
        fields.setdefault("topics", frozenset({"orders"}))
        fields.setdefault("rebalance_timeout_ms", 30_000)
        fields.setdefault("owned", frozenset())
    return ConsumerHeartbeat(group=group, member_id=member_id, epoch=epoch, **fields)


def alive(group: str, member_id: str, generation: int) -> Heartbeat:
    """Return the heartbeat of a member of a classic group."""
    return Heartbeat(group=group, member_id=member_id, generation=generation)


def commit(group: str, *offsets: tuple[int, int], **fields: Any) -> CommitOffsets:
    """Return the commit of offsets for partitions of `orders`."""
    new = [NewOffset(TopicPartition("orders", index), CommittedOffset(offset)) for index, offset in offsets]
    return CommitOffsets(group=group, offsets=new, **fields)

"""A rebalance of a large group whose broker assigns: from one more member's first word until all have what is theirs.

The members are bare sockets in one thread. Each sends heartbeats at the interval of the broker, and one at once after
a change of its assignment, as clients do, to confirm it. Their heartbeats are spread over the interval, like those of
members that did not start together.

A member that gives a partition back is heard of at its next heartbeat, and the newcomer gets it at its own next one. So
a rebalance takes about one interval, whatever the broker does, and more if the broker is slow. At no time may two
members have the same partition.
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from uuid import UUID, uuid4

from goqueue_bench.broker_process import Broker
from goqueue_bench.cpu import metered
from goqueue_bench.figures import percentile
from goqueue_bench.kafka import group_wire as wire
from goqueue_bench.kafka.connection import Connection
from goqueue_bench.kafka.groups import private_groups
from goqueue_bench.measure import Aim, Goal, Result, require

# One interval, and a tenth for what is on its way meanwhile.
INTERVALS_GOAL = 1.1

_SETTLE_SECONDS_MAX = 120.0
_REBALANCE_TIMEOUT_MS = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """How many members share how many partitions, and how often another one joins."""

    members: int
    partitions: int
    rounds: int


def measure_rebalance(broker: Broker, topic: str, crowd: Crowd) -> Result:
    """Let one more member join, again and again, a group that reads a topic with so many partitions."""
    with private_groups(broker) as (name,), ExitStack() as stack:
        group = _Group(name, topic, crowd.partitions)
        for _ in range(crowd.members):
            group.add(stack.enter_context(Connection(broker)))
        group.settle()
        seconds, cpu_ms, interval_ms = [], [], 0
        for _ in range(crowd.rounds):
            group.spread()
            newcomer = group.add(stack.enter_context(Connection(broker)))
            with metered(broker.pid) as usage:
                group.settle()
            seconds.append(usage.seconds)
            interval_ms = group.interval_ms
            cpu_ms.append((usage.server_cpu_seconds or 0.0) * 1000)
            group.remove(newcomer)
            group.settle()
        group.disband()
    p50, p99 = percentile(seconds, 0.5) or 0.0, percentile(seconds, 0.99) or 0.0
    return Result(
        "rebalance_large",
        f"one more member for a group of {crowd.members:,} with {crowd.partitions:,} partitions",
        p50 * 1000 / interval_ms,
        "heartbeat intervals",
        Goal(Aim.AT_MOST, INTERVALS_GOAL),
        {
            "rounds": crowd.rounds,
            "heartbeat_interval_ms": interval_ms,
            "p50_ms": p50 * 1000,
            "p99_ms": p99 * 1000,
            **({} if broker.pid is None else {"broker_cpu_ms": sum(cpu_ms) / len(cpu_ms)}),
        },
    )


class _Member:
    """One member: what it has, and when it has to come again; None while it waits for an answer."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.id = str(uuid4())
        self.epoch = wire.JOIN_EPOCH
        self.owned: frozenset[int] = frozenset()
        self.has_news = False
        self.due: float | None = 0.0


class _Group:
    """All members, in one thread; `partitions` is how many their topic has."""

    def __init__(self, name: str, topic: str, partitions: int) -> None:
        self.interval_ms = 0
        self._name, self._topic = name, topic
        self._topic_id: UUID | None = None
        self._partitions = partitions
        self._members: list[_Member] = []
        self._owners: dict[int, _Member] = {}
        self._selector = selectors.DefaultSelector()

    def add(self, connection: Connection) -> _Member:
        """Add a member, which joins when the group continues."""
        member = _Member(connection)
        self._members.append(member)
        self._selector.register(connection.socket, selectors.EVENT_READ, member)
        return member

    def remove(self, member: _Member) -> None:
        """Let a member leave, and wait until the broker knows; what it had is free."""
        self._selector.unregister(member.connection.socket)
        if member.due is None:
            self._hear(member)
        reply = member.connection.call(wire.heartbeat_request(self._name, member.id, wire.LEAVE_EPOCH))
        error = wire.parse_heartbeat_reply(reply).error
        require(error == 0, f"a member can leave (error {error})")
        self._members.remove(member)
        for partition in member.owned:
            del self._owners[partition]

    def disband(self) -> None:
        """Let all members leave."""
        for member in list(self._members):
            self.remove(member)
        self._selector.close()

    def spread(self) -> None:
        """Spread the next heartbeats of the members over one interval."""
        now = time.perf_counter()
        step = self.interval_ms / 1000 / len(self._members)
        for number, member in enumerate(self._members):
            if member.due is not None:
                member.due = now + number * step

    def settle(self) -> None:
        """Let members come and go on until each knows the newest target, has all of it, and has said so."""
        deadline = time.monotonic() + _SETTLE_SECONDS_MAX
        # No epoch reflects the latest change yet.
        is_changed = False
        epoch = max(member.epoch for member in self._members)
        while not (is_changed and self._is_settled()):
            now = time.perf_counter()
            for member in self._due(now):
                self._say(member)
            for key, _ in self._selector.select(self._wait_seconds(now)):
                self._hear(key.data)
            is_changed = is_changed or any(member.epoch > epoch for member in self._members)
            require(time.monotonic() < deadline, "every member gets its share")

    def _is_settled(self) -> bool:
        epochs = {member.epoch for member in self._members}
        return (
            len(epochs) == 1
            and len(self._owners) == self._partitions
            and not any(member.has_news for member in self._members)
        )

    def _due(self, now: float) -> Iterator[_Member]:
        return (member for member in self._members if member.due is not None and member.due <= now)

    def _wait_seconds(self, now: float) -> float:
        return max(0.0, min((member.due for member in self._members if member.due is not None), default=now + 1) - now)

    def _say(self, member: _Member) -> None:
        is_joining = member.epoch == wire.JOIN_EPOCH
        says_owned = is_joining or member.has_news
        frame = wire.heartbeat_request(
            self._name,
            member.id,
            member.epoch,
            topics=[self._topic] if is_joining else None,
            owned=(self._topic_id, member.owned) if says_owned else None,
            **({"rebalance_timeout_ms": _REBALANCE_TIMEOUT_MS} if is_joining else {}),
        )
        member.connection.socket.sendall(frame)
        member.due = None

    def _hear(self, member: _Member) -> None:
        reply = wire.parse_heartbeat_reply(member.connection.receive())
        require(reply.error == 0, f"every heartbeat is taken (error {reply.error}) {reply.message}".strip())
        self.interval_ms = reply.interval_ms
        self._topic_id = reply.topic_id or self._topic_id
        member.epoch = reply.epoch
        # The broker now knows the news of this heartbeat.
        member.has_news = False
        if reply.partitions is not None and reply.partitions != member.owned:
            self._take(member, reply.partitions)
            member.has_news = True
        member.due = time.perf_counter() + (0.0 if member.has_news else reply.interval_ms / 1000)

    def _take(self, member: _Member, partitions: frozenset[int]) -> None:
        for partition in member.owned - partitions:
            del self._owners[partition]
        for partition in partitions - member.owned:
            require(partition not in self._owners, f"partition {partition} has one owner")
            self._owners[partition] = member
        member.owned = partitions

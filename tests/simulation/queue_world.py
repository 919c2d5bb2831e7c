"""A world of queues: publishers, consumers that work, fail, forget and come late, and what must have held."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from goqueue.errors import GoQueueError
from goqueue.machines.queues.values import AckType
from goqueue.model.log_settings import FlushPolicy
from goqueue.model.queue_settings import Ordering, QueueSettings
from tests.simulation.group_calls import GrowTopic, MakeTopic
from tests.simulation.group_life import Client, Life
from tests.simulation.group_lives import World
from tests.simulation.queue_calls import (
    Depth,
    Ending,
    Given,
    PublishSeveral,
    PublishValue,
    ReadLetters,
    ReceiveSome,
    SetQueue,
    SettleSome,
)
from tests.simulation.queue_checks import check_queues
from tests.simulation.txn_calls import ReadAll

TOPICS = ("orders", "events")
GROUPS = ("billing", "shipping")
HOMES = ("", "graves")
"""Where dead letters may go: to the topic's own, or to one for all."""
THREATS = (ReceiveSome, SettleSome, SettleSome, SetQueue)
SETTINGS = QueueSettings(visibility_ms=2_000, retries=2, backoff_ms=200, backoff_max_ms=1_000, breaker_ratio=1.0)


@dataclass(slots=True)
class Publisher:
    """Makes the topics, and publishes to them until there is peace."""

    name: str = "publisher"

    async def run(self, life: Life) -> None:
        """Publish one message after the other."""
        while not life.is_over:
            for topic in TOPICS:
                if topic not in life.broker.topics.by_name:
                    await life.ask(self.name, MakeTopic(topic, 2))
            await life.pause(0.15)
            if life.is_settling:
                continue
            if life.entropy.chance(0.01):
                await life.ask(self.name, GrowTopic("orders", 3))
            topic = life.entropy.choice(TOPICS)
            key = life.entropy.choice([None, "a", "b", "c"])
            await life.ask(self.name, PublishValue(topic, f"v{life.history.next_value()}", key))


@dataclass(slots=True)
class Batcher:
    """Publishes several messages at once, some of them by transactions, until there is peace."""

    name: str = "batcher"

    async def run(self, life: Life) -> None:
        """Publish one batch after the other."""
        while not life.is_over:
            await life.pause(1.0)
            places = [] if life.is_settling else life.partitions(*TOPICS)
            if places:
                values = [f"v{life.history.next_value()}" for _ in range(2 + life.entropy.below(9))]
                key = life.entropy.choice([None, "a", "b"])
                ending = life.entropy.choice(list(Ending))
                place = life.entropy.choice(places)
                await life.ask(self.name, PublishSeveral(place, tuple(values), key, ending))


@dataclass(slots=True)
class Worker:
    """Receives messages of a group, and does with them what workers do; some of it late."""

    name: str
    group: str
    settings: QueueSettings
    old: list[Given] = field(default_factory=list)

    async def run(self, life: Life) -> None:
        """Receive and settle."""
        while not life.is_over:
            if life.entropy.chance(0.1) or self.group not in _known(life):
                await life.ask(self.name, SetQueue(self.group, self.settings))
            request = ReceiveSome(
                self.group,
                TOPICS,
                self.name,
                1 + life.entropy.below(12),
                life.entropy.choice([0, 500, 3_000]),
                life.entropy.choice([700, 2_000, 5_000]),
                life.history.lives,
            )
            given = await life.call(self.name, request)
            if isinstance(given, GoQueueError):
                await life.pause(0.5)
                continue
            if life.is_settling:
                await self._say(life, given, AckType.ACK)
                await life.pause(0.05)
            else:
                await life.pause(0.6)
                await self._work(life, given)

    async def _work(self, life: Life, given: list[Given]) -> None:
        while given:
            part, given = given[: 1 + life.entropy.below(4)], given[4:] if len(given) > 4 else []
            match life.entropy.below(12):
                case 0:
                    await self._say(life, part, AckType.REJECT)
                case 1 | 2:
                    delay_ms = life.entropy.choice([None, 0, 300, 2_000])
                    await self._say(life, part, AckType.NACK, delay_ms)
                case 3:
                    await self._say(life, part, AckType.EXTEND, life.entropy.choice([0, 1_000, 4_000]))
                case 4:
                    # Forgotten; perhaps somebody remembers, long after.
                    self.old = [*self.old, *part][-20:]
                case 5 if self.old:
                    await self._say(life, [life.entropy.choice(self.old)], AckType.ACK)
                case 6:
                    await self._say(life, part, AckType.RELEASE)
                case _:
                    await self._say(life, part, AckType.ACK)
                    if life.entropy.chance(0.1):
                        await self._say(life, part, life.entropy.choice(list(AckType)))

    async def _say(self, life: Life, given: list[Given], verdict: AckType, delay_ms: int | None = None) -> None:
        if given:
            request = SettleSome(self.group, tuple(given), verdict, delay_ms)
            if life.entropy.chance(0.05):
                life.later(4.0, self.name, request)
            else:
                await life.ask(self.name, request)


@dataclass(slots=True)
class Undecided:
    """Sends the dead letters of groups now here, now there, without changing anything else."""

    settings: Mapping[str, QueueSettings]
    name: str = "undecided"

    async def run(self, life: Life) -> None:
        """Change the settings now and then."""
        while not life.is_over:
            await life.pause(1.0)
            group = life.entropy.choice(sorted(self.settings))
            home = life.entropy.choice(HOMES)
            await life.ask(self.name, SetQueue(group, replace(self.settings[group], dead_letters=home)))


def _known(life: Life) -> set[str]:
    return {name for machine in life.broker.queues.machines for name in machine.groups}


def _workers(seed: int) -> list[Client]:
    ordered = QueueSettings(
        visibility_ms=2_000,
        retries=2,
        backoff_ms=200,
        backoff_max_ms=1_000,
        breaker_ratio=1.0,
        ordering=Ordering.KEY,
    )
    settings = {"billing": SETTINGS, "shipping": ordered if seed % 2 else SETTINGS}
    clients: list[Client] = [Publisher(), Batcher()]
    clients += [Worker(f"b{number}", "billing", SETTINGS) for number in range(3)]
    clients += [Worker(f"s{number}", "shipping", settings["shipping"]) for number in range(2)]
    return [*clients, Undecided(settings)]


class LossyQueueWorld:
    """Two groups over topics that lose messages with the power; their own logs cannot be read in some lives."""

    def __init__(self, seed: int, **options: Any) -> None:
        # Letters are lost as well. So only those die who are rejected.
        settings = replace(SETTINGS, retries=100)
        clients: list[Client] = [Publisher()]
        clients += [Worker(f"b{number}", "billing", settings) for number in range(2)]
        clients += [Worker(f"s{number}", "shipping", settings) for number in range(2)]
        options = {"seconds": 6.0, "rest_seconds": 30.0, "threats": (*THREATS, PublishValue), **options}
        self.world = World(seed, clients, self._look, flush=FlushPolicy.INTERVAL, is_lossy=True, **options)
        self._left: set[str] = set()

    def run(self, lives: int) -> list[str]:
        """Live, and return all that is wrong."""
        violations = self.world.run(lives)
        return violations or check_queues(self.world.history, self._left)

    async def _look(self, life: Life) -> None:
        for group in GROUPS:
            await life.ask("end", Depth(group))
        for place in life.partitions(*TOPICS):
            seen = await life.call("end", ReadAll(place, is_committed_only=True))
            self._left |= {value.decode() for _, value in seen.records}


class QueueWorld:
    """Two groups over the same topics, one of them in the order of keys."""

    def __init__(
        self, seed: int, flush: FlushPolicy = FlushPolicy.GROUP, clients: list[Client] | None = None, **options: Any
    ) -> None:
        clients = _workers(seed) if clients is None else clients
        options = {"seconds": 6.0, "rest_seconds": 30.0, "threats": THREATS, **options}
        self.world = World(seed, clients, self._look, flush=flush, **options)

    def run(self, lives: int) -> list[str]:
        """Live, and return all that is wrong."""
        violations = self.world.run(lives)
        return violations or check_queues(self.world.history)

    async def _look(self, life: Life) -> None:
        for group in GROUPS:
            await life.ask("end", Depth(group))
        for home in {home or f"{topic}.dlq": None for topic in TOPICS for home in HOMES}:
            if home in life.broker.topics.by_name:
                await life.ask("end", ReadLetters(home))

"""A world of share groups: members that fetch by sessions, next to consumers of the same groups that receive."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace

from goqueue.broker.presence import Presence
from goqueue.broker.share_groups import service as share_sessions
from goqueue.errors import GoQueueError
from goqueue.machines.queues.values import AckType
from goqueue.model.log_settings import FlushPolicy
from goqueue.model.queue_settings import Ordering, QueueSettings
from tests.simulation.group_life import Client, Life
from tests.simulation.group_stage import shrink
from tests.simulation.queue_calls import Given, ReceiveSome, SetQueue, SettleSome
from tests.simulation.queue_world import SETTINGS, TOPICS, Batcher, Publisher, QueueWorld, Worker
from tests.simulation.share_calls import AcknowledgeShares, FetchShares, LoseConnection, OpenShares

THREATS = (FetchShares, AcknowledgeShares, AcknowledgeShares, ReceiveSome, SettleSome, SetQueue)
ORDERED = QueueSettings(
    visibility_ms=2_000, retries=2, backoff_ms=200, backoff_max_ms=1_000, breaker_ratio=1.0, ordering=Ordering.KEY
)


def hurry(patch: pytest.MonkeyPatch) -> None:
    """Let coordinators be small, and dead members be noticed before their leases end."""
    shrink(patch)
    patch.setattr(share_sessions, "GRACE_MS", 300)


@dataclass(slots=True)
class Sharer:
    """A member with a session, which it opens anew whenever anything goes wrong; if it dies, another one comes."""

    name: str
    group: str
    settings: QueueSettings
    epoch: int = 0
    held: dict[object, Given] = field(default_factory=dict)
    # What was settled, or was to be: whatever of it did not succeed is given back with the session.
    settled: list[Given] = field(default_factory=list)
    connection: Presence = field(default_factory=Presence)
    deaths: int = 0

    async def run(self, life: Life) -> None:
        """Fetch and acknowledge, by a connection of this life."""
        self.connection = Presence()
        while not life.is_over:
            if not self.epoch:
                await self._open(life)
                continue
            wait_ms = life.entropy.choice([0, 500, 3_000])
            request = FetchShares(
                self.group,
                TOPICS,
                self.name,
                1 + life.entropy.below(12),
                wait_ms,
                SETTINGS.visibility_ms,
                life.history.lives,
                self.epoch,
                self.connection,
            )
            given = await life.call(self.name, request)
            if isinstance(given, GoQueueError):
                self.epoch = 0
                continue
            self.epoch += 1
            self.held |= {(each.place, each.offset): each for each in given}
            await life.pause(0.05 if life.is_settling else 0.6)
            await self._work(life)

    async def _open(self, life: Life) -> None:
        await life.ask(self.name, SetQueue(self.group, self.settings))
        given = (*self.held.values(), *self.settled)
        request = OpenShares(self.group, given, AckType.RELEASE, consumer=self.name, connection=self.connection)
        opened = await life.call(self.name, request)
        if isinstance(opened, GoQueueError):
            await life.pause(0.5)
            return
        self.held, self.settled = {}, []
        self.epoch = 1

    async def _work(self, life: Life) -> None:
        while self.held and self.epoch:
            part = list(self.held.values())[: 1 + life.entropy.below(4)]
            number = 11 if life.is_settling else life.entropy.below(12)
            match number:
                case 0:
                    # It takes its time, perhaps too much.
                    await life.pause(4.0)
                case 1 if life.entropy.chance(0.3):
                    # It has lost its memory.
                    self.epoch = 0
                case 1 if life.entropy.chance(0.7):
                    await self._die(life)
                case 2:
                    await self._settle(life, part, AckType.REJECT)
                case 3:
                    await self._settle(life, part, AckType.RELEASE)
                case 4:
                    await self._say(life, part, AckType.EXTEND)
                case 5 if self.settled:
                    # Once more, and long after.
                    old = life.entropy.choice(self.settled)
                    if (old.place, old.offset) not in self.held:
                        await self._say(life, [old], AckType.ACK)
                case _:
                    await self._settle(life, part, AckType.ACK)

    async def _die(self, life: Life) -> None:
        given = (*self.held.values(), *self.settled)
        await life.ask(self.name, LoseConnection(self.group, given, AckType.RELEASE, connection=self.connection))
        self.deaths += 1
        self.name = f"{self.name.partition('.')[0]}.{self.deaths}"
        self.epoch, self.held, self.settled, self.connection = 0, {}, [], Presence()

    async def _settle(self, life: Life, part: list[Given], verdict: AckType) -> None:
        self.settled += [self.held.pop((each.place, each.offset)) for each in part]
        await self._say(life, part, verdict)

    async def _say(self, life: Life, part: list[Given], verdict: AckType) -> None:
        request = AcknowledgeShares(
            self.group, tuple(part), verdict, None, consumer=self.name, epoch=self.epoch, connection=self.connection
        )
        told = await life.call(self.name, request)
        self.epoch = 0 if isinstance(told, GoQueueError) else self.epoch + 1


class ShareWorld(QueueWorld):
    """Two groups over the same topics; members of both fetch, and some consumers receive."""

    def __init__(self, seed: int, flush: FlushPolicy = FlushPolicy.GROUP, **options: Any) -> None:
        clients: list[Client] = [Publisher(), Batcher()]
        # Some may hold so few that batches are parted.
        billing = replace(SETTINGS, in_flight_max=5) if seed % 3 else SETTINGS
        shipping = ORDERED if seed % 2 else SETTINGS
        clients += [Sharer(f"f{number}", "billing", billing) for number in range(3)]
        clients += [Sharer(f"o{number}", "shipping", shipping) for number in range(2)]
        clients += [Worker("b0", "billing", billing), Worker("s0", "shipping", shipping)]
        super().__init__(seed, flush, clients=clients, threats=THREATS, **options)

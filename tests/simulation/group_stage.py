"""How a broker is set up for worlds of groups and transactions, and a mistake that both of them have to find."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import PurePath
from typing import Any

import pytest

from goqueue.broker import coordinator
from goqueue.broker.broker import Broker
from goqueue.broker.dead_letters import writer as undertaker
from goqueue.broker.internal_topics import INTERNAL_CONFIG
from goqueue.machines.decision import TicketReply
from goqueue.model.broker_options import BrokerOptions
from goqueue.runtime.shard import Shard
from goqueue.testing import RecordingSink, SimDisk, Simulation, simulate


def shrink(patch: pytest.MonkeyPatch) -> None:
    """Let coordinators have few logs, which are rolled and compacted as soon as there is anything to them."""
    patch.setattr(coordinator, "COORDINATOR_PARTITIONS", 2)
    config = {"segment.bytes": "4096", "min.cleanable.dirty.ratio": "0", "delete.retention.ms": "0"}
    patch.setattr(coordinator, "INTERNAL_CONFIG", {**INTERNAL_CONFIG, **config})


def bury_one_by_one(patch: pytest.MonkeyPatch) -> None:
    """Let each dead letter be written and settled by itself, so that others are in doubt meanwhile."""
    patch.setattr(undertaker, "_AT_ONCE_MAX", 1)


def answer_at_once(patch: pytest.MonkeyPatch) -> None:
    """Let shards tell what is not durable yet."""

    def carry_out(self: Shard[Any], command: Any, ticket: int) -> Sequence[TicketReply]:
        decision = self._machine.decide(command, ticket, self._now())
        if decision.records:
            self._append(decision.records, is_awaited=True)
        self._machine.adopt(decision)
        self._set_timer()
        self._tell(decision.answers, 0)
        return decision.answers

    patch.setattr(Shard, "_carry_out", carry_out)


def live(
    disk: SimDisk,
    seed: int,
    act: Callable[[Broker], Awaitable[None]],
    *,
    stops: bool = False,
    steps_max: int = 20_000,
    clock_jump_ms: int = 0,
) -> RecordingSink:
    """Run a broker on a disk for one act; without a stop, it is just gone. The wall clock may have been set before."""
    sink = RecordingSink()

    async def main(simulation: Simulation) -> None:
        options = BrokerOptions(auto_create_topics=False)
        clock, entropy = simulation.clock, simulation.entropy
        clock.jump_ms(clock_jump_ms)
        broker = Broker(disk, PurePath("data"), options, clock=clock, entropy=entropy, sink=sink)
        await broker.start()
        await act(broker)
        if stops:
            await broker.stop()

    simulate(main, seed, may_leak=True, steps_max=steps_max)
    return sink


async def let_pass(seconds: float) -> None:
    """Let virtual time pass."""
    await asyncio.sleep(seconds)

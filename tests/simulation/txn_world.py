"""A world of transactions: who is in it, what is looked at in the end, and what must have held."""

from __future__ import annotations

from typing import Any

from goqueue.model.log_settings import FlushPolicy
from tests.simulation.group_calls import DeleteTopic, FetchOffsets
from tests.simulation.group_life import Client, Life
from tests.simulation.group_lives import World
from tests.simulation.group_offset_checks import check_offsets
from tests.simulation.group_people import PASSING, STABLE, TopicOwner
from tests.simulation.txn_calls import End, FindEnds, InitProducer, ReadAll, Send, SendOffsets
from tests.simulation.txn_checks import check_identities, check_transactions, offsets_of_transactions
from tests.simulation.txn_producers import GROUP, PlainProducer, TransactionalProducer
from tests.simulation.txn_readers import Reader, SumKeeper
from tests.simulation.txn_sinks import Checkpoint, CommitStages, SinkDriver, check_sinks

THREATS = (End, End, SendOffsets, Send, InitProducer, DeleteTopic, CommitStages)


class TransactionWorld:
    """Producers of transactions and sinks, some of them each other's zombies, and readers of what they write."""

    def __init__(self, seed: int, flush: FlushPolicy = FlushPolicy.GROUP, **options: Any) -> None:
        checkpoint = Checkpoint()
        clients: list[Client] = [
            TransactionalProducer("bumping", "one", bumps=True),
            TransactionalProducer("plain", "two", bumps=False),
            TransactionalProducer("left", "shared", bumps=True),
            TransactionalProducer("right", "shared", bumps=True),
            TransactionalProducer("old", "ancient", bumps=False),
            TransactionalProducer("older", "ancient", bumps=False),
            PlainProducer("idle"),
            SinkDriver("driver", "lake", checkpoint),
            SinkDriver("double", "lake", checkpoint),
            Reader("committed", is_committed_only=True),
            Reader("all", is_committed_only=False),
            SumKeeper(),
            TopicOwner(pause_s=3.0),
        ]
        # Half of the worlds look at nothing but how transactions end, and what comes in between.
        threats = THREATS if seed % 2 else (End, CommitStages)
        options = {"seconds": 6.0, "rest_seconds": 15.0, **options}
        self.world = World(seed, clients, self._look, flush=flush, threats=threats, **options)

    def run(self, lives: int) -> list[str]:
        """Live, and return all that is wrong."""
        violations = self.world.run(lives)
        if violations:
            return violations
        history = self.world.history
        return [
            *check_transactions(history),
            *check_identities(history),
            *check_sinks(history),
            *check_offsets(history, offsets_of_transactions(history)),
        ]

    async def _look(self, life: Life) -> None:
        """Read everything."""
        for place in life.partitions(*STABLE, PASSING):
            for is_committed_only in (True, False):
                await life.ask("end", ReadAll(place, is_committed_only))
            await life.ask("end", FindEnds(place))
        await life.ask("end", FetchOffsets(GROUP, tuple(life.partitions("orders")), needs_stable=True))

"""The owner of the topics: makes, changes and deletes them, one at a time, and remembers what that may have led to."""

from __future__ import annotations

from dataclasses import dataclass

from goqueue.testing import SeededEntropy
from tests.protocols.kafka.raw import RawClient
from tests.protocols.kafka.requests import create_topic, delete_records, delete_topic, grow_topic, set_config
from tests.simulation.broker_clients import Life, sessions
from tests.simulation.broker_ledger import Place
from tests.simulation.broker_topics import Present, State, Topics

STABLE = ("orders", "events", "clicks")
"""Topics that are never deleted: two with flush=group, one with interval."""

PASSING = ("tmp-a", "tmp-b")
"""Topics that come and go."""

FLUSH = {"orders": "group", "events": "group", "clicks": "interval"}
PARTITIONS_MAX = 3


def config_of(name: str, entropy: SeededEntropy) -> dict[str, str]:
    """Return what a new topic is given."""
    segment = entropy.choice(["1024", "2048", "100000"])
    return {"goqueue.flush": FLUSH.get(name, "group"), "segment.bytes": segment, "goqueue.flush.interval.ms": "50"}


@dataclass(slots=True)
class Owner:
    """Works on all topics, in every life of the broker."""

    topics: Topics

    async def prepare(self, life: Life, client: RawClient) -> None:
        """Make the topics that stay."""
        for name in STABLE:
            if self.topics.of(name) == [None]:
                await self._create(life, client, name)

    async def run(self, life: Life) -> None:
        """Change topics, for ever."""
        await sessions(life, lambda client: self._session(life, client))

    async def _session(self, life: Life, client: RawClient) -> None:
        while client.is_open:
            await life.pause(0.04)
            name = life.entropy.choice(PASSING)
            match life.entropy.below(8):
                case 0 | 1:
                    await self._create(life, client, name)
                case 2 | 3:
                    await self._delete(life, client, name)
                case 4:
                    await self._alter(life, client, life.entropy.choice([*PASSING, *STABLE]))
                case 5:
                    await self._grow(life, client, life.entropy.choice([*PASSING, *STABLE]))
                case _:
                    await self._delete_records(life, client)

    async def _create(self, life: Life, client: RawClient, name: str) -> None:
        config = config_of(name, life.entropy)
        wanted = Present(None, 1 + life.entropy.below(2), tuple(sorted(config.items())))
        began = life.ledger.tick()
        if None in self.topics.of(name):
            self.topics.note_intent(name, [wanted])
        result = await create_topic(client, name, partitions=wanted.partitions, config=config)
        if not result["error_code"]:
            self.topics.note_id(name, result["topic_id"])
            self.topics.note_done(name, [wanted._replace(id=result["topic_id"])])
            life.ledger.made_at[result["topic_id"]] = began

    async def _delete(self, life: Life, client: RawClient, name: str) -> None:
        self.topics.note_intent(name, [None])
        life.ledger.forget_topic(name)
        if await delete_topic(client, name) == 0:
            self.topics.note_done(name, [None])
            life.ledger.note_deleted(name)

    async def _alter(self, life: Life, client: RawClient, name: str) -> None:
        change = {"retention.ms": str(10**9 + life.entropy.below(1000)), "segment.ms": str(10**9)}
        changed = [state.with_config(change) for state in self.topics.of(name) if state is not None]
        self.topics.note_intent(name, list(changed))
        if await set_config(client, name, change) == 0:
            self.topics.note_done(name, list(changed))

    async def _grow(self, life: Life, client: RawClient, name: str) -> None:
        states: list[State] = [
            state._replace(partitions=PARTITIONS_MAX)
            for state in self.topics.of(name)
            if state is not None and state.partitions < PARTITIONS_MAX
        ]
        self.topics.note_intent(name, states)
        if await grow_topic(client, name, PARTITIONS_MAX) == 0:
            self.topics.note_done(name, states)

    async def _delete_records(self, life: Life, client: RawClient) -> None:
        place = Place(life.entropy.choice(["orders", "clicks"]), 0)
        highest = max(life.ledger.promised.get(place, {0: None}), default=0)
        offset = life.entropy.below(highest + 1)
        life.ledger.note_start(place, offset, is_promised=False)
        result = await delete_records(client, place.topic, offset, partition=place.partition)
        if not result["error_code"]:
            # The start may lie further on, if that is being changed; this is what was asked for.
            life.ledger.note_start(place, offset, is_promised=True)

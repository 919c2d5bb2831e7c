"""Members that come, go, fall silent and lose replies: no partition is shared, and no message is lost.

Workers of both kinds run against a server on virtual time; a seed decides when each polls, stalls, leaves, or throws a
reply away. Two books know nothing of the workers but what they say: who holds what, and what was done. What is
committed is asked of the server, all the time.
"""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlencode

import pytest

from goqueue.testing import SeededEntropy, Simulation, simulate
from tests.protocols.http.raw import RawHttp, Reply, serving

PARTITIONS = 5
WORKERS = 4
MESSAGES = 120
SESSION_S = 30.0


class Ownership:
    """Which member holds which partitions, from the reply that assigns them until they are given up or expire."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[frozenset[int], float]] = {}

    def holds(self, worker: str, partitions: set[int], until: float, now: float) -> None:
        """Note the partitions that one worker holds exclusively until a time."""
        for other, (held, end) in self._held.items():
            if other != worker and now < end:
                assert not held & partitions, f"{worker} and {other} hold {sorted(held & partitions)}"
        self._held[worker] = (frozenset(partitions), until)


class Work:
    """Processed offsets of each partition, and committed ones."""

    def __init__(self) -> None:
        self.done: dict[int, set[int]] = {index: set() for index in range(PARTITIONS)}
        self._committed = dict.fromkeys(range(PARTITIONS), 0)

    def committed(self, partition: int, offset: int) -> None:
        """Take note of a commit; none goes back, and none goes beyond what was done."""
        assert offset >= self._committed[partition], "an offset went back: a zombie has committed"
        assert self.done[partition] >= set(range(offset)), "an unprocessed message was committed"
        self._committed[partition] = offset

    @property
    def is_complete(self) -> bool:
        """Whether all is done and committed."""
        return sum(self._committed.values()) == MESSAGES


class Worker:
    """A member that goes on whatever it is told; `is_gentle` gives back single partitions."""

    def __init__(
        self, name: str, client: RawHttp, simulation: Simulation, books: tuple[Ownership, Work], *, is_gentle: bool
    ) -> None:
        self.name = name
        self._client = client
        self._clock = simulation.clock
        self._chance: SeededEntropy = simulation.entropy.fork(name)
        self._ownership, self._work = books
        self._is_gentle = is_gentle
        self._id = ""
        self._generation = 0
        self._assigned: set[int] = set()
        self._revoke: set[int] = set()
        self._number = 0

    async def run(self) -> None:
        """Work until everything is done."""
        while not self._work.is_complete:
            if not self._generation:
                await self._join()
            await self._heartbeat()
            if self._generation and self._chance.chance(0.7):
                await self._poll()
            if self._chance.chance(0.03):
                await self._leave()
            stalls = self._chance.chance(0.02)
            await asyncio.sleep(SESSION_S * 1.5 if stalls else self._chance.fraction())

    async def _join(self) -> None:
        self._let_go()
        body = {"topics": ["t"], "client_id": self.name, **({"member_id": self._id} if self._id else {})}
        await self._say("join", body)

    async def _heartbeat(self) -> None:
        if not await self._say("heartbeat", self._identity):
            return
        if self._revoke:
            given = [{"topic": "t", "partition": index} for index in self._revoke]
            self._revoke = set()
            self._hold(self._clock.monotonic())
            await self._say("revoke", {**self._identity, "partitions": given})

    async def _say(self, what: str, body: dict[str, Any]) -> bool:
        """Say something as a member, and take in what that brings; False if it has to join (again)."""
        way = f"/groups/g/{what}" + ("/cooperative" if self._is_gentle and what != "revoke" else "")
        sent = self._clock.monotonic()
        reply = await self._client.call("POST", way, body)
        if reply.status in {404, 409}:
            self._let_go()
            return False
        assert reply.status == 200, reply.body
        told = reply.json()
        if told["state"] == "rebalancing":
            # It has what it had until it joins again.
            self._hold(sent)
            await self._join()
            return True
        self._id, self._generation = told["member_id"], told["generation"]
        self._assigned = {each["partition"] for each in told.get("assigned") or told.get("assignment") or ()}
        self._revoke = {each["partition"] for each in told.get("revoke", ())}
        self._hold(sent)
        return True

    async def _poll(self) -> None:
        query = {**self._identity, "after": self._number, "limit": 7, "wait": "500ms"}
        query["auto_commit"] = "true" if self._chance.chance(0.5) else "false"
        reply = await self._client.call("GET", f"/groups/g/poll?{urlencode(query)}")
        if reply.status in {404, 409}:
            self._let_go()
            return
        assert reply.status == 200, reply.body
        if self._chance.chance(0.2):
            # As if it had been lost on its way.
            return
        self._number = reply.json()["poll"]
        for message in reply.json()["messages"]:
            assert message["partition"] in self._assigned
            self._work.done[message["partition"]].add(message["offset"])
        if self._chance.chance(0.6):
            await self._commit(reply)

    async def _commit(self, polled: Reply) -> None:
        offsets = polled.json()["offsets"]
        if not offsets:
            return
        reply = await self._client.call("POST", "/groups/g/offsets", {**self._identity, "offsets": offsets})
        if reply.status in {404, 409}:
            self._let_go()
            return
        assert len(reply.json()["results"]) == len(offsets)

    async def _leave(self) -> None:
        self._let_go()
        if self._id:
            reply = await self._client.call("POST", "/groups/g/leave", {"member_id": self._id})
            assert reply.status in {204, 404}

    def _hold(self, heard: float) -> None:
        now = self._clock.monotonic()
        self._ownership.holds(self.name, self._assigned | self._revoke, heard + SESSION_S, now)

    def _let_go(self) -> None:
        self._generation = self._number = 0
        self._assigned, self._revoke = set(), set()
        self._hold(self._clock.monotonic())

    @property
    def _identity(self) -> dict[str, Any]:
        return {"member_id": self._id, "generation": self._generation}


async def watch(client: RawHttp, work: Work) -> None:
    """Look at what is committed until that is everything."""
    while not work.is_complete:
        reply = await client.call("GET", "/groups/g/offsets")
        for each in reply.json().get("offsets", ()):
            if each["offset"] is not None:
                work.committed(each["partition"], each["offset"])
        await asyncio.sleep(0.3)


@pytest.mark.seeds(8, long_count=300)
def test_no_partition_is_shared_and_every_message_is_processed(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            writer = await server.client()
            await writer.call("POST", "/topics", {"name": "t", "partitions": PARTITIONS})
            messages = [{"value": f"{number}", "partition": number % PARTITIONS} for number in range(MESSAGES)]
            assert (await writer.call("POST", "/topics/t/messages", {"messages": messages})).status == 200
            books = (Ownership(), Work())
            workers = [
                Worker(f"w{number}", await server.client(), simulation, books, is_gentle=number % 2 == 0)
                for number in range(WORKERS)
            ]
            async with asyncio.timeout(3600), asyncio.TaskGroup() as tasks:
                tasks.create_task(watch(writer, books[1]))
                for worker in workers:
                    tasks.create_task(worker.run())
            told = (await writer.call("GET", "/groups/g")).json()
            assert told["lag"] == 0
            assert {each["offset"] for each in told["offsets"]} == {MESSAGES // PARTITIONS}

    simulate(main, seed)

"""Polls that wait, in virtual time: what wakes them, what ends them, and what they never bring."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import urlencode

import pytest

from goqueue.broker.admission import Caller
from goqueue.broker.groups.poll import Poll, poll_group
from goqueue.broker.groups.positions import Positions
from goqueue.broker.messages.reading import Polls
from goqueue.errors import Conflict
from goqueue.log.batches import check_batches
from goqueue.machines.groups.commands import CommitOffsets, EndOffsets
from goqueue.machines.groups.offsets import CommittedOffset, NewOffset
from goqueue.model.topic import TopicPartition
from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.control import ControlType, build_marker
from goqueue.records.layout import HEADER_BYTES, reseal
from goqueue.testing import Simulation, simulate
from tests.protocols.http.raw import RawHttp, Reply, SimServer, request, serving

SEEDS = pytest.mark.seeds(5, long_count=100)


class Poller:
    """A member with a connection for its polls, and another one for all the rest."""

    def __init__(self, control: RawHttp, polls: RawHttp) -> None:
        self.control = control
        self.polls = polls
        self.id = ""
        self.generation = 0
        self.assigned: set[int] = set()

    async def join(self) -> None:
        """Join, or join again."""
        body: dict[str, Any] = {"topics": ["t"], **({"member_id": self.id} if self.id else {})}
        self._told((await self.control.call("POST", "/groups/g/join", body)).json())

    async def heartbeat(self) -> str:
        """Send a heartbeat, and return the state that it told."""
        reply = await self.control.call("POST", "/groups/g/heartbeat", self._identity)
        assert reply.status == 200, reply.body
        state: str = reply.json()["state"]
        if state == "stable":
            self._told(reply.json())
        return state

    async def leave(self) -> None:
        """Leave."""
        assert (await self.control.call("POST", "/groups/g/leave", {"member_id": self.id})).status == 204

    def begin_poll(self, **query: Any) -> None:
        """Send a poll, and do not wait for its reply."""
        self.polls.write(request("GET", f"/groups/g/poll?{urlencode({**self._identity, 'wait': '60s', **query})}"))

    async def poll(self, **query: Any) -> Reply:
        """Poll, and return the reply."""
        self.begin_poll(**query)
        return await self.polls.reply()

    @property
    def _identity(self) -> dict[str, Any]:
        return {"member_id": self.id, "generation": self.generation}

    def _told(self, told: Any) -> None:
        self.id, self.generation = told["member_id"], told["generation"]
        self.assigned = {each["partition"] for each in told["assignment"]}


class World:
    """A server with the topic `t` of three partitions, and members of the group `g`."""

    def __init__(self, simulation: Simulation, server: SimServer, writer: RawHttp) -> None:
        self.simulation = simulation
        self.server = server
        self.writer = writer

    @classmethod
    @asynccontextmanager
    async def made(cls, simulation: Simulation) -> AsyncIterator[World]:
        """Make it for the length of a block."""
        async with serving(simulation) as server:
            writer = await server.client()
            assert (await writer.call("POST", "/topics", {"name": "t", "partitions": 3})).status == 201
            yield cls(simulation, server, writer)

    async def member(self) -> Poller:
        """A member that has joined."""
        member = Poller(await self.server.client(), await self.server.client())
        await member.join()
        return member

    async def publish(self, partition: int, *values: str) -> None:
        """Publish values to a partition."""
        messages = [{"value": value, "partition": partition} for value in values]
        assert (await self.writer.call("POST", "/topics/t/messages", {"messages": messages})).status == 200

    def append(self, partition: int, *batches: bytearray) -> None:
        """Put batches into a log as they are, past the checks of protocols."""
        owned = self.server.server.broker.topics.topic("t").partition(partition)
        for batch in batches:
            owned.log.append(check_batches(batch, bytes_max=10_000_000), leader_epoch=0)
        owned.flusher.note_append()

    @property
    def waiting(self) -> int:
        """How many wait for one of the partitions."""
        return sum(self.server.waiters("t", index) for index in range(3))

    @property
    def now(self) -> float:
        """The time of the clock."""
        return self.simulation.clock.monotonic()


def values(reply: Reply) -> list[str]:
    """Return the values of what was polled."""
    assert reply.status == 200, reply.body
    return [message["value"] for message in reply.json()["messages"]]


@SEEDS
def test_a_poll_waits_for_any_of_its_partitions_and_no_longer(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with World.made(simulation) as world:
            member = await world.member()
            member.begin_poll()
            await asyncio.sleep(10)
            assert world.waiting == 3
            await world.publish(2, "new")
            assert values(await member.polls.reply()) == ["new"]
            assert world.now < 11
            assert world.waiting == 0

    simulate(main, seed)


@SEEDS
def test_a_poll_in_vain_ends_in_time(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with World.made(simulation) as world:
            member = await world.member()
            began = world.now
            reply = await member.poll(wait="7s")
            assert 7 <= world.now - began < 7.1
            assert values(reply) == []
            began = world.now
            assert values(await member.poll(wait="0")) == []
            assert world.now - began < 0.1

    simulate(main, seed)


@SEEDS
def test_a_client_that_hangs_up_loses_nothing(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with World.made(simulation) as world:
            member = await world.member()
            member.begin_poll(auto_commit="true")
            await asyncio.sleep(1)
            member.polls.close()
            await asyncio.sleep(1)
            assert world.waiting == 0
            await world.publish(0, "kept")
            member.polls = await world.server.client()
            assert values(await member.poll(auto_commit="true")) == ["kept"]

    simulate(main, seed)


@SEEDS
def test_a_later_poll_ends_the_one_before(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with World.made(simulation) as world:
            member = await world.member()
            member.begin_poll()
            await asyncio.sleep(1)
            earlier, member.polls = member.polls, await world.server.client()
            member.begin_poll()
            reply = await earlier.reply()
            assert (reply.status, reply.json()["code"]) == (409, "conflict")
            await world.publish(1, "one")
            assert values(await member.polls.reply()) == ["one"]

    simulate(main, seed)


@SEEDS
def test_a_poll_that_is_overtaken_while_it_commits_seeks_nothing(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with World.made(simulation) as world:
            await world.publish(0, "a", "b", "c")
            member = await world.member()
            broker, polls, positions = world.server.server.broker, Polls(), Positions()
            plain = Poll("g", member.id, member.generation)
            poll = partial(poll_group, broker.groups, Caller("test"), polls, positions)
            assert len((await poll(plain)).records[TopicPartition("t", 0)]) == 3
            mine = positions.of("g", member.id, lambda *_: True)
            sought = [(TopicPartition("t", 0), 1)]
            overtaken = asyncio.ensure_future(poll(plain._replace(is_auto_commit=True, seeks=sought)))
            begun = mine.turn
            for _ in range(1000):
                if mine.turn != begun:
                    break
                await asyncio.sleep(0)
            # Its commit is on its way to the disk, and another poll begins.
            mine.begin(None)
            with pytest.raises(Conflict):
                await overtaken
            assert mine.now[TopicPartition("t", 0)].offset == 3

    simulate(main, seed)


@SEEDS
def test_a_wait_ends_when_the_member_joins_again_or_leaves(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with World.made(simulation) as world:
            member = await world.member()
            for end, code in ((member.join, "conflict"), (member.leave, "unknown_member")):
                member.begin_poll()
                await asyncio.sleep(1)
                await end()
                reply = await member.polls.reply()
                # A removed member gets the error, and can join again.
                assert reply.json()["code"] == code
            assert world.waiting == 0
            assert world.now < 10

    simulate(main, seed)


@SEEDS
def test_a_partition_that_is_asked_back_is_not_waited_for_any_more(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with World.made(simulation) as world:
            first = await world.member()
            first.begin_poll()
            await asyncio.sleep(1)
            second = await world.member()
            assert await first.heartbeat() == "rebalancing"
            await asyncio.sleep(1)
            assert world.waiting == 2
            described = (await world.writer.call("GET", "/groups/g")).json()
            (asked,) = [each["partition"] for member in described["members"] for each in member["revoking"]]
            await world.publish(asked, "not for the first one")
            await asyncio.sleep(1)
            assert not first.polls.received
            await world.publish((asked + 1) % 3, "for it")
            assert values(await first.polls.reply()) == ["for it"]
            await first.join()
            assert await second.heartbeat() == "stable"
            assert values(await second.poll()) == ["not for the first one"]

    simulate(main, seed)


@SEEDS
def test_a_poll_of_a_generation_that_ends_while_it_waits_reads_nothing(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with World.made(simulation) as world:
            first, second = await world.member(), await world.member()
            await first.heartbeat()
            await first.join()
            await second.heartbeat()
            first.begin_poll()
            await asyncio.sleep(1)
            await second.leave()
            assert await first.heartbeat() == "rebalancing"
            reply = await first.polls.reply()
            assert (reply.status, reply.json()["code"]) == (409, "stale_member_epoch")

    simulate(main, seed)


@SEEDS
def test_a_member_that_is_removed_while_it_waits_reads_nothing(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with World.made(simulation) as world:
            member = await world.member()
            member.begin_poll()
            await asyncio.sleep(31)
            await world.publish(0, "for somebody else")
            reply = await member.polls.reply()
            assert (reply.status, reply.json()["code"]) == (404, "unknown_member")
            other = await world.member()
            assert values(await other.poll()) == ["for somebody else"]

    simulate(main, seed)


@SEEDS
def test_a_member_without_partitions_waits_until_it_gets_some(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with World.made(simulation) as world:
            first = await world.member()
            for index in range(3):
                await world.publish(index, f"of {index}")
            second = await world.member()
            assert second.assigned == set()
            second.begin_poll()
            await asyncio.sleep(1)
            assert not second.polls.received
            await first.heartbeat()
            await first.join()
            await second.heartbeat()
            (index,) = second.assigned
            assert values(await second.polls.reply()) == [f"of {index}"]
            assert world.now < 10

    simulate(main, seed)


@SEEDS
def test_a_stop_of_the_server_ends_all_waits(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with World.made(simulation) as world:
            member = await world.member()
            member.begin_poll()
            await asyncio.sleep(1)
            began = world.now
            await world.server.server.stop()
            assert values(await member.polls.reply()) == []
            assert world.now - began < 5

    simulate(main, seed)


@SEEDS
def test_waiting_poll_skips_offsets_without_messages(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with World.made(simulation) as world:
            member = await world.member()
            member.begin_poll()
            await asyncio.sleep(1)
            world.append(0, build_marker(ControlType.ABORT, producer_id=1, producer_epoch=0, timestamp=0))
            await asyncio.sleep(1)
            assert not member.polls.received
            await world.publish(0, "behind")
            reply = await member.polls.reply()
            assert values(reply) == ["behind"]
            assert {each["partition"]: each["offset"] for each in reply.json()["offsets"]} == {0: 2, 1: 0, 2: 0}

    simulate(main, seed)


@SEEDS
def test_a_partition_that_cannot_be_read_does_not_keep_the_others_from_it(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with World.made(simulation) as world:
            member = await world.member()
            nonsense = build_batch([NewRecord(0, None, b"x" * 40)])
            nonsense[HEADER_BYTES:] = b"\x7f" * (len(nonsense) - HEADER_BYTES)
            reseal(nonsense)
            world.append(1, nonsense)
            await world.publish(2, "fine")
            reply = await member.poll()
            assert values(reply) == ["fine"]
            (told,) = reply.json()["errors"]
            assert (told["partition"], told["error"]["code"]) == (1, "unreadable_batch")
            began = world.now
            reply = await member.poll(wait="5s")
            assert (values(reply), len(reply.json()["errors"])) == ([], 1)
            assert 5 <= world.now - began < 5.1, "an error is no reason to come back at once"

    simulate(main, seed)


@SEEDS
def test_a_poll_does_not_sleep_through_the_end_of_a_transaction(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with World.made(simulation) as world:
            await world.publish(0, "done", "to do")
            groups = world.server.server.broker.groups
            moved = NewOffset(TopicPartition("t", 0), CommittedOffset(1))
            await groups.submit("g", CommitOffsets(group="g", offsets=[moved], producer_id=7))
            member = await world.member()
            reply = await member.poll(wait="2s")
            (told,) = reply.json()["errors"]
            assert (values(reply), told["error"]["code"]) == ([], "unstable_offsets")
            began = world.now
            member.begin_poll()
            await asyncio.sleep(3)
            await groups.submit("g", EndOffsets(7, is_commit=True))
            reply = await member.polls.reply()
            assert values(reply) == ["to do"]
            assert "errors" not in reply.json()
            assert world.now - began < 3.5

    simulate(main, seed)

"""Receives from several topics: missing ones do not keep consumers from the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from goqueue.testing import Simulation, simulate
from tests.protocols.http.raw import RawHttp, Reply, SimServer, request, serving

SEEDS = pytest.mark.seeds(3, long_count=300)
RECEIVE = "/groups/g/receive"
WAIT_S = 3


def play(seed: int, act: Callable[[SimServer, RawHttp], Awaitable[None]]) -> None:
    """Act on a server with a topic `here`, and none that is called `there`."""

    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            assert (await client.call("POST", "/topics", {"name": "here", "partitions": 1})).status == 201
            await act(server, client)

    simulate(main, seed)


async def publish(client: RawHttp, topic: str, value: str) -> None:
    """Publish a message; its topic is made if there is none."""
    assert (await client.call("POST", f"/topics/{topic}/messages", {"messages": [{"value": value}]})).status == 200


async def receive(client: RawHttp, *topics: str, **wish: Any) -> Reply:
    """Ask for messages; return the answer, whatever it is."""
    return await client.call("POST", RECEIVE, {"topics": topics, **wish})


async def waiting(server: SimServer, *topics: str) -> RawHttp:
    """Return a client whose receive waits."""
    client = await server.client()
    client.write(request("POST", RECEIVE, {"topics": topics, "wait": f"{WAIT_S}s"}))
    await asyncio.sleep(1)
    return client


async def brought(client: RawHttp) -> list[str]:
    """Return what a receive brings that waits; it must come before its time is up."""
    async with asyncio.timeout(1):
        return values(await client.reply())


def values(reply: Reply) -> list[str]:
    """Return what the messages of a reply say."""
    assert reply.status == 200, reply.body
    return [str(each["value"]) for each in reply.json()["messages"]]


@pytest.mark.parametrize("wish", [{}, {"wait": f"{WAIT_S}s"}])
@SEEDS
def test_a_topic_that_is_not_there_keeps_no_messages_of_others_back(seed: int, wish: dict[str, Any]) -> None:
    async def act(server: SimServer, client: RawHttp) -> None:
        await publish(client, "here", "a")
        async with asyncio.timeout(1):
            assert values(await receive(client, "there", "here", **wish)) == ["a"]

    play(seed, act)


@pytest.mark.parametrize("wait_s", [0, WAIT_S])
@pytest.mark.parametrize(
    ("topics", "detail"),
    [
        (("there",), "there is no topic 'there'"),
        (("here", "there"), "there is no topic 'there'"),
        (("there", "here", "elsewhere", "there"), "there is no topic 'there', and none 'elsewhere'"),
        (("there", "elsewhere"), "there is no topic 'there', and none 'elsewhere'"),
    ],
)
@SEEDS
def test_missing_topics_are_named_after_a_wait_without_messages(
    seed: int, wait_s: int, topics: tuple[str, ...], detail: str
) -> None:
    async def act(server: SimServer, client: RawHttp) -> None:
        began = server.simulation.clock.monotonic()
        reply = await receive(client, *topics, wait=f"{wait_s}s")
        assert wait_s <= server.simulation.clock.monotonic() - began < wait_s + 1
        assert (reply.status, reply.json()["code"], reply.json()["detail"]) == (404, "unknown_topic", detail)

    play(seed, act)


@SEEDS
def test_shortfall_is_shown_even_if_a_topic_is_missing(seed: int) -> None:
    async def act(server: SimServer, client: RawHttp) -> None:
        await receive(client, "here")
        await publish(client, "here", "a")
        assert (await client.call("POST", "/queues/g/pause", {"reason": "the database moves"})).status == 200
        reply = await receive(client, "here", "there")
        assert values(reply) == []
        assert "the database moves" in reply.json()["shortfall"]

    play(seed, act)


@SEEDS
def test_receive_waiting_for_missing_topic_is_woken_by_other_topics(seed: int) -> None:
    async def act(server: SimServer, client: RawHttp) -> None:
        waiter = await waiting(server, "here", "there")
        await publish(client, "here", "a")
        assert await brought(waiter) == ["a"]

    play(seed, act)


@SEEDS
def test_receive_waiting_for_missing_topics_is_woken_by_a_new_topic(seed: int) -> None:
    async def act(server: SimServer, client: RawHttp) -> None:
        for group_of_topics in (("here", "there"), ("elsewhere", "nowhere")):
            waiter = await waiting(server, *group_of_topics)
            await publish(client, group_of_topics[-1], "a")
            assert await brought(waiter) == ["a"]

    play(seed, act)


@SEEDS
def test_waiting_receive_continues_with_other_topics_after_a_deletion(seed: int) -> None:
    async def act(server: SimServer, client: RawHttp) -> None:
        await client.call("POST", "/topics", {"name": "there", "partitions": 1})
        waiter = await waiting(server, "here", "there")
        assert (await client.call("DELETE", "/topics/there")).status == 204
        await publish(client, "here", "a")
        assert await brought(waiter) == ["a"]

    play(seed, act)


@pytest.mark.seeds(30, long_count=1_000)
def test_a_topic_that_is_made_while_a_group_begins_is_heard_of(seed: int) -> None:
    async def act(server: SimServer, client: RawHttp) -> None:
        waiter = await server.client()
        waiter.write(request("POST", RECEIVE, {"topics": ["here", "there"], "wait": f"{WAIT_S}s"}))
        # While the group is made, while it begins with the first topic, or while the receive waits.
        await asyncio.sleep(server.simulation.entropy.fraction() * 0.02)
        await publish(client, "there", "a")
        assert await brought(waiter) == ["a"]

    play(seed, act)


@SEEDS
def test_a_topic_of_the_brokers_own_is_refused_beside_one_that_is_not_there(seed: int) -> None:
    async def act(server: SimServer, client: RawHttp) -> None:
        await receive(client, "here")
        reply = await receive(client, "there", "__deliveries", "here", wait=f"{WAIT_S}s")
        assert (reply.status, reply.json()["code"]) == (403, "topic_protected")

    play(seed, act)


@pytest.mark.parametrize("topics", [("bad name!",), ("there", "bad name!"), ("here", ".."), ("",)])
@SEEDS
def test_receive_does_not_wait_for_invalid_topic_name(seed: int, topics: tuple[str, ...]) -> None:
    async def act(server: SimServer, client: RawHttp) -> None:
        await publish(client, "here", "a")
        async with asyncio.timeout(1):
            reply = await receive(client, *topics, wait=f"{WAIT_S}s")
        assert (reply.status, reply.json()["code"]) == (400, "invalid_topic_name")
        assert reply.json()["detail"] == f"{topics[-1]!r} cannot be the name of a topic"

    play(seed, act)

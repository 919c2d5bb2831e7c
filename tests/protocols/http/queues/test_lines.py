"""Many waiting receives of one group: each message wakes one of them, and none sleeps beside messages."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from goqueue.broker.admission import INSIDE
from goqueue.broker.queues import receiving as queue_receiving
from goqueue.broker.queues.admin import delete_queue
from goqueue.errors import GroupNotEmpty
from goqueue.machines.queues.commands import DeleteQueue
from goqueue.machines.queues.steps import HELD_MAX
from goqueue.runtime.request_batcher import RequestBatcher
from goqueue.runtime.waiters import turns
from goqueue.testing import Simulation, simulate
from tests.protocols.http.raw import RawHttp, SimServer, request, serving

SEEDS = pytest.mark.seeds(3, long_count=300)
RECEIVE = "/groups/g/receive"
PUBLISH = "/topics/t/messages"


async def waiters(server: SimServer, count: int, most: int = 1) -> list[RawHttp]:
    """Return clients that wait for messages of a topic, each with a request under way."""
    maker = await server.client()
    await maker.call("POST", "/topics", {"name": "t", "partitions": 2})
    await maker.call("POST", RECEIVE, {"topic": "t"})
    clients = [await server.client() for _ in range(count)]
    for number, client in enumerate(clients):
        client.write(request("POST", RECEIVE, {"topic": "t", "max": most, "wait": "60s", "consumer": f"c{number}"}))
    await asyncio.sleep(1)
    return clients


async def publish(server: SimServer, *values: str) -> None:
    """Publish messages with one request."""
    client = await server.client()
    reply = await client.call("POST", PUBLISH, {"messages": [{"value": value, "partition": 0} for value in values]})
    assert reply.status == 200


async def received(clients: Sequence[RawHttp]) -> list[str]:
    """Return what clients get, in any order; it must come soon."""
    async with asyncio.timeout(5):
        replies = await asyncio.gather(*(client.reply() for client in clients))
    return sorted(message["value"] for reply in replies for message in reply.json()["messages"])


class Calls:
    """Counts how often a function is called, and does what it does; too often ends a test that would not end."""

    def __init__(self, patch: pytest.MonkeyPatch, owner: object, name: str) -> None:
        self.count = 0
        real = getattr(owner, name)

        def call(*args: Any) -> Any:
            self.count += 1
            assert self.count < 1000
            return real(*args)

        patch.setattr(owner, name, call)


@SEEDS
def test_messages_left_by_one_receive_go_to_the_next(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            clients = await waiters(server, 5)
            await publish(server, "a", "b", "c", "d", "e")
            assert await received(clients) == ["a", "b", "c", "d", "e"]

    simulate(main, seed)


@SEEDS
def test_a_message_wakes_one_and_no_more(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            clients = await waiters(server, 20, most=10)
            looks = Calls(monkeypatch, queue_receiving, "_look_around")
            await publish(server, "a")
            await asyncio.sleep(1)
            assert looks.count == 1
            await publish(server, "b")
            await asyncio.sleep(1)
            assert looks.count == 2
            assert await received([client for client in clients if client.received]) == ["a", "b"]

    simulate(main, seed)


async def fill_with_one_key(client: RawHttp, count: int = HELD_MAX + 100) -> None:
    """Let as many messages wait for one key as a group checks, and more after them."""
    assert (await client.call("PATCH", "/queues/g", {"ordering": "key"})).status == 200
    for start in range(0, count, 100):
        messages = [{"value": "held", "key": "k", "partition": 0}] * min(100, count - start)
        await client.call("POST", PUBLISH, {"messages": messages})
    while (await receive(client, "other")) != []:
        pass


async def receive(client: RawHttp, consumer: str, **wish: Any) -> list[Any]:
    """Return the messages that a consumer gets, for long."""
    body = {"topic": "t", "max": 100, "consumer": consumer, "visibility_timeout": "10m", **wish}
    return list((await client.call("POST", RECEIVE, body)).json()["messages"])


@SEEDS
def test_receive_blocked_in_one_partition_wakes_for_others(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            await waiters(server, 0)
            client, publisher = await server.client(), await server.client()
            await publisher.call("POST", PUBLISH, {"messages": [{"value": "first", "key": "x", "partition": 1}]})
            # It holds one message, so it cannot get as many as it asks for.
            assert len(await receive(client, "c", max=1)) == 1
            await fill_with_one_key(publisher)
            client.write(request("POST", RECEIVE, {"topic": "t", "max": 1000, "wait": "60s", "consumer": "c"}))
            await asyncio.sleep(1)
            await publisher.call("POST", PUBLISH, {"messages": [{"value": "second", "key": "y", "partition": 1}]})
            assert await received([client]) == ["second"]

    simulate(main, seed)


@SEEDS
def test_released_key_wakes_receive_waiting_for_held_messages(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            await waiters(server, 0)
            client, waiter = await server.client(), await server.client()
            await client.call("PATCH", "/queues/g", {"ordering": "key"})
            await client.call("POST", PUBLISH, {"messages": [{"value": "first", "key": "x", "partition": 0}]})
            (first,) = await receive(client, "other", max=1)
            await fill_with_one_key(client, HELD_MAX + 1)
            await client.call("POST", PUBLISH, {"messages": [{"value": "second", "key": "x", "partition": 0}]})
            assert await receive(client, "other") == []
            waiter.write(request("POST", RECEIVE, {"topic": "t", "max": 10, "wait": "60s", "consumer": "c"}))
            await asyncio.sleep(1)
            # Nothing becomes ready by this: the next of its key was not looked at yet.
            await client.call("POST", "/messages/ack", {"receipt_handle": first["receipt_handle"]})
            assert await received([waiter]) == ["second"]

    simulate(main, seed)


@SEEDS
def test_group_deleted_during_a_wait_starts_again(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            await waiters(server, 0)
            await publish(server, "a", "b")
            client = await server.client()
            messages = await receive(client, "c")
            acked = {"receipt_handles": [each["receipt_handle"] for each in messages]}
            assert (await client.call("POST", "/messages/ack", acked)).status == 200
            client.write(request("POST", RECEIVE, {"topic": "t", "max": 2, "wait": "60s", "consumer": "c"}))
            await asyncio.sleep(1)
            # The operation is refused now.
            await server.server.broker.queues.submit("g", DeleteQueue("g"))
            assert await received([client]) == ["a", "b"]

    simulate(main, seed)


@pytest.mark.parametrize("turn", range(5))
@SEEDS
def test_a_group_is_not_deleted_while_those_who_waited_look(seed: int, turn: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            await waiters(server, 5)
            broker = server.server.broker
            broker.queues.waits.wake("g")
            await turns(turn)
            with pytest.raises(GroupNotEmpty):
                await delete_queue(broker.queues, INSIDE, "g")

    simulate(main, seed)


@SEEDS
def test_group_is_not_deleted_while_a_receive_waits_for_a_topic(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client, waiter = await server.client(), await server.client()
            assert (await client.call("PATCH", "/queues/g", {"retries": 9})).status == 200
            waiter.write(request("POST", RECEIVE, {"topic": "later", "wait": "60s"}))
            await asyncio.sleep(1)
            assert (await client.call("DELETE", "/queues/g")).status == 409
            # A disconnected client does not wait any more.
            waiter.close()
            await asyncio.sleep(1)
            assert (await client.call("DELETE", "/queues/g")).status == 204

    simulate(main, seed)


@SEEDS
def test_group_is_not_deleted_while_a_receive_waits_for_resume(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            await waiters(server, 0)
            client, waiter = await server.client(), await server.client()
            assert (await client.call("POST", "/queues/g/pause", {})).status == 200
            waiter.write(request("POST", RECEIVE, {"topic": "t", "wait": "3s"}))
            await asyncio.sleep(1)
            assert (await client.call("DELETE", "/queues/g")).status == 409
            assert await received([waiter]) == []
            assert (await client.call("DELETE", "/queues/g")).status == 204

    simulate(main, seed)


@pytest.mark.parametrize("wait", ["0s", "3s"])
@SEEDS
def test_shortfall_says_that_too_many_messages_wait_for_their_key(seed: int, wait: str) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            await waiters(server, 0)
            client = await server.client()
            await fill_with_one_key(client)
            wish = {"topic": "t", "wait": wait, "consumer": "c"}
            told = (await client.call("POST", RECEIVE, wish)).json()
            assert told["messages"] == []
            assert told["shortfall"].startswith(f"{HELD_MAX} messages of t-0 wait for others of their key")
            # The others are not blocked, and a receive with a message has no shortfall.
            await client.call("POST", PUBLISH, {"messages": [{"value": "free", "key": "y", "partition": 1}]})
            told = (await client.call("POST", RECEIVE, wish)).json()
            assert [each["value"] for each in told["messages"]] == ["free"]
            assert "shortfall" not in told

    simulate(main, seed)


@pytest.mark.parametrize("most", [10, 1000])
@SEEDS
def test_those_who_cannot_get_on_do_not_wake_each_other(seed: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            await waiters(server, 0)
            client = await server.client()
            await client.call("POST", "/topics", {"name": "u", "partitions": 1})
            await client.call("POST", "/topics/u/messages", {"messages": [{"value": "elsewhere"}]})
            (elsewhere,) = await receive(client, "x", topic="u")
            for number in range(2):
                await client.call("POST", PUBLISH, {"messages": [{"value": "a", "key": f"x{number}", "partition": 1}]})
                assert len(await receive(client, f"c{number}", max=1)) == 1
            await fill_with_one_key(client)
            looks = Calls(monkeypatch, queue_receiving, "_look_around")
            for number in range(2):
                waiter = await server.client()
                wish = {"topic": "t", "max": most, "wait": "60s", "consumer": f"c{number}"}
                waiter.write(request("POST", RECEIVE, wish))
            await asyncio.sleep(1)
            # It is ready again, and no receive waits for it.
            await client.call("POST", "/messages/nack", {"receipt_handle": elsewhere["receipt_handle"], "delay": 0})
            await asyncio.sleep(1)
            assert looks.count < 20

    simulate(main, seed)


@SEEDS
def test_client_leaving_during_a_failure_leaves_and_others_get_the_error(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            first, second = await waiters(server, 2)
            coordinator = server.server.broker.queues
            shard = coordinator._shards[coordinator._index("g")]
            assert shard is not None
            shard.partition.log.go_offline("it is broken")
            first.transport.abort()
            async with asyncio.timeout(5):
                assert (await second.reply()).status == 503

    simulate(main, seed)


@SEEDS
def test_a_turn_that_comes_to_nothing_is_the_next_ones(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            first, *others = await waiters(server, 3)
            publisher = await server.client()
            publisher.write(request("POST", PUBLISH, {"messages": [{"value": "a", "partition": 0}]}))
            # Before the news come, when they have come, or when it has the message: then its lease runs out.
            await asyncio.sleep(simulation.entropy.fraction() * 0.01)
            first.transport.abort()
            async with asyncio.timeout(35):
                # The network decides on the order of arrival.
                replies = [asyncio.ensure_future(each.reply()) for each in others]
                (done, *_), waiting = await asyncio.wait(replies, return_when=asyncio.FIRST_COMPLETED)
            assert [message["value"] for message in done.result().json()["messages"]] == ["a"]
            for each in waiting:
                each.cancel()

    simulate(main, seed)


@SEEDS
def test_one_that_may_hold_no_more_leaves_its_turn_to_others(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            clients = await waiters(server, 1)
            admin = await server.client()
            reply = await admin.call("PATCH", "/queues/g", {"in_flight_max": 1})
            assert reply.status == 200, reply.body
            await publish(server, "a")
            assert await received(clients) == ["a"]
            (full,) = clients
            full.write(request("POST", RECEIVE, {"topic": "t", "wait": "60s", "consumer": "c0"}))
            other = await server.client()
            other.write(request("POST", RECEIVE, {"topic": "t", "wait": "60s", "consumer": "other"}))
            await asyncio.sleep(1)
            await publish(server, "b")
            assert await received([other]) == ["b"]

    simulate(main, seed)


@SEEDS
def test_those_who_wait_for_a_paused_group_get_messages_together_when_it_goes_on(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            await waiters(server, 0)
            client = await server.client()
            await client.call("POST", "/queues/g/pause", {"reason": "lunch"})
            values = [f"{number:02}" for number in range(50)]
            await publish(server, *values)
            clients = await waiters(server, len(values))
            looks = Calls(monkeypatch, queue_receiving, "_look_around")
            await client.call("POST", "/queues/g/resume", {})
            assert await received(clients) == values
            assert looks.count <= 10

    simulate(main, seed)


@SEEDS
def test_receive_waiting_for_paused_group_is_not_woken_by_others(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            await waiters(server, 0)
            client, waiter = await server.client(), await server.client()
            queues = server.server.broker.queues
            # Of the same log.
            other = next(name for name in map(str, range(1000)) if queues._index(name) == queues._index("g"))
            await client.call("POST", "/queues/g/pause", {"reason": "lunch"})
            await publish(server, "a")
            waiter.write(request("POST", RECEIVE, {"topic": "t", "wait": "60s"}))
            await asyncio.sleep(1)
            asks = Calls(monkeypatch, RequestBatcher, "ask")
            (got,) = (await client.call("POST", f"/groups/{other}/receive", {"topic": "t"})).json()["messages"]
            await client.call("POST", "/messages/ack", {"receipt_handle": got["receipt_handle"]})
            assert asks.count == 2
            await client.call("POST", "/queues/g/resume", {})
            assert await received([waiter]) == ["a"]

    simulate(main, seed)

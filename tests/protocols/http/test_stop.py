"""A stopping server answers requests in progress, ends waits, and leaves nothing over."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from goqueue.errors import PortInUse
from goqueue.runtime.tasks import TaskFailed
from goqueue.server.lifecycle import DrainTimedOut
from goqueue.testing import Broker, SimDisk, Simulation, simulate
from tests.protocols.http.raw import Closed, request, serving

SEEDS = pytest.mark.seeds(10, long_count=300)
READ = "/topics/t/partitions/0/messages"


@SEEDS
def test_a_stop_answers_those_who_wait_and_closes_all_connections(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            idle, publishing, silent, *waiting = [await server.client(f"client-{number}") for number in range(8)]
            await idle.call("POST", "/topics", {"name": "t", "partitions": 1})
            await publishing.call("GET", "/livez")
            for client in waiting:
                client.write(request("GET", f"{READ}?wait=60s"))
            await asyncio.sleep(1)
            assert server.waiters("t") == 5
            publishing.write(request("POST", "/topics/other/messages", {"messages": [{"value": "x"}]}))
            await asyncio.sleep(simulation.entropy.fraction() * 0.01)
            began = simulation.clock.monotonic()
            await server.server.stop()
            assert simulation.clock.monotonic() - began < 1
            for client in waiting:
                reply = await client.reply()
                assert reply.status == 200
                assert reply.headers["connection"] == "close"
            for client in (idle, silent, *waiting):
                await client.ended()
            assert simulation.network.listeners == {}
            assert [end for end in simulation.network.transports() if end.local[0] == "broker"] == []
            assert server.sink.of(DrainTimedOut) == []
            assert server.sink.of(TaskFailed) == []
            assert server.server.limiter.connections == 0

    simulate(main, seed)


@SEEDS
def test_messages_published_before_a_stop_are_acknowledged_and_kept(seed: int) -> None:
    disk = SimDisk(seed)

    async def main(simulation: Simulation) -> None:
        acknowledged = []
        async with serving(simulation, disk) as server:
            clients = [await server.client() for _ in range(5)]
            await clients[0].call("POST", "/topics", {"name": "t", "partitions": 1})
            for number, client in enumerate(clients):
                client.write(request("POST", "/topics/t/messages", {"messages": [{"value": f"{number}"}]}))
            await asyncio.sleep(simulation.entropy.fraction() * 0.01)
            await server.server.stop()
            for number, client in enumerate(clients):
                try:
                    if (await client.reply()).status == 200:
                        acknowledged.append(f"{number}")
                except Closed:
                    continue
        disk.crash()
        async with serving(simulation, disk) as server:
            client = await server.client()
            page = (await client.call("GET", READ)).json()
            assert set(acknowledged) <= {message["value"] for message in page["messages"]}

    simulate(main, seed)


@SEEDS
def test_a_read_that_comes_during_a_stop_does_not_wait(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation, drain_timeout_ms=5000) as server:
            client = await server.client()
            await client.call("POST", "/topics", {"name": "t", "partitions": 1})
            # Two requests at once: the second is read when the first is answered.
            client.write(request("GET", f"{READ}?wait=60s") * 2)
            await asyncio.sleep(1)
            began = simulation.clock.monotonic()
            await server.server.stop()
            assert simulation.clock.monotonic() - began < 1
            assert (await client.reply()).status == 200
            await client.ended()

    simulate(main, seed)


@SEEDS
def test_a_stop_does_not_wait_longer_than_it_may(seed: int) -> None:
    """A disk that does not answer delays requests that wait for it, but not the stop."""

    async def main(simulation: Simulation) -> None:
        async with serving(simulation, drain_timeout_ms=2000) as server:
            client = await server.client()
            client.write(request("POST", "/topics", {"name": "t"})[:-1])
            await asyncio.sleep(0.5)
            began = simulation.clock.monotonic()
            await server.server.stop()
            assert simulation.clock.monotonic() - began < 2.1
            await client.ended()
            assert server.server.limiter.connections == 0
            await server.server.stop()

    simulate(main, seed)


def test_a_port_that_is_taken_is_a_plain_error_and_leaves_nothing_open() -> None:
    with Broker() as first:
        port = int(first.http.rpartition(":")[2])
        second = Broker(http_port=port)
        with pytest.raises(PortInUse, match=rf"port {port} \(--http-port\) is in use") as caught:
            second.start()
        assert caught.value.free_port not in {0, port}
        second.close()
        assert httpx.get(f"{first.http}/livez").status_code == 200


def test_a_broker_serves_http_again_after_a_restart() -> None:
    with Broker() as broker:
        httpx.post(f"{broker.http}/topics/t/messages", json={"messages": [{"value": "kept", "partition": 0}]})
        broker.restart()
        page = httpx.get(f"{broker.http}{READ}").json()
        assert [message["value"] for message in page["messages"]] == ["kept"]

"""Limits of a connection: silence, slowness, size and number, without effect on other connections."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import httpx
import pytest

from goqueue.protocols.http.wire.endpoint import HttpRequestFailed
from goqueue.runtime.tasks import TaskFailed
from goqueue.testing import Broker, Simulation, simulate
from tests.callers import callers_of
from tests.protocols.http.raw import Closed, RawHttp, SimServer, request, serving

SEEDS = pytest.mark.seeds(10, long_count=300)
PUBLISH = "/topics/t/messages"
BODY: Any = {"messages": [{"value": "x"}]}


def run(seed: int, test: Callable[[Simulation, SimServer], Coroutine[Any, Any, None]], **settings: Any) -> None:
    """Run a test against its own server, and check that no unexpected error was reported."""

    async def main(simulation: Simulation) -> None:
        async with serving(simulation, **settings) as server:
            await test(simulation, server)
        assert server.sink.of(HttpRequestFailed) == []
        assert server.sink.of(TaskFailed) == []
        assert server.server.limiter.connections == 0

    simulate(main, seed)


async def is_alive(server: SimServer) -> bool:
    """Tell whether another client is served."""
    client = await server.client("other")
    reply = await client.call("GET", "/livez")
    client.close()
    return reply.status == 200


def refusal(received: bytearray) -> tuple[int, str]:
    """Return the status and code of the only reply."""
    head, _, body = received.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["code"]


# -- time


@SEEDS
def test_a_client_that_says_nothing_is_sent_away(seed: int) -> None:
    async def test(simulation: Simulation, server: SimServer) -> None:
        client = await server.client()
        await client.ended()
        assert 2.9 < simulation.clock.monotonic() < 3.2
        assert not client.received
        assert server.reasons() == ["it sent nothing for too long"]

    run(seed, test, first_byte_timeout_ms=3000)


@pytest.mark.parametrize("sent", [b"G", b"GET /livez HTTP/1.1\r\nhos", request("POST", PUBLISH, BODY)[:-1]])
@SEEDS
def test_a_request_that_stops_in_the_middle_is_cut_off(seed: int, sent: bytes) -> None:
    async def test(simulation: Simulation, server: SimServer) -> None:
        client = await server.client()
        client.write(sent)
        await client.ended()
        assert 2.9 < simulation.clock.monotonic() < 3.2
        assert refusal(client.received) == (408, "request_timeout")
        assert server.reasons() == ["a request took too long to arrive"]

    run(seed, test, first_byte_timeout_ms=3000)


@SEEDS
def test_a_request_that_trickles_in_does_not_take_for_ever(seed: int) -> None:
    async def test(simulation: Simulation, server: SimServer) -> None:
        client = await server.client()
        client.write(
            b"POST /topics/t/messages HTTP/1.1\r\nhost: broker\r\n"
            b"content-type: application/json\r\ncontent-length: 9999\r\n\r\n"
        )
        while client.is_open and simulation.clock.monotonic() < 600:
            client.write(b" ")
            await asyncio.sleep(1)
        assert simulation.clock.monotonic() < 6
        assert refusal(client.received) == (408, "request_timeout")

    run(seed, test, first_byte_timeout_ms=3000)


@SEEDS
def test_a_large_body_may_take_its_time(seed: int) -> None:
    async def test(simulation: Simulation, server: SimServer) -> None:
        client = await server.client()
        data = request("POST", PUBLISH, {"messages": [{"value": "x" * 500_000}]})
        for begin in range(0, len(data), 20_000):
            client.write(data[begin : begin + 20_000])
            await asyncio.sleep(2)
        assert (await client.reply()).status == 200
        assert simulation.clock.monotonic() > 40

    run(seed, test, first_byte_timeout_ms=3000)


@SEEDS
def test_an_idle_client_is_sent_away_and_a_waiting_one_is_not(seed: int) -> None:
    async def test(simulation: Simulation, server: SimServer) -> None:
        idle, waiting = await server.client(), await server.client()
        await idle.call("POST", "/topics", {"name": "t"})
        waiting.write(request("GET", "/topics/t/partitions/0/messages?wait=60s"))
        await idle.ended()
        assert 5 <= simulation.clock.monotonic() < 6
        assert waiting.is_open
        assert (await waiting.reply()).status == 200
        assert 60 <= simulation.clock.monotonic() < 61
        await waiting.ended()

    run(seed, test, first_byte_timeout_ms=3000, idle_timeout_ms=5000)


@SEEDS
def test_a_client_that_has_waited_for_long_is_idle_from_its_reply_on(seed: int) -> None:
    async def test(simulation: Simulation, server: SimServer) -> None:
        client = await server.client()
        await client.call("POST", "/topics", {"name": "t"})
        assert (await client.call("GET", "/topics/t/partitions/0/messages?wait=20s")).status == 200
        answered_at = simulation.clock.monotonic()
        await client.ended()
        assert 4.9 < simulation.clock.monotonic() - answered_at < 5.2
        assert server.reasons() == []

    run(seed, test, first_byte_timeout_ms=3000, idle_timeout_ms=5000)


@SEEDS
def test_the_rest_of_a_request_has_its_time_from_the_reply_before_on(seed: int) -> None:
    """Pipelined bytes are not read before their turn, so the client cannot have sent them sooner."""

    async def test(simulation: Simulation, server: SimServer) -> None:
        client = await server.client()
        await client.call("POST", "/topics", {"name": "t", "partitions": 1})
        wait_s = 20 + simulation.entropy.fraction() * 3
        ahead = request("POST", PUBLISH, BODY)
        cut = 1 + simulation.entropy.below(len(ahead) - 1)
        poll = request("GET", f"/topics/t/partitions/0/messages?wait={wait_s * 1000:.0f}ms")
        client.write(poll + ahead[:cut])
        assert (await client.reply()).status == 200
        await asyncio.sleep(2.5)
        client.write(ahead[cut:])
        assert (await client.reply()).status == 200

    run(seed, test, first_byte_timeout_ms=3000)


@SEEDS
def test_empty_lines_do_not_keep_a_connection(seed: int) -> None:
    async def test(simulation: Simulation, server: SimServer) -> None:
        empty, idle = await server.client(), await server.client()
        assert (await idle.call("GET", "/livez")).status == 200
        while (empty.is_open or idle.is_open) and simulation.clock.monotonic() < 600:
            empty.write(b"\r\n")
            idle.write(b"\r\n")
            await asyncio.sleep(1)
        assert simulation.clock.monotonic() < 8

    run(seed, test, first_byte_timeout_ms=3000, idle_timeout_ms=5000)


@SEEDS
def test_requests_follow_each_other_on_one_connection(seed: int) -> None:
    async def test(simulation: Simulation, server: SimServer) -> None:
        client = await server.client()
        for number in range(20):
            reply = await client.call("POST", PUBLISH, {"messages": [{"value": "x", "partition": 0}]})
            assert reply.json()["results"][0]["offset"] == number
            await asyncio.sleep(simulation.entropy.fraction() * 4)
        assert client.is_open

    run(seed, test, first_byte_timeout_ms=3000, idle_timeout_ms=5000)


@SEEDS
def test_a_client_that_does_not_read_its_replies_is_sent_away(seed: int) -> None:
    async def test(simulation: Simulation, server: SimServer) -> None:
        client = await server.client()
        message = {"value": "x" * 900_000, "partition": 0}
        assert (await client.call("POST", PUBLISH, {"messages": [message]})).status == 200
        client.transport.pause_reading()
        client.write(request("GET", "/topics/t/partitions/0/messages"))
        await asyncio.sleep(10)
        assert server.reasons() == ["it does not read its replies"]
        assert server.server.limiter.connections == 0

    run(seed, test, slow_reader_timeout_ms=5000, reply_buffer_bytes_max=100_000)


@pytest.mark.parametrize("end", ["keep-alive", "close"])
@SEEDS
def test_unread_replies_do_not_keep_a_connection_that_is_over(seed: int, end: str) -> None:
    """They are too few to pause writing, but they are not sent either."""

    async def test(simulation: Simulation, server: SimServer) -> None:
        client = await server.client()
        message = {"value": "x" * 900_000, "partition": 0}
        assert (await client.call("POST", PUBLISH, {"messages": [message]})).status == 200
        client.transport.pause_reading()
        client.write(request("GET", "/topics/t/partitions/0/messages", connection=end))
        await asyncio.sleep(10)
        assert server.server.limiter.connections == 0

    run(seed, test, slow_reader_timeout_ms=2000, idle_timeout_ms=5000)


# -- size


@SEEDS
def test_a_body_that_is_announced_too_large_is_refused_before_it_comes(seed: int) -> None:
    async def test(simulation: Simulation, server: SimServer) -> None:
        client = await server.client()
        client.write(
            b"POST /topics HTTP/1.1\r\nhost: broker\r\ncontent-type: application/json\r\ncontent-length: 1025\r\n\r\n{"
        )
        await client.ended()
        assert refusal(client.received) == (413, "body_too_large")
        assert b"connection: close" in client.received
        assert await is_alive(server)

    run(seed, test, http_body_bytes_max=1024)


@SEEDS
def test_a_body_that_does_not_announce_its_size_is_cut_off(seed: int) -> None:
    async def test(simulation: Simulation, server: SimServer) -> None:
        client = await server.client()
        client.write(
            b"POST /topics HTTP/1.1\r\nhost: broker\r\n"
            b"content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        for _ in range(100):
            client.write(b"64\r\n" + b" " * 100 + b"\r\n")
        await client.ended()
        assert refusal(client.received) == (413, "body_too_large")
        assert await is_alive(server)

    run(seed, test, http_body_bytes_max=1024)


def test_a_refusal_reaches_a_client_that_is_still_sending() -> None:
    """Closing at once would reset the connection, and the reply would be lost with it: so on real sockets."""
    body = b" " * 20_000_000
    with Broker(http_body_bytes_max=1024) as broker:
        host, _, port = broker.http.removeprefix("http://").rpartition(":")
        with socket.create_connection((host, int(port)), timeout=30) as client:
            client.sendall(b"POST /topics HTTP/1.1\r\nhost: broker\r\ncontent-length: %d\r\n\r\n" % len(body))
            client.sendall(body)
            received = bytearray()
            while data := client.recv(65_536):
                received += data
        assert refusal(received) == (413, "body_too_large")
        reply = httpx.post(f"{broker.http}/topics", content=body, headers={"content-type": "application/json"})
        assert reply.status_code == 413


@SEEDS
def test_a_body_as_large_as_allowed_is_taken_in_either_form(seed: int) -> None:
    async def test(simulation: Simulation, server: SimServer) -> None:
        client = await server.client()
        content = json.dumps({"name": "t"}).ljust(1024).encode()
        head = b"POST /topics HTTP/1.1\r\nhost: broker\r\ncontent-type: application/json\r\n"
        client.write(head + b"content-length: 1024\r\n\r\n" + content)
        assert (await client.reply()).status == 201
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (content[:7], content[7:]))
        client.write(head + b"transfer-encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n")
        assert (await client.reply()).status == 409

    run(seed, test, http_body_bytes_max=1024)


@SEEDS
def test_expect_continue_is_answered(seed: int) -> None:
    async def test(simulation: Simulation, server: SimServer) -> None:
        client = await server.client()
        head = b"POST /topics HTTP/1.1\r\nhost: broker\r\nexpect: 100-continue\r\ncontent-type: application/json\r\n"
        client.write(head + b"content-length: 13\r\n\r\n")
        assert (await client.reply()).status == 100
        client.write(b'{"name": "t"}')
        assert (await client.reply()).status == 201
        client.write(head + b"content-length: 1025\r\n\r\n")
        assert (await client.reply()).status == 413

    run(seed, test, http_body_bytes_max=1024)


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"x" * 200_000,
        b"GET / HTTP/1.1\r\nhost: broker\r\na: " + b"x" * 200_000,
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 50_000,
    ],
)
@SEEDS
def test_a_head_without_end_is_cut_off(seed: int, head: bytes) -> None:
    async def test(simulation: Simulation, server: SimServer) -> None:
        client = await server.client()
        client.write(head)
        await client.ended()
        assert refusal(client.received) == (431, "head_too_large")
        assert await is_alive(server)

    run(seed, test)


# -- number


@SEEDS
def test_there_are_no_more_connections_than_allowed_over_all_protocols(seed: int) -> None:
    async def test(simulation: Simulation, server: SimServer) -> None:
        first, second = await server.client(), await server.client()
        assert (await first.call("GET", "/livez")).status == 200
        third = await server.client()
        await third.ended()
        assert not third.received
        first.close()
        await asyncio.sleep(1)
        assert await is_alive(server)
        second.close()

    run(seed, test, connections_max=2)


@SEEDS
def test_requests_that_are_sent_ahead_are_answered_in_order(seed: int) -> None:
    async def test(simulation: Simulation, server: SimServer) -> None:
        client = await server.client()
        await client.call("POST", "/topics", {"name": "t", "partitions": 1})
        count = 200
        for number in range(count):
            client.write(request("POST", PUBLISH, {"messages": [{"value": f"{number}"}]}))
        offsets = [(await client.reply()).json()["results"][0]["offset"] for _ in range(count)]
        assert offsets == list(range(count))

    run(seed, test)


@pytest.mark.seeds(2, long_count=50)
def test_pipelined_bytes_are_read_up_to_a_limit(seed: int) -> None:
    async def test(simulation: Simulation, server: SimServer) -> None:
        client, writer = await server.client(), await server.client()
        await client.call("POST", "/topics", {"name": "t", "partitions": 1})
        client.write(request("GET", "/topics/t/partitions/0/messages?wait=60s"))
        await asyncio.sleep(1)
        ahead = request("GET", "/livez")
        count = 600_000 // len(ahead)
        client.write(ahead * count)
        await asyncio.sleep(5)
        # Most of it is still with the client and in the network.
        assert client.transport.get_write_buffer_size() > 300_000
        await writer.call("POST", PUBLISH, BODY)
        assert (await client.reply()).json()["next_offset"] == 1
        for _ in range(count):
            assert (await client.reply()).json() == {"status": "ok"}

    run(seed, test)


@pytest.mark.seeds(2, long_count=50)
def test_requests_that_are_sent_ahead_do_not_pile_up(seed: int) -> None:
    async def test(simulation: Simulation, server: SimServer) -> None:
        client = await server.client()
        await client.call("POST", "/topics", {"name": "t", "partitions": 1})
        ahead = request("POST", PUBLISH, BODY)
        count = 400_000 // len(ahead)
        client.write(ahead * count)
        piled_up = 0
        for _ in range(count):
            assert (await client.reply()).status == 200
            piled_up = max(piled_up, *(len(each.waiting) for each in server.connections()))
        # The held bytes, and those of one more read.
        assert piled_up * len(ahead) <= 150_000

    run(seed, test)


@SEEDS
def test_a_client_that_leaves_in_the_middle_leaves_nothing_behind(seed: int) -> None:
    async def test(simulation: Simulation, server: SimServer) -> None:
        whole = request("POST", PUBLISH, {"messages": [{"value": "x" * 5000}]})
        for _ in range(20):
            client = await server.client()
            client.write(whole[: simulation.entropy.below(len(whole) + 1)])
            await asyncio.sleep(simulation.entropy.fraction() * 0.01)
            client.transport.abort() if simulation.entropy.below(2) else client.close()
        await asyncio.sleep(5)
        assert server.server.limiter.connections == 0
        assert await is_alive(server)

    run(seed, test)


# -- what is no HTTP, or some other HTTP


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\0\0\0\x12nonsense of some sort\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /livez HTTP/9.9\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nno colon\r\n\r\n",
        b"POST /topics HTTP/1.1\r\nhost: broker\r\ncontent-length: x\r\n\r\n",
        b"POST /topics HTTP/1.1\r\nhost: broker\r\ncontent-length: -1\r\n\r\n",
        b"POST /topics HTTP/1.1\r\nhost: broker\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n",
        b"POST /topics HTTP/1.1\r\nhost: broker\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
        b"CONNECT broker:80 HTTP/1.1\r\n\r\n",
        b"GET http://[::1 HTTP/1.1\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nhost: x\r\n\r\n",
    ],
)
@pytest.mark.seeds(2, long_count=50)
def test_nonsense_is_refused(seed: int, nonsense: bytes) -> None:
    async def test(simulation: Simulation, server: SimServer) -> None:
        client = await server.client()
        client.write(nonsense)
        await client.ended()
        assert refusal(client.received) == (400, "malformed_request")
        assert await is_alive(server)

    run(seed, test, http_body_bytes_max=1024)


@SEEDS
def test_nonsense_after_valid_request_does_not_cost_its_reply(seed: int) -> None:
    async def test(simulation: Simulation, server: SimServer) -> None:
        client = await server.client()
        client.write(request("POST", "/topics", {"name": "t"}) + request("GET", "/livez") + b"\0nonsense\r\n\r\n")
        assert [(await client.reply()).status for _ in range(2)] == [201, 200]
        with pytest.raises(Closed):
            await client.reply()

    run(seed, test)


@SEEDS
def test_an_upgrade_that_is_not_offered_is_answered_as_if_it_had_not_been_asked_for(seed: int) -> None:
    """Some clients ask every server for HTTP/2 in this way."""

    async def test(simulation: Simulation, server: SimServer) -> None:
        for upgrade in ("h2c", "websocket"):
            client = await server.client()
            reply = await client.call("GET", "/livez", connection="Upgrade, HTTP2-Settings", upgrade=upgrade)
            assert reply.status == 200
            assert (await client.call("POST", PUBLISH, BODY, connection="Upgrade", upgrade=upgrade)).status == 200
            client.write(request("POST", PUBLISH, BODY, connection="Upgrade", upgrade=upgrade) * 2)
            assert [(await client.reply()).status for _ in range(2)] == [200, 200]
            assert (await client.call("GET", "/livez")).status == 200

    run(seed, test)


@SEEDS
def test_http_1_0_and_connection_close_end_with_the_reply(seed: int) -> None:
    async def test(simulation: Simulation, server: SimServer) -> None:
        for sent in (b"GET /livez HTTP/1.0\r\n\r\n", request("GET", "/livez", connection="close")):
            client = await server.client()
            client.write(sent)
            assert (await client.reply()).status == 200
            await client.ended()

    run(seed, test)


def test_every_reply_tells_the_time_and_is_not_to_be_kept() -> None:
    async def test(simulation: Simulation, server: SimServer) -> None:
        client = await server.client()
        seen = set()
        for path in ("/livez", "/nope", "/topics", "/docs"):
            reply = await client.call("GET", path)
            assert reply.headers["x-content-type-options"] == "nosniff"
            assert reply.headers["cache-control"] == "no-store"
            assert reply.headers["server"] == "goqueue"
            seen.add(reply.headers["date"])
            await asyncio.sleep(2)
        assert len(seen) == 4
        assert all(each.endswith(" GMT") for each in seen)

    run(0, test)


def test_raw_http_reads_what_it_is_sent() -> None:
    """The client of these tests is code of ours too."""
    client = RawHttp()
    client.data_received(b"HTTP/1.1 207 Multi\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 204 None\r\n\r\n")
    first, second = asyncio.run(_two(client))
    assert (first.status, first.body, second.status, second.body) == (207, b"{}", 204, b"")


async def _two(client: RawHttp) -> tuple[Any, Any]:
    return await client.reply(), await client.reply()


def test_admission_knows_the_user_agent_of_every_request() -> None:
    async def test(_simulation: Simulation, server: SimServer) -> None:
        callers = callers_of(server.server.broker)
        client = await server.client()
        for agent in ("first/1", "first/1", "second/2"):
            assert (await client.call("GET", "/topics", **{"user-agent": agent})).status == 200
        assert (await client.call("GET", "/topics")).status == 200
        client.close()
        assert [caller.client_id for caller in callers] == ["first/1", "first/1", "second/2", ""]
        assert {caller.protocol for caller in callers} == {"http"}

    run(1, test)

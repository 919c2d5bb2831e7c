"""Limits of one HTTP client in one turn of the loop, so that heavy clients leave room for others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Iterable, Sequence

import msgspec
import pytest

from goqueue.api.messages import MessagesToPublish
from goqueue.errors import MalformedRequest
from goqueue.model.request_limits import MESSAGES_MAX
from goqueue.protocols.http.api.messages import all_translated
from goqueue.protocols.http.wire.bodies import require_few_items
from goqueue.protocols.http.wire.connection import SLICE_BYTES, TURN_BYTES, HttpConnection
from goqueue.protocols.http.wire.requests import CHUNK_BYTES_MIN, CHUNKS_FREE, RequestReader
from goqueue.records.builder import NewRecord, build_batch
from goqueue.runtime.waiters import PIECE_ITEMS
from goqueue.testing import Simulation, simulate
from goqueue.testing.loop import SimLoop
from tests.protocols.http.raw import SimServer, request, serving

GET = request("GET", "/livez")
CHUNKED = b"POST /topics/t/messages HTTP/1.1\r\nhost: broker\r\ncontent-type: application/json\r\n"
CHUNKED += b"transfer-encoding: chunked\r\n\r\n"
SEEDS = pytest.mark.seeds(3, long_count=30)


def connection_of(server: SimServer) -> HttpConnection:
    return server.server._http.open_connections[-1]


def chunks(parts: Iterable[bytes]) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


@SEEDS
def test_pipelined_requests_are_parsed_some_at_a_time(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            connection = connection_of(server)
            connection.data_received(GET * 1000)
            assert len(connection.waiting) <= SLICE_BYTES // len(GET) + 1
            for _ in range(1000):
                assert (await client.reply()).status == 200

    simulate(main, seed)


@SEEDS
def test_others_are_answered_between_pipelined_requests(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            heavy = await server.client()
            connection = connection_of(server)
            modest = await server.client("modest")
            other = connection_of(server)
            connection.data_received(GET * 1000)
            other.data_received(GET)
            assert (await modest.reply()).status == 200
            # The heavy client has got a small part by then.
            assert heavy.received.count(b"HTTP/1.1 200") < 200
            for _ in range(1000):
                assert (await heavy.reply()).status == 200

    simulate(main, seed)


@SEEDS
def test_large_body_is_read_over_several_turns(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            connection = connection_of(server)
            sent = request("POST", "/topics/t/messages", {"messages": [{"value": "x" * 100_000}] * 40})
            position = turns = 0
            while position < len(sent):
                turns += 1
                taken = 0
                # An event loop hands over all that a socket holds, unless the connection stops reading.
                while position < len(sent) and connection._transport.is_reading():
                    connection.data_received(sent[position : position + 256 * 1024])
                    position += 256 * 1024
                    taken += 256 * 1024
                assert taken <= TURN_BYTES
                await asyncio.sleep(0)
            assert turns >= len(sent) // TURN_BYTES
            assert (await client.reply()).status == 200

    simulate(main, seed)


@SEEDS
def test_body_of_tiny_chunks_is_refused(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            client.write(CHUNKED + chunks(b"%c" % byte for byte in b" " * (CHUNKS_FREE + 2)))
            reply = await client.reply()
            assert (reply.status, reply.json()["code"]) == (400, "malformed_request")
            assert reply.json()["hint"] == "send larger chunks, or the whole body with a Content-Length"

    simulate(main, seed)


@SEEDS
@pytest.mark.parametrize(("count", "size"), [(CHUNKS_FREE, 1), (3 * CHUNKS_FREE, CHUNK_BYTES_MIN)])
def test_body_of_few_or_larger_chunks_is_taken(seed: int, count: int, size: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            body = json.dumps({"messages": [{"value": "x"}]}).encode().ljust(count * size)
            client.write(CHUNKED + chunks(body[start : start + size] for start in range(0, len(body), size)))
            assert (await client.reply()).status == 200

    simulate(main, seed)


def test_rest_of_a_body_of_known_size_is_taken_at_once() -> None:
    reader = RequestReader(10_000)
    assert reader.body_bytes_left == 0
    reader.feed(b"POST / HTTP/1.1\r\nHost: x\r\ncontent-length: 50\r\n\r\n")
    assert reader.body_bytes_left == 50
    reader.feed(b"x" * 20)
    assert reader.body_bytes_left == 30
    reader.feed(b"x" * 30)
    assert reader.body_bytes_left == 0


async def turns_during(work: Coroutine[object, object, object]) -> int:
    """Return how often others had a turn while something was done."""
    task = asyncio.ensure_future(work)
    count = 0
    while not task.done():
        count += 1
        await asyncio.sleep(0)
    await task
    return count


MANY = MESSAGES_MAX + 1


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (b'{"messages":[' + b",".join([b"{}"] * MANY) + b"]}", "messages"),
        (b'{"messages":[' + b",".join([b'{"value":"}],[{"}'] * MANY) + b"]}", "messages"),
        (
            b'{"messages":[' + b",".join([b"{}"] * 6_000) + b'],"messages":[' + b",".join([b"{}"] * 6_000) + b"]}",
            "messages",
        ),
        (b'{"receipt_handles":[' + b",".join([b'"a"'] * MANY) + b"]}", "receipt_handles"),
    ],
)
def test_too_many_items_are_refused_before_they_are_decoded(body: bytes, name: str) -> None:
    with pytest.raises(MalformedRequest, match="more than 10000 items") as refused:
        asyncio.run(require_few_items(body, name, MESSAGES_MAX))
    assert refused.value.hint == "send them in several requests"


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (b'{"messages":[' + b",".join([b"{}"] * MESSAGES_MAX) + b"]}", "messages"),
        (b'{"messages":[' + b",".join([b'{"value":[{},{},{}]}'] * MESSAGES_MAX) + b"]}", "messages"),
        (b'{"messages":[{"value":[' + b",".join([b"{}"] * MANY) + b"]}]}", "messages"),
        (b'{"messages":[' + b",".join([rb'{"value":"\",{\\"}'] * MESSAGES_MAX) + b"]}", "messages"),
        (b'{"receipt_handles":[' + b",".join([b'"a,b"'] * MESSAGES_MAX) + b"]}", "receipt_handles"),
        (b'{"messages":["' + b"{" * MANY, "messages"),
    ],
)
def test_as_many_items_as_may_be_pass(body: bytes, name: str) -> None:
    asyncio.run(require_few_items(body, name, MESSAGES_MAX))


@SEEDS
@pytest.mark.parametrize("path", ["/topics/t/messages", "/messages/ack"])
def test_request_with_too_many_items_says_what_to_do(seed: int, path: str) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            items: object = [{}] * MANY if path.startswith("/topics") else ["a"] * MANY
            name = "messages" if path.startswith("/topics") else "receipt_handles"
            reply = await client.call("POST", path, {name: items})
            assert (reply.status, reply.json()["hint"]) == (400, "send them in several requests")

    simulate(main, seed)


def test_scan_of_a_body_leaves_others_turns() -> None:
    body = b'{"messages":[{"value":[' + b",".join([b"{}"] * 20_000) + b"]}]}"
    assert asyncio.run(turns_during(require_few_items(body, "messages", MESSAGES_MAX))) >= 20_000 * 3 // 2_000


def test_messages_of_one_request_are_translated_some_at_a_time() -> None:
    given = msgspec.json.decode(b'{"messages":[' + b",".join([b"{}"] * 2_000) + b"]}", type=MessagesToPublish)
    assert asyncio.run(turns_during(all_translated(given.messages))) >= 2_000 // PIECE_ITEMS


@SEEDS
def test_messages_of_one_request_get_offsets_in_their_order(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            body = {"messages": [{"value": str(number)} for number in range(3 * PIECE_ITEMS + 1)]}
            await client.call("POST", "/topics", {"name": "t", "partitions": 1})
            reply = await client.call("POST", "/topics/t/messages", body)
            assert [each["offset"] for each in reply.json()["results"]] == list(range(3 * PIECE_ITEMS + 1))
            read = await client.call("GET", "/topics/t/partitions/0/messages?offset=0&limit=10000")
            assert [each["value"] for each in read.json()["messages"]] == [each["value"] for each in body["messages"]]

    simulate(main, seed)


def test_large_batches_of_one_request_are_built_in_several_turns() -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            await client.call("POST", "/topics", {"name": "t", "partitions": 1})
            built: list[int] = []
            loop = asyncio.get_running_loop()
            assert isinstance(loop, SimLoop)

            def noted(records: Sequence[NewRecord]) -> bytearray:
                built.append(loop.steps)
                return build_batch(records)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("goqueue.broker.messages.publish.build_batch", noted)
                body = {"messages": [{"value": "x" * 300_000}] * 10}
                reply = await client.call("POST", "/topics/t/messages", body)
            assert [each["offset"] for each in reply.json()["results"]] == list(range(10))
            assert len(built) == len(set(built)) >= 3

    simulate(main, 0)

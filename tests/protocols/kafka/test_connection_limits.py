"""What a connection may cost: silence, slowness, size and number have limits, and the others feel none of it."""

from __future__ import annotations

import asyncio
import struct
import tracemalloc

import pytest

from goqueue.protocols.connection_limiter import ConnectionsDropped
from goqueue.protocols.kafka.apis import APIS
from goqueue.protocols.kafka.wire.listener import RequestFailed
from goqueue.testing import Simulation, simulate
from tests.protocols.kafka.raw import (
    CREATE_TOPICS,
    DELETE_TOPICS,
    DESCRIBE_CONFIGS,
    FETCH,
    METADATA,
    PRODUCE,
    Closed,
    RawClient,
)
from tests.protocols.kafka.requests import create_topic, fetch, metadata, produce, produced, publish
from tests.protocols.kafka.server import SimServer, serving
from tests.unit.log.log_kit import batch

SEEDS = pytest.mark.seeds(10, long_count=300)


def reasons(server: SimServer) -> str:
    """Return why connections were dropped, as it was reported."""
    server.server.limiter.close()
    return "; ".join(event.reason for event in server.sink.of(ConnectionsDropped))


def failures(server: SimServer) -> list[RequestFailed]:
    """Return the errors that nobody expected."""
    return server.sink.of(RequestFailed)


@SEEDS
def test_a_client_that_says_nothing_is_sent_away(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation, first_byte_timeout_ms=3000) as server:
            client = await server.client()
            connected_at = simulation.clock.monotonic()
            await client.ended()
            assert 2.9 < simulation.clock.monotonic() - connected_at < 3.1
            assert "sent nothing" in reasons(server)

    simulate(main, seed)


@SEEDS
def test_a_client_that_stops_in_the_middle_of_a_frame_is_sent_away(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation, first_byte_timeout_ms=3000) as server:
            client = await server.client()
            await create_topic(client, "t")
            data = client.prepared(PRODUCE, 9, produce("t", batch(b"x")))
            client.write(data[: 1 + simulation.entropy.below(len(data) - 1)])
            stopped_at = simulation.clock.monotonic()
            await client.ended()
            assert simulation.clock.monotonic() - stopped_at < 7

    simulate(main, seed)


@SEEDS
def test_a_frame_that_comes_byte_by_byte_does_not_take_for_ever(seed: int) -> None:
    """Bytes that trickle in keep a connection from being idle, but a frame must end some time."""

    async def main(simulation: Simulation) -> None:
        async with serving(simulation, first_byte_timeout_ms=3000, idle_timeout_ms=60_000) as server:
            client = await server.client()
            began_at = simulation.clock.monotonic()
            client.write(struct.pack(">i", 1000))
            while client.is_open and simulation.clock.monotonic() - began_at < 600:
                client.write(b"x")
                await asyncio.sleep(2)
            assert not client.is_open

    simulate(main, seed)


@SEEDS
def test_a_busy_client_may_always_be_in_the_middle_of_some_frame(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation, first_byte_timeout_ms=3000) as server:
            client = await server.client()
            await create_topic(client, "t")
            frame = client.prepared(PRODUCE, 9, {**produce("t", batch(b"x" * 500)), "acks": 1})
            client.write(frame[:1])
            for _ in range(100):
                client.write(frame[1:] + frame[:1])
                await asyncio.sleep(0.1)
            assert client.is_open
            client.write(frame[1:])
            assert (await client.reply())["responses"][0]["partition_responses"][0]["error_code"] == 0

    simulate(main, seed)


@SEEDS
def test_an_idle_client_is_sent_away_and_a_waiting_one_is_not(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation, idle_timeout_ms=20_000, first_byte_timeout_ms=3000) as server:
            idle, waiting = await server.client("idle"), await server.client("waiting")
            await create_topic(idle, "t")
            said_at = simulation.clock.monotonic()
            waiting.send(FETCH, 11, fetch("t", 0, wait_ms=50_000))
            await idle.ended()
            assert 19 < simulation.clock.monotonic() - said_at < 21
            assert (await waiting.reply())["responses"]
            assert simulation.clock.monotonic() - said_at > 49
            assert "idle" in reasons(server)

    simulate(main, seed)


@SEEDS
def test_a_client_that_does_not_read_is_sent_away_with_a_reason(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation, reply_buffer_bytes_max=50_000, slow_reader_timeout_ms=5000) as server:
            slow, other = await server.client("slow"), await server.client("other")
            await create_topic(other, "t")
            await publish(other, "t", batch(b"x" * 40_000))
            slow.transport.pause_reading()
            for _ in range(20):
                slow.send(FETCH, 11, fetch("t", 0))
            async with asyncio.timeout(20):
                while server.server.limiter.connections > 1:
                    await asyncio.sleep(0.1)
                    assert (await publish(other, "t", batch(b"y")))["error_code"] == 0
            assert "does not read" in reasons(server)

    simulate(main, seed)


@SEEDS
def test_replies_that_nobody_reads_are_bounded(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation, reply_buffer_bytes_max=50_000, slow_reader_timeout_ms=60_000) as server:
            slow, other = await server.client("slow"), await server.client("other")
            await create_topic(other, "t")
            await publish(other, "t", batch(b"x" * 40_000))
            slow.transport.pause_reading()
            for _ in range(200):
                slow.send(FETCH, 11, fetch("t", 0))
            await asyncio.sleep(5)
            ends = [end for end in simulation.network.transports() if end.remote[0] == "slow"]
            assert all(end.get_write_buffer_size() < 50_000 + 2 * 41_000 for end in ends)
            slow.transport.resume_reading()
            for _ in range(200):
                assert (await slow.reply())["responses"][0]["partitions"][0]["error_code"] == 0

    simulate(main, seed)


@SEEDS
def test_connections_beyond_the_limit_are_refused_and_places_become_free(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation, connections_max=3) as server:
            guests = [await server.client(f"guest-{number}") for number in range(3)]
            late = await _refused(server)
            assert late is None or not late.is_open
            assert await metadata(guests[0]) == {}
            guests[1].close()
            await asyncio.sleep(0.1)
            assert await metadata(await server.client("next")) == {}
            assert "too many connections" in reasons(server)

    simulate(main, seed)


async def _refused(server: SimServer, host: str = "late") -> RawClient | None:
    """Open a connection that is not taken: it may end before or after it is made."""
    try:
        client = await server.client(host)
    except OSError:
        return None
    await client.ended()
    return client


@SEEDS
def test_connections_of_one_address_have_a_limit_of_their_own(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation, connections_per_address_max=2) as server:
            greedy = [await server.client("greedy") for _ in range(2)]
            await _refused(server, "greedy")
            assert await metadata(await server.client("modest")) == {}
            greedy[0].close()
            await asyncio.sleep(0.1)
            assert await metadata(await server.client("greedy")) == {}

    simulate(main, seed)


@SEEDS
@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1, 1_000_001])
def test_a_frame_that_is_too_large_ends_the_connection_at_once(seed: int, size: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation, frame_bytes_max=1_000_000) as server:
            client = await server.client()
            client.write(struct.pack(">i", size) + b"x" * 100)
            async with asyncio.timeout(1):
                await client.ended()

    simulate(main, seed)


@SEEDS
def test_garbage_ends_its_connection_and_no_other(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            other = await server.client("other")
            await create_topic(other, "t")
            for number in range(30):
                client = await server.client(f"garbage-{number}")
                size = simulation.entropy.below(60)
                client.write(struct.pack(">i", size) * simulation.entropy.below(2) + simulation.entropy.token(size))
                client.write(b"\0" * 100)
                assert (await publish(other, "t", batch(b"x")))["base_offset"] == number
            assert failures(server) == []

    simulate(main, seed)


def test_many_bad_connections_make_few_reports_and_cost_no_memory() -> None:
    """Whatever they send: the reasons that are kept and reported must not be of the sender's making."""

    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            for number in range(400):
                client = await server.client("bad")
                client.write(struct.pack(">ihhih", 10, 5000 + number, number, number, 0))
                await client.ended()
            server.server.limiter.close()
            assert len(server.server.limiter.dropped) < 10
            assert len(server.sink.of(ConnectionsDropped)) < 20

    simulate(main, 0)


@pytest.mark.parametrize("announced", [5_000, 1_900_000, 50_000_000])
def test_an_announced_size_alone_costs_nothing(announced: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation, first_byte_timeout_ms=1_000_000) as server:
            await (await server.client()).call(METADATA, 12, {"topics": []})
            tracemalloc.start()
            try:
                for _ in range(50):
                    (await server.client("greedy")).write(struct.pack(">i", announced) + b"x")
                await asyncio.sleep(1)
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            # Connections themselves, simulated ones at that, take some kilobytes each.
            assert peak < 50 * 100_000

    simulate(main, 0)


@SEEDS
@pytest.mark.parametrize("version", [3, 8, 9, 12])
def test_a_name_as_long_as_a_frame_can_carry_is_refused_like_any_other(seed: int, version: int) -> None:
    """What is told about it must fit into the reply."""
    name = "x" * 32_767

    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client, other = await server.client(), await server.client("other")
            await create_topic(other, "t")
            request = produce("t", batch(b"1"))
            request["topic_data"].append(produce(name, batch(b"2"))["topic_data"][0])
            other.send(PRODUCE, 9, produce("t", batch(b"0")))
            good, bad = (await client.call(PRODUCE, version, request))["responses"]
            assert (good["partition_responses"][0]["error_code"], bad["partition_responses"][0]["error_code"]) == (0, 3)
            assert produced(await other.reply())["error_code"] == 0
            assert failures(server) == []

    simulate(main, seed)


LONG = "x" * 32_767
REQUESTS_WITH_LONG_NAMES = [
    (METADATA, {"topics": [{"name": LONG}], "allow_auto_topic_creation": True}),
    (CREATE_TOPICS, {"topics": [{"name": LONG, "num_partitions": 1, "replication_factor": 1}]}),
    (CREATE_TOPICS, {"topics": [{"name": "t", "num_partitions": 1, "configs": [{"name": LONG, "value": LONG}]}]}),
    (DELETE_TOPICS, {"topics": [{"name": LONG}], "topic_names": [LONG]}),
    (DESCRIBE_CONFIGS, {"resources": [{"resource_type": 2, "resource_name": LONG}]}),
    (33, {"resources": [{"resource_type": 2, "resource_name": LONG}]}),
    (44, {"resources": [{"resource_type": 2, "resource_name": LONG}]}),
    (37, {"topics": [{"name": LONG, "count": 5}]}),
    (2, {"topics": [{"name": LONG, "partitions": [{"partition_index": 0}]}]}),
    (FETCH, {"topics": [{"topic": LONG, "partitions": [{"partition": 0}]}]}),
]


@pytest.mark.parametrize(("key", "values"), REQUESTS_WITH_LONG_NAMES, ids=lambda value: str(value)[:30])
def test_every_request_survives_names_that_are_too_long(key: int, values: dict[str, object]) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            for version in range(APIS[key].first, APIS[key].last + 1):
                await client.call(key, version, values)
            assert failures(server) == []

    simulate(main, 0)


@SEEDS
def test_one_bad_reply_does_not_keep_others_from_theirs(seed: int) -> None:
    """Several connections wait for the same flush; whatever happens to one of them, the others are answered."""

    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            owner = await server.client("owner")
            await create_topic(owner, "t")
            guests = [await server.client(f"guest-{number}") for number in range(6)]
            for guest in guests:
                guest.send(PRODUCE, 9, produce("t", batch(b"x")))
            await asyncio.sleep(0.001)
            simulation.network.cut("guest-2", "broker")
            simulation.network.cut("guest-4", "broker")
            for number, guest in enumerate(guests):
                try:
                    assert produced(await guest.reply())["error_code"] == 0
                except Closed:
                    assert number in {2, 4}

    simulate(main, seed)

"""One connection, as transcripts: what is sent, what comes back, and in which order."""

from __future__ import annotations

import asyncio
import struct

import pytest

from goqueue.broker.messages.produce import PUBLISH
from goqueue.protocols.kafka.apis import APIS
from goqueue.protocols.kafka.wire.connection import KafkaConnection
from goqueue.testing import Simulation, simulate
from tests.callers import callers_of
from tests.protocols.kafka.generate import OFFERED
from tests.protocols.kafka.messages import members, request_bytes, response_class, response_values
from tests.protocols.kafka.raw import API_VERSIONS, FETCH, METADATA, PRODUCE, Closed, frame
from tests.protocols.kafka.requests import (
    ALL,
    LEADER,
    NONE,
    create_topic,
    fetch,
    fetched,
    metadata,
    produce,
    produced,
    publish,
    read,
)
from tests.protocols.kafka.server import SimServer, serving
from tests.unit.log.log_kit import batch

SEEDS = pytest.mark.seeds(10, long_count=500)
UNSUPPORTED_VERSION = 35


async def flushed(server: SimServer) -> None:
    """Wait until nothing waits for a disk."""
    for partition in server.server.broker.topics.partitions:
        await partition.flusher.drain()


@SEEDS
def test_pipelined_requests_are_answered_in_order(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            await create_topic(client, "slow")
            await create_topic(client, "fast", config={"goqueue.flush": "interval"})
            sent = []
            for number in range(60):
                topic = simulation.entropy.choice(["slow", "fast"])
                acks = simulation.entropy.choice([ALL, LEADER])
                sent.append((topic, acks))
                client.send(PRODUCE, 9, produce(topic, batch(b"%d" % number), acks=acks))
                if simulation.entropy.chance(0.1):
                    client.send(METADATA, 12, {"topics": []})
                    sent.append(("", 0))
                if simulation.entropy.chance(0.1):
                    await asyncio.sleep(0.001)
            ends = {"slow": 0, "fast": 0}
            for topic, _ in sent:
                reply = await client.reply()
                if topic:
                    assert reply["responses"][0]["name"] == topic
                    assert produced(reply)["base_offset"] == ends[topic]
                    ends[topic] += 1

    simulate(main, seed)


@SEEDS
def test_of_requests_in_a_row_each_has_its_own_outcome(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            await create_topic(client, "orders")
            acks = simulation.entropy.choice([ALL, LEADER])
            is_good = [simulation.entropy.chance(0.8) for _ in range(40)]
            for number, good in enumerate(is_good):
                # The same length, so that nothing but the records tells them apart.
                records = batch(b"%02d" % number)
                records[-1] ^= not good
                client.send(PRODUCE, 9, produce("orders", records, acks=acks))
            offset = 0
            for good in is_good:
                result = produced(await client.reply())
                assert (result["error_code"], result["base_offset"]) == ((0, offset) if good else (2, -1))
                offset += good
            stats = server.server.broker.core.admission.stats
            counted = {key.outcome: each.count for key, each in stats.items() if key.operation == PUBLISH.name}
            assert counted.get("ok", 0) == offset
            assert counted.get("corrupt_batch", 0) == len(is_good) - offset

    simulate(main, seed)


@pytest.mark.seeds(3, long_count=100)
def test_one_thousand_requests_at_once_are_all_answered(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            await create_topic(client, "t")
            frames = [client.prepared(PRODUCE, 9, produce("t", batch(b"%d" % number))) for number in range(2500)]
            client.write(b"".join(frames))
            offsets = [produced(await client.reply())["base_offset"] for _ in frames]
            assert offsets == list(range(2500))

    simulate(main, seed)


@SEEDS
def test_what_is_behind_a_request_that_takes_its_time_waits_for_it(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            create = {"topics": [{"name": "t", "num_partitions": 1, "replication_factor": 1}], "timeout": 1}
            client.write(
                client.prepared(19, 7, create)
                + client.prepared(PRODUCE, 9, produce("t", batch(b"1")))
                + client.prepared(METADATA, 12, {"topics": [{"name": "t"}]})
                + client.prepared(PRODUCE, 9, produce("t", batch(b"2")))
                + client.prepared(FETCH, 11, fetch("t", 2, wait_ms=50))
                + client.prepared(PRODUCE, 9, produce("t", batch(b"3")))
            )
            assert (await client.reply())["topics"][0]["error_code"] == 0
            assert produced(await client.reply())["base_offset"] == 0
            assert (await client.reply())["topics"][0]["error_code"] == 0
            assert produced(await client.reply())["base_offset"] == 1
            assert fetched(await client.reply())["records"] == b""
            assert produced(await client.reply())["base_offset"] == 2

    simulate(main, seed)


@SEEDS
def test_much_can_wait_behind_a_parked_fetch_without_being_lost(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            await create_topic(client, "t")
            client.send(FETCH, 11, fetch("t", 0, wait_ms=2000))
            for number in range(100):
                client.send(PRODUCE, 9, produce("t", batch(b"%d" % number + b"x" * 10_000)))
            assert fetched(await client.reply())["records"] == b""
            assert [produced(await client.reply())["base_offset"] for _ in range(100)] == list(range(100))

    simulate(main, seed)


@SEEDS
def test_acks_0_has_no_reply_and_is_stored(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            await create_topic(client, "t")
            for version in range(3, 13):
                client.send(PRODUCE, version, produce("t", batch(b"%d" % version), acks=NONE), has_reply=False)
            assert (await publish(client, "t", batch(b"last")))["base_offset"] == 10
            assert client.received == b""

    simulate(main, seed)


@SEEDS
def test_acks_0_that_fails_closes_the_connection_so_that_the_producer_notices(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            client.send(PRODUCE, 9, produce("nowhere", batch(b"lost"), acks=NONE), has_reply=False)
            await client.ended()

    simulate(main, seed)


@SEEDS
@pytest.mark.parametrize("version", [5, 9, 99, 32767, -1])
def test_api_versions_of_a_future_version_is_answered_in_version_0(seed: int, version: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            client.write(struct.pack(">ihhih", 20, API_VERSIONS, version, 77, 3) + b"abc" + b"\0future")
            data = await client.raw_reply()
            assert data[:4] == struct.pack(">i", 77)
            reply = response_values(API_VERSIONS, 0, data[4:])
            assert reply["error_code"] == UNSUPPORTED_VERSION
            assert {each["api_key"] for each in reply["api_keys"]} == APIS.keys()
            assert (await client.call(API_VERSIONS, 0, {}))["error_code"] == 0

    simulate(main, seed)


def test_api_versions_lists_what_is_offered_in_every_version() -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            for version in range(5):
                reply = await client.call(API_VERSIONS, version, {})
                listed = {(each["api_key"], each["min_version"], each["max_version"]) for each in reply["api_keys"]}
                offered = {(api.key, api.first, api.last) for api in APIS.values()}
                # Clients are told of Produce 0, which nobody offers any more, as Kafka does it for old librdkafkas.
                assert listed == offered - {(0, 3, 12)} | {(0, 0, 12)}
                assert reply["error_code"] == 0

    simulate(main, 0)


@SEEDS
@pytest.mark.parametrize(("key", "version"), [(0, 2), (0, 99), (3, 14), (3, -1), (999, 0), (-1, 0), (17, 0), (71, 0)])
def test_an_api_or_version_that_is_not_offered_ends_the_connection(seed: int, key: int, version: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client, other = await server.client(), await server.client("other")
            client.write(struct.pack(">ihhihi", 14, key, version, 1, 0, 0))
            await client.ended()
            assert client.received == b""
            assert await metadata(other) == {}

    simulate(main, seed)


@pytest.mark.parametrize(("key", "version"), OFFERED)
def test_every_offered_version_is_answered_so_that_it_can_be_read(key: int, version: int) -> None:
    """An empty request of each API and version; the reply must be of that version to the last byte."""

    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            values = {"acks": -1} if key == PRODUCE else {}
            reply = await client.call(key, version, values)
            assert set(reply) == {each.name for each in members(response_class(key, version))}

    simulate(main, key * 100 + version)


@pytest.mark.parametrize("version", range(APIS[PRODUCE].first, APIS[PRODUCE].last + 1))
def test_produce_works_in_every_version(version: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            await create_topic(client, "t", partitions=2, config={"message.timestamp.type": "LogAppendTime"})
            await create_topic(client, "u")
            await publish(client, "t", batch(b"first"))
            request = produce("t", batch(b"a", b"b"))
            request["topic_data"][0]["partition_data"].append({"index": 1, "records": bytes(batch(b"c"))})
            request["topic_data"][0]["partition_data"].append({"index": 7, "records": bytes(batch(b"d"))})
            request["topic_data"].append(produce("u", batch(b"e"))["topic_data"][0])
            request["topic_data"].append(produce("nowhere", batch(b"f"))["topic_data"][0])
            reply = await client.call(PRODUCE, version, request)
            t, u, nowhere = reply["responses"]
            assert (t["name"], u["name"], nowhere["name"]) == ("t", "u", "nowhere")
            assert [each["index"] for each in t["partition_responses"]] == [0, 1, 7]
            assert [each["error_code"] for each in t["partition_responses"]] == [0, 0, 3]
            assert [each["base_offset"] for each in t["partition_responses"]] == [1, 0, -1]
            first, *_, missing = t["partition_responses"]
            assert first["log_append_time"] == pytest.approx(simulation.clock.now_ms(), abs=50)
            assert (u["partition_responses"][0]["log_append_time"], missing["log_append_time"]) == (-1, -1)
            assert nowhere["partition_responses"][0]["error_code"] == 3
            if version >= 5:
                assert (first["log_start_offset"], missing["log_start_offset"]) == (0, -1)
            if version >= 8:
                assert first["error_message"] is None
                assert "no partition 7" in missing["error_message"]
                assert first["record_errors"] == missing["record_errors"] == []

    simulate(main, version)


@pytest.mark.parametrize("version", range(APIS[FETCH].first, APIS[FETCH].last + 1))
def test_fetch_works_in_every_version(version: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            topic_id = (await create_topic(client, "t", partitions=2))["topic_id"]
            data = batch(b"hello", b"world")
            await publish(client, "t", data)
            is_by_id = version >= 13
            for isolation in (0, 1):
                request = fetch(topic_id if is_by_id else "t", 0)
                request["isolation_level"] = isolation
                part = request["topics"][0]["partitions"][0]
                request["topics"][0]["partitions"] = [part, {**part, "partition": 1}, {**part, "partition": 5}]
                reply = await client.call(FETCH, version, request)
                (topic,) = reply["responses"]
                assert topic["topic_id" if is_by_id else "topic"] == (topic_id if is_by_id else "t")
                full, empty, missing = topic["partitions"]
                assert (full["error_code"], full["high_watermark"], full["last_stable_offset"]) == (0, 2, 2)
                assert full["records"][61:] == bytes(data[61:])
                assert (empty["error_code"], empty["high_watermark"], empty["records"]) == (0, 0, b"")
                assert (missing["error_code"], missing["high_watermark"]) == (3, -1)
                assert reply.get("session_id", 0) == 0

    simulate(main, version)


@pytest.mark.parametrize("version", range(7, APIS[FETCH].last + 1))
def test_a_fetch_session_is_declined(version: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            reply = await client.call(FETCH, version, {"session_id": 5, "session_epoch": 3, "max_wait": 100})
            assert (reply["error_code"], reply["session_id"], reply["responses"]) == (70, 0, [])
            reply = await client.call(FETCH, version, {"session_id": 0, "session_epoch": 0})
            assert (reply["error_code"], reply["session_id"]) == (0, 0)

    simulate(main, version)


@SEEDS
def test_half_a_frame_waits_for_its_other_half(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            await create_topic(client, "t")
            data = b"".join(client.prepared(PRODUCE, 9, produce("t", batch(b"%d" % number))) for number in range(5))
            cut = simulation.entropy.below(len(data))
            client.write(data[:cut])
            await asyncio.sleep(1)
            client.write(data[cut:])
            assert [produced(await client.reply())["base_offset"] for _ in range(5)] == list(range(5))

    simulate(main, seed)


@SEEDS
def test_a_client_that_goes_in_the_middle_of_everything_leaves_nothing_behind(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            owner = await server.client("owner")
            await create_topic(owner, "t")
            for number in range(5):
                client = await server.client(f"guest-{number}")
                for _ in range(20):
                    client.send(PRODUCE, 9, produce("t", batch(b"x")))
                client.send(METADATA, 12, {"topics": [{"name": f"made-{number}"}], "allow_auto_topic_creation": True})
                client.send(FETCH, 11, fetch("t", 0, wait_ms=5000, bytes_min=10**9))
                client.write(b"\0\0\1\0half of a frame")
                await asyncio.sleep(simulation.entropy.fraction() * 0.02)
                simulation.network.cut(f"guest-{number}", "broker") if number % 2 else client.close()
            await asyncio.sleep(1)
            await flushed(server)
            assert server.server.limiter.connections == 1
            assert sum(len(partition.waiters) for partition in server.server.broker.topics.partitions) == 0
            assert not server.server._kafka.tasks
            assert (await publish(owner, "t", batch(b"y")))["error_code"] == 0

    simulate(main, seed)


@SEEDS
def test_what_was_acknowledged_before_garbage_is_there(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client, other = await server.client(), await server.client("other")
            await create_topic(client, "t")
            acknowledged = 0
            for _ in range(10):
                client.send(PRODUCE, 9, produce("t", batch(b"x")))
            client.write(b"\0\0\0\x20" + simulation.entropy.token(32))
            try:
                while client.due:
                    acknowledged = produced(await client.reply())["base_offset"] + 1
            except Closed:
                pass
            assert (await read(other, "t", 0))["high_watermark"] >= acknowledged

    simulate(main, seed)


def test_what_a_dropped_client_has_sent_is_not_mixed_up_with_what_others_send() -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            bad, good = await server.client("bad"), await server.client("good")
            await create_topic(good, "orders")
            found = {each.host: each for each in server.server._kafka.open_connections}
            frames = [
                [client.prepared(PRODUCE, 9, produce("orders", batch(name + b"%d" % number))) for number in range(3)]
                for client, name in ((bad, b"bad"), (good, b"good"))
            ]
            # As the loop does it: one is read and fails, the other is read, and then somebody wants the first to go on.
            feed(found["bad"], b"".join(frames[0]) + struct.pack(">i", 4) + bytes(4) + frames[0][0])
            feed(found["good"], b"".join(frames[1]))
            found["bad"]._go_on()
            for offset in range(3):
                assert produced(await good.reply())["base_offset"] == offset
            log = server.server.broker.topics.by_name["orders"].partition(0).log
            assert log.end_offset == 3

    simulate(main, 1)


def feed(connection: KafkaConnection, data: bytes) -> None:
    """Let a connection read something."""
    connection.get_buffer(-1)[: len(data)] = data
    connection.buffer_updated(len(data))


@SEEDS
def test_one_write_serves_all_requests_that_arrive_together(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            await create_topic(client, "t")
            before = server.disk.operations
            frames = b"".join(client.prepared(PRODUCE, 9, produce("t", batch(b"%d" % number))) for number in range(50))
            client.write(frames)
            for _ in range(50):
                await client.reply()
            # A network that cuts the bytes anywhere may make several bursts of them.
            assert server.disk.operations - before < 50

    simulate(main, seed)


@SEEDS
def test_tags_that_nobody_knows_are_passed_over(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            body = request_bytes(METADATA, 12, {"topics": []})
            tags = b"\x02\x63\x03abc\x64\x00"
            data = struct.pack(">hhih", METADATA, 12, 5, 3) + b"raw" + tags + body[:-1] + tags
            client.write(struct.pack(">i", len(data)) + data)
            reply = await client.raw_reply()
            assert response_values(METADATA, 12, reply[5:])["topics"] == []

    simulate(main, seed)


@SEEDS
def test_a_client_without_a_name_is_served(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            body = request_bytes(METADATA, 1, {"topics": []})
            client.write(struct.pack(">ihhih", 10 + len(body), METADATA, 1, 5, -1) + body)
            assert response_values(METADATA, 1, (await client.raw_reply())[4:])["topics"] == []
            client.write(frame(METADATA, 1, 6, body, client_id="日本".encode()))
            assert response_values(METADATA, 1, (await client.raw_reply())[4:])["topics"] == []

    simulate(main, seed)


def test_admission_knows_the_client_id_of_every_request() -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            callers = callers_of(server.server.broker)
            client = await server.client()
            body = request_bytes(METADATA, 1, {"topics": []})
            for number, client_id in enumerate([b"first", b"first", b"second", b"\xff"]):
                client.write(frame(METADATA, 1, number, body, client_id=client_id))
                await client.raw_reply()
            assert [caller.client_id for caller in callers] == ["first", "first", "second", "\ufffd"]
            assert {caller.protocol for caller in callers} == {"kafka"}
            assert len({caller.address for caller in callers}) == 1

    simulate(main, 1)

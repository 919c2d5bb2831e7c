"""Offsets, reads and producers, asked by a raw client: the cases that clients of others do not send."""

from __future__ import annotations

from goqueue.testing import Simulation, simulate
from tests.protocols.kafka.api_kit import (
    INVALID_REQUEST,
    OUT_OF_RANGE,
    UNKNOWN_TOPIC,
    run,
)
from tests.protocols.kafka.messages import Plain
from tests.protocols.kafka.raw import (
    FETCH,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    METADATA,
    PRODUCE,
    RawClient,
)
from tests.protocols.kafka.requests import (
    EARLIEST,
    LATEST,
    create_topic,
    delete_records,
    fetch,
    fetched,
    offset_at,
    produce,
    produced,
    publish,
)
from tests.protocols.kafka.server import SimServer, serving
from tests.unit.log.log_kit import batch


def test_offsets_are_found_by_place_and_time() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t")
        for timestamp in (1000, 3000, 2000, 3000):
            await publish(client, "t", batch(b"x", timestamp=timestamp))
        found = {where: (await offset_at(client, "t", where))["offset"] for where in (LATEST, EARLIEST, -3, -4, -5)}
        assert found == {LATEST: 4, EARLIEST: 0, -3: 1, -4: 0, -5: -1}
        for timestamp, offset in ((0, 0), (1000, 0), (1001, 1), (2500, 1), (3000, 1), (3001, -1)):
            assert (await offset_at(client, "t", timestamp))["offset"] == offset
        assert (await offset_at(client, "t", 1001))["timestamp"] == 3000
        await delete_records(client, "t", 2)
        assert (await offset_at(client, "t", EARLIEST))["offset"] == 2
        assert (await offset_at(client, "t", 0))["offset"] == 2
        assert (await offset_at(client, "t", -77))["error_code"] == INVALID_REQUEST

    run(act)


def test_offsets_of_an_empty_topic() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t")
        assert [(await offset_at(client, "t", where))["offset"] for where in (LATEST, EARLIEST, -3, 0)] == [
            0,
            0,
            -1,
            -1,
        ]
        assert (await offset_at(client, "t", LATEST, partition=5))["error_code"] == UNKNOWN_TOPIC
        assert (await offset_at(client, "nowhere", LATEST))["error_code"] == UNKNOWN_TOPIC

    run(act)


def test_epochs_end_where_the_log_ends() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t")
        await publish(client, "t", batch(b"1", b"2"))

        async def ask(epoch: int, current: int = -1) -> Plain:
            part = {"partition": 0, "current_leader_epoch": current, "leader_epoch": epoch}
            reply = await client.call(23, 4, {"replica_id": -1, "topics": [{"topic": "t", "partitions": [part]}]})
            result: Plain = reply["topics"][0]["partitions"][0]
            return result

        assert ((await ask(0))["leader_epoch"], (await ask(0))["end_offset"]) == (0, 2)
        assert (await ask(0, current=9))["error_code"] == 75

    run(act)


def test_records_are_deleted_up_to_an_offset() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t")
        await publish(client, "t", batch(b"1", b"2", b"3"))
        for offset, error, low in ((2, 0, 2), (1, 0, 2), (4, OUT_OF_RANGE, -1), (-2, OUT_OF_RANGE, -1), (-1, 0, 3)):
            result = await delete_records(client, "t", offset)
            assert (result["error_code"], result["low_watermark"]) == (error, low)
        assert (await delete_records(client, "nowhere", 0))["error_code"] == UNKNOWN_TOPIC
        assert (await publish(client, "t", batch(b"4")))["base_offset"] == 3

    run(act)


def test_an_offset_inside_of_a_batch_is_served_from_its_batch() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t")
        await publish(client, "t", batch(b"1", b"2", b"3"))
        await publish(client, "t", batch(b"4"))
        whole = fetched(await client.call(FETCH, 11, fetch("t", 0)))["records"]
        assert fetched(await client.call(FETCH, 11, fetch("t", 2)))["records"] == whole
        assert fetched(await client.call(FETCH, 11, fetch("t", 4)))["records"] == b""

    run(act)


def test_one_fetch_is_bounded_over_all_its_partitions() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t", partitions=3)
        data = batch(b"x" * 1000)
        for index in range(3):
            for _ in range(3):
                await publish(client, "t", data, partition=index)
        request = fetch("t", 0)
        part = request["topics"][0]["partitions"][0]
        request["topics"][0]["partitions"] = [{**part, "partition": index} for index in range(3)]
        for bytes_max in (1, len(data), 2 * len(data) + 5, 4 * len(data), 9 * len(data)):
            request["max_bytes"] = bytes_max
            reply = await client.call(FETCH, 11, request)
            sizes = [len(each["records"]) for each in reply["responses"][0]["partitions"]]
            assert len(data) <= sum(sizes) <= max(len(data), bytes_max)
            assert all(size % len(data) == 0 for size in sizes)

    run(act)


def test_producers_without_a_transactional_id_get_an_id_each() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        for version in range(6):
            reply = await client.call(INIT_PRODUCER_ID, version, {"transactional_id": None})
            assert (reply["error_code"], reply["producer_id"], reply["producer_epoch"]) == (0, version, 0)

    run(act)


def test_a_publish_of_an_unknown_transaction_is_refused() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        await create_topic(client, "t")
        request = {
            **produce("t", batch(b"x", producer=1, sequence=0, is_transactional=True)),
            "transactional_id": "mine",
        }
        assert produced(await client.call(PRODUCE, 9, request))["error_code"] == 49
        data = batch(b"x", producer=1, sequence=0, is_transactional=True)
        assert (await publish(client, "t", data))["error_code"] == 48
        assert (await offset_at(client, "t", LATEST))["offset"] == 0

    run(act)


def test_a_client_is_sent_back_to_where_it_came_or_where_it_is_told() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        (broker,) = (await client.call(METADATA, 12, {"topics": []}))["brokers"]
        assert (broker["host"], broker["port"]) == ("broker", 9092)
        (broker,) = (await client.call(60, 1, {}))["brokers"]
        assert (broker["host"], broker["port"]) == ("broker", 9092)

    run(act)

    async def elsewhere(server: SimServer, client: RawClient) -> None:
        (broker,) = (await client.call(METADATA, 12, {"topics": []}))["brokers"]
        assert (broker["host"], broker["port"]) == ("example.org", 1234)

    run(elsewhere, advertised_host="example.org", advertised_kafka_port=1234)


def test_the_cluster_keeps_its_id() -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            first = (await (await server.client()).call(60, 1, {}))["cluster_id"]
            await server.stop()
            await server.start()
            client = await server.client()
            assert (await client.call(60, 1, {}))["cluster_id"] == first
            assert (await client.call(METADATA, 12, {"topics": []}))["cluster_id"] == first
            reply = await client.call(LIST_OFFSETS, 7, {"topics": []})
            assert reply["topics"] == []

    simulate(main, 7)

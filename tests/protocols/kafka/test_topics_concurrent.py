"""Several clients change topics at the same moment: the outcome is that of some order, one after the other."""

from __future__ import annotations

import asyncio
from pathlib import PurePath

import pytest

from goqueue.testing import Simulation, simulate
from tests.protocols.kafka.messages import Plain
from tests.protocols.kafka.raw import DELETE_TOPICS, DESCRIBE_CONFIGS, FETCH, PRODUCE, RawClient
from tests.protocols.kafka.requests import (
    EARLIEST,
    LATEST,
    create_topic,
    delete_records,
    delete_topic,
    fetch,
    grow_topic,
    metadata,
    new_producer,
    offset_at,
    produce,
    produced,
    publish,
    read,
    set_config,
)
from tests.protocols.kafka.server import SimServer, serving
from tests.unit.log.log_kit import batch

SEEDS = pytest.mark.seeds(20, long_count=1_000)
UNKNOWN_TOPIC, TOO_LARGE, TOPIC_EXISTS, INVALID_PARTITIONS = 3, 10, 36, 37


async def clients(server: SimServer, count: int) -> list[RawClient]:
    """Open connections from hosts of their own."""
    return [await server.client(f"client-{number}") for number in range(count)]


async def configured(client: RawClient, topic: str) -> dict[str, str]:
    """Return what was set for a topic."""
    resource = {"resource_type": 2, "resource_name": topic, "configuration_keys": None}
    reply = await client.call(DESCRIBE_CONFIGS, 4, {"resources": [resource]})
    found: list[Plain] = reply["results"][0]["configs"]
    return {config["name"]: config["value"] for config in found if config["config_source"] == 1}


@SEEDS
def test_two_clients_make_the_same_topic_and_one_of_them_succeeds(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            first, second = await clients(server, 2)
            results = await asyncio.gather(create_topic(first, "t"), create_topic(second, "t"))
            assert sorted(result["error_code"] for result in results) == [0, TOPIC_EXISTS]
            made = next(result for result in results if not result["error_code"])
            assert (await metadata(first, "t"))["t"]["topic_id"] == made["topic_id"]

    simulate(main, seed)


@SEEDS
def test_all_clients_that_need_a_topic_get_the_one_that_is_made_on_demand(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            everybody = await clients(server, 4)
            seen = await asyncio.gather(*(metadata(client, "t", may_create=True) for client in everybody))
            assert [each["t"]["error_code"] for each in seen] == [0] * 4
            assert len({each["t"]["topic_id"] for each in seen}) == 1
            assert {len(each["t"]["partitions"]) for each in seen} == {3}

    simulate(main, seed)


@SEEDS
def test_two_clients_add_partitions_and_every_partition_is_there_once(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            first, second = await clients(server, 2)
            await create_topic(first, "t", partitions=2)
            errors = await asyncio.gather(grow_topic(first, "t", 5), grow_topic(second, "t", 7))
            # In the other order, five partitions are no more than there are.
            assert tuple(errors) in {(0, 0), (INVALID_PARTITIONS, 0)}
            partitions = (await metadata(first, "t"))["t"]["partitions"]
            assert [each["partition_index"] for each in partitions] == list(range(7))
            opened = server.server.broker.topics.topic("t").partitions
            assert len({partition.log.directory for partition in opened}) == 7  # type: ignore[union-attr]
            for index in range(7):
                assert (await publish(second, "t", batch(b"%d" % index), partition=index))["error_code"] == 0
                assert (await read(first, "t", 0, partition=index))["high_watermark"] == 1

    simulate(main, seed)


@SEEDS
def test_a_topic_that_grows_while_it_is_deleted_leaves_nothing_behind(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            first, second = await clients(server, 2)
            await create_topic(first, "t", partitions=2)

            async def grow_and_write() -> None:
                if not await grow_topic(second, "t", 4):
                    for index in range(4):
                        await publish(second, "t", batch(b"old"), partition=index)

            async def delete() -> int:
                await asyncio.sleep(simulation.entropy.fraction() * 0.02)
                return await delete_topic(first, "t")

            error, _ = await asyncio.gather(delete(), grow_and_write())
            assert error == 0
            assert (await metadata(first, "t"))["t"]["error_code"] == UNKNOWN_TOPIC
            assert _directories(server) == ["__catalog-0"]
            await create_topic(first, "t", partitions=4)
            for index in range(4):
                assert (await offset_at(first, "t", LATEST, partition=index))["offset"] == 0

    simulate(main, seed)


def _directories(server: SimServer) -> list[str]:
    return [name for name in server.disk.list_directory(PurePath("data")) if server.disk.is_directory(_path(name))]


def _path(name: str) -> PurePath:
    return PurePath("data") / name


@SEEDS
def test_two_clients_change_different_settings_and_both_changes_hold(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            first, second = await clients(server, 2)
            await create_topic(first, "t", config={"segment.ms": "5000"})
            errors = await asyncio.gather(
                set_config(first, "t", {"retention.ms": "1000"}), set_config(second, "t", {"retention.bytes": "2000"})
            )
            assert set(errors) == {0}
            expected = {"segment.ms": "5000", "retention.ms": "1000", "retention.bytes": "2000"}
            assert await configured(first, "t") == expected
            log = server.server.broker.topics.topic("t").partition(0).log
            assert (log.settings.retention_ms, log.settings.retention_bytes) == (1000, 2000)
            await server.stop()
            await server.start()
            assert await configured(await server.client(), "t") == expected

    simulate(main, seed)


@SEEDS
def test_a_setting_changes_while_partitions_are_added_and_all_partitions_follow_it(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            first, second = await clients(server, 2)
            await create_topic(first, "t", partitions=1)

            async def alter() -> int:
                await asyncio.sleep(simulation.entropy.fraction() * 0.02)
                return await set_config(
                    second, "t", {"retention.ms": "1000", "message.timestamp.type": "LogAppendTime"}
                )

            assert set(await asyncio.gather(grow_topic(first, "t", 4), alter())) == {0}
            opened = server.server.broker.topics.topic("t")
            for index in range(4):
                partition = opened.partition(index)
                assert (partition.log.settings.retention_ms, partition.settings.stamp) == (1000, "LogAppendTime")
            assert opened.topic.partitions == 4
            assert (await metadata(first, "t"))["t"]["topic_id"] == opened.topic.id

    simulate(main, seed)


@SEEDS
def test_a_topic_with_the_name_of_a_deleted_one_is_empty(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            writer, owner = await clients(server, 2)
            # Several segments, read from the start: files and indexes of the old topic are in every cache.
            await create_topic(owner, "t", config={"segment.bytes": "1024"})
            for number in range(12):
                await publish(writer, "t", batch(b"old" * 100 + b"%d" % number))
            for offset in range(12):
                await read(writer, "t", offset)
            writer.send(PRODUCE, 9, produce("t", batch(b"late")))
            assert await delete_topic(owner, "t") == 0
            assert produced(await writer.reply())["error_code"] in {0, 3, 56}
            assert (await create_topic(owner, "t", config={"segment.bytes": "1024"}))["error_code"] == 0
            assert (await offset_at(owner, "t", LATEST))["offset"] == 0
            for number in range(12):
                assert (await publish(writer, "t", batch(b"new" * 100 + b"%d" % number)))["base_offset"] == number
            for offset in range(12):
                data = (await read(owner, "t", offset))["records"]
                assert b"old" not in data
                assert b"new%d" % offset in data

    simulate(main, seed)


@SEEDS
def test_a_producer_that_repeats_itself_follows_its_topic(seed: int) -> None:
    """The same bytes mean another topic once the first is gone."""

    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            writer, owner = await clients(server, 2)
            version = simulation.entropy.choice([3, 8, 9, 12])

            async def write() -> Plain:
                return produced(await writer.call(PRODUCE, version, produce("t", batch(b"same"))))

            for round_number in range(3):
                await create_topic(owner, "t")
                assert [(await write())["base_offset"] for _ in range(3)] == [0, 1, 2]
                await set_config(owner, "t", {"message.timestamp.type": "LogAppendTime"})
                assert (await write())["log_append_time"] > 0
                await set_config(owner, "t", {"max.message.bytes": "20"})
                assert (await write())["error_code"] == TOO_LARGE
                assert (await offset_at(owner, "t", LATEST))["offset"] == 4
                if round_number % 2:
                    await delete_topic(owner, "t")
                    assert (await write())["error_code"] == UNKNOWN_TOPIC
                else:
                    await asyncio.gather(delete_topic(owner, "t"), write(), return_exceptions=True)
                    assert (await write())["error_code"] == UNKNOWN_TOPIC

    simulate(main, seed)


@SEEDS
def test_deleting_by_id_never_deletes_a_later_topic_of_that_name(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            first, second, third = await clients(server, 3)
            old = (await create_topic(first, "t"))["topic_id"]

            async def delete_by_id(client: RawClient) -> int:
                await asyncio.sleep(simulation.entropy.fraction() * 0.01)
                reply = await client.call(DELETE_TOPICS, 6, {"topics": [{"name": None, "topic_id": old}]})
                return int(reply["responses"][0]["error_code"])

            async def create_again() -> Plain:
                for _ in range(1000):
                    result = await create_topic(third, "t")
                    if not result["error_code"]:
                        break
                    await asyncio.sleep(simulation.entropy.fraction() * 0.002)
                return result

            *_, made = await asyncio.gather(delete_by_id(first), delete_by_id(second), create_again())
            assert made["topic_id"] != old
            assert (await metadata(first, "t"))["t"]["topic_id"] == made["topic_id"]

    simulate(main, seed)


@SEEDS
def test_deleting_twice_at_once_deletes_once(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            first, second = await clients(server, 2)
            await create_topic(first, "t")
            errors = await asyncio.gather(delete_topic(first, "t"), delete_topic(second, "t"))
            assert sorted(errors) == [0, UNKNOWN_TOPIC]
            assert (await create_topic(first, "t"))["error_code"] == 0

    simulate(main, seed)


@SEEDS
def test_create_and_delete_in_a_row_by_many_clients_end_in_order(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            everybody = await clients(server, 3)

            async def toggle(client: RawClient) -> None:
                for _ in range(6):
                    result = await create_topic(client, "t")
                    assert result["error_code"] in {0, TOPIC_EXISTS}
                    assert await delete_topic(client, "t") in {0, UNKNOWN_TOPIC}

            await asyncio.gather(*map(toggle, everybody))
            assert (await metadata(everybody[0], "t"))["t"]["error_code"] == UNKNOWN_TOPIC
            assert _directories(server) == ["__catalog-0"]
            server.server.broker.topics.catalog.validate()

    simulate(main, seed)


@SEEDS
def test_no_producer_id_is_given_twice(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        ids: list[int] = []
        async with serving(simulation) as server:
            for _ in range(3):
                everybody = await clients(server, 4)
                for _ in range(3):
                    ids += await asyncio.gather(*map(new_producer, everybody))
                await server.stop()
                await server.start()
        assert min(ids) >= 0
        assert len(ids) == len(set(ids)) == 36

    simulate(main, seed)


@pytest.mark.seeds(8, long_count=200)
def test_records_can_be_deleted_while_others_publish_without_a_pause(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            owner, *writers = await clients(server, 11)
            await create_topic(owner, "t")
            await publish(owner, "t", batch(b"1", b"2", b"3"))
            is_over = asyncio.Event()

            async def write(client: RawClient) -> None:
                """Publish at moments of its own, so that there is always something new to be flushed."""
                while not is_over.is_set():
                    client.send(PRODUCE, 9, produce("t", batch(b"x")))
                    await asyncio.sleep(simulation.entropy.fraction() * 0.004)
                while client.due:
                    await client.reply()

            async def delete() -> Plain:
                try:
                    async with asyncio.timeout(0.2):
                        return await delete_records(owner, "t", 2)
                finally:
                    is_over.set()

            writing = asyncio.gather(*map(write, writers))
            result = await delete()
            await writing
            assert (result["error_code"], result["low_watermark"]) == (0, 2)
            assert (await offset_at(owner, "t", EARLIEST))["offset"] == 2

    simulate(main, seed)


@SEEDS
def test_a_topic_is_deleted_while_others_read_and_write_it(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            owner, reader, *writers = await clients(server, 4)
            await create_topic(owner, "t", config={"goqueue.flush": simulation.entropy.choice(["group", "interval"])})

            async def write(client: RawClient) -> None:
                for number in range(20):
                    reply = await client.call(PRODUCE, 9, produce("t", batch(b"%d" % number)))
                    assert produced(reply)["error_code"] in {0, 3, 56}

            async def follow() -> None:
                offset = 0
                for _ in range(20):
                    reply = await reader.call(FETCH, 11, fetch("t", offset, wait_ms=5))
                    result = reply["responses"][0]["partitions"][0]
                    assert result["error_code"] in {0, 3}
                    offset = max(offset, result["high_watermark"])

            async def delete() -> None:
                await asyncio.sleep(simulation.entropy.fraction() * 0.05)
                assert await delete_topic(owner, "t") == 0

            await asyncio.gather(delete(), follow(), *map(write, writers))
            assert _directories(server) == ["__catalog-0"]

    simulate(main, seed)

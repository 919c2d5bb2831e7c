"""Requests that ask for much with few bytes, or send more than others do, cost what they are worth and no more."""

from __future__ import annotations

import struct
from pathlib import PurePath

import pytest

from goqueue.testing import SimDisk, Simulation, simulate
from tests.protocols.kafka.messages import request_bytes
from tests.protocols.kafka.raw import DESCRIBE_CONFIGS, LIST_OFFSETS, METADATA, PRODUCE, frame
from tests.protocols.kafka.requests import LEADER, create_topic, metadata, produce, produced, publish
from tests.protocols.kafka.server import serving
from tests.unit.log.log_kit import batch

SEEDS = pytest.mark.seeds(5, long_count=200)
INVALID_REQUEST, STORAGE_ERROR = 42, 56


@SEEDS
def test_thousands_of_requests_in_one_go_are_all_answered(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            await create_topic(client, "t")
            request = produce("t", batch(b"x"), acks=LEADER)
            client.write(b"".join(client.prepared(PRODUCE, 9, request) for _ in range(2500)))
            offsets = [produced(await client.reply())["base_offset"] for _ in range(2500)]
            assert offsets == list(range(2500))

    simulate(main, seed)


@SEEDS
def test_a_size_that_never_ends_is_refused_at_once(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client, other = await server.client(), await server.client("other")
            await create_topic(client, "t")
            body = request_bytes(PRODUCE, 9, produce("t", batch(b"x"), acks=LEADER))
            whole = frame(PRODUCE, 9, 1, body)
            await publish(client, "t", batch(b"x"))
            client.write(whole)
            await client.raw_reply()
            records_at = whole.index(batch(b"x")) - 1
            endless = whole[4:records_at] + b"\xff" * 300_000
            client.write(struct.pack(">i", len(endless)) + endless)
            await client.ended()
            assert "t" in await metadata(other, "t")

    simulate(main, seed)


@SEEDS
def test_a_name_that_is_repeated_is_answered_once(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            await create_topic(client, "t")
            reply = await client.call(METADATA, 12, {"topics": [{"name": "t"}] * 500})
            assert [topic["name"] for topic in reply["topics"]] == ["t"]
            resource = {"resource_type": 2, "resource_name": "t", "configuration_keys": None}
            reply = await client.call(DESCRIBE_CONFIGS, 4, {"resources": [resource] * 500})
            assert len(reply["results"]) == 1
            part = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": 0}
            topics = [{"name": "t", "partitions": [part] * 3}]
            reply = await client.call(LIST_OFFSETS, 7, {"replica_id": -1, "topics": topics})
            codes = [each["error_code"] for each in reply["topics"][0]["partitions"]]
            assert codes == [0, INVALID_REQUEST, INVALID_REQUEST]

    simulate(main, seed)


@SEEDS
def test_files_that_nobody_knows_are_neither_adopted_nor_removed(seed: int) -> None:
    disk = SimDisk(seed)
    stray = PurePath("data/t-0/precious")

    async def main(simulation: Simulation) -> None:
        disk.make_directory(stray.parent)
        disk.open(stray, create=True).write_at(0, b"data")
        async with serving(simulation, disk) as server:
            client = await server.client()
            assert (await create_topic(client, "t"))["error_code"] == STORAGE_ERROR
            assert "t" not in server.server.broker.topics.by_name
        assert disk.exists(stray)

    simulate(main, seed)

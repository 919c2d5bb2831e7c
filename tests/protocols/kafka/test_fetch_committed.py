"""Reading what is committed: nothing is needed but what was asked for, and whatever cannot be told is said to be so."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from pathlib import PurePath

import pytest

from goqueue.log import names
from goqueue.protocols.kafka.wire.listener import RequestFailed
from goqueue.runtime.clean_shutdown import CLOSED_STATES_LOG
from goqueue.seams.disk import remove_tree
from goqueue.testing import SimDisk, Simulation, simulate
from tests.protocols.kafka.api_kit import run
from tests.protocols.kafka.messages import Plain
from tests.protocols.kafka.raw import FETCH, LIST_OFFSETS, RawClient
from tests.protocols.kafka.requests import LATEST, create_topic, delete_records, fetch, publish
from tests.protocols.kafka.server import SimServer, serving
from tests.protocols.kafka.transaction_kit import COMMITTED, TxnProducer, fetch_as, read
from tests.unit.log.log_kit import batch

STORAGE_ERROR = 56
SMALL = {"segment.bytes": "1024", "index.interval.bytes": "0"}


def index_from(offset: int) -> Callable[[PurePath], bool]:
    """Return what tells the index files of the first partition, from the segment at an offset on."""
    return lambda path: path.parent.name == "t-0" and path.suffix == names.INDEX and int(path.stem) >= offset


async def start_writing(client: RawClient, *, partitions: int = 1) -> TxnProducer:
    """Return a producer with a transaction that is open in a first segment, which other records have filled."""
    await create_topic(client, "t", partitions=partitions, config=SMALL)
    producer = TxnProducer(client)
    assert await producer.init() == 0
    assert (await producer.produce(b"in a transaction"))["error_code"] == 0
    for _ in range(4):
        await publish(client, "t", batch(b"x" * 600))
    return producer


async def fetch_all(client: RawClient, partitions: int, *, wait_ms: int = 0) -> list[Plain]:
    """Return what is fetched of partitions from their start on."""
    request = {**fetch("t", 0, wait_ms=wait_ms), "isolation_level": COMMITTED}
    part = request["topics"][0]["partitions"][0]
    request["topics"][0]["partitions"] = [{**part, "partition": index} for index in range(partitions)]
    found: list[Plain] = (await client.call(FETCH, 11, request))["responses"][0]["partitions"]
    return found


def test_an_index_that_cannot_be_read_is_no_matter_to_those_who_read_elsewhere() -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(7)
        async with serving(simulation, disk) as server:
            client = await server.client()
            await create_topic(client, "t", config=SMALL)
            for _ in range(12):
                await publish(client, "t", batch(b"x" * 600))
        # After a kill there is no record of a clean stop, so every log is opened at the start.
        remove_tree(disk, server.server.broker.core.directory / CLOSED_STATES_LOG)
        async with serving(simulation, disk) as server:
            client = await server.client()
            disk.fail(errno.EIO, operation="read", path=index_from(9), times=None)
            for offset in range(9):
                result = await fetch_as(client, offset=offset)
                assert (result["error_code"], bool(result["records"])) == (0, True)
            assert (await fetch_as(client, offset=9))["error_code"] == STORAGE_ERROR
            assert server.sink.of(RequestFailed) == []

    simulate(main, 7)


@pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])
def test_a_partition_of_which_nobody_knows_what_is_aborted_says_so_and_the_others_go_on(is_commit: bool) -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(7)
        async with serving(simulation, disk) as server:
            client = await server.client()
            producer = await start_writing(client, partitions=2)
            assert await producer.end(is_commit=is_commit) == 0
            await publish(client, "t", batch(b"healthy"), partition=1)
            await publish(client, "t", batch(b"y" * 1000))
        async with serving(simulation, disk) as server:
            client = await server.client()
            disk.fail(errno.EIO, operation="read", path=index_from(1), times=None)
            sick, healthy = await fetch_all(client, 2)
            assert (sick["error_code"], sick["records"] or b"") == (STORAGE_ERROR, b"")
            assert (healthy["error_code"], bool(healthy["records"])) == (0, True)
            disk.heal()
            sick, _ = await fetch_all(client, 2)
            assert sick["error_code"] == 0
            assert bool(sick["aborted_transactions"]) is not is_commit
            assert server.sink.of(RequestFailed) == []

    simulate(main, 7)


def test_a_fetch_that_waits_for_a_commit_is_answered_though_an_index_cannot_be_read() -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(7)
        async with serving(simulation, disk) as server:
            producer = await start_writing(await server.client())
        async with serving(simulation, disk) as server:
            producer.client = await server.client("writer")
            reading = asyncio.create_task(fetch_all(await server.client("reader"), 1, wait_ms=5000))
            await asyncio.sleep(0.1)
            disk.fail(errno.EIO, operation="read", path=index_from(1), times=None)
            assert await producer.end(is_commit=True) == 0
            async with asyncio.timeout(6):
                (result,) = await reading
            assert result["error_code"] == STORAGE_ERROR
            assert server.sink.of(RequestFailed) == []

    simulate(main, 7)


async def latest_committed(client: RawClient) -> int:
    """Return the offset that readers of what is committed are sent to if they ask for the latest."""
    part = {"partition_index": 0, "timestamp": LATEST, "current_leader_epoch": -1}
    request = {"replica_id": -1, "isolation_level": COMMITTED, "topics": [{"name": "t", "partitions": [part]}]}
    reply = await client.call(LIST_OFFSETS, 7, request)
    return int(reply["topics"][0]["partitions"][0]["offset"])


def test_readers_wait_at_the_start_for_a_transaction_whose_first_records_are_deleted() -> None:
    async def act(server: SimServer, client: RawClient) -> None:
        producer = await start_writing(client)
        assert (await producer.produce(b"left", sequence=1))["base_offset"] == 5
        assert (await delete_records(client, "t", 3))["low_watermark"] == 3
        assert await latest_committed(client) == 3
        result = await fetch_as(client, offset=3)
        told = [result[name] for name in ("error_code", "log_start_offset", "last_stable_offset", "high_watermark")]
        assert told == [0, 3, 3, 6]
        assert not result["records"]
        assert await producer.end(is_commit=False) == 0
        assert await latest_committed(client) == 7
        assert [await read(client, offset=offset) for offset in (3, 4, 5)] == [[b"x" * 600], [b"x" * 600], []]

    run(act)

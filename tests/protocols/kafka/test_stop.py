"""A server stops and starts again: what waits is answered, nothing is left over, and faults stay where they are."""

from __future__ import annotations

import asyncio
import errno
from pathlib import PurePath

import pytest

from goqueue.broker.events import DiskGuard, PartitionUnavailable, UnknownDirectory
from goqueue.errors import GoQueueError, PortInUse
from goqueue.log.events import WentOffline
from goqueue.protocols.kafka.wire.listener import RequestFailed
from goqueue.runtime.clean_shutdown import CLOSED_STATES_LOG
from goqueue.runtime.tasks import TaskFailed
from goqueue.seams.disk import remove_tree
from goqueue.server.lifecycle import DrainTimedOut
from goqueue.testing import SimDisk, Simulation, simulate
from tests.protocols.kafka.raw import FETCH, METADATA, PRODUCE, Closed, RawClient
from tests.protocols.kafka.requests import (
    LATEST,
    create_topic,
    delete_topic,
    fetch,
    fetched,
    metadata,
    new_producer,
    offset_at,
    produce,
    produced,
    publish,
    read,
)
from tests.protocols.kafka.server import SimServer, serving
from tests.unit.log.log_kit import batch

SEEDS = pytest.mark.seeds(10, long_count=500)
STORAGE_ERROR = 56


@SEEDS
def test_a_stop_leaves_no_connection_task_or_file_behind(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            clients = [await server.client(f"client-{number}") for number in range(5)]
            await create_topic(clients[0], "t")
            for client in clients[1:]:
                client.send(FETCH, 11, fetch("t", 0, wait_ms=60_000))
            clients[0].send(PRODUCE, 9, produce("t", batch(b"x")))
            await asyncio.sleep(0.01)
            began = simulation.clock.monotonic()
            await server.stop()
            assert simulation.clock.monotonic() - began < 1
            assert produced(await clients[0].reply())["error_code"] == 0
            for client in clients[1:]:
                assert fetched(await client.reply())["error_code"] == 0
                await client.ended()
            assert simulation.network.listeners == {}
            assert [end for end in simulation.network.transports() if end.local[0] == "broker"] == []
            operations = server.disk.operations
            await asyncio.sleep(100)
            assert server.disk.operations == operations
            await server.stop()

    simulate(main, seed)


@pytest.mark.seeds(6, long_count=500)
def test_all_that_was_acknowledged_is_there_after_a_stop_under_load(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            owner = await server.client("owner")
            flush = simulation.entropy.choice(["group", "interval"])
            await create_topic(owner, "t", config={"goqueue.flush": flush})
            ends = [0]

            async def write(number: int) -> None:
                client = await server.client(f"writer-{number}")
                try:
                    while True:
                        for _ in range(5):
                            client.send(PRODUCE, 9, produce("t", batch(b"x")))
                        while client.due:
                            result = produced(await client.reply())
                            if result["error_code"] == 0:
                                ends.append(result["base_offset"] + 1)
                except Closed:
                    return

            writers = [asyncio.create_task(write(number)) for number in range(4)]
            await asyncio.sleep(simulation.entropy.fraction() * 0.2)
            began = simulation.clock.monotonic()
            await server.stop()
            assert simulation.clock.monotonic() - began < 5
            await asyncio.gather(*writers)
            server.disk.crash()
            await server.start()
            assert (await offset_at(await server.client(), "t", LATEST))["offset"] >= max(ends)
            assert server.sink.of(DrainTimedOut) == []

    simulate(main, seed)


@pytest.mark.seeds(3, long_count=100)
def test_clients_that_never_stop_asking_do_not_hold_up_a_stop(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation, drain_timeout_ms=300) as server:

            async def ask(number: int) -> None:
                client = await server.client(f"client-{number}")
                try:
                    while True:
                        client.send(METADATA, 12, {"topics": []})
                        client.send(METADATA, 12, {"topics": [{"name": "t"}], "allow_auto_topic_creation": True})
                        await client.reply()
                        await client.reply()
                except Closed:
                    return

            asking = [asyncio.create_task(ask(number)) for number in range(8)]
            await asyncio.sleep(0.1)
            began = simulation.clock.monotonic()
            await server.stop()
            assert server.sink.of(DrainTimedOut) == []
            assert simulation.clock.monotonic() - began < 0.3
            await asyncio.gather(*asking)

    simulate(main, seed)


@pytest.mark.seeds(3, long_count=100)
def test_requests_that_were_not_begun_do_not_hold_up_a_stop(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation, drain_timeout_ms=2000) as server:
            client = await server.client()
            frames = b"".join(client.prepared(METADATA, 12, {"topics": []}) for _ in range(200))

            async def flood() -> None:
                while client.is_open:
                    client.write(frames)
                    client.received.clear()
                    await asyncio.sleep(0.005)

            flooding = asyncio.create_task(flood())
            await asyncio.sleep(0.1)
            await server.stop()
            assert server.sink.of(DrainTimedOut) == []
            await flooding

    simulate(main, seed)


@SEEDS
def test_a_client_that_does_not_read_holds_up_a_stop_for_so_long_and_no_longer(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation, drain_timeout_ms=3000) as server:
            slow = await server.client("slow")
            await create_topic(slow, "t")
            await publish(slow, "t", batch(b"x" * 400_000))
            slow.transport.pause_reading()
            for _ in range(5):
                slow.send(FETCH, 11, fetch("t", 0))
            await asyncio.sleep(1)
            began = simulation.clock.monotonic()
            await server.stop()
            assert simulation.clock.monotonic() - began < 4
            assert [end for end in simulation.network.transports() if end.local[0] == "broker"] == []

    simulate(main, seed)


@SEEDS
def test_no_connection_is_taken_while_the_server_stops(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            parked = await server.client()
            await create_topic(parked, "t")
            parked.send(FETCH, 11, fetch("t", 0, wait_ms=60_000))
            await asyncio.sleep(0.01)
            stopping = asyncio.create_task(server.stop())
            await asyncio.sleep(0)
            try:
                late = await server.client("late")
                with pytest.raises(Closed):
                    await late.call(METADATA, 12, {"topics": []})
            except OSError:
                pass
            await stopping

    simulate(main, seed)


@SEEDS
def test_a_partition_that_cannot_be_closed_does_not_keep_the_others_open(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            for name in ("a", "b", "c"):
                await create_topic(client, name, config={"goqueue.flush": "interval"})
                await publish(client, name, batch(b"x"))
            sick = simulation.entropy.choice(["sync", "write"])
            server.disk.fail(errno.EIO, operation=sick, path=lambda path: "b-0" in path.parts, times=None)  # type: ignore[arg-type]
            await server.stop()
            server.disk.heal()
            server.disk.crash()
            await server.start()
            client = await server.client()
            assert (await offset_at(client, "a", LATEST))["offset"] == 1
            assert (await offset_at(client, "c", LATEST))["offset"] == 1
            assert set(await metadata(client)) == {"a", "b", "c"}

    simulate(main, seed)


@SEEDS
def test_a_stop_after_a_failed_start_is_harmless(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(seed)
        async with serving(simulation, disk) as server:
            await create_topic(await server.client(), "t")
        disk.fail(errno.EIO, operation="open", path=lambda path: "__catalog-0" in path.parts, times=None)
        server = SimServer(simulation, disk)
        with pytest.raises(GoQueueError):
            await server.start()
        await server.stop()
        assert simulation.network.listeners == {}
        disk.heal()
        await server.start()
        assert set(await metadata(await server.client())) == {"t"}
        await server.stop()

    simulate(main, seed)


@SEEDS
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_partition_that_cannot_be_opened_is_reported_and_the_others_work(seed: int, is_killed: bool) -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(seed)
        async with serving(simulation, disk) as server:
            client = await server.client()
            await create_topic(client, "t", partitions=3)
            for index in range(3):
                await publish(client, "t", batch(b"x"), partition=index)
        if is_killed:
            # After a kill there is no word of a clean stop, so every log is opened at the start.
            remove_tree(disk, server.server.broker.core.directory / CLOSED_STATES_LOG)
        disk.fail(errno.EIO, operation="open", path=lambda path: "t-1" in path.parts, times=None)
        async with serving(simulation, disk) as server:
            client = await server.client()
            errors = [(await publish(client, "t", batch(b"y"), partition=index))["error_code"] for index in range(3)]
            assert errors == [0, STORAGE_ERROR, 0]
            assert (await read(client, "t", 0, partition=1))["error_code"] == STORAGE_ERROR
            if is_killed:
                partitions = (await metadata(client, "t"))["t"]["partitions"]
                assert [each["leader_id"] for each in partitions] == [1, -1, 1]
                assert [event.partition for event in server.sink.of(PartitionUnavailable)] == [1]
            else:
                # The disk may answer the next time: the log is opened again with its next use.
                assert server.sink.of(WentOffline) == []
            disk.heal()
        async with serving(simulation, disk) as server:
            client = await server.client()
            assert [(await offset_at(client, "t", LATEST, partition=index))["offset"] for index in range(3)] == [
                2,
                1,
                2,
            ]

    simulate(main, seed)


@SEEDS
def test_a_topic_whose_files_cannot_be_removed_stays_deleted_and_goes_later(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(seed)
        async with serving(simulation, disk) as server:
            client = await server.client()
            await create_topic(client, "t")
            await create_topic(client, "other")
            await publish(client, "t", batch(b"old"))
            disk.fail(errno.EIO, operation="remove", path=lambda path: "t-0" in path.parts, times=None)
            assert await delete_topic(client, "t") == STORAGE_ERROR
            assert set(await metadata(client)) == {"other"}
            assert (await create_topic(client, "t"))["error_code"] != 0
            assert server.sink.of(RequestFailed) == []
        async with serving(simulation, disk) as server:
            client = await server.client()
            assert set(await metadata(client)) == {"other"}
            assert (await publish(client, "other", batch(b"x")))["error_code"] == 0
            disk.heal()
        async with serving(simulation, disk) as server:
            client = await server.client()
            assert (await create_topic(client, "t"))["error_code"] == 0
            assert (await offset_at(client, "t", LATEST))["offset"] == 0

    simulate(main, seed)


@SEEDS
def test_a_directory_that_nobody_knows_is_reported_and_left_alone(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(seed)
        disk.write_file(PurePath("data/orders-7/00000000000000000000.log"), b"precious")
        async with serving(simulation, disk) as server:
            assert [event.path for event in server.sink.of(UnknownDirectory)] == ["data/orders-7"]
        assert disk.read_file(PurePath("data/orders-7/00000000000000000000.log")) == b"precious"

    simulate(main, seed)


@SEEDS
def test_a_failed_flush_is_told_to_all_who_wait_and_stops_the_partition_only(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            clients = [await server.client(f"client-{number}") for number in range(3)]
            await create_topic(clients[0], "t", partitions=2)
            server.disk.fail(errno.EIO, operation="sync", path="t-0/*.log")
            for client in clients:
                client.send(PRODUCE, 9, produce("t", batch(b"x")))
            for client in clients:
                assert produced(await client.reply())["error_code"] == STORAGE_ERROR
            assert (await publish(clients[0], "t", batch(b"y")))["error_code"] == STORAGE_ERROR
            assert (await publish(clients[0], "t", batch(b"y"), partition=1))["error_code"] == 0
            assert (await read(clients[0], "t", 0))["records"] == b""

    simulate(main, seed)


@SEEDS
def test_a_full_disk_refuses_and_takes_writes_again_when_there_is_room(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(seed, capacity_bytes=60_000)
        async with serving(simulation, disk, disk_guard_free_fraction=0.0) as server:
            client = await server.client()
            await create_topic(client, "t")
            accepted = 0
            while (result := await publish(client, "t", batch(b"x" * 5000)))["error_code"] == 0:
                assert result["base_offset"] == accepted
                accepted += 1
            assert result["error_code"] == STORAGE_ERROR
            assert accepted > 3
            disk.capacity_bytes = 200_000
            assert (await publish(client, "t", batch(b"y")))["base_offset"] == accepted

    simulate(main, seed)


@SEEDS
def test_the_guard_refuses_writes_before_the_disk_is_full_and_lets_reads_go_on(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(seed, capacity_bytes=100_000)
        async with serving(simulation, disk, disk_guard_free_fraction=0.3) as server:
            client = await server.client()
            await create_topic(client, "t")
            for _ in range(20):
                await publish(client, "t", batch(b"x" * 5000))
                await asyncio.sleep(1.1)
            assert (await publish(client, "t", batch(b"x")))["error_code"] == STORAGE_ERROR
            assert server.sink.of(DiskGuard)[-1].is_refusing
            assert (await read(client, "t", 0))["error_code"] == 0
            assert await new_producer(client) == -1
            assert (await create_topic(client, "u"))["error_code"] == STORAGE_ERROR
            assert await delete_topic(client, "t") == 0
            await asyncio.sleep(1.5)
            assert not server.sink.of(DiskGuard)[-1].is_refusing
            assert (await create_topic(client, "u"))["error_code"] == 0

    simulate(main, seed)


@SEEDS
def test_upkeep_goes_on_whatever_the_disk_does_meanwhile(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            await create_topic(client, "t", config={"segment.bytes": "1024", "retention.ms": "10000"})
            for _ in range(5):
                await publish(client, "t", batch(b"x" * 800, timestamp=simulation.clock.now_ms()))
            server.disk.fail(errno.EIO, operation="remove", times=3)
            await asyncio.sleep(2 * 60)
            assert (await offset_at(client, "t", -2))["offset"] >= 4
            assert server.sink.of(TaskFailed) == []

    simulate(main, seed)


def test_two_servers_at_once_share_nothing() -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as one:
            other = SimServer(simulation)
            other.settings = one.settings
            client: RawClient = await one.client()
            await create_topic(client, "t")
            with pytest.raises(PortInUse, match="9092"):
                await other.start()
            assert set(await metadata(client)) == {"t"}

    simulate(main, 0)

"""How far a partition may be read: a high watermark that keeps its word, deletions that last, and a proper end."""

from __future__ import annotations

import asyncio
import errno
from pathlib import PurePath

import pytest

from goqueue.errors import (
    EpochFenced,
    LogOffline,
    OffsetOutOfRange,
    UnknownEpoch,
)
from goqueue.log.log import Log
from goqueue.records.layout import (
    reseal,
)
from goqueue.runtime.partition import Partition
from goqueue.testing import SimDisk, Simulation, simulate
from tests.unit.log.log_kit import batch, in_transaction
from tests.unit.runtime.partition_kit import GROUP, INTERVAL, appended, codes, idempotent, partition_of, run

# -- the high watermark


def test_with_group_nothing_is_visible_before_it_is_durable() -> None:
    async def act(partition: Partition, disk: SimDisk, simulation: Simulation) -> None:
        partition.append([batch(b"1")])
        assert (partition.high_watermark, partition.log.end_offset) == (0, 1)
        assert partition.read(0, bytes_max=1000) == b""
        assert partition.offset_for_time(0) is None
        assert partition.offset_of_max_timestamp() is None
        await partition.committed(1)
        assert partition.high_watermark == partition.log.durable_end == 1
        assert partition.read(0, bytes_max=1000)

    run(act)


def test_with_interval_everything_is_visible_at_once() -> None:
    async def act(partition: Partition, disk: SimDisk, simulation: Simulation) -> None:
        partition.append([batch(b"1")])
        assert (partition.high_watermark, partition.log.durable_end) == (1, 0)
        assert partition.read(0, bytes_max=1000)
        await asyncio.sleep(1.1)
        assert partition.log.durable_end == 1

    run(act, INTERVAL)


def test_it_never_goes_back_when_the_policy_changes() -> None:
    async def act(partition: Partition, disk: SimDisk, simulation: Simulation) -> None:
        partition.append([batch(b"1")])
        assert partition.high_watermark == 1
        partition.configure(GROUP)
        assert partition.high_watermark == 1
        partition.append([batch(b"2")])
        assert partition.high_watermark == 1
        await partition.committed(2)
        partition.append([batch(b"3")])
        partition.configure(INTERVAL)
        assert partition.high_watermark == 3
        partition.configure(GROUP)
        # What waits for an interval must not wait for it any longer.
        await asyncio.sleep(0.1)
        assert partition.log.durable_end == 3

    run(act, INTERVAL)


def test_whoever_waits_is_woken_when_the_policy_changes() -> None:
    async def act(partition: Partition, disk: SimDisk, simulation: Simulation) -> None:
        disk_is_slow = asyncio.create_task(partition.committed(1))
        await asyncio.sleep(0)
        partition.append([batch(b"1")])
        partition.configure(INTERVAL)
        await disk_is_slow

    run(act)


def test_it_starts_where_the_log_is_durable() -> None:
    disk = SimDisk(7)

    async def main(simulation: Simulation) -> None:
        partition = partition_of(disk, simulation)
        partition.append([batch(b"1", b"2")])
        await partition.committed(2)
        disk.kill()
        partition = partition_of(disk, simulation)
        assert partition.high_watermark == 2
        await partition.close()

    simulate(main, 7)


def test_a_failed_flush_is_told_to_all_who_wait() -> None:
    async def act(partition: Partition, disk: SimDisk, simulation: Simulation) -> None:
        partition.append([batch(b"1")])
        await partition.committed(1)
        disk.fail(errno.EIO, operation="sync", path="*.log")
        partition.append([batch(b"2")])
        waiting = [asyncio.create_task(partition.committed(2)) for _ in range(3)]
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [LogOffline] * 3
        with pytest.raises(LogOffline):
            await partition.committed(2)
        await partition.committed(1)
        assert partition.high_watermark == 1
        assert len(partition.waiters) == 0

    run(act)


# -- deletion


def test_records_are_deleted_durably_and_in_bounds() -> None:
    disk = SimDisk(7)

    async def main(simulation: Simulation) -> None:
        partition = partition_of(disk, simulation)
        for number in range(5):
            partition.append([batch(b"%d" % number)])
        await partition.committed(5)
        for offset in (-2, 6, 100):
            with pytest.raises(OffsetOutOfRange):
                await partition.delete_before(offset)
        assert await partition.delete_before(3) == 3
        assert await partition.delete_before(1) == 3
        with pytest.raises(OffsetOutOfRange):
            partition.read(2, bytes_max=1000)
        disk.crash()
        partition = partition_of(disk, simulation)
        assert (partition.log.start_offset, partition.high_watermark) == (3, 5)
        assert await partition.delete_before(-1) == 5
        assert appended(partition.append([batch(b"next")])[0]) == (5, 6)
        await partition.close()

    simulate(main, 7)


def test_records_that_nobody_may_see_cannot_be_deleted() -> None:
    async def act(partition: Partition, disk: SimDisk, simulation: Simulation) -> None:
        partition.append([batch(b"1")])
        with pytest.raises(OffsetOutOfRange):
            await partition.delete_before(1)
        assert await partition.delete_before(-1) == 0

    run(act)


def test_the_last_stable_offset_is_never_before_the_start() -> None:
    """Though a transaction is open whose first records are deleted; the others of it stay hidden until it ends."""

    async def act(partition: Partition, disk: SimDisk, simulation: Simulation) -> None:
        for batches in ([in_transaction(b"0", producer=1, sequence=0)], [in_transaction(b"1", producer=1, sequence=1)]):
            partition.append(batches, is_transactional=True)
        partition.append([batch(b"2")])
        await partition.committed(3)
        assert partition.last_stable_offset == 0
        assert await partition.delete_before(1) == 1
        assert partition.last_stable_offset == 1
        assert partition.read(1, bytes_max=1000, is_committed_only=True) == b""
        await partition.committed(partition.end_transaction(1, 0, is_commit=False))
        assert partition.last_stable_offset == partition.high_watermark == 4
        assert partition.read(1, bytes_max=1000, is_committed_only=True)

    run(act)


def test_a_deletion_that_is_asked_for_twice_is_durable_for_both() -> None:
    async def act(partition: Partition, disk: SimDisk, simulation: Simulation) -> None:
        partition.append([batch(b"1"), batch(b"2")])
        await partition.committed(2)
        first = asyncio.create_task(partition.delete_before(2))
        await asyncio.sleep(0)
        for offset in (2, 1, -1):
            assert await partition.delete_before(offset) == 2
            assert partition.log._open().durability.start == 2
        await first

    for seed in range(10):
        run(act, seed=seed)


def test_a_deletion_that_failed_is_told_to_both() -> None:
    async def act(partition: Partition, disk: SimDisk, simulation: Simulation) -> None:
        partition.append([batch(b"1"), batch(b"2")])
        await partition.committed(2)
        disk.fail(errno.EIO, operation="sync", times=None)
        for _ in range(2):
            with pytest.raises(LogOffline):
                await partition.delete_before(1)
        disk.heal()

    run(act)


def test_a_deletion_that_cannot_become_durable_is_told() -> None:
    async def act(partition: Partition, disk: SimDisk, simulation: Simulation) -> None:
        partition.append([batch(b"1")])
        await partition.committed(1)
        disk.fail(errno.EIO, operation="sync", times=None)
        with pytest.raises(LogOffline):
            await partition.delete_before(1)
        disk.heal()

    run(act)


# -- the rest


def test_an_epoch_that_is_not_the_leaders_is_refused() -> None:
    async def act(partition: Partition, disk: SimDisk, simulation: Simulation) -> None:
        partition.leader_epoch = 3
        partition.check_epoch(-1)
        partition.check_epoch(3)
        with pytest.raises(EpochFenced):
            partition.check_epoch(2)
        with pytest.raises(UnknownEpoch):
            partition.check_epoch(4)

    run(act)


def test_closing_wakes_who_waits_and_twice_is_harmless() -> None:
    async def act(partition: Partition, disk: SimDisk, simulation: Simulation) -> None:
        waiting = asyncio.create_task(partition.committed(100))
        await asyncio.sleep(0)
        await partition.close()
        with pytest.raises(LogOffline):
            await waiting
        await partition.close()
        assert codes(partition.append([batch(b"x")])) == ["log_offline"]

    run(act)


def test_a_batch_whose_seal_is_not_its_own_is_refused() -> None:
    async def act(partition: Partition, disk: SimDisk, simulation: Simulation) -> None:
        data = batch(b"x")
        data[17] ^= 1
        assert codes(partition.append([data])) == ["corrupt_batch"]
        reseal(data)
        assert codes(partition.append([data])) == ["ok"]

    run(act)


def test_two_partitions_share_nothing() -> None:
    disk = SimDisk(7)

    async def main(simulation: Simulation) -> None:
        logs = [Log(disk, PurePath(f"data/orders-{index}"), GROUP.log) for index in range(2)]
        partitions = [Partition("orders", index, log, GROUP, simulation.clock) for index, log in enumerate(logs)]
        for partition in partitions:
            assert codes(partition.append([idempotent(0), idempotent(1)])) == ["ok", "ok"]
        assert [partition.log.end_offset for partition in partitions] == [2, 2]
        for partition in partitions:
            await partition.close()

    simulate(main, 7)

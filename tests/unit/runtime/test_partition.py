"""What is appended to a partition: many requests in one write, and an outcome for each."""

from __future__ import annotations

import asyncio
import errno
from dataclasses import replace

import pytest

from goqueue.errors import (
    CorruptBatch,
    DiskFull,
    InvalidRecord,
    OutOfOrderSequence,
    ProducerFenced,
    TooLarge,
)
from goqueue.log.verify import verify
from goqueue.log.verify_segment import Severity
from goqueue.model.log_settings import LogSettings
from goqueue.model.topic_settings import TopicSettings
from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.compression import Codec
from goqueue.records.layout import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME_BIT,
    headers,
    read_header,
    write_header,
)
from goqueue.records.reader import read_records
from goqueue.runtime.partition import Appended, Partition
from goqueue.testing import SimDisk, Simulation, simulate
from tests.unit.log.log_kit import DIRECTORY, batch, values
from tests.unit.runtime.partition_kit import STAMPED, appended, codes, idempotent, partition_of, run

# -- appends


def test_sections_of_one_call_share_one_write() -> None:
    async def act(partition: Partition, disk: SimDisk, simulation: Simulation) -> None:
        before = disk.operations
        outcomes = partition.append([batch(b"%d" % number, b"more") for number in range(50)])
        assert disk.operations == before + 1
        assert [appended(outcome) for outcome in outcomes] == [(2 * number, 2 * number + 2) for number in range(50)]
        assert partition.records_in == 100

    run(act)


def test_a_section_of_several_batches_is_stored_whole() -> None:
    async def act(partition: Partition, disk: SimDisk, simulation: Simulation) -> None:
        (outcome,) = partition.append([batch(b"1", b"2") + batch(b"3")])
        assert appended(outcome) == (0, 3)
        bad = batch(b"5")
        bad[-1] ^= 1
        assert codes(partition.append([batch(b"4") + bad, batch(b"6")])) == ["corrupt_batch", "ok"]
        assert values(partition.log) == [b"1", b"2", b"3", b"6"]

    run(act)


def test_each_section_has_an_outcome_of_its_own() -> None:
    async def act(partition: Partition, disk: SimDisk, simulation: Simulation) -> None:
        damaged = batch(b"x")
        damaged[-1] ^= 0xFF
        sections = [batch(b"1"), damaged, bytearray(), batch(b"2"), bytearray(b"garbage" * 20), batch(b"3")]
        outcomes = partition.append(sections)
        assert codes(outcomes) == ["ok", "corrupt_batch", "invalid_record", "ok", "unsupported_format", "ok"]
        assert [appended(outcome) for outcome in outcomes if isinstance(outcome, Appended)] == [(0, 1), (1, 2), (2, 3)]
        assert values(partition.log) == [b"1", b"2", b"3"]

    run(act)


def test_a_stamp_far_ahead_of_the_clock_is_refused_unless_the_broker_stamps_itself() -> None:
    async def act(partition: Partition, disk: SimDisk, simulation: Simulation) -> None:
        ahead_ms = partition.settings.timestamp_after_max_ms
        now_ms = simulation.clock.now_ms()
        sections = [stamped(now_ms + ahead_ms), stamped(now_ms + ahead_ms + 1), stamped(0)]
        assert codes(partition.append(sections)) == ["ok", "invalid_timestamp", "ok"]
        partition.configure(replace(partition.settings, timestamp_after_max_ms=ahead_ms + 1))
        assert codes(partition.append([stamped(now_ms + ahead_ms + 1)])) == ["ok"]
        partition.configure(STAMPED)
        assert codes(partition.append([stamped(now_ms * 2)])) == ["ok"]

    def stamped(timestamp_ms: int) -> bytearray:
        return build_batch([NewRecord(timestamp_ms, b"key", b"value")])

    run(act)


def test_buffers_may_be_used_again_at_return() -> None:
    async def act(partition: Partition, disk: SimDisk, simulation: Simulation) -> None:
        buffer = batch(b"keep me")
        partition.append([memoryview(buffer)])
        buffer[:] = bytes(len(buffer))
        await partition.committed(1)
        assert values(partition.log) == [b"keep me"]

    run(act)


def test_a_batch_larger_than_the_topic_allows_is_refused() -> None:
    settings = TopicSettings(log=LogSettings(max_message_bytes=200))

    async def act(partition: Partition, disk: SimDisk, simulation: Simulation) -> None:
        (refused,) = partition.append([batch(b"x" * 200)])
        assert isinstance(refused, TooLarge)
        # The limit is for one batch, not for all of a request.
        assert codes(partition.append([batch(b"x" * 100) + batch(b"y" * 100)])) == ["ok"]

    run(act, settings)


def test_an_append_that_fails_fails_for_every_section_and_stores_none() -> None:
    async def act(partition: Partition, disk: SimDisk, simulation: Simulation) -> None:
        assert codes(partition.append([batch(b"1")])) == ["ok"]
        disk.fail(errno.ENOSPC, operation="write", path="*.log")
        outcomes = partition.append([batch(b"2"), batch(b"3")])
        assert [type(outcome) for outcome in outcomes] == [DiskFull, DiskFull]
        assert appended(partition.append([batch(b"4")])[0]) == (1, 2)
        assert values(partition.log) == [b"1", b"4"]

    run(act)


def test_a_broken_disk_takes_the_partition_offline_and_leaves_it_readable() -> None:
    async def act(partition: Partition, disk: SimDisk, simulation: Simulation) -> None:
        partition.append([batch(b"1")])
        await partition.committed(1)
        disk.fail(errno.EIO, operation="write", path="*.log")
        assert codes(partition.append([batch(b"2")])) == ["log_offline"]
        assert codes(partition.append([batch(b"3")])) == ["log_offline"]
        assert read_records(partition.read(0, bytes_max=1000))[0].value == b"1"

    run(act)


# -- what clients may write


def _altered(**changes: int) -> bytearray:
    data = batch(b"a", b"b")
    header = read_header(data)._replace(**changes)
    write_header(data, header)
    return data


@pytest.mark.parametrize(
    "data",
    [
        _altered(attributes=CONTROL_BIT, producer_id=1, producer_epoch=0, base_sequence=0),
        _altered(attributes=DELETE_HORIZON_BIT),
        _altered(record_count=1),
        _altered(record_count=0),
        _altered(last_offset_delta=10),
        _altered(last_offset_delta=10_000, record_count=10_001),
        _altered(producer_id=1, producer_epoch=0, base_sequence=-1),
        idempotent(0) + idempotent(1),
        idempotent(0) + batch(b"x"),
        bytearray(),
    ],
    ids=[
        *("control", "delete-horizon", "too-few", "empty", "gap", "more-than-fit"),
        *("no-sequence", "two-batches", "mixed-batches", "nothing"),
    ],
)
def test_what_only_the_broker_may_write_is_refused(data: bytearray) -> None:
    async def act(partition: Partition, disk: SimDisk, simulation: Simulation) -> None:
        (outcome,) = partition.append([data])
        assert isinstance(outcome, InvalidRecord)
        assert partition.log.end_offset == 0

    run(act)


@pytest.mark.parametrize("size", [1, 11, 12, 60, 61, 65])
def test_a_batch_that_was_cut_off_is_refused(size: int) -> None:
    async def act(partition: Partition, disk: SimDisk, simulation: Simulation) -> None:
        outcomes = partition.append([batch(b"whole")[:size]])
        assert isinstance(outcomes[0], CorruptBatch)

    run(act)


def test_a_producer_cannot_say_that_the_broker_stamped_its_records() -> None:
    """A topic of CreateTime has the producers' times; a batch that claims another clock contradicts that."""

    async def act(partition: Partition, disk: SimDisk, simulation: Simulation) -> None:
        data = batch(b"x")
        write_header(data, read_header(data)._replace(attributes=LOG_APPEND_TIME_BIT))
        assert codes(partition.append([data])) == ["invalid_timestamp"]

    run(act)


# -- idempotence inside of one burst and beyond


def test_a_producer_may_send_many_batches_in_one_burst() -> None:
    async def act(partition: Partition, disk: SimDisk, simulation: Simulation) -> None:
        sections = [idempotent(number, b"%d" % number) for number in range(10)]
        assert [appended(outcome)[0] for outcome in partition.append(sections)] == list(range(10))
        assert values(partition.log) == [b"%d" % number for number in range(10)]

    run(act)


def test_a_duplicate_in_the_same_burst_gets_the_offset_of_the_first() -> None:
    async def act(partition: Partition, disk: SimDisk, simulation: Simulation) -> None:
        sections = [idempotent(0, b"a", b"b"), batch(b"c"), idempotent(0, b"a", b"b"), idempotent(2, b"d")]
        outcomes = partition.append(sections)
        assert [appended(outcome) for outcome in outcomes] == [(0, 2), (2, 3), (0, 2), (3, 4)]
        assert values(partition.log) == [b"a", b"b", b"c", b"d"]

    run(act)


def test_a_duplicate_of_an_earlier_burst_gets_its_offset() -> None:
    async def act(partition: Partition, disk: SimDisk, simulation: Simulation) -> None:
        for number in range(5):
            partition.append([idempotent(number, b"%d" % number)])
        outcomes = partition.append([idempotent(3, b"3"), idempotent(5, b"5"), idempotent(4, b"4")])
        assert [appended(outcome)[0] for outcome in outcomes] == [3, 5, 4]
        assert len(values(partition.log)) == 6

    run(act)


def test_a_gap_is_refused_and_so_is_what_follows_it() -> None:
    async def act(partition: Partition, disk: SimDisk, simulation: Simulation) -> None:
        outcomes = partition.append([idempotent(0), idempotent(2), idempotent(3), idempotent(1), idempotent(2)])
        assert codes(outcomes) == ["ok", "out_of_order_sequence", "out_of_order_sequence", "ok", "ok"]
        assert isinstance(outcomes[1], OutOfOrderSequence)
        assert partition.log.end_offset == 3

    run(act)


def test_an_old_epoch_is_fenced_and_a_new_one_begins_at_zero() -> None:
    async def act(partition: Partition, disk: SimDisk, simulation: Simulation) -> None:
        partition.append([idempotent(0, epoch=1), idempotent(1, epoch=1)])
        outcomes = partition.append([idempotent(2, epoch=0), idempotent(0, epoch=2), idempotent(2, epoch=1)])
        assert [type(outcome) for outcome in outcomes] == [ProducerFenced, Appended, ProducerFenced]
        assert codes(partition.append([idempotent(1, epoch=3)])) == ["out_of_order_sequence"]

    run(act)


def test_producers_do_not_know_each_other() -> None:
    async def act(partition: Partition, disk: SimDisk, simulation: Simulation) -> None:
        sections = [idempotent(number, producer=producer) for number in range(3) for producer in (1, 2, 3)]
        assert codes(partition.append(sections)) == ["ok"] * 9
        assert partition.log.end_offset == 9

    run(act)


def test_a_retry_of_an_append_that_failed_is_no_duplicate() -> None:
    async def act(partition: Partition, disk: SimDisk, simulation: Simulation) -> None:
        partition.append([idempotent(0, b"0")])
        disk.fail(errno.ENOSPC, operation="write", path="*.log")
        # The second fails because the first is missing, not because it is there already.
        assert codes(partition.append([idempotent(1, b"1"), idempotent(2, b"2")])) == [
            "disk_full",
            "out_of_order_sequence",
        ]
        assert codes(partition.append([idempotent(1, b"1"), idempotent(2, b"2")])) == ["ok", "ok"]
        assert values(partition.log) == [b"0", b"1", b"2"]

    run(act)


def test_a_new_producer_whose_first_batch_failed_cannot_begin_with_its_second() -> None:
    """Else the first, sent again, would be out of order for ever."""

    async def act(partition: Partition, disk: SimDisk, simulation: Simulation) -> None:
        disk.fail(errno.ENOSPC, operation="write", path="*.log")
        assert codes(partition.append([idempotent(0, b"0")])) == ["disk_full"]
        assert codes(partition.append([idempotent(1, b"1")])) != ["ok"]
        assert codes(partition.append([idempotent(0, b"0"), idempotent(1, b"1")])) == ["ok", "ok"]
        assert values(partition.log) == [b"0", b"1"]

    run(act)


def test_a_duplicate_is_known_after_a_restart() -> None:
    disk = SimDisk(7)

    async def main(simulation: Simulation) -> None:
        partition = partition_of(disk, simulation)
        partition.append([idempotent(0, b"0"), idempotent(1, b"1")])
        await partition.committed(2)
        disk.crash()
        partition = partition_of(disk, simulation)
        assert [appended(each) for each in partition.append([idempotent(1, b"1"), idempotent(2, b"2")])] == [
            (1, 2),
            (2, 3),
        ]
        await partition.close()

    simulate(main, 7)


# -- the broker's own stamps


@pytest.mark.parametrize("codec", list(Codec))
def test_the_brokers_time_replaces_the_producers(codec: Codec) -> None:
    disk = SimDisk(7)

    async def act(partition: Partition, disk: SimDisk, simulation: Simulation) -> None:
        await asyncio.sleep(5)
        outcomes = partition.append(
            [batch(b"a", b"b", timestamp=123, codec=codec), idempotent(0), batch(b"c", timestamp=10**15, codec=codec)]
        )
        now = simulation.clock.now_ms()
        assert {outcome.timestamp for outcome in outcomes if isinstance(outcome, Appended)} == {now}
        await partition.committed(4)
        data = partition.read(0, bytes_max=10_000)
        for position, header in headers(data):
            assert header.max_timestamp == now
            assert {record.timestamp for record in read_records(data[position:])} == {now}
        found = partition.offset_for_time(now)
        assert found is not None
        assert (found.offset, found.timestamp) == (0, now)
        assert partition.offset_for_time(now + 1) is None

    run(act, STAMPED, disk)
    assert [finding for finding in verify(disk, DIRECTORY) if finding.severity is not Severity.NOTE] == []


def test_without_the_brokers_time_no_time_is_told() -> None:
    async def act(partition: Partition, disk: SimDisk, simulation: Simulation) -> None:
        (outcome,) = partition.append([batch(b"a", timestamp=123)])
        assert isinstance(outcome, Appended)
        assert outcome.timestamp == -1
        await partition.committed(1)
        assert read_records(partition.read(0, bytes_max=1000))[0].timestamp == 123

    run(act)

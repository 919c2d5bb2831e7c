"""What was read at once is kept for whoever comes back, within bounds."""

from __future__ import annotations

from goqueue.broker.queues import reading as queue_reading
from goqueue.broker.queues.reading import MessageRanges
from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.compression import Codec
from goqueue.runtime.partition import Partition
from goqueue.testing import SimDisk, Simulation
from tests.unit.runtime.partition_kit import run

LARGE = bytes(4 * 1024 * 1024)
MUCH = 1024 * 1024


async def _publish(partition: Partition, *records: NewRecord) -> None:
    partition.append([build_batch(records, codec=Codec.GZIP)])
    await partition.committed(partition.log.end_offset)


def test_what_compressed_batches_open_to_counts_be_it_keys_values_or_headers() -> None:
    async def act(partition: Partition, disk: SimDisk, simulation: Simulation) -> None:
        del disk, simulation
        await _publish(partition, NewRecord(1, LARGE, None), NewRecord(1, None, b"v", [("h", LARGE)]))
        stretch = MessageRanges().read(partition, 0, 1000, MUCH)
        assert len(stretch.take(1, MUCH)[0]) == 1
        assert 2 * len(LARGE) < stretch.size_bytes < 3 * len(LARGE)

    run(act)


def test_what_was_taken_takes_no_room() -> None:
    async def act(partition: Partition, disk: SimDisk, simulation: Simulation) -> None:
        del disk, simulation
        await _publish(partition, NewRecord(1, None, LARGE), NewRecord(1, None, LARGE))
        stretch = MessageRanges().read(partition, 0, 1000, MUCH)
        assert len(stretch.take(2, 3 * len(LARGE))[0]) == 2
        assert (stretch.offset, stretch._records) == (2, ())
        assert stretch.size_bytes < MUCH

    run(act)


def test_nothing_is_kept_of_a_partition_that_goes() -> None:
    async def act(partition: Partition, disk: SimDisk, simulation: Simulation) -> None:
        del disk, simulation
        await _publish(partition, *[NewRecord(1, None, b"%d" % number) for number in range(10)])
        stretches = MessageRanges()
        stretch = stretches.read(partition, 0, 1000, MUCH)
        stretch.take(3, MUCH)
        stretches.keep(partition, stretch)
        assert stretches.read(partition, 3, 1000, MUCH) is stretch
        stretches.keep(partition, stretch)
        stretches.forget(partition)
        assert stretches.read(partition, 3, 1000, MUCH) is not stretch

    run(act)


def test_what_is_kept_is_bounded() -> None:
    async def act(partition: Partition, disk: SimDisk, simulation: Simulation) -> None:
        del disk, simulation
        for _ in range(30):
            await _publish(partition, NewRecord(1, None, LARGE), NewRecord(1, None, b"rest"))
        stretches = MessageRanges()
        for number in range(30):
            stretch = stretches.read(partition, 2 * number, 1000, 1)
            stretch.take(1, 2 * len(LARGE))
            stretches.keep(partition, stretch)
        assert stretches._kept_bytes <= queue_reading._KEPT_BYTES_MAX
        assert 10 < len(stretches._kept) < 20

    run(act)

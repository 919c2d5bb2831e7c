"""What a log tells of its aborted transactions: as long as readers need it, and without looking where it need not."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePath

import pytest
from typing_extensions import override

from goqueue.errors import Unavailable
from goqueue.log import names
from goqueue.log.compaction import AbortedRanges
from goqueue.log.log import Log
from goqueue.machines.producer import AbortedRange
from goqueue.model.log_settings import Cleanup
from goqueue.records.layout import read_header
from goqueue.testing import SimDisk
from tests.unit.log.log_kit import (
    DAY_MS,
    NOW_MS,
    SETTINGS,
    abort,
    append,
    append_segments,
    batch,
    commit,
    compact,
    flush,
    in_transaction,
    keyed,
    open_log,
    read_committed,
    remove_files,
    settle,
    values,
)

COMPACTING = replace(SETTINGS, cleanup=Cleanup.COMPACT, min_cleanable_dirty_ratio=0, delete_retention_ms=DAY_MS)


def index_from(offset: int) -> Callable[[PurePath], bool]:
    """Return what tells the index files of the segments that begin at an offset or behind it."""
    return lambda path: path.name.endswith(names.INDEX) and int(path.stem) >= offset


def filled(disk: SimDisk, *segments: list[bytearray]) -> Log:
    """Return a log that was closed and opened again, so that nothing of its sealed segments is in memory."""
    log = open_log(disk)
    append_segments(log, *segments)
    log.close()
    return open_log(disk)


# -- compaction


def compacted_twice(log: Log) -> None:
    """Let two passes go over a log, the second after the time for which markers stay."""
    for time in (0, 2 * DAY_MS):
        settle(log)
        assert compact(log, NOW_MS + time)
        append_segments(log, [], [batch(b"another")], [])
    settle(log)


def test_committed_records_can_be_read_when_the_marker_of_an_older_abort_is_gone() -> None:
    disk = SimDisk(0)
    log = open_log(disk, COMPACTING)
    append_segments(
        log,
        [in_transaction(b"aborted", key=b"a", producer=1, sequence=0), abort(1)],
        [in_transaction(b"first", key=b"b", producer=1, sequence=1), commit(1)],
        [in_transaction(b"second", key=b"c", producer=1, sequence=2), commit(1)],
        [],
    )
    compacted_twice(log)
    for each in (log, restarted(disk, log)):
        assert read_committed(each) == [b"first", b"second", b"another", b"another"]
        assert each.aborted_transactions(0, each.end_offset) == []


def restarted(disk: SimDisk, log: Log) -> Log:
    log.close()
    return open_log(disk, COMPACTING)


def test_an_aborted_transaction_is_told_as_long_as_its_marker_is_there() -> None:
    log = open_log(SimDisk(0), COMPACTING)
    append_segments(
        log,
        [in_transaction(b"aborted", key=b"a", producer=1, sequence=0), abort(1)],
        [in_transaction(b"committed", key=b"b", producer=1, sequence=1), commit(1)],
        [],
    )
    settle(log)
    assert compact(log, NOW_MS)
    assert log.aborted_transactions(0, log.end_offset) == [AbortedRange(1, 0, 1, 2)]
    assert values(log) == read_committed(log) == [b"committed"]


def test_compaction_leaves_out_what_is_aborted_further_on() -> None:
    """The marker lies in a segment that the pass does not touch."""
    log = open_log(SimDisk(0), COMPACTING)
    append_segments(
        log,
        [keyed((b"k", b"kept"))],
        [in_transaction(b"aborted", key=b"k", producer=1, sequence=0)],
        [abort(1, timestamp=NOW_MS + 1)],
        [],
    )
    log.configure(replace(COMPACTING, min_compaction_lag_ms=10))
    settle(log)
    assert compact(log, NOW_MS + 10)
    assert values(log) == read_committed(log) == [b"kept"]


def test_to_see_that_no_pass_is_due_takes_no_index_file() -> None:
    disk = SimDisk(0)
    log = open_log(disk, COMPACTING)
    append_segments(log, *([keyed((b"k", b"%d" % at))] for at in range(4)), [])
    log.close()
    log = open_log(disk, replace(COMPACTING, min_compaction_lag_ms=DAY_MS))
    disk.fail(errno.EIO, operation="read", path="*.index", times=None)
    assert log.compaction(NOW_MS) is None


# -- many of them


class Watched(AbortedRange):
    """Counts how often somebody looks at one."""

    looks = 0

    @property
    @override
    def last_offset(self) -> int:
        """As the field, but counted."""
        Watched.looks += 1
        return self[2]


def test_what_is_aborted_is_found_among_many_with_a_few_looks() -> None:
    ranges = AbortedRanges(Watched(at % 2, 10 * at, 10 * at + 5, 0) for at in range(2_000))
    Watched.looks = 0
    header = read_header(in_transaction(b"x", producer=1, sequence=0))
    assert ranges.hold(header._replace(base_offset=19_995))
    assert not ranges.hold(header._replace(base_offset=19_985))
    assert Watched.looks < 50


@pytest.mark.parametrize("producer", [1, 2, 3])
def test_aborted_are_the_records_of_a_producer_from_its_first_offset_to_its_marker(producer: int) -> None:
    ranges = AbortedRanges([AbortedRange(*entry, 0) for entry in ((1, 3, 6), (2, 5, 8), (1, 7, 9), (1, 12, 13))])
    header = read_header(in_transaction(b"x", producer=producer, sequence=0))
    plain = read_header(batch(b"x", producer=producer, sequence=0))
    expected = {1: {3, 4, 5, 6, 7, 8, 9, 12, 13}, 2: {5, 6, 7, 8}, 3: set()}[producer]
    assert {at for at in range(20) if ranges.hold(header._replace(base_offset=at))} == expected
    assert not any(ranges.hold(plain._replace(base_offset=at)) for at in range(20))


# -- only where it must


def test_nothing_behind_a_range_has_to_be_read() -> None:
    disk = SimDisk(0)
    log = filled(disk, *([batch(b"%d" % number)] for number in range(10)), [])
    disk.fail(errno.EIO, operation="read", path=index_from(3), times=None)
    assert log.aborted_transactions(0, 3) == []
    with pytest.raises(Unavailable):
        log.aborted_transactions(0, 4)


def test_a_transaction_is_followed_to_its_end_and_no_further() -> None:
    disk = SimDisk(0)
    log = filled(
        disk,
        [batch(b"0"), in_transaction(b"1", producer=1, sequence=0)],
        [batch(b"2")],
        [in_transaction(b"3", producer=2, sequence=0), abort(1), batch(b"5")],
        [abort(2)],
        [batch(b"7")],
        [],
    )
    disk.fail(errno.EIO, operation="read", path=index_from(6), times=None)
    assert log.aborted_transactions(0, 1) == []
    assert log.aborted_transactions(0, 3) == [AbortedRange(1, 1, 4, 3)]
    disk.heal()
    disk.fail(errno.EIO, operation="read", path=index_from(7), times=None)
    assert log.aborted_transactions(2, 6) == [AbortedRange(1, 1, 4, 3), AbortedRange(2, 3, 6, 7)]


def test_it_is_known_from_when_a_segment_is_sealed_which_transactions_go_on_behind_it() -> None:
    disk = SimDisk(0)
    log = open_log(disk)
    append_segments(log, [batch(b"0")], [in_transaction(b"1", producer=1, sequence=0)], [batch(b"2")], [commit(1)], [])

    def stable_offsets() -> list[int]:
        return [log.segments.details(number).stable_offset for number in range(len(log.segments.sealed))]

    assert stable_offsets() == [1, 1, 1, 4]
    settle(log)
    assert stable_offsets() == [1, 1, 1, 4]
    remove_files(disk, names.INDEX)
    assert stable_offsets() == [1, 1, 1, 4]


@pytest.mark.parametrize("bytes_max", [1, 200, 500, 100_000])
def test_the_end_of_a_read_is_known_within_two_intervals_of_the_index(bytes_max: int) -> None:
    disk = SimDisk(0)
    log = open_log(disk, replace(SETTINGS, segment_bytes=4096))
    for number in range(100):
        append(log, batch(*[b"%d" % number] * (number % 3 + 1)))
    log.close()
    log = open_log(disk, replace(SETTINGS, segment_bytes=4096))
    for offset in range(log.end_offset):
        data = log.read(offset, bytes_max=bytes_max)
        last = read_header(data)
        rest = memoryview(data)[last.size_bytes :]
        while rest:
            last = read_header(rest)
            rest = rest[last.size_bytes :]
        bound = log.segments.end_of_read(read_header(data).base_offset, len(data))
        assert last.next_offset <= bound <= last.next_offset + 3 * 3


def test_an_index_that_cannot_be_made_again_is_told() -> None:
    disk = SimDisk(0)
    log = filled(disk, [in_transaction(b"0", producer=1, sequence=0)], [abort(1)], [])
    remove_files(disk, names.INDEX)
    disk.fail(errno.EIO, operation="read", path="*.log", times=None)
    for act in (lambda: log.aborted_transactions(0, 1), lambda: log.segments.bytes_from(0)):
        with pytest.raises(Unavailable):
            act()
    disk.heal()
    assert log.aborted_transactions(0, 1) == [AbortedRange(1, 0, 1, 2)]


# -- what is open from before the start


def test_the_last_stable_offset_is_never_before_the_start() -> None:
    disk = SimDisk(0)
    log = open_log(disk)
    append_segments(log, [in_transaction(b"0", producer=1, sequence=0)], [batch(b"1")], [batch(b"2")])
    flush(log)
    log.delete_before(2)
    settle(log)
    for _ in range(2):
        assert log.last_stable_offset == log.start_offset == 2
        assert read_committed(log) == []
        log.close()
        log = open_log(disk)
    append(log, abort(1))
    assert log.last_stable_offset == log.end_offset == 4
    assert read_committed(log) == [b"2"]


def test_compaction_waits_for_a_transaction_though_its_first_records_are_deleted() -> None:
    log = open_log(SimDisk(0), COMPACTING)
    append_segments(
        log,
        [in_transaction(b"deleted", key=b"k", producer=1, sequence=0), keyed((b"k", b"1"))],
        [in_transaction(b"open", key=b"k", producer=1, sequence=1)],
        [],
    )
    log.delete_before(2)
    settle(log)
    assert not compact(log, NOW_MS)

"""Read-committed readers know where to stop and what to leave out, after every restart and after compaction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from goqueue.errors import ProducerFenced
from goqueue.log import names
from goqueue.log.log import Log
from goqueue.machines.producer import AbortedRange, Duplicate, Fresh, Refused
from goqueue.model.log_settings import Cleanup
from goqueue.records.layout import read_header
from goqueue.records.reader import read_records
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
    in_transaction,
    keyed,
    open_log,
    remove_files,
    reopen,
    settle,
    stored_batches,
    values,
)

COMPACTING = replace(SETTINGS, cleanup=Cleanup.COMPACT, min_cleanable_dirty_ratio=0, delete_retention_ms=DAY_MS)


def restart(disk: SimDisk, log: Log) -> Log:
    del log
    return reopen(disk, COMPACTING)


def close_and_open(disk: SimDisk, log: Log) -> Log:
    log.close()
    return open_log(disk, COMPACTING)


def restart_without_indexes(disk: SimDisk, log: Log) -> Log:
    settle(log)
    disk.kill()
    remove_files(disk, names.INDEX)
    return open_log(disk, COMPACTING)


RESTARTS = [restart, close_and_open, restart_without_indexes]
Restart = Callable[[SimDisk, Log], Log]


def committed_values(log: Log) -> list[bytes | None]:
    """Return what a read-committed reader sees: data below the last stable offset, aborted records left out."""
    aborted = log.aborted_transactions(log.start_offset, log.last_stable_offset)
    return [
        record.value
        for header, data in stored_batches(log)
        if not header.is_control and header.next_offset <= log.last_stable_offset
        for record in read_records(data)
        if not any(
            header.is_transactional
            and entry.producer_id == header.producer_id
            and entry.first_offset <= record.offset <= entry.last_offset
            for entry in aborted
        )
    ]


def test_open_transaction_holds_the_last_stable_offset() -> None:
    log = open_log(SimDisk(0))
    append(log, batch(b"0"), in_transaction(b"1", producer=1, sequence=0), batch(b"2"))
    append(log, in_transaction(b"3", producer=2, sequence=0))
    assert log.last_stable_offset == 1
    append(log, commit(1))
    assert log.last_stable_offset == 3
    append(log, abort(2))
    assert log.last_stable_offset == log.end_offset == 6


def test_aborted_transaction_is_listed_with_its_range() -> None:
    log = open_log(SimDisk(0))
    append(log, in_transaction(b"0", producer=1, sequence=0), in_transaction(b"1", producer=2, sequence=0))
    append(log, abort(1), commit(2))
    assert log.aborted_transactions(0, 4) == [AbortedRange(1, 0, 2, 1)]
    assert log.aborted_transactions(3, 4) == []
    assert committed_values(log) == [b"1"]


def test_marker_without_a_transaction_aborts_nothing() -> None:
    log = open_log(SimDisk(0))
    append(log, abort(1), commit(2))
    assert log.aborted_transactions(0, 2) == []
    assert log.last_stable_offset == 2


@pytest.mark.parametrize("again", RESTARTS)
def test_open_transaction_is_still_open_after_a_restart(again: Restart) -> None:
    disk = SimDisk(0)
    log = open_log(disk, COMPACTING)
    append_segments(
        log,
        [batch(b"0"), in_transaction(b"1", producer=1, sequence=0)],
        [batch(b"2")],
        [in_transaction(b"3", producer=1, sequence=1)],
    )
    log = again(disk, log)
    assert log.last_stable_offset == 1
    append(log, abort(1))
    assert log.last_stable_offset == log.end_offset
    assert log.aborted_transactions(0, 5) == [AbortedRange(1, 1, 4, 5)]
    log = again(disk, log)
    assert log.aborted_transactions(0, 5) == [AbortedRange(1, 1, 4, 5)]
    assert committed_values(log) == [b"0", b"2"]


def random_history(seed: int) -> list[bytearray]:
    """Return interleaved transactions of three producers."""
    random = Random(seed)
    sequences = [0, 0, 0]
    is_open = [False, False, False]
    history = []
    for _ in range(25):
        producer = random.randrange(3)
        if is_open[producer] and random.random() < 0.4:
            is_open[producer] = False
            history.append(random.choice([abort, commit])(producer))
            continue
        is_open[producer] = True
        history.append(in_transaction(b"%d" % len(history), producer=producer, sequence=sequences[producer]))
        sequences[producer] += 1
    return history


def naive_aborted(log: Log) -> list[tuple[int, int, int]]:
    """Return producer, first and last offset of each aborted transaction, by reading everything."""
    opened: dict[int, int] = {}
    aborted = []
    for header, data in stored_batches(log):
        if not header.is_control:
            opened.setdefault(header.producer_id, header.base_offset)
        elif (first := opened.pop(header.producer_id, None)) is not None:
            key = read_records(data)[0].key
            if key == b"\0\0\0\0":
                aborted.append((header.producer_id, first, header.last_offset))
    return aborted


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("again", RESTARTS)
def test_every_range_lists_exactly_its_aborted_transactions(seed: int, again: Restart) -> None:
    disk = SimDisk(seed)
    log = open_log(disk, COMPACTING)
    history = random_history(seed)
    append_segments(log, *(history[at : at + 4] for at in range(0, len(history), 4)))
    naive = naive_aborted(log)
    assert naive
    for each in (log, again(disk, log)):
        for first in range(each.end_offset):
            for end in range(first + 1, each.end_offset + 1):
                told = [entry[:3] for entry in each.aborted_transactions(first, end)]
                overlapping = [entry for entry in naive if entry[1] < end and entry[2] >= first]
                assert told == overlapping, (first, end)


def test_compaction_removes_aborted_records_and_keeps_committed_ones() -> None:
    disk = SimDisk(0)
    log = open_log(disk, COMPACTING)
    append_segments(
        log,
        [keyed((b"k", b"before"))],
        [in_transaction(b"aborted", key=b"k", producer=1, sequence=0), abort(1)],
        [in_transaction(b"committed", key=b"c", producer=2, sequence=0), commit(2)],
        [],
    )
    settle(log)
    assert compact(log, NOW_MS)
    assert values(log) == [b"before", b"committed"]
    for again in RESTARTS:
        log = again(disk, log)
        assert committed_values(log) == [b"before", b"committed"]
        assert log.last_stable_offset == log.end_offset


def test_compaction_does_not_touch_an_open_transaction_or_what_follows_it() -> None:
    log = open_log(SimDisk(0), COMPACTING)
    append_segments(
        log,
        [keyed((b"k", b"1"))],
        [keyed((b"k", b"2"))],
        [in_transaction(b"open", key=b"k", producer=1, sequence=0)],
        [keyed((b"k", b"3"))],
        [],
    )
    settle(log)
    assert compact(log, NOW_MS)
    assert values(log) == [b"2", b"open", b"3"]
    append(log, abort(1))
    assert committed_values(log) == [b"2", b"3"]


def marker_count(log: Log) -> int:
    return sum(header.is_control for header, _ in stored_batches(log))


def test_marker_stays_for_its_time_after_its_records_and_then_goes() -> None:
    disk = SimDisk(0)
    log = open_log(disk, COMPACTING)
    append_segments(
        log,
        [in_transaction(b"1", key=b"k", producer=1, sequence=0), commit(1)],
        [in_transaction(b"2", key=b"k", producer=1, sequence=1), commit(1)],
        [],
    )
    settle(log)
    counts = []
    for time in (0, DAY_MS - 1, DAY_MS, 2 * DAY_MS):
        assert compact(log, NOW_MS + time)
        counts.append(marker_count(log))
        append_segments(log, [], [batch(b"another")], [])
        settle(log)
    # The second marker ends a transaction of which a record lives, so it stays as long as that does.
    assert counts == [2, 2, 1, 1]
    log = restart_without_indexes(disk, log)
    assert log.last_stable_offset == log.end_offset


@pytest.mark.parametrize("again", RESTARTS)
@pytest.mark.parametrize("end", [commit, abort])
def test_idempotence_survives_compaction_and_a_restart(end: Callable[[int], bytearray], again: Restart) -> None:
    disk = SimDisk(0)
    log = open_log(disk, COMPACTING)
    plain = [batch(b"%d" % at, key=b"k", producer=1, sequence=at) for at in range(3)]
    transactional = in_transaction(b"t", key=b"k", producer=2, sequence=0)
    append_segments(log, plain, [transactional, end(2)], [keyed((b"k", b"last"))], [])
    settle(log)
    for time in (0, 2 * DAY_MS, 4 * DAY_MS):
        assert compact(log, NOW_MS + time)
        log = again(disk, log)
        assert log.producers.decide(read_header(plain[2])) == Duplicate(2)
        assert log.producers.decide(read_header(transactional)) == Duplicate(3)
        assert log.producers.decide(read_header(batch(b"next", producer=1, sequence=3))) == Fresh()
        assert log.last_stable_offset == log.end_offset
        append_segments(log, [], [batch(b"another")], [])
        settle(log)
    assert [value for value in values(log) if value != b"another"] == [b"last"]


@pytest.mark.parametrize("again", RESTARTS)
def test_producer_fenced_by_a_marker_stays_fenced_after_compaction_and_a_restart(again: Restart) -> None:
    disk = SimDisk(0)
    log = open_log(disk, COMPACTING)
    zombie = in_transaction(b"t", key=b"k", producer=1, sequence=0)
    append_segments(log, [zombie, abort(1, epoch=1)], [])
    settle(log)
    for time in (0, 2 * DAY_MS, 4 * DAY_MS):
        assert compact(log, NOW_MS + time)
        log = again(disk, log)
        verdict = log.producers.decide(read_header(zombie))
        assert isinstance(verdict, Refused), f"{time} ms after the first pass"
        assert isinstance(verdict.error, ProducerFenced)
        append_segments(log, [], [batch(b"another")], [])
        settle(log)


def test_transaction_that_began_in_deleted_segments_leaves_no_trace() -> None:
    disk = SimDisk(0)
    log = open_log(disk)
    append_segments(log, [in_transaction(b"old", producer=1, sequence=0)], [batch(b"kept"), commit(1)], [batch(b"new")])
    settle(log)
    log.delete_before(1)
    settle(log)
    log = reopen(disk)
    assert values(log) == [b"kept", b"new"]
    assert log.last_stable_offset == log.end_offset
    assert log.aborted_transactions(log.start_offset, log.end_offset) == []

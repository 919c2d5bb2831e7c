"""What a partition remembers of its producers: a transcript of the table of decisions, and its edges."""

from __future__ import annotations

import pytest

from goqueue.errors import OutOfOrderSequence, ProducerFenced
from goqueue.machines.producer import AbortedRange, Duplicate, Fresh, ProducerTable, Refused
from goqueue.records.control import ControlType
from goqueue.records.layout import BatchHeader, read_header
from tests.unit.log.log_kit import NOW_MS, abort, batch, commit

SEQUENCE_MAX = 2**31 - 1


def header(
    sequence: int,
    *,
    count: int = 1,
    producer: int = 7,
    epoch: int = 0,
    offset: int = 0,
    timestamp: int = NOW_MS,
    is_transactional: bool = False,
) -> BatchHeader:
    """Return the header of a batch with so many records."""
    data = batch(
        *[b"v"] * count,
        producer=producer,
        epoch=epoch,
        sequence=sequence,
        timestamp=timestamp,
        is_transactional=is_transactional,
    )
    return read_header(data)._replace(base_offset=offset)


def marker(data: bytearray, offset: int) -> BatchHeader:
    return read_header(data)._replace(base_offset=offset)


def verdict(table: ProducerTable, asked: BatchHeader) -> str:
    """Return a decision in one word or two."""
    table.validate()
    match table.decide(asked):
        case Fresh():
            return "fresh"
        case Duplicate(offset):
            return f"duplicate of {offset}"
        case Refused(error):
            return error.code


def table_of(*headers: BatchHeader) -> ProducerTable:
    """Return the table after the batches, each at an offset ten beyond the one before; the first may begin anywhere."""
    table = ProducerTable()
    for number, each in enumerate(headers):
        assert number == 0 or table.decide(each) == Fresh()
        table.apply(each._replace(base_offset=10 * number))
        table.validate()
    return table


def test_transcript_of_the_table_of_decisions() -> None:
    table = ProducerTable()
    assert verdict(table, header(0)) == "fresh"
    assert verdict(table, header(500)) == "unknown_producer"
    table.apply(header(0, count=3, offset=100))
    assert verdict(table, header(3)) == "fresh"
    assert verdict(table, header(0, count=3)) == "duplicate of 100"
    assert verdict(table, header(0)) == "out_of_order_sequence"
    assert verdict(table, header(0, count=4)) == "out_of_order_sequence"
    assert verdict(table, header(2)) == "out_of_order_sequence"
    assert verdict(table, header(4)) == "out_of_order_sequence"
    assert verdict(table, header(0, producer=8)) == "fresh"
    assert verdict(table, header(3, epoch=1)) == "out_of_order_sequence"
    assert verdict(table, header(0, epoch=1)) == "fresh"
    table.apply(header(0, epoch=1, offset=103))
    assert verdict(table, header(3)) == "producer_fenced"
    assert verdict(table, header(0, count=3)) == "producer_fenced"
    assert verdict(table, header(0, epoch=1)) == "duplicate of 103"
    assert verdict(table, header(1, epoch=1)) == "fresh"


def test_deciding_changes_nothing() -> None:
    table = table_of(header(0), header(1))
    before = table.encode()
    for asked in (header(2), header(0), header(9), header(0, epoch=3), header(0, producer=9)):
        table.decide(asked)
    assert table.encode() == before


def test_batch_without_a_producer_is_always_fresh_and_leaves_no_trace() -> None:
    table = ProducerTable()
    plain = read_header(batch(b"v"))
    table.apply(plain)
    assert (table.decide(plain), len(table)) == (Fresh(), 0)


def test_retry_of_any_of_the_last_five_batches_is_answered_with_its_offset() -> None:
    table = table_of(*(header(number) for number in range(8)))
    verdicts = [verdict(table, header(number)) for number in range(9)]
    assert verdicts[:3] == ["out_of_order_sequence"] * 3
    assert verdicts[3:8] == [f"duplicate of {10 * number}" for number in range(3, 8)]
    assert verdicts[8] == "fresh"


@pytest.mark.parametrize("count", [1, 2, 5])
def test_sequence_zero_follows_the_greatest_one(count: int) -> None:
    last = header(SEQUENCE_MAX - count + 1, count=count)
    assert last.last_sequence == SEQUENCE_MAX
    table = table_of(last)
    assert verdict(table, header(0)) == "fresh"
    assert verdict(table, header(1)) == "out_of_order_sequence"
    assert verdict(table, last) == "duplicate of 0"


def test_batch_may_reach_across_the_greatest_sequence() -> None:
    across = header(SEQUENCE_MAX - 1, count=5)
    assert across.last_sequence == 2
    table = table_of(across)
    assert verdict(table, across) == "duplicate of 0"
    assert verdict(table, header(3)) == "fresh"
    assert verdict(table, header(SEQUENCE_MAX)) == "out_of_order_sequence"


def test_refusal_names_the_producer_and_what_was_due() -> None:
    refused = table_of(header(0)).decide(header(5))
    assert isinstance(refused, Refused)
    assert isinstance(refused.error, OutOfOrderSequence)
    assert "producer 7" in str(refused.error)
    assert "where 1 was due" in str(refused.error)
    fenced = table_of(header(0, epoch=4)).decide(header(0, epoch=3))
    assert isinstance(fenced, Refused)
    assert isinstance(fenced.error, ProducerFenced)


def test_new_epoch_begins_at_sequence_zero_and_forgets_the_old_batches() -> None:
    table = table_of(*(header(number) for number in range(5)), header(0, epoch=1))
    assert verdict(table, header(0, epoch=1)) == "duplicate of 50"
    assert verdict(table, header(4, epoch=1)) == "out_of_order_sequence"


def test_marker_of_a_newer_epoch_fences_the_old_one() -> None:
    table = table_of(header(0, is_transactional=True))
    assert table.decide(marker(abort(7, epoch=1), 10)) == Fresh()
    table.apply(marker(abort(7, epoch=1), 10), ControlType.ABORT)
    assert verdict(table, header(1, is_transactional=True)) == "producer_fenced"
    assert verdict(table, header(0, epoch=1)) == "fresh"


def test_marker_of_an_older_epoch_is_refused() -> None:
    table = table_of(header(0, epoch=2))
    assert verdict(table, marker(commit(7, epoch=1), 10)) == "producer_fenced"


def test_transaction_is_open_from_its_first_batch_to_its_marker() -> None:
    table = ProducerTable()
    table.apply(header(0, offset=5, is_transactional=True))
    table.apply(header(1, offset=6, is_transactional=True))
    table.apply(header(0, offset=7, producer=8, is_transactional=True))
    assert table.first_open_offset == 5
    assert table.apply(marker(commit(7), 8), ControlType.COMMIT) is None
    assert table.first_open_offset == 7
    table.apply(header(2, offset=9, is_transactional=True))
    assert table.apply(marker(abort(8), 10), ControlType.ABORT) == AbortedRange(8, 7, 10, 9)
    assert table.apply(marker(abort(7), 11), ControlType.ABORT) == AbortedRange(7, 9, 11, 12)
    assert table.first_open_offset is None


def test_idle_producers_are_forgotten_but_never_with_an_open_transaction() -> None:
    table = ProducerTable()
    table.apply(header(0, producer=1))
    table.apply(header(0, producer=2, offset=1))
    table.apply(header(0, producer=3, offset=2, is_transactional=True))
    assert table.expire(now_ms=1000, idle_ms=500) == 0
    table.apply(header(1, producer=2, offset=3))
    assert table.expire(now_ms=1500, idle_ms=500) == 1
    assert len(table) == 2
    assert table.first_open_offset == 2
    table.apply(marker(commit(3), 4), ControlType.COMMIT)
    assert table.expire(now_ms=1999, idle_ms=500) == 0
    assert table.expire(now_ms=2000, idle_ms=500) == 1
    assert table.expire(now_ms=2499, idle_ms=500) == 1
    table.validate()


def test_producer_of_old_records_is_not_an_old_producer() -> None:
    table = table_of(header(0, timestamp=1))
    for now_ms in range(NOW_MS, NOW_MS + 1000, 100):
        assert table.expire(now_ms, idle_ms=1000) == 0
    assert verdict(table, header(0, timestamp=1)) == "duplicate of 0"


def test_producer_that_was_forgotten_is_told_so_and_begins_anew() -> None:
    table = table_of(header(0), header(1))
    table.expire(NOW_MS, idle_ms=1)
    table.expire(NOW_MS + 1, idle_ms=1)
    assert verdict(table, header(2)) == "unknown_producer"
    assert verdict(table, header(0, epoch=1)) == "fresh"
    table.apply(header(0, epoch=1, offset=30))
    assert verdict(table, header(1, epoch=1)) == "fresh"
    assert verdict(table, header(0, epoch=1)) == "duplicate of 30"


def test_second_batch_cannot_take_the_place_of_a_first_one_that_failed() -> None:
    table = ProducerTable()
    assert verdict(table, header(0, count=3)) == "fresh"
    assert verdict(table, header(3)) == "unknown_producer"
    table.apply(header(0, count=3, offset=0))
    assert verdict(table, header(3)) == "fresh"


def test_last_batch_of_each_producer_is_what_compaction_must_keep() -> None:
    table = table_of(header(0), header(1), header(0, producer=8), header(2))
    assert table.last_offsets() == {20, 30}


def test_table_is_the_same_after_encoding_and_decoding() -> None:
    table = table_of(*(header(number) for number in range(7)), header(0, producer=8, epoch=3, is_transactional=True))
    copy = ProducerTable.decode(table.encode())
    copy.validate()
    assert copy.encode() == table.encode()
    assert copy.first_open_offset == table.first_open_offset == 70
    for asked in (header(6), header(7), header(9), header(0, producer=8, epoch=2)):
        assert verdict(copy, asked) == verdict(table, asked)
    assert ProducerTable.decode(b"").encode() == b""


def test_encoding_does_not_depend_on_the_order_of_producers() -> None:
    first, second = header(0, producer=1, offset=1), header(0, producer=2, offset=2)
    one, other = ProducerTable(), ProducerTable()
    for table, order in ((one, (first, second)), (other, (second, first))):
        for each in order:
            table.apply(each)
    assert one.encode() == other.encode()


def test_the_next_sequence_is_the_one_that_would_be_taken() -> None:
    table = table_of(header(0, count=3), header(3, count=2))
    assert table.next_sequence(7, 0) == 5
    assert verdict(table, header(5)) == "fresh"
    assert table.next_sequence(7, 1) == table.next_sequence(8, 0) == 0
    last = table_of(header(SEQUENCE_MAX - 1, count=2))
    assert last.next_sequence(7, 0) == 0


def test_a_producer_has_an_open_transaction_until_its_marker() -> None:
    table = table_of(header(0), header(1, is_transactional=True))
    assert table.has_open_transaction(7)
    assert not table.has_open_transaction(8)
    table.apply(marker(commit(producer=7, epoch=1), 99), ControlType.COMMIT)
    assert not table.has_open_transaction(7)
    assert table.next_sequence(7, 1) == 0


def test_a_producer_writes_nothing_beside_its_open_transaction() -> None:
    table = table_of(header(0, is_transactional=True))
    assert verdict(table, header(1)) == "invalid_transaction_state"
    assert verdict(table, header(0, epoch=5)) == "invalid_transaction_state"
    assert verdict(table, header(1, is_transactional=True)) == "fresh"
    table.apply(marker(commit(producer=7, epoch=0), 10), ControlType.COMMIT)
    assert verdict(table, header(1)) == "fresh"


def test_an_open_transaction_gets_its_marker_whatever_epoch_the_partition_has_seen() -> None:
    table = table_of(header(0, epoch=3, is_transactional=True))
    assert table.known_epoch(7) == 3
    assert table.wants_marker(7, 2)
    table.apply(marker(commit(producer=7, epoch=3), 10), ControlType.COMMIT)
    assert not table.wants_marker(7, 3)
    assert table.wants_marker(7, 4)
    assert (table.known_epoch(8), table.wants_marker(8, 0)) == (-1, True)

"""What compaction leaves of a batch."""

from __future__ import annotations

import pytest

from goqueue.errors import Invalid
from goqueue.records.builder import NewRecord, assemble, build_batch
from goqueue.records.compression import Codec
from goqueue.records.control import ControlType, Marker, build_marker, read_marker
from goqueue.records.layout import HEADER_BYTES, LOG_APPEND_TIME_BIT, read_header, validate, write_header
from goqueue.records.reader import read_records
from goqueue.records.rewrite import delete_horizon_ms, retain

RECORDS = [NewRecord(1000 + 10 * i, b"k%d" % i, b"v" * i, [("h", b"%d" % i)]) for i in range(5)]


def batch_of(codec: Codec = Codec.NONE) -> bytearray:
    return build_batch(
        RECORDS, codec=codec, base_offset=40, leader_epoch=6, producer_id=3, producer_epoch=1, base_sequence=8
    )


@pytest.mark.parametrize("codec", Codec)
def test_retained_records_keep_their_bytes_and_the_batch_its_header(codec: Codec) -> None:
    batch = batch_of(codec)
    retained = retain(batch, [True, False, True, False, False])
    assert retained is not None
    before, after = read_header(batch), validate(retained)
    assert after == before._replace(length=after.length, crc=after.crc, max_timestamp=1020, record_count=2)
    records = read_records(batch)
    assert read_records(retained) == [records[0], records[2]]


def test_retained_records_keep_their_very_bytes_even_in_an_unusual_form() -> None:
    # Length, attributes, timestamp delta, offset delta in two bytes, null key, null value, no headers.
    rows = ("0e 00 02 80 00 01 01 00", "0e 00 04 82 00 01 01 00", "0e 00 00 84 00 01 01 00")
    payload = bytes.fromhex(" ".join(rows))
    header = read_header(build_batch([NewRecord(0, None, None)] * 3))
    retained = retain(assemble(header, payload), [True, False, True])
    assert retained is not None
    assert retained[HEADER_BYTES:] == payload[:8] + payload[16:]
    assert [record.offset for record in read_records(retained)] == [0, 2]


def test_batch_of_which_everything_is_kept_does_not_change() -> None:
    batch = batch_of(Codec.LZ4)
    assert retain(batch, [True] * 5) == batch


def test_batch_of_which_nothing_is_kept_is_none() -> None:
    assert retain(batch_of(), [False] * 5) is None


def test_flags_have_to_match_the_records() -> None:
    with pytest.raises(Invalid, match="4 flags were given for 5 records"):
        retain(batch_of(), [True] * 4)


@pytest.mark.parametrize("horizon_ms", [0, 1005, 1_700_000_000_000])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY])
def test_delete_horizon_is_stored_and_timestamps_stay(codec: Codec, horizon_ms: int) -> None:
    batch = batch_of(codec)
    assert delete_horizon_ms(read_header(batch)) is None
    retained = retain(batch, [False, True, True, True, True], delete_horizon_ms=horizon_ms)
    assert retained is not None
    header = validate(retained)
    assert delete_horizon_ms(header) == horizon_ms
    assert (header.max_timestamp, header.codec, header.last_sequence) == (1040, codec, 12)
    assert read_records(retained) == read_records(batch)[1:]


def test_delete_horizon_stays_when_the_batch_is_rewritten_again() -> None:
    first = retain(batch_of(), [True] * 5, delete_horizon_ms=77)
    assert first is not None
    second = retain(first, [False, False, False, False, True])
    assert second is not None
    assert delete_horizon_ms(validate(second)) == 77
    assert read_records(second) == read_records(batch_of())[4:]


def test_batch_stamped_by_the_broker_keeps_its_timestamp() -> None:
    batch = batch_of()
    write_header(batch, read_header(batch)._replace(attributes=LOG_APPEND_TIME_BIT, max_timestamp=5000))
    for horizon_ms in (None, 99):
        retained = retain(batch, [True, False, False, False, False], delete_horizon_ms=horizon_ms)
        assert retained is not None
        assert [record.timestamp for record in read_records(retained)] == [5000]


def test_marker_with_a_delete_horizon_is_still_the_marker() -> None:
    marker = build_marker(ControlType.ABORT, producer_id=1, producer_epoch=0, timestamp=10, coordinator_epoch=4)
    stamped = retain(marker, [True], delete_horizon_ms=500)
    assert stamped is not None
    assert len(stamped) >= HEADER_BYTES
    assert read_marker(stamped) == Marker(ControlType.ABORT, 4)
    assert validate(stamped).is_control

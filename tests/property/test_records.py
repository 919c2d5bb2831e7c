"""Properties of the batch format that hold for any records, any damage and any bytes at all."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.errors import GoQueueError
from goqueue.records.builder import NewRecord, assemble, build_batch
from goqueue.records.compression import Codec, decompress
from goqueue.records.control import read_marker
from goqueue.records.layout import CRC_START, BatchHeader, headers, read_header, reseal, validate
from goqueue.records.reader import read_records
from goqueue.records.rewrite import delete_horizon_ms, retain
from goqueue.records.scan import check

TIMESTAMPS = st.integers(-1, 2**62 - 1) | st.integers(1_700_000_000_000, 1_700_000_100_000)
CONTENT = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=10), CONTENT), max_size=4)
RECORDS = st.lists(st.builds(NewRecord, TIMESTAMPS, CONTENT, CONTENT, HEADERS), min_size=1, max_size=20)
CODECS = st.sampled_from(Codec)
BATCHES = st.builds(build_batch, RECORDS, codec=CODECS, base_offset=st.integers(0, 2**62))
HEADERS_OF_ANY_PAYLOAD = st.builds(
    BatchHeader,
    base_offset=st.integers(-1, 2**63 - 1),
    length=st.just(0),
    leader_epoch=st.just(-1),
    magic=st.just(2),
    crc=st.just(0),
    attributes=st.integers(-(2**15), 2**15 - 1) | st.integers(0, 0x7F),
    last_offset_delta=st.integers(-1, 20),
    base_timestamp=st.integers(-(2**63), 2**63 - 1),
    max_timestamp=st.integers(-(2**63), 2**63 - 1),
    producer_id=st.integers(-1, 3),
    producer_epoch=st.integers(-1, 3),
    base_sequence=st.integers(-1, 3),
    record_count=st.integers(-1, 10),
)


def survives(act: Callable[[], object]) -> None:
    """Run `act`, which may refuse, but only with an error of ours."""
    try:
        act()
    except GoQueueError:
        return


def read_in_every_way(buffer: bytes) -> None:
    survives(lambda: read_header(buffer))
    survives(lambda: validate(buffer))
    survives(lambda: list(headers(buffer)))
    survives(lambda: read_records(buffer, decompressed_bytes_max=100_000))
    survives(lambda: read_marker(buffer))
    survives(lambda: retain(buffer, [True], delete_horizon_ms=1))
    survives(lambda: retain(buffer, [True, False, True]))


@given(RECORDS, CODECS, st.integers(0, 2**62))
def test_records_survive_building_and_reading(records: list[NewRecord], codec: Codec, base_offset: int) -> None:
    batch = build_batch(records, codec=codec, base_offset=base_offset)
    header = validate(batch)
    assert header.next_offset == base_offset + len(records)
    read = read_records(batch)
    assert [record.offset for record in read] == list(range(base_offset, header.next_offset))
    assert [NewRecord(*record[1:]) for record in read] == records


@given(BATCHES, st.data())
def test_any_changed_byte_that_the_broker_does_not_set_is_noticed(batch: bytearray, data: st.DataObject) -> None:
    length_magic_and_crc = st.sampled_from([8, 9, 10, 11, 16, 17, 18, 19, 20])
    position = data.draw(length_magic_and_crc | st.integers(CRC_START, len(batch) - 1))
    batch[position] ^= data.draw(st.integers(1, 255))
    with pytest.raises(GoQueueError):
        validate(batch)


@given(BATCHES, st.data())
def test_batch_cut_anywhere_is_refused(batch: bytearray, data: st.DataObject) -> None:
    cut = batch[: data.draw(st.integers(0, len(batch) - 1))]
    with pytest.raises(GoQueueError):
        validate(cut)
    with pytest.raises(GoQueueError):
        read_records(cut)


@given(st.binary(max_size=300))
def test_random_bytes_are_refused_with_our_errors_only(buffer: bytes) -> None:
    read_in_every_way(buffer)
    for codec in Codec:
        survives(partial(decompress, codec, buffer, bytes_max=100_000))


@given(HEADERS_OF_ANY_PAYLOAD, st.binary(max_size=100))
def test_random_header_over_random_payload_is_refused_with_our_errors_only(header: BatchHeader, payload: bytes) -> None:
    plain = assemble(header._replace(attributes=0), payload)
    read_in_every_way(bytes(plain))
    plain[CRC_START : CRC_START + 2] = header.attributes.to_bytes(2, "big", signed=True)
    reseal(plain)
    read_in_every_way(bytes(plain))


@given(RECORDS, st.data())
def test_damaged_records_under_a_right_checksum_are_refused_with_our_errors_only(
    records: list[NewRecord], data: st.DataObject
) -> None:
    batch = build_batch(records)
    for _ in range(data.draw(st.integers(1, 4))):
        batch[data.draw(st.integers(57, len(batch) - 1))] = data.draw(st.integers(0, 255))
    reseal(batch)
    read_in_every_way(bytes(batch))


@given(st.binary(max_size=60), st.integers(0, 3))
def test_whatever_can_be_read_has_passed_the_strict_grammar(payload: bytes, record_count: int) -> None:
    header = read_header(build_batch([NewRecord(0, None, None)] * 4))
    try:
        read_records(assemble(header._replace(record_count=record_count), payload))
    except GoQueueError:
        return
    check(payload, record_count)


@given(RECORDS, CODECS, st.data(), st.none() | st.integers(0, 2**62 - 1))
def test_retain_keeps_exactly_the_chosen_records(
    records: list[NewRecord], codec: Codec, data: st.DataObject, horizon_ms: int | None
) -> None:
    batch = build_batch(records, codec=codec, base_offset=7, producer_id=1, producer_epoch=0, base_sequence=2)
    kept = data.draw(st.lists(st.booleans(), min_size=len(records), max_size=len(records)))
    retained = retain(batch, kept, delete_horizon_ms=horizon_ms)
    survivors = [record for record, is_kept in zip(read_records(batch), kept, strict=True) if is_kept]
    if retained is None:
        assert not survivors
        return
    assert read_records(retained) == survivors
    before, after = read_header(batch), validate(retained)
    assert delete_horizon_ms(after) == horizon_ms
    assert after.max_timestamp == max(record.timestamp for record in survivors)
    assert (after.base_offset, after.last_offset, after.codec) == (
        before.base_offset,
        before.last_offset,
        codec,
    )
    assert (after.producer_id, after.last_sequence) == (before.producer_id, before.last_sequence)

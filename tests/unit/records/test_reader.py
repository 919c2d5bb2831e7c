"""Records out of a batch: what they say, and every way in which they can be wrong."""

from __future__ import annotations

import pytest

from goqueue.errors import CorruptBatch, TooLarge
from goqueue.records import payload, reader
from goqueue.records.builder import NewRecord, assemble, build_batch, empty_batch
from goqueue.records.compression import Codec
from goqueue.records.layout import CRC_START, LOG_APPEND_TIME_BIT, BatchHeader, read_header, write_header
from goqueue.records.payload import Columns
from goqueue.records.reader import RECORDS_MAX, SLICE_RECORDS, Record, read_pairs, read_records, verified
from goqueue.records.rewrite import retain
from goqueue.records.scan import skip

# length, attributes, timestamp delta, offset delta, key "k", value "v", one header "h": null
GOOD = bytes.fromhex("16 00 00 00 02 6b 02 76 02 02 68 01")
HEADER = read_header(build_batch([NewRecord(1000, b"k", b"v")]))


def batch_of(payload: bytes, header: BatchHeader = HEADER) -> bytearray:
    return assemble(header, payload)


def test_records_have_absolute_offsets_and_timestamps() -> None:
    batch = build_batch([NewRecord(1000, b"k", None), NewRecord(900, None, b"", [("h", None)])], base_offset=70)
    assert read_records(batch) == [
        Record(70, 1000, b"k", None, []),
        Record(71, 900, None, b"", [("h", None)]),
    ]


@pytest.mark.parametrize("timestamps", [(-1,), (-1, 5), (5, -1), (0, -1, 0), (-1, -1), (5, 4)])
def test_missing_timestamps_stay_missing(timestamps: tuple[int, ...]) -> None:
    batch = build_batch([NewRecord(timestamp, b"k", b"v") for timestamp in timestamps])
    assert tuple(record.timestamp for record in read_records(batch)) == timestamps


def test_records_of_a_batch_stamped_by_the_broker_have_its_max_timestamp() -> None:
    batch = build_batch([NewRecord(1000, b"k", b"v"), NewRecord(1500, b"k", b"v")])
    write_header(batch, read_header(batch)._replace(attributes=LOG_APPEND_TIME_BIT, max_timestamp=9999))
    assert [record.timestamp for record in read_records(batch)] == [9999, 9999]


def test_batch_without_records_reads_as_none() -> None:
    assert read_records(empty_batch(HEADER)) == []


def test_only_the_first_batch_of_a_buffer_is_read() -> None:
    assert len(read_records(memoryview(bytes(batch_of(GOOD)) * 2))) == 1


def test_payload_over_the_limit_is_too_large() -> None:
    batch = build_batch([NewRecord(0, None, bytes(10_000))], codec=Codec.ZSTD)
    payload = verified(batch).payload(20_000)
    assert len(payload) > 10_000
    with pytest.raises(TooLarge):
        read_records(batch, decompressed_bytes_max=len(payload) - 1)


def test_more_records_than_the_limit_are_too_large() -> None:
    with pytest.raises(TooLarge, match="records"):
        read_records(batch_of(GOOD, HEADER._replace(record_count=RECORDS_MAX + 1, last_offset_delta=RECORDS_MAX)))


def test_batch_that_is_cut_off_is_corrupt() -> None:
    with pytest.raises(CorruptBatch, match="73 bytes, 72 are there"):
        read_records(batch_of(GOOD)[:-1])


@pytest.mark.parametrize("codec", Codec)
def test_no_record_is_read_from_a_batch_with_a_flipped_byte(codec: Codec) -> None:
    batch = build_batch([NewRecord(1000, b"key", b"value")] * 3, codec=codec)
    # What the broker sets is not covered by the checksum.
    for position in range(CRC_START, len(batch)):
        damaged = bytearray(batch)
        damaged[position] ^= 0x40
        with pytest.raises(CorruptBatch):
            read_records(damaged)
        with pytest.raises(CorruptBatch):
            list(read_pairs(damaged))
        with pytest.raises(CorruptBatch):
            retain(damaged, [True, False, True])


def _count_decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    counts: list[int] = []

    def decode(opened: bytes, record_count: int) -> Columns:
        counts.append(record_count)
        return payload.decode(opened, record_count)

    monkeypatch.setattr(reader, "decode", decode)
    return counts


def test_a_large_batch_is_decoded_only_as_far_as_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 10 * SLICE_RECORDS + 7
    opened = verified(build_batch([NewRecord(0, None, b"")] * count, codec=Codec.ZSTD, base_offset=50)).open()
    decoded = _count_decoded(monkeypatch)
    assert next(opened.slices())[0].offset == 50
    assert decoded == [SLICE_RECORDS]
    assert [record.offset for records in opened.slices(50 + count - 3) for record in records] == [
        50 + count - 3,
        50 + count - 2,
        50 + count - 1,
    ]
    assert decoded == [SLICE_RECORDS, 7]
    assert [record.offset for record in opened.records()] == list(range(50, 50 + count))


@pytest.mark.parametrize("size", [0, 40, 200])
def test_slices_of_a_batch_with_gaps_begin_at_any_offset(size: int) -> None:
    count = 3 * SLICE_RECORDS
    whole = build_batch([NewRecord(5, b"k", bytes(size))] * count, base_offset=9)
    batch = retain(whole, [number % 3 != 1 for number in range(count)])
    assert batch is not None
    records = read_records(batch)
    assert len(records) == 2 * SLICE_RECORDS
    for offset in (0, 9, 10, 9 + SLICE_RECORDS, 10 + 2 * SLICE_RECORDS, 9 + count - 1, 9 + count):
        found = [record for part in verified(batch).open().slices(offset) for record in part]
        assert found == [record for record in records if record.offset >= offset]


@pytest.mark.parametrize("position", [0, SLICE_RECORDS, 2 * SLICE_RECORDS + 3])
def test_a_malformed_record_of_a_large_batch_is_found_in_its_slice(position: int) -> None:
    count = 2 * SLICE_RECORDS + 10
    payload = bytearray(verified(build_batch([NewRecord(0, None, b"v")] * count)).payload())
    # The reserved attributes of one record.
    payload[skip(bytes(payload), 0, position) + 1] = 1
    header = HEADER._replace(record_count=count, last_offset_delta=count - 1)
    with pytest.raises(CorruptBatch, match="attributes"):
        read_records(assemble(header, payload))


def test_an_error_does_not_keep_what_was_opened() -> None:
    batch = build_batch([NewRecord(0, None, bytes(4 << 20))], codec=Codec.ZSTD)
    with pytest.raises(TooLarge) as caught:
        read_records(batch, decompressed_bytes_max=3 << 20)
    frame = caught.value.__traceback__
    names = []
    while frame is not None:
        names.append(frame.tb_frame.f_code.co_name)
        frame = frame.tb_next
    assert "_unzstd" not in names
    assert caught.value.__context__ is None


def test_numbers_in_longer_form_than_needed_are_read() -> None:
    longer = bytes.fromhex("18 00 00 80 00 02 6b 02 76 02 02 68 01")
    assert read_records(batch_of(longer)) == read_records(batch_of(GOOD))


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ("", "record 0 of 1 at byte 0 of the records: it is cut off"),
        ("16 00 00 00 02 6b 02 76 02 02 68", "its length is 11, 10 bytes are left"),
        ("16 00 00 00 02 6b 02 76 02 02 68 01 00", "1 bytes follow the last of 1 records"),
        ("01 00 00 00 02 6b 02 76 02 02 68 01", "its length is -1"),
        ("00", "its length is 0"),
        ("16 01 00 00 02 6b 02 76 02 02 68 01", "its attributes are 0x01"),
        ("16 80 00 00 02 6b 02 76 02 02 68 01", "its attributes are 0x80"),
        ("16 00 00 00 03 6b 02 76 02 02 68 01", "its key is -2"),
        ("16 00 00 00 30 6b 02 76 02 02 68 01", "its key is 24"),
        ("16 00 00 00 02 6b 05 76 02 02 68 01", "its value is -3"),
        ("16 00 00 00 02 6b 30 76 02 02 68 01", "its value is 24"),
        ("16 00 00 00 02 6b 02 76 01 02 68 01", "its header count is -1"),
        ("16 00 00 00 02 6b 02 76 04 02 68 01", "it is cut off"),
        ("16 00 00 00 02 6b 02 76 00 02 68 01", "its fields end 3 bytes before"),
        ("16 00 00 00 02 6b 02 76 02 01 68 01", "a header key is null"),
        ("16 00 00 00 02 6b 02 76 02 02 ff 01", "a header key is not UTF-8"),
        ("16 00 00 00 02 6b 02 76 02 02 68 03", "its header value is -2"),
        ("16 00 00 00 02 6b 02 76 02 02 68 81", "it is cut off"),
        ("16 00 ff ff ff ff ff ff ff ff ff ff", "exceeds 64 bits"),
        ("16 00 ff ff ff ff ff ff ff ff ff 7f", "exceeds 64 bits"),
        ("16 00 00 ff ff ff ff 7f 02 76 00 00", "offset deltas go from -17179869184"),
        ("28 00 00 00 fe ff ff ff ff ff ff ff ff 01 02 76 02 02 68 01 00", "exceeds 32 bits"),
        ("16 00 00 02 02 6b 02 76 02 02 68 01", "offset deltas go from 1 to 1"),
        ("16 00 00 01 02 6b 02 76 02 02 68 01", "offset deltas go from -1 to -1"),
    ],
)
def test_malformed_record_is_corrupt_and_named(payload: str, message: str) -> None:
    with pytest.raises(CorruptBatch, match=message):
        read_records(batch_of(bytes.fromhex(payload)))


@pytest.mark.parametrize("shift", [0, 16, 32, 33, 48, 64])
def test_length_that_overflows_a_position_is_corrupt(shift: int) -> None:
    number = 2**64 - 2 - 2 * shift
    varint = bytes([(number >> bits & 0x7F) | 0x80 for bits in range(0, 63, 7)] + [number >> 63])
    body = bytes(3) + varint + bytes(80)
    with pytest.raises(CorruptBatch, match="exceeds 32 bits"):
        read_records(batch_of(bytes([2 * len(body) & 0x7F | 0x80, 2 * len(body) >> 7]) + body))


@pytest.mark.parametrize("count", [-1, 0, 2, 1000])
def test_wrong_record_count_is_corrupt(count: int) -> None:
    with pytest.raises(CorruptBatch):
        read_records(batch_of(GOOD, HEADER._replace(record_count=count)))


@pytest.mark.parametrize("deltas", [(0, 0), (1, 0), (0, 5)])
def test_offsets_out_of_order_or_out_of_the_batch_are_corrupt(deltas: tuple[int, int]) -> None:
    payload = b"".join(GOOD[:3] + bytes([2 * delta]) + GOOD[4:] for delta in deltas)
    with pytest.raises(CorruptBatch, match="offset deltas"):
        read_records(batch_of(payload, HEADER._replace(record_count=2, last_offset_delta=4)))


@pytest.mark.parametrize("base_timestamp", [2**62, 2**63 - 1, -(2**63)])
def test_timestamps_beyond_reason_are_corrupt(base_timestamp: int) -> None:
    with pytest.raises(CorruptBatch, match="timestamps"):
        read_records(batch_of(GOOD, HEADER._replace(base_timestamp=base_timestamp)))

"""The columns that come from record headers."""

from __future__ import annotations

from time import process_time

import pytest

from goqueue.errors import CorruptBatch, TooLarge
from goqueue.records.builder import NewRecord, assemble, build_batch
from goqueue.records.layout import read_header
from goqueue.records.payload import Headers
from tests.unit.spark.codec_kit import Row, decoded, naive_rows

TRACE = "0123456789abcdef0123456789abcdef"
TRACEPARENT = f"00-{TRACE}-0123456789abcdef-01".encode()
DERIVED = ("priority", "trace_id", "schema_id")


def rows_with(*headers: Headers, columns: tuple[str, ...] = DERIVED) -> list[Row]:
    return decoded(build_batch([NewRecord(0, None, None, each) for each in headers]), columns=columns)[0]


def only(header: str, value: bytes | None, column: str) -> object:
    (row,) = rows_with([(header, value)])
    return row[column]


def test_message_that_says_nothing_has_the_middle_priority_and_no_ids() -> None:
    nothing = {"priority": 2, "trace_id": None, "schema_id": None}
    assert rows_with([], [("x", b"1")]) == [nothing, nothing]


def test_message_says_its_priority_trace_and_schema() -> None:
    headers: Headers = [("traceparent", TRACEPARENT), ("goqueue-priority", b"4"), ("schema-id", b"17")]
    assert rows_with([], headers, []) == [
        {"priority": 2, "trace_id": None, "schema_id": None},
        {"priority": 4, "trace_id": TRACE, "schema_id": 17},
        {"priority": 2, "trace_id": None, "schema_id": None},
    ]


@pytest.mark.parametrize("value", [None, b"", b"x", b"-1", b"1 ", b"1\n", b"\xff", b"2147483648", b"9" * 30, b"1" * 99])
def test_number_that_is_none_counts_as_not_said(value: bytes | None) -> None:
    assert only("schema-id", value, "schema_id") is None
    assert only("goqueue-priority", value, "priority") == 2


@pytest.mark.parametrize(("value", "number"), [(b"0", 0), (b"007", 7), (b"2147483647", 2**31 - 1)])
def test_number_is_read_to_its_limit(value: bytes, number: int) -> None:
    assert only("schema-id", value, "schema_id") == number


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        TRACE.encode(),
        TRACEPARENT[:-1],
        TRACEPARENT.upper(),
        TRACEPARENT + b"0",
        b" " + TRACEPARENT,
        b"\xff" * 55,
        b"00-" + b"0" * 32 + b"-0123456789abcdef-01",
    ],
)
def test_trace_context_that_is_malformed_gives_no_trace(value: bytes | None) -> None:
    assert only("traceparent", value, "trace_id") is None


def test_trace_context_of_a_later_version_is_read() -> None:
    assert only("traceparent", b"cc" + TRACEPARENT[2:] + b"-more", "trace_id") == TRACE


def test_last_of_two_headers_counts() -> None:
    (row,) = rows_with([("schema-id", b"1"), ("x", None), ("schema-id", b"2")])
    assert row["schema_id"] == 2
    (row,) = rows_with([("schema-id", b"1"), ("schema-id", b"none")])
    assert row["schema_id"] is None


def test_header_names_are_compared_as_a_whole() -> None:
    assert only("schema-ids", b"1", "schema_id") is None
    assert only("Schema-Id", b"1", "schema_id") is None


@pytest.mark.parametrize("count", [1, 11, 12, 60])
@pytest.mark.parametrize("most", [1, 3, 200])
def test_many_records_with_different_numbers_of_headers(count: int, most: int) -> None:
    records = [
        NewRecord(
            0, b"k", None, [(f"h{ordinal}", b"%d" % ordinal * (ordinal % 40)) for ordinal in range(row % (most + 1))]
        )
        for row in range(count)
    ]
    batch = bytes(build_batch(records))
    assert decoded(batch)[0] == naive_rows(batch)


def test_headers_are_not_looked_at_unless_a_column_needs_them() -> None:
    records = [NewRecord(0, None, b"v", [("h", None)])]
    header = read_header(build_batch(records))
    not_utf8 = assemble(header, bytes.fromhex("16 00 00 00 01 02 76 02 02 ff 01 00")[:-1].replace(b"\x16", b"\x14"))
    assert decoded(not_utf8, columns=["value"])[0] == [{"value": b"v"}]
    with pytest.raises(CorruptBatch, match="UTF-8"):
        decoded(not_utf8, columns=["value", "headers"])


def test_more_headers_than_can_be_kept_are_too_large() -> None:
    count = 4 * 1024 * 1024 + 1
    payload = bytes.fromhex("00 00 00 01 01") + varint(count) + bytes(2 * count)
    header = read_header(build_batch([NewRecord(0, None, None)]))
    with pytest.raises(TooLarge, match="headers"):
        decoded(assemble(header, varint(len(payload)) + payload), columns=["headers"])


@pytest.mark.parametrize(("records", "headers"), [(1, 9000), (12, 9000), (60, 1500), (300, 300)])
def test_no_shape_of_headers_costs_many_times_more_than_one_record_with_all_of_them(records: int, headers: int) -> None:
    batch = build_batch([NewRecord(0, None, b"", [("", None)] * headers)] * records)
    alone = build_batch([NewRecord(0, None, b"", [("", None)] * (records * headers))])

    def cost_s(octets: bytearray) -> float:
        started = process_time()
        decoded(octets, columns=["priority"])
        return process_time() - started

    cost_s(alone)
    assert cost_s(batch) < 3 * min(cost_s(alone) for _ in range(3)) + 0.05


def varint(number: int) -> bytes:
    zigzag = 2 * number
    octets = bytearray()
    while zigzag >= 0x80:
        octets.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes([*octets, zigzag])

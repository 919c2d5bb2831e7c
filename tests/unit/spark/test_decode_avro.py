"""Avro is read as others write it; whatever is no such record is an error that names the field."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type, to_arrow_schema

from goqueue.errors import Invalid
from goqueue.spark.values.decode import Decoded, fields_of, reader_of
from goqueue.spark.values.decoding import Decoding, FormatName, Prefix
from tests.decode_values_kit import ORDER, avro, avro_text

HUGE = b"\xfe" + b"\xff" * 8 + b"\x01"
"""The largest number there is."""
ARROW = "in Arrow's words"
"""What is said of a value that can be read, but fits no column."""

GOOD = {
    "id": 7,
    "name": "a",
    "amount": Decimal("1.50"),
    "state": "OPEN",
    "placed_at": 1_700_000_000_123,
    "tags": {"x": [1]},
    "before": None,
}


def decoded(schema: str, *values: bytes | None, prefix: Prefix = Prefix.NONE) -> Decoded:
    return reader_of(Decoding(FormatName.AVRO, schema, prefix=prefix)).decode(pa.array(values, pa.binary()))


def error_of(kind: object, value: bytes) -> str:
    """Return what is said of a value of a record with one field, `x`."""
    found = decoded(avro_text(("x", kind)), value)
    assert found.data.null_count == 1
    return str(found.error[0].as_py()).removeprefix("the value is no Avro of R: ")


@pytest.mark.parametrize(
    ("kind", "value", "column", "expected"),
    [
        ("boolean", True, "boolean", True),
        ("int", -(2**31), "int", -(2**31)),
        ("long", 2**63 - 1, "bigint", 2**63 - 1),
        ("float", 0.5, "float", 0.5),
        ("double", -0.1, "double", -0.1),
        ("string", "ä€", "string", "ä€"),
        ("bytes", b"\0\xff", "binary", b"\0\xff"),
        ({"type": "fixed", "name": "F", "size": 3}, b"abc", "binary", b"abc"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "string", "B"),
        ({"type": "array", "items": ["null", "long"]}, [1, None], "array<bigint>", [1, None]),
        ({"type": "map", "values": "string"}, {"k": "v"}, "map<string,string>", [("k", "v")]),
        (["string", "null"], None, "string", None),
        (["long"], 5, "bigint", 5),
        ({"type": "int", "logicalType": "date"}, date(2030, 1, 31), "date", date(2030, 1, 31)),
        ({"type": "long", "logicalType": "timestamp-millis"}, 1500, "timestamp",
         datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)),
        ({"type": "long", "logicalType": "timestamp-micros"}, -1, "timestamp",
         datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, 0, "timestamp_ntz",
         datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)),
        ({"type": "int", "logicalType": "time-millis"}, 3_600_000, "int", 3_600_000),
        ({"type": "long", "logicalType": "time-micros"}, 5, "bigint", 5),
        ({"type": "string", "logicalType": "uuid"}, "no check", "string", "no check"),
        ({"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}, bytes(16), "string",
         "00000000-0000-0000-0000-000000000000"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 4}, Decimal("-1.25"), "decimal(38,4)",
         Decimal("-1.2500")),
        ({"type": "fixed", "name": "D", "size": 5, "logicalType": "decimal", "precision": 9}, Decimal(-7),
         "decimal(9,0)", Decimal(-7)),
        ({"type": "string", "logicalType": "of another world"}, "x", "string", "x"),
    ],
)  # fmt: skip
def test_each_type_becomes_a_column(kind: Any, value: object, column: str, expected: object) -> None:
    schema = avro_text(("x", kind))

    found = decoded(schema, avro({"x": value}, json.loads(schema)))

    assert found.error.to_pylist() == [None]
    assert found.data.to_pylist() == [{"x": expected}]
    assert from_arrow_type(found.data.type[0].type, prefer_timestamp_ntz=True).simpleString() == column


def test_types_are_those_that_spark_makes_of_its_own() -> None:
    ours = pa.schema(fields_of(Decoding(FormatName.AVRO, json.dumps(ORDER))))
    assert to_arrow_schema(from_arrow_schema(ours, prefer_timestamp_ntz=True), timezone="UTC").equals(ours)


def test_no_row_is_dropped_and_each_value_is_data_or_an_error() -> None:
    good = avro(GOOD)
    found = decoded(json.dumps(ORDER), good, None, good[:-1], good + b"!!", b"", good)

    assert [data is not None for data in found.data.to_pylist()] == [True, False, False, False, False, True]
    assert found.error.to_pylist() == [
        None,
        None,
        "the value is no Avro of shop.Order: field before: the value ends here",
        "the value is no Avro of shop.Order: 2 bytes are left over",
        "the value is no Avro of shop.Order: field id: the value ends here",
        None,
    ]


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        ("long", b"\x80", "field x: the value ends here"),
        ("long", b"\xff" * 9 + b"\x02", "field x: a number is longer than 64 bits"),
        ("long", b"\xff" * 20 + b"\x01", "field x: a number is longer than 64 bits"),
        ("int", b"\x80\x80\x80\x80\x20", "field x: 4294967296 is longer than 32 bits"),
        ("double", b"abc", "field x: the value ends here"),
        ("float", b"", "field x: the value ends here"),
        ("boolean", b"\x07", "field x: a boolean is 0 or 1, not 7"),
        ("string", b"\x12abc", "field x: a length is 9, and 3 bytes are left"),
        ("bytes", b"\x01abc", "field x: a length is -1, and 3 bytes are left"),
        ("bytes", HUGE, f"field x: a length is {2**63 - 1}, and 0 bytes are left"),
        ("string", b"\x04\xff\xfe", "field x: a text is not UTF-8"),
        ({"type": "fixed", "name": "F", "size": 4}, b"ab", "field x: the value ends here"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, b"\x01", "field x: there is no symbol -1, only 0 to 1"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, b"\x04", "field x: there is no symbol 2, only 0 to 1"),
        (["null", "long"], b"\x01\x00", "field x: a union has no type -1"),
        (["long"], b"\x02\x00", "field x: a union has no type 1"),
        ({"type": "array", "items": "long"}, HUGE + b"\x02", "field x: the value ends here"),
        ({"type": "map", "values": "long"}, b"\x02\x09k\x02\x00", "field x: a length is -5, and 3 bytes are left"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            b"\x80\xea\x30" + b"\x7f" * 400_000,
            "field x: a decimal has 400,000 bytes",
        ),
        ({"type": "long", "logicalType": "timestamp-millis"}, HUGE, ARROW),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, b"\x04\x7f\xff", ARROW),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_the_field(kind: object, value: bytes, told: str) -> None:
    said = error_of(kind, value)
    assert said == told or (told == ARROW and said)


def test_a_value_that_fits_no_column_does_not_harm_its_neighbours() -> None:
    schema = avro_text(("x", {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}))
    found = decoded(schema, b"\x02\x64", b"\x04\x7f\xff", b"\x02\x9c")

    assert found.data.to_pylist() == [{"x": Decimal("1.00")}, None, {"x": Decimal("-1.00")}]
    assert [error is None for error in found.error.to_pylist()] == [True, False, True]


def test_what_serializers_put_in_front_is_skipped_if_it_is_there() -> None:
    good = avro(GOOD)
    values = [b"\0\0\0\x01\x02" + good, b"\x01\0\0\x01\x02" + good, b"\0\0"]
    found = decoded(json.dumps(ORDER), *values, prefix=Prefix.CONFLUENT)

    assert [error and error.partition(": ")[2] for error in found.error.to_pylist()] == [
        None,
        "it begins with byte 01, not with 00 as the prefix confluent does",
        "2 bytes are too few for the prefix confluent",
    ]
    assert str(decoded(json.dumps(ORDER), b"\0\0\0\x01\x02" + good).error[0]).endswith(
        "; it begins like one with the prefix confluent"
    )


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ("{", "the Avro schema is not JSON"),
        ('"long"', "the Avro schema is not that of a record"),
        ('{"type": "record", "name": "R"}', "the record has no fields"),
        ('{"type": "record", "name": "R", "fields": []}', "the record is a record without fields"),
        ('{"type": "record", "fields": [{"name": "x", "type": "int"}]}', "the record is a record without a name"),
        (avro_text(("x", "int"), ("x", "int")), "the record has two fields x"),
        (avro_text(("x", "null")), "field x is null by itself"),
        (avro_text(("x", ["null", "int", "string"])), "field x is a union of null, int, string, which is no column"),
        (avro_text(("x", [])), "field x is a union of nothing"),
        (avro_text(("x", "Nowhere")), "field x is of the type 'Nowhere', which is not defined before"),
        (avro_text(("x", {"type": "array"})), "field x has no items"),
        (avro_text(("x", {"type": "array", "items": "null"})), r"field x.\[\] is null by itself"),
        (avro_text(("x", {"type": "fixed", "name": "F", "size": 0})), "field x is fixed with a size of '0'"),
        (avro_text(("x", {"type": "enum", "name": "E", "symbols": []})), "field x is an enum without symbols"),
        (avro_text(("x", {"type": "bytes", "logicalType": "decimal", "precision": 39})), "a decimal with precision 39"),
        (avro_text(("x", ["null", "R"])), "field x is a R inside of a R: a column cannot nest without end"),
        (avro_text(("x", 5)), "field x has no type that Avro knows: '5'"),
    ],
)  # fmt: skip
def test_a_schema_without_columns_is_refused_with_the_field(schema: str, told: str) -> None:
    with pytest.raises(Invalid, match=told):
        reader_of(Decoding(FormatName.AVRO, schema))


def test_types_that_double_at_every_level_are_bounded() -> None:
    kind: object = "int"
    for level in range(40):
        twice = [{"name": "a", "type": kind}, {"name": "b", "type": f"L{level - 1}" if level else "int"}]
        kind = {"type": "record", "name": f"L{level}", "fields": twice}
    with pytest.raises(Invalid, match="more than 10000 fields"):
        reader_of(Decoding(FormatName.AVRO, json.dumps(kind)))


RECORDS = st.fixed_dictionaries(
    {
        "id": st.integers(-(2**63), 2**63 - 1),
        "name": st.none() | st.text(),
        "amount": st.decimals(-99_999_999, 99_999_999, places=2),
        "state": st.sampled_from(["OPEN", "PAID"]),
        "placed_at": st.integers(0, 4_000_000_000_000),
        "tags": st.dictionaries(st.text(max_size=5), st.lists(st.integers(-9, 2**31 - 1), max_size=4), max_size=3),
        "before": st.none() | st.just("PAID"),
    }
)


@given(st.lists(RECORDS, max_size=5))
def test_what_fastavro_writes_is_read_as_fastavro_reads_it(records: list[dict[str, Any]]) -> None:
    values = [avro(record) for record in records]
    theirs = [fastavro.schemaless_reader(BytesIO(value), fastavro.parse_schema(ORDER), None) for value in values]

    found = decoded(json.dumps(ORDER), *values)

    assert found.error.null_count == len(values)
    ours = found.data.to_pylist(maps_as_pydicts="strict")
    assert ours == theirs


@settings(max_examples=300)
@given(st.binary(max_size=60) | RECORDS.map(avro), st.integers(0, 80), st.binary(max_size=3))
def test_any_bytes_are_data_or_an_error(value: bytes, cut: int, more: bytes) -> None:
    found = decoded(json.dumps(ORDER), value[:cut] + more + value[cut:])
    assert (found.data.null_count, found.error.null_count) in {(1, 0), (0, 1)}

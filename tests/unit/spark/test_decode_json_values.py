"""JSON is read outside of Spark's Java as inside of it; tests/spark compares both."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type, to_arrow_schema

from goqueue.errors import Invalid
from goqueue.spark.values.decode import Decoded, ValueColumns, ValueReader, fields_of, reader_of
from goqueue.spark.values.decoding import Decoding, FormatName

MOMENT = datetime(2030, 1, 31, 8, 0, 0, 500_000, UTC)
ALL = (
    "b BOOLEAN, i1 TINYINT NOT NULL, i2 SMALLINT, i4 INT COMMENT 'four', i8 BIGINT, f4 FLOAT, f8 DOUBLE, "
    "d DECIMAL, d2 DECIMAL(5, 2), s STRING, raw BINARY, day DATE, at TIMESTAMP, `local time` TIMESTAMP_NTZ, "
    "a ARRAY<ARRAY<INT>>, m MAP<STRING, STRUCT<x: INT, y STRING>>"
)


def decoded(schema: str, *values: bytes | None) -> Decoded:
    return reader_of(Decoding(FormatName.JSON, schema)).decode(pa.array(values, pa.binary()))


@pytest.mark.parametrize(
    ("kind", "written", "expected"),
    [
        ("STRING", b'"\\u00e4"', "ä"),
        ("STRING", b"1.50", "1.5"),
        ("STRING", b'{"a": [1, null]}', '{"a":[1,null]}'),
        ("STRING", b"true", "true"),
        ("STRING", b"null", None),
        ("DOUBLE", b"1", 1.0),
        ("DOUBLE", b'"-INF"', -math.inf),
        ("DECIMAL(5, 2)", b"1.005", Decimal("1.01")),
        ("DECIMAL(5, 2)", b'"-12"', Decimal("-12.00")),
        ("DECIMAL(20, 2)", b"123456789012345678.91", Decimal("123456789012345678.91")),
        ("DECIMAL(5, 2)", b"12e-1", Decimal("1.20")),
        ("DECIMAL(5, 2)", b"null", None),
        ("DECIMAL", b"7", Decimal(7)),
        ("BINARY", b'"YWJj"', b"abc"),
        ("DATE", b'"2030-1-31"', date(2030, 1, 31)),
        ("DATE", b'"2030-01-31T10:00"', date(2030, 1, 31)),
        ("TIMESTAMP", b'"2030-01-31T08:00:00.5Z"', MOMENT),
        ("TIMESTAMP", b'"2030-01-31 09:00:00.500000999+01:00"', MOMENT),
        ("TIMESTAMP", b'"2030-01-31"', MOMENT.replace(hour=0, microsecond=0)),
        ("TIMESTAMP", b"5", datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)),
        ("TIMESTAMP_NTZ", b'"2030-01-31T08:00:00.5"', MOMENT.replace(tzinfo=None)),
        ("ARRAY<STRING>", b"[1, null]", ["1", None]),
        ("MAP<STRING, BIGINT>", b'{"k": 1}', [("k", 1)]),
        ("STRUCT<`order-id`: INT, class: STRING>", b'{"order-id": 1}', {"order-id": 1, "class": None}),
    ],
)
def test_each_column_is_read_from_what_json_has(kind: str, written: bytes, expected: object) -> None:
    found = decoded(f"x {kind}", b'{"more": [1], "x": ' + written + b"}", b"{}", None)
    assert found.error.to_pylist() == [None, None, None]
    assert found.data.to_pylist() == [{"x": expected}, {"x": None}, None]


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        ("BOOLEAN", b"1"),
        ("TINYINT", b"128"),
        ("BIGINT", b"9223372036854775808"),
        ("BIGINT", b"1.0"),
        ("BIGINT", b"true"),
        ("BIGINT", b'"1"'),
        ("DOUBLE", b'"1"'),
        ("DECIMAL(5, 2)", b"1234.5"),
        ("DECIMAL(5, 2)", b"1e999999999"),
        ("DECIMAL(5, 2)", b'"1_0"'),
        ("DECIMAL(5, 2)", b'"NaN"'),
        ("BINARY", b'"#"'),
        ("DATE", b'"yesterday"'),
        ("DATE", b'"2030-02-30"'),
        ("TIMESTAMP", b'"8 o\'clock"'),
        ("TIMESTAMP", b"9223372036854775807"),
        ("TIMESTAMP_NTZ", b'"2030-01-31T08:00:00Z"'),
        ("ARRAY<INT>", b"{}"),
        ("MAP<STRING, INT>", b"[]"),
        ("STRUCT<y: INT>", b'{"y": []}'),
    ],
)
def test_what_does_not_fit_a_column_is_an_error_of_that_row_alone(kind: str, written: bytes) -> None:
    bad = b'{"x": ' + written + b"}"
    found = decoded(f"x {kind}", b"{}", bad, b"{}")
    simple = from_arrow_type(found.data.type, prefer_timestamp_ntz=True).simpleString()
    assert found.data.to_pylist() == [{"x": None}, None, {"x": None}]
    assert found.error.to_pylist() == [None, f"the value does not fit {simple}: {bad.decode()}", None]


def test_values_that_nest_deeply_are_data_or_an_error_of_that_row_alone() -> None:
    """Where the stack ends depends on how deep it is already, and is not the same when columns are built."""
    deep = [b'{"x": ' + b"[" * depth + b"]" * depth + b"}" for depth in range(900, 1001)]
    found = decoded("x STRING", b"{}", *deep)
    assert [found.data[0].as_py(), found.error[0].as_py()] == [{"x": None}, None]
    for data, error in zip(found.data.to_pylist()[1:], found.error.to_pylist()[1:], strict=True):
        assert (data is None) is (error is not None)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (b"", "the value is empty"),
        (b"  ", "the value is empty"),
        (b"{", "the value is not JSON: {"),
        (b'{"x": "a"', 'the value is not JSON: {"x": "a"'),
        (b'{"x": 1} more', 'the value is not JSON: {"x": 1} more'),
        (b'{"y": "\xff"}', "the value is not UTF-8"),
        (b"[" * 100_000, "the value is not JSON: " + "[" * 200),
        (b"5", "the value does not fit struct<x:int>: 5"),
    ],
)
def test_what_is_no_json_object_says_so(value: bytes, told: str) -> None:
    assert decoded("x INT", value).error.to_pylist() == [told]


def test_types_are_those_that_spark_makes_of_its_own() -> None:
    ours = pa.schema(fields_of(Decoding(FormatName.JSON, ALL)))
    assert to_arrow_schema(from_arrow_schema(ours, prefer_timestamp_ntz=True), timezone="UTC").equals(ours)


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ("id BIGNT", "the schema is no list of columns: BIGNT is no type; did you mean BIGINT"),
        ("a STRUCT<b: VARIANT>", "column a.b is of the type VARIANT, which the source cannot decode"),
        ("a STRING COLLATE UTF8_LCASE", "column a is of the type STRING"),
        ("m MAP<INT, INT>", "column m is a map whose keys are not STRING"),
    ],
)
def test_schemas_that_cannot_be_read_are_refused_with_the_column(schema: str, told: str) -> None:
    with pytest.raises(Invalid, match=told):
        reader_of(Decoding(FormatName.JSON, schema))


def test_columns_come_in_the_order_that_was_asked_for_and_large_batches_in_parts() -> None:
    columns = ValueColumns(["error", "offset", "data"], Decoding(FormatName.JSON, "x INT"))
    assert columns.stored == ("offset", "value")
    batch = pa.record_batch({"offset": pa.array(range(25_000)), "value": pa.array([b'{"x": 1}'] * 25_000)})

    parts = list(columns.add(batch))

    assert [part.num_rows for part in parts] == [10_000, 10_000, 5_000]
    assert parts[2].schema.names == ["error", "offset", "data"]
    assert parts[2].slice(4_999).to_pylist() == [{"error": None, "offset": 24_999, "data": {"x": 1}}]


def test_few_large_values_among_small_ones_are_decoded_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """What values become is much larger than they are."""
    sizes: list[int] = []
    real = ValueReader._decode

    def decode(self: ValueReader, values: pa.Array) -> Decoded:
        sizes.append(sum(len(value) for value in values.to_pylist() if value))
        return real(self, values)

    monkeypatch.setattr(ValueReader, "_decode", decode)
    large = b'{"x": "' + b"a" * 900_000 + b'"}'
    values = [b'{"x": "b"}', None, large, large, *[b"{}"] * 50, large]

    found = decoded("x STRING", *values)

    assert [None if each is None else len(each["x"] or "") for each in found.data.to_pylist()] == [
        1, None, 900_000, 900_000, *[0] * 50, 900_000,
    ]  # fmt: skip
    assert found.error.null_count == len(values)
    assert len(sizes) == 3
    assert max(sizes) < 1024 * 1024
    assert decoded("x STRING").data.to_pylist() == []


def test_a_read_without_these_columns_decodes_nothing() -> None:
    columns = ValueColumns(["offset"], Decoding(FormatName.JSON, "x INT"))
    assert columns.stored == ("offset",)
    batch = pa.record_batch({"offset": pa.array([1])})
    assert list(columns.add(batch)) == [batch]


@settings(max_examples=300)
@given(st.binary(max_size=40) | st.text(max_size=40).map(lambda text: ('{"s":' + text).encode("utf-8", "replace")))
def test_any_bytes_are_data_or_an_error(value: bytes) -> None:
    found = decoded(ALL, value)
    assert (found.data.null_count, found.error.null_count) in {(1, 0), (0, 1)}

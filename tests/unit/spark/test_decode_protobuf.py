"""Protobuf is read by its descriptors; whatever is no such message is an error."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type, to_arrow_schema

from goqueue.errors import Invalid
from goqueue.spark.values.decode import Decoded, fields_of, reader_of
from goqueue.spark.values.decoding import Decoding, FormatName, Prefix
from tests.decode_values_kit import descriptor_set, message, message_class

ORDER = descriptor_set(
    message("First", ("x", "int32")),
    message(
        "Order",
        ("id", "int64"),
        ("name", "string"),
        ("note", "string", "optional"),
        ("state", "State"),
        ("lines", "Line", "repeated"),
        ("by_sku", "map:string:.shop.Line"),
        ("card", "string", "in a oneof"),
        ("cash", ".google.protobuf.Empty", "in a oneof"),
        ("placed_at", ".google.protobuf.Timestamp"),
        ("took", ".google.protobuf.Duration"),
        ("limit", ".google.protobuf.UInt64Value"),
        ("parent", "Line"),
    ),
    message("Line", ("sku", "string"), ("count", "uint32"), ("codes", "sint32", "repeated")),
    enums={"State": ["OPEN", "PAID"]},
)
Order = message_class(ORDER, "shop.Order")
NOTHING = {"id": 0, "name": "", "note": None, "state": "OPEN", "lines": [], "by_sku": [], "card": None, "cash": None,
           "placed_at": None, "took": None, "limit": None, "parent": None}  # fmt: skip


def decoded(
    *values: bytes | None, descriptors: bytes = ORDER, name: str = "shop.Order", prefix: Prefix = Prefix.NONE
) -> Decoded:
    decoding = Decoding(FormatName.PROTOBUF, descriptors, name, prefix)
    return reader_of(decoding).decode(pa.array(values, pa.binary()))


def test_absent_fields_are_null_if_that_can_be_told_and_zero_otherwise() -> None:
    found = decoded(b"", None)
    assert found.data.to_pylist() == [NOTHING, None]
    assert found.error.to_pylist() == [None, None]


def test_all_that_a_message_can_have_becomes_columns() -> None:
    order = Order(id=-5, name="ä", note="", state=1, cash={}, limit={"value": 2**64 - 1}, parent={"sku": "p"})
    order.lines.add(sku="a", count=2**32 - 1, codes=[-1, 2])
    order.lines.add()
    order.by_sku["k"].count = 3
    order.placed_at.FromDatetime(datetime(2030, 1, 31, 8, 0, 0, 5, UTC))
    order.took.FromTimedelta(timedelta(microseconds=-1))

    found = decoded(order.SerializeToString(), Order(card="c").SerializeToString())

    empty_line = {"sku": "", "count": 0, "codes": []}
    assert found.data.to_pylist() == [
        {
            "id": -5,
            "name": "ä",
            "note": "",
            "state": "PAID",
            "lines": [{"sku": "a", "count": 2**32 - 1, "codes": [-1, 2]}, empty_line],
            "by_sku": [("k", empty_line | {"count": 3})],
            "card": None,
            "cash": True,
            "placed_at": datetime(2030, 1, 31, 8, 0, 0, 5, UTC),
            "took": timedelta(microseconds=-1),
            "limit": Decimal(2**64 - 1),
            "parent": empty_line | {"sku": "p"},
        },
        NOTHING | {"card": "c"},
    ]


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        ("bool", "boolean"),
        ("float", "float"),
        ("double", "double"),
        ("bytes", "binary"),
        ("sfixed32", "int"),
        ("fixed32", "bigint"),
        ("sint64", "bigint"),
        ("fixed64", "decimal(20,0)"),
        (".google.protobuf.Duration", "interval day to second"),
        (".google.protobuf.BoolValue", "boolean"),
    ],
)
def test_each_type_becomes_a_column(kind: str, column: str) -> None:
    descriptors = descriptor_set(message("M", ("x", kind), ("more", kind, "repeated")))
    found = reader_of(Decoding(FormatName.PROTOBUF, descriptors, "shop.M")).type
    told = from_arrow_type(found, prefer_timestamp_ntz=True).simpleString()
    assert told == f"struct<x:{column},more:array<{column}>>"


def test_types_are_those_that_spark_makes_of_its_own() -> None:
    ours = pa.schema(fields_of(Decoding(FormatName.PROTOBUF, ORDER, "shop.Order")))
    assert to_arrow_schema(from_arrow_schema(ours, prefer_timestamp_ntz=True), timezone="UTC").equals(ours)


@pytest.mark.parametrize(
    "value", [b"\x08", b"\x08" + b"\xff" * 11, b"\0abc", b"\x12\xff\xff\xff\xff\x07a", b"\x12\x02\xff\xfe", b"\x0b"]
)
def test_what_is_no_message_is_an_error(value: bytes) -> None:
    found = decoded(value, Order(id=1).SerializeToString())
    assert found.data.to_pylist() == [None, NOTHING | {"id": 1}]
    assert found.error.to_pylist() == ["the value is no Protobuf of shop.Order: it is cut, or something else", None]


def test_a_number_that_an_enum_has_no_name_for_stays_a_number_and_unknown_fields_are_passed_over() -> None:
    found = decoded(b"\x20\x09" + b"\xf8\x01\x05")
    assert found.data.to_pylist() == [NOTHING | {"state": "9"}]


def test_required_fields_and_texts_of_the_older_syntax_are_checked() -> None:
    descriptors = descriptor_set(message("M", ("x", "int32", "required"), ("t", "string")), syntax="proto2")
    found = decoded(b"", b"\x08\x01", b"\x08\x01\x12\x01\xff", descriptors=descriptors, name="shop.M")

    assert found.data.to_pylist() == [None, {"x": 1, "t": None}, None]
    first, second, third = found.error.to_pylist()
    assert (first, second) == ("the value is no Protobuf of shop.M: required fields are missing: x", None)
    assert third.startswith("the value is no Protobuf of shop.M: ")


def test_the_prefix_has_to_name_this_message() -> None:
    order = Order(id=1).SerializeToString()
    values = [b"\0\0\0\0\x01" + indexes + order for indexes in (b"\x02\x02", b"\0", b"\x04\x02\x02", b"\x01")]
    found = decoded(*values, b"\0\0\0\0\x01", prefix=Prefix.CONFLUENT)

    assert [error and error.partition(": ")[2] for error in found.error.to_pylist()] == [
        None,
        "its prefix says that it is message [0] of its schema, not [1]",
        "its prefix says that it is message [1, 1] of its schema, not [1]",
        "its prefix names a message by -1 numbers",
        "it ends within the prefix confluent",
    ]
    first = message_class(ORDER, "shop.First")(x=1).SerializeToString()
    found = decoded(b"\0\0\0\0\x01\0" + first, name="shop.First", prefix=Prefix.CONFLUENT)
    assert found.data.to_pylist() == [{"x": 1}]


def test_maps_come_in_one_order() -> None:
    """Protobuf has another one in every process."""
    keys = [f"k{number}" for number in range(20)]
    value = Order(by_sku={key: {"sku": key} for key in reversed(keys)}).SerializeToString()
    (found,) = decoded(value).data.to_pylist()
    assert [key for key, _ in found["by_sku"]] == sorted(keys)


@pytest.mark.parametrize(
    ("descriptors", "name", "told"),
    [
        (b"\xff", "shop.Order", "that is no set of Protobuf descriptors"),
        (b"", "shop.Order", "the set of Protobuf descriptors is empty"),
        (ORDER, "shop.Ordr", "there is no message 'shop.Ordr' .*did you mean shop.Order"),
        (ORDER, "Order", "there is no message 'Order' .*did you mean shop.Order"),
        (descriptor_set(message("M")), "shop.M", "the message shop.M has no fields"),
        (descriptor_set(message("M", ("HasField", "int32"))), "shop.M", "field HasField has the name of a method"),
        (
            descriptor_set(message("M", ("x", "N")), message("N", ("y", "M", "repeated"))),
            "shop.M",
            r"field x.y.\[\] is a shop.M inside of a shop.M",
        ),
    ],
)
def test_descriptors_without_columns_are_refused(descriptors: bytes, name: str, told: str) -> None:
    with pytest.raises(Invalid, match=told):
        reader_of(Decoding(FormatName.PROTOBUF, descriptors, name))


def test_descriptors_have_to_be_complete_in_any_order() -> None:
    files = FileDescriptorSet.FromString(ORDER).file
    kept = FileDescriptorSet(file=[each for each in files if "empty" not in each.name]).SerializeToString()
    with pytest.raises(Invalid, match=r"lacks what it imports: google/protobuf/empty.proto .*--include_imports"):
        reader_of(Decoding(FormatName.PROTOBUF, kept, "shop.Order"))
    reader_of(Decoding(FormatName.PROTOBUF, FileDescriptorSet(file=files[::-1]).SerializeToString(), "shop.Order"))


LINES = st.fixed_dictionaries(
    {
        "sku": st.text(max_size=5),
        "count": st.integers(0, 2**32 - 1),
        "codes": st.lists(st.integers(-(2**31), 2**31 - 1), max_size=3),
    }
)


@given(st.integers(-(2**63), 2**63 - 1), st.none() | st.text(), st.lists(LINES, max_size=3), st.none() | LINES)
def test_what_was_written_is_read(number: int, note: str | None, lines: list[dict[str, Any]], parent: Any) -> None:
    found = decoded(Order(id=number, note=note, lines=lines, parent=parent).SerializeToString(), None)
    assert found.data.to_pylist() == [NOTHING | {"id": number, "note": note, "lines": lines, "parent": parent}, None]


@settings(max_examples=300)
@given(st.binary(max_size=40))
def test_any_bytes_are_data_or_an_error(value: bytes) -> None:
    found = decoded(value)
    assert (found.data.null_count, found.error.null_count) in {(1, 0), (0, 1)}

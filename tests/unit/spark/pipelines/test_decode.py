"""Sources of Avro and Protobuf: their schemas are read and checked with the file that names them."""

from __future__ import annotations

import json
from pathlib import PurePath

import pytest

from goqueue.spark.pipelines import LoadedFile, read_text
from goqueue.spark.pipelines.render.describe import source_words
from goqueue.spark.pipelines.spec.model import Decode, DecodeFormat, MessageColumn, OnBadValue, TopicSource
from goqueue.spark.values.decoding import Decoding, FormatName, Prefix
from tests.decode_values_kit import ORDER, avro_text, descriptor_set, message
from tests.unit.spark.pipelines.pipelines_kit import lines_of

AVRO_HINT = "write decode: {format: avro, schema_file: orders.avsc}"
DESCRIPTORS = descriptor_set(message("Order", ("id", "int64"), ("offset", "int64")))
FILES = {
    PurePath("dir/order.avsc"): json.dumps(ORDER).encode(),
    PurePath("dir/wrong.avsc"): avro_text(("x", "null")).encode(),
    PurePath("dir/shop.desc"): DESCRIPTORS,
    PurePath("dir/columns.ddl"): b"id BIGINT",
    PurePath("dir/wrong.ddl"): b"id BIGNT",
}


def read(decode: str) -> LoadedFile:
    text = f"pipeline: p\nsources:\n  it: {{topic: a, decode: {decode}}}\nsinks:\n  out: {{from: it, console: true}}\n"
    return read_text(text, "dir/p.yaml", {}, FILES.get)


def source(decode: str) -> TopicSource:
    found = read(decode)
    assert lines_of(found) == []
    assert found.pipeline is not None
    (only,) = found.pipeline.sources
    assert isinstance(only, TopicSource)
    return only


def test_a_schema_is_taken_out_of_its_file() -> None:
    avro = source("{format: avro, schema_file: order.avsc, prefix: confluent, keep: [offset], on_bad_value: drop}")
    values = Decoding(FormatName.AVRO, FILES[PurePath("dir/order.avsc")], prefix=Prefix.CONFLUENT)
    assert avro.decode == Decode(DecodeFormat.AVRO, "", (MessageColumn.OFFSET,), OnBadValue.DROP, values)
    assert source_words(avro) == ["topic a", "from earliest", "Avro of shop.Order", "with offset"]

    protobuf = source("{format: protobuf, schema_file: shop.desc, message: shop.Order}")
    assert protobuf.decode.values == Decoding(FormatName.PROTOBUF, DESCRIPTORS, "shop.Order")
    assert source_words(protobuf)[2] == "Protobuf of shop.Order"

    assert source("{format: json, schema_file: columns.ddl}").decode.schema == "id BIGINT"
    inline = avro_text(("x", "long"))
    assert source(f"{{format: avro, schema: '{inline}'}}").decode.values == Decoding(FormatName.AVRO, inline)


@pytest.mark.parametrize(
    ("decode", "column", "told"),
    [
        ("avro", 26, f"source it needs a schema to read Avro ({AVRO_HINT})"),
        ("{format: avro, schema: long}", 49, "decode of source it: the Avro schema is not JSON: JSON is malformed"),
        ("{format: avro, schema_file: no.avsc}", 54, "schema_file of decode of source it: there is no file"),
        ("{format: avro, schema_file: wrong.avsc}", 54, "decode of source it: Avro schema: field x is null by itself"),
        ("{format: avro, schema_file: order.avsc, message: a.B}", 66, "a message means nothing to the format avro"),
        ("{format: avro, schema: x, schema_file: order.avsc}", 52, "decode of source it has both schema and"),
        ("{format: protobuf, schema: x, message: a.B}", 45, "a schema means nothing to the format protobuf"),
        ("{format: protobuf, schema_file: shop.desc}", 26, "decode of source it has no message (add message:"),
        ("{format: protobuf, schema_file: order.avsc, message: a.B}", 58, "decode of source it: that is no set of"),
        ("{format: protobuf, schema_file: shop.desc, message: shop.Ordr}", 78,
         "decode of source it: there is no message 'shop.Ordr' among the Protobuf descriptors (did you mean"),
        ("{format: protobuf, schema_file: shop.desc, message: shop.Order, keep: [offset]}", 97,
         "offset is kept, but the schema has a column of that name, too"),
        ("{format: protobuf, schema_file: shop.desc, message: shop.Order, prefix: magic}", 98,
         "prefix of decode of source it cannot be 'magic' (choose from none, confluent)"),
        ("{format: json, schema_file: wrong.ddl}", 54,
         "schema_file of decode of source it is no list of columns: BIGNT is no type; did you mean BIGINT?"),
        ("{format: json, schema: id INT, prefix: confluent}", 57, "a prefix means nothing to the format json"),
        ("{format: raw, schema_file: order.avsc}", 40, "a schema_file means nothing to the format raw"),
    ],
)  # fmt: skip
def test_a_flaw_is_told_with_its_place(decode: str, column: int, told: str) -> None:
    (line,) = lines_of(read(decode))
    assert line.startswith(f"3:{column} error: {told}")

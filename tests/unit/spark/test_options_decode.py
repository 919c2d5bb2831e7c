"""The options that say what values are: all that is wrong is told at once, before a query starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from goqueue.errors import InvalidSettings
from goqueue.spark.source.options import ReadKind, parse_options
from goqueue.spark.values.decoding import Decoding, FormatName, Prefix
from tests.decode_values_kit import ORDER, descriptor_set, message

NEEDED = {"kafka.bootstrap.servers": "127.0.0.1:9092", "topic": "orders"}
EXAMPLE = "set decode.schema, for example id BIGINT, amount DOUBLE, or decode.schemaFile"
WHERE = "name a file of the machine that starts the query"
COLUMNS = "write columns and types: id BIGINT, amount DOUBLE"
DESCRIPTORS = descriptor_set(message("Order", ("id", "int64")))


def mistakes(**more: str) -> list[str]:
    with pytest.raises(InvalidSettings) as caught:
        decoding(**more)
    return [mistake.line for mistake in caught.value.mistakes]


def decoding(**more: str) -> Decoding | None:
    return parse_options(
        NEEDED | {name.replace("__", "."): text for name, text in more.items()}, ReadKind.STREAM
    ).decoding


def test_a_schema_is_written_there_or_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "columns.ddl").write_text("id BIGINT")
    (tmp_path / "shop.desc").write_bytes(DESCRIPTORS)
    avro = json.dumps(ORDER)

    assert decoding() is None
    assert decoding(decode="JSON", decode__schema="id BIGINT") == Decoding(FormatName.JSON, "id BIGINT")
    assert decoding(decode="json", decode__schemaFile=f"{tmp_path}/columns.ddl") == Decoding(
        FormatName.JSON, b"id BIGINT"
    )
    assert decoding(decode="avro", DECODE__schema=avro, decode__prefix="Confluent") == Decoding(
        FormatName.AVRO, avro, prefix=Prefix.CONFLUENT
    )
    assert decoding(
        decode="protobuf", decode__schemaFile=f"{tmp_path}/shop.desc", decode__message="shop.Order"
    ) == Decoding(FormatName.PROTOBUF, DESCRIPTORS, "shop.Order")


def test_options_that_contradict_each_other_are_told_at_once(tmp_path: Path) -> None:
    missing = tmp_path / "missing.desc"
    assert mistakes(decode__schema="id BIGINT", decode__prefix="none") == [
        "decode.schema has no effect without decode: set that, too, or leave it out",
        "decode.prefix has no effect without decode: set that, too, or leave it out",
    ]
    assert mistakes(decode="xml", decode__prefix="magic", decode__message=" ") == [
        "decode: 'xml' is none of json, avro, protobuf",
        "decode.message: nothing is written there",
        "decode.prefix: 'magic' is none of none, confluent",
    ]
    assert mistakes(decode="json", decode__message="shop.Order") == [
        f"decode is json, which needs a schema: {EXAMPLE}",
        "decode.message belongs to protobuf: leave it out",
    ]
    assert mistakes(decode="protobuf", decode__schema="x", decode__schemaFile=str(missing)) == [
        "decode.schema and decode.schemaFile contradict each other: keep one of them",
        f"decode.schemaFile: {missing} cannot be read: No such file or directory ({WHERE})",
        "decode.schema belongs to JSON and Avro: set decode.schemaFile to what protoc --descriptor_set_out wrote",
        "decode.message is missing: set the full name of the message, for example shop.Order",
    ]


def test_a_schema_is_looked_into(tmp_path: Path) -> None:
    (tmp_path / "shop.desc").write_bytes(DESCRIPTORS)
    (tmp_path / "empty.avsc").write_bytes(b"")
    (tmp_path / "binary.avsc").write_bytes(b"\xff")
    assert mistakes(decode="json", decode__schema="id BIGNT") == [
        f"decode.schema: the schema is no list of columns: BIGNT is no type; did you mean BIGINT? ({COLUMNS})"
    ]
    assert mistakes(decode="avro", decode__schema='{"type": "record", "name": "R", "fields": []}') == [
        "decode.schema: Avro schema: the record is a record without fields, which is no column (correct the schema)"
    ]
    assert mistakes(decode="avro", decode__schemaFile=f"{tmp_path}/empty.avsc") == [
        f"decode.schemaFile: {tmp_path}/empty.avsc is empty (name the file of a schema)"
    ]
    assert mistakes(decode="avro", decode__schemaFile=f"{tmp_path}/binary.avsc") == [
        "decode.schemaFile: the schema is not UTF-8 (store it as UTF-8)"
    ]
    assert mistakes(
        decode="protobuf", decode__schemaFile=f"{tmp_path}/shop.desc", decode__message="shop.Ordr"
    ) == [
        "decode.message: there is no message 'shop.Ordr' among the Protobuf descriptors (did you mean shop.Order?)"
    ]  # fmt: skip

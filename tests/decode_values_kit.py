"""Values in Avro and Protobuf by the libraries of others, for tests of what reads them here."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import fastavro
from google.protobuf import duration_pb2, empty_pb2, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["OPEN", "PAID"]}},
        {"name": "placed_at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tags", "type": {"type": "map", "values": {"type": "array", "items": "int"}}},
        {"name": "before", "type": ["null", "State"]},
    ],
}
"""A schema with most of what Avro has."""

_TYPES = {name.removeprefix("TYPE_").lower(): number for name, number in FieldDescriptorProto.Type.items()}

# What `message` below is to have: name, type, and marks: `repeated`, `optional` (proto3), `required` or `in a oneof`.
Field = tuple[str, str] | tuple[str, str, str]


def avro(record: object, schema: Any = ORDER) -> bytes:
    """Write a record as fastavro does."""
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), record)
    return out.getvalue()


def avro_text(*fields: tuple[str, object]) -> str:
    """Return the schema of a record, in JSON."""
    return json.dumps(
        {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields]}
    )


def message(name: str, *fields: Field) -> DescriptorProto:
    """Return the descriptor of a message; a type with dots is another message, `map:K:V` a map."""
    made = DescriptorProto(name=name)
    if any("in a oneof" in field for field in fields):
        # Real ones come before those of optional fields.
        made.oneof_decl.add(name="choice")
    for number, (field, kind, *marks) in enumerate(fields, 1):
        _add_field(made, number, field, kind, marks[0] if marks else "")
    return made


def descriptor_set(
    *messages: DescriptorProto, syntax: str = "proto3", enums: dict[str, list[str]] | None = None
) -> bytes:
    """Return what protoc would write for a file of package `shop` with these messages."""
    imports = [each.DESCRIPTOR for each in (duration_pb2, empty_pb2, timestamp_pb2, wrappers_pb2)]
    file = FileDescriptorProto(name="shop.proto", package="shop", syntax=syntax, message_type=messages)
    file.dependency.extend(each.name for each in imports)
    for name, values in (enums or {}).items():
        enum = file.enum_type.add(name=name)
        for number, value in enumerate(values):
            enum.value.add(name=value, number=number)
    files = FileDescriptorSet(file=[file])
    for each in imports:
        each.CopyToProto(files.file.add())
    written: bytes = files.SerializeToString()
    return written


def message_class(descriptors: bytes, name: str) -> Any:
    """Return the class of a message, made by Protobuf's own library."""
    pool = DescriptorPool()
    for file in reversed(FileDescriptorSet.FromString(descriptors).file):
        pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName(name))


def _add_field(made: DescriptorProto, number: int, name: str, kind: str, mark: str) -> None:
    labels = {"repeated": FieldDescriptorProto.LABEL_REPEATED, "required": FieldDescriptorProto.LABEL_REQUIRED}
    field = made.field.add(name=name, number=number, label=labels.get(mark, FieldDescriptorProto.LABEL_OPTIONAL))
    if kind.startswith("map:"):
        _, key, value = kind.split(":")
        entry = message(f"{name.capitalize()}Entry", ("key", key), ("value", value))
        entry.options.map_entry = True
        made.nested_type.append(entry)
        field.label = FieldDescriptorProto.LABEL_REPEATED
        field.type = FieldDescriptorProto.TYPE_MESSAGE
        field.type_name = f"{made.name}.{entry.name}"
    elif kind in _TYPES:
        field.type = _TYPES[kind]
    else:
        # Protobuf finds out whether it is a message or an enum.
        field.type_name = kind if kind.startswith(".") else f".shop.{kind}"
    if mark == "optional":
        made.oneof_decl.add(name=f"_{name}")
        field.oneof_index = len(made.oneof_decl) - 1
        field.proto3_optional = True
    elif mark == "in a oneof":
        field.oneof_index = 0

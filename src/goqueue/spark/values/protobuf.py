"""Protobuf messages by their descriptors: which column type each field becomes, and how columns are built.

| Protobuf                                      | column                                                         |
|-----------------------------------------------|----------------------------------------------------------------|
| bool, float, double, string, bytes            | BOOLEAN, FLOAT, DOUBLE, STRING, BINARY                         |
| int32, sint32, sfixed32                       | INT                                                            |
| int64, sint64, sfixed64, uint32, fixed32      | BIGINT                                                         |
| uint64, fixed64                               | DECIMAL(20, 0)                                                 |
| enum                                          | STRING: its name, or its number if it has none                 |
| message, repeated, map                        | STRUCT, ARRAY, MAP                                             |
| message without fields                        | BOOLEAN: true if it is there                                   |
| google.protobuf.Timestamp, Duration           | TIMESTAMP, INTERVAL DAY TO SECOND; nanoseconds are cut off     |
| google.protobuf.*Value (wrappers)             | what they wrap                                                 |

A field with presence (optional, of a oneof, a message) is null when absent, any other field has its zero value. Unknown
fields are ignored. Recursive messages are refused, with the field.

Columns are built from whole lists of messages, field by field: no object is made for a row but the message itself.

Descriptor sets: what `protoc --include_imports --descriptor_set_out=orders.desc orders.proto` writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from operator import attrgetter
from typing import Any, Final

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from typing_extensions import override

from goqueue.errors import Invalid
from goqueue.model.units import quoted
from goqueue.spark.values.format import (
    DEPTH_MAX,
    FIELDS_MAX,
    TIMESTAMP,
    ArrowColumn,
    BadValue,
    UnknownMessage,
    ValueFormat,
    converted_column,
    list_column,
    map_column,
    plain_column,
    struct_column,
)

_SCALARS: Final[Mapping[int, pa.DataType]] = {
    FieldDescriptor.TYPE_BOOL: pa.bool_(),
    FieldDescriptor.TYPE_FLOAT: pa.float32(),
    FieldDescriptor.TYPE_DOUBLE: pa.float64(),
    FieldDescriptor.TYPE_STRING: pa.string(),
    FieldDescriptor.TYPE_BYTES: pa.binary(),
    FieldDescriptor.TYPE_INT32: pa.int32(),
    FieldDescriptor.TYPE_SINT32: pa.int32(),
    FieldDescriptor.TYPE_SFIXED32: pa.int32(),
    FieldDescriptor.TYPE_INT64: pa.int64(),
    FieldDescriptor.TYPE_SINT64: pa.int64(),
    FieldDescriptor.TYPE_SFIXED64: pa.int64(),
    FieldDescriptor.TYPE_UINT32: pa.int64(),
    FieldDescriptor.TYPE_FIXED32: pa.int64(),
    FieldDescriptor.TYPE_UINT64: pa.decimal128(20, 0),
    FieldDescriptor.TYPE_FIXED64: pa.decimal128(20, 0),
}

_WRAPPERS: Final = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Bool", "Float", "Double", "String", "Bytes", "Int32", "Int64", "UInt32", "UInt64")
)

_HINT = "make it with protoc --include_imports --descriptor_set_out=orders.desc orders.proto"


class ProtobufFormat(ValueFormat):
    """Values of one message type."""

    def __init__(self, descriptors: bytes, message: str) -> None:
        """Find a message in a set of descriptors; Invalid if it is not there, or has no columns."""
        descriptor = find_message(descriptors, message)
        if not descriptor.fields:
            raise Invalid(f"the message {message} has no fields", hint="name one that has")
        walk = _Walk()
        column = walk.message(descriptor, ())
        self.name = f"Protobuf of {message}"
        self.type = column.type
        self.indexes = _indexes(descriptor)
        self._build = column.build
        self._parse = GetMessageClass(descriptor).FromString
        self._has_required = walk.has_required

    @override
    def read(self, value: bytes) -> Any:
        """Return a message."""
        try:
            found = self._parse(value)
        except DecodeError:
            raise BadValue("it is cut, or something else") from None
        if self._has_required and not found.IsInitialized():
            raise BadValue(f"required fields are missing: {', '.join(found.FindInitializationErrors())}")
        return found

    @override
    def build(self, found: Sequence[Any]) -> pa.Array:
        """Return a column of messages."""
        return self._build(list(found))


class _Walk:
    """A walk through a message; `path` leads from it to the field that is looked at."""

    def __init__(self) -> None:
        self.has_required = False
        self._open: list[str] = []
        self._fields = 0

    def message(self, descriptor: Descriptor, path: tuple[str, ...]) -> ArrowColumn:
        name = descriptor.full_name
        if name in self._open:
            raise Invalid(
                f"Protobuf: field {'.'.join(path)} is a {name} inside of a {name}: a column cannot nest without end",
                hint="name a message that does not contain itself, or leave the value as it is",
            )
        self._bound(len(descriptor.fields))
        self._open.append(name)
        columns = {field.name: self._field(field, (*path, field.name)) for field in descriptor.fields}
        self._open.pop()
        return struct_column(columns, [_taker(field) for field in descriptor.fields])

    def _field(self, field: FieldDescriptor, path: tuple[str, ...]) -> ArrowColumn:
        if hasattr(Message, field.name):
            raise Invalid(
                f"Protobuf: field {'.'.join(path)} has the name of a method of Protobuf's messages, and cannot be read",
                hint="give it another name: only its number is in the values",
            )
        self.has_required = self.has_required or field.is_required
        entry = field.message_type
        if entry is not None and entry.GetOptions().map_entry:
            key, value = entry.fields_by_name["key"], entry.fields_by_name["value"]
            return map_column(self._item(key, path), self._item(value, (*path, "{}")), is_sorted=True)
        if field.is_repeated:
            return list_column(self._item(field, (*path, "[]")))
        return self._item(field, path)

    def _item(self, field: FieldDescriptor, path: tuple[str, ...]) -> ArrowColumn:
        if field.enum_type is not None:
            return _enum(field.enum_type)
        descriptor = field.message_type
        if descriptor is None:
            return plain_column(_SCALARS[field.type])
        if descriptor.full_name == "google.protobuf.Timestamp":
            return converted_column(TIMESTAMP, _microseconds)
        if descriptor.full_name == "google.protobuf.Duration":
            return converted_column(pa.duration("us"), _microseconds)
        if descriptor.full_name in _WRAPPERS:
            return converted_column(_SCALARS[descriptor.fields_by_name["value"].type], attrgetter("value"))
        if not descriptor.fields:
            return converted_column(pa.bool_(), lambda _: True)
        return self.message(descriptor, path)

    def _bound(self, fields: int) -> None:
        """Bound the whole: messages that are used again count again, and could double at every level."""
        self._fields += fields
        if self._fields > FIELDS_MAX or len(self._open) > DEPTH_MAX:
            told = f"has more than {FIELDS_MAX} fields, or {DEPTH_MAX} inside of each other"
            raise Invalid(f"Protobuf: the message {told}", hint="name a smaller one")


def _enum(descriptor: EnumDescriptor) -> ArrowColumn:
    # Of two names of a number, the first counts, as in Protobuf's own texts.
    names = {each.number: each.name for each in reversed(descriptor.values)}
    return converted_column(pa.string(), lambda number: names.get(number) or str(number))


def _microseconds(found: Any) -> int:
    return int(found.seconds * 1_000_000 + found.nanos // 1000)


def _taker(field: FieldDescriptor) -> Callable[[list[Any]], list[Any]]:
    """Return what takes a field out of messages, with None where it is absent."""
    name = field.name
    if field.has_presence:
        return lambda found: [
            getattr(each, name) if each is not None and each.HasField(name) else None for each in found
        ]
    take = attrgetter(name)
    return lambda found: [None if each is None else take(each) for each in found]


def _indexes(descriptor: Descriptor) -> tuple[int, ...]:
    """Return which message of its file it is: the number at each level."""
    outer = descriptor.containing_type
    if outer is None:
        return (list(descriptor.file.message_types_by_name).index(descriptor.name),)
    return (*_indexes(outer), [each.name for each in outer.nested_types].index(descriptor.name))


def find_message(descriptors: bytes, message: str) -> Descriptor:
    """Return the descriptor of a message by its full name; Invalid says what is wrong, or which ones there are."""
    try:
        files = FileDescriptorSet.FromString(descriptors)
    except DecodeError:
        raise Invalid("that is no set of Protobuf descriptors", hint=_HINT) from None
    if not files.file:
        raise Invalid("the set of Protobuf descriptors is empty", hint=_HINT)
    pool = DescriptorPool()
    _add_all(pool, list(files.file))
    try:
        return pool.FindMessageTypeByName(message)
    except KeyError:
        raise _unknown(message, list(files.file)) from None


def _add_all(pool: DescriptorPool, files: list[FileDescriptorProto]) -> None:
    """Add files, each after its imports: protoc writes them in this order, other tools may not."""
    waiting = {file.name: file for file in files}
    added: set[str] = set()
    while waiting:
        ready = [file for file in waiting.values() if added.issuperset(file.dependency)]
        if not ready:
            missing = sorted({name for file in waiting.values() for name in file.dependency} - added - set(waiting))
            told = f"lacks what it imports: {', '.join(missing)}" if missing else "has files that import each other"
            raise Invalid(f"the set of Protobuf descriptors {told}", hint=_HINT)
        for file in ready:
            try:
                pool.AddSerializedFile(file.SerializeToString())
            except (TypeError, ValueError, DecodeError) as error:
                raise Invalid(
                    f"{quoted(file.name)} among the Protobuf descriptors is wrong: {error}", hint=_HINT
                ) from None
            added.add(file.name)
            del waiting[file.name]


def _unknown(message: str, files: list[FileDescriptorProto]) -> UnknownMessage:
    names = [
        f"{file.package}.{each.name}" if file.package else each.name for file in files for each in file.message_type
    ]
    near = get_close_matches(message, names, n=1) or [name for name in names if name.endswith(f".{message}")]
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names[:20])}"
    return UnknownMessage(f"there is no message {quoted(message)} among the Protobuf descriptors", hint=hint)

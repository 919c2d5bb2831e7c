"""Descriptor sets: what `protoc --include_imports --descriptor_set_out=orders.desc orders.proto` writes."""

from __future__ import annotations

from difflib import get_close_matches

from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from goqueue.errors import Invalid
from goqueue.model.units import quoted
from goqueue.spark.values.format import UnknownMessage

_HINT = "make it with protoc --include_imports --descriptor_set_out=orders.desc orders.proto"


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
    """Add files, each behind those that it imports: protoc writes them so, others may not."""
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

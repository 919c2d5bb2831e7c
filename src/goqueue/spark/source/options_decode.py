"""The options of a read that say what values are: `decode`, and `decode.*` beside it.

A file is read here, where the options are: Spark asks for that on the driver. Tasks get what was in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Final, TypeVar

from goqueue.errors import Invalid
from goqueue.model.units import quoted
from goqueue.seams.disk import Disk, RealDisk
from goqueue.spark.source.options_form import OptionsForm
from goqueue.spark.source.options_values import parse_text
from goqueue.spark.values.decode import reader_of
from goqueue.spark.values.format import UnknownMessage
from goqueue.spark.values.spec import Decoding, Format, Prefix

DECODE: Final = "decode"
_SCHEMA: Final = "decode.schema"
_SCHEMA_FILE: Final = "decode.schemaFile"
_MESSAGE: Final = "decode.message"
_PREFIX: Final = "decode.prefix"
DECODE_NAMES: Final = (DECODE, _SCHEMA, _SCHEMA_FILE, _MESSAGE, _PREFIX)

SCHEMA_BYTES_MAX: Final = 8 * 1024 * 1024

_EXAMPLES: Final[Mapping[Format, str]] = {
    Format.JSON: f"set {_SCHEMA}, for example id BIGINT, amount DOUBLE, or {_SCHEMA_FILE}",
    Format.AVRO: f'set {_SCHEMA}, for example {{"type": "record", ...}}, or {_SCHEMA_FILE}',
    Format.PROTOBUF: f"set {_SCHEMA_FILE} to what protoc --descriptor_set_out wrote",
}

T = TypeVar("T", Format, Prefix)


def decoding_of(form: OptionsForm, *, disk: Disk | None = None) -> Decoding | None:
    """Return how values are decoded, if they are; what is wrong is noted in the form."""
    if not form.has(DECODE):
        for name in filter(form.has, DECODE_NAMES):
            form.note(name, f"has no effect without {DECODE}: set that, too, or leave it out")
        return None
    chosen = form.read(DECODE, lambda written: _one_of(Format, written), default=None)
    schema = _schema(form, disk or RealDisk())
    message = form.read(_MESSAGE, parse_text, default="")
    prefix = form.read(_PREFIX, lambda written: _one_of(Prefix, written), default=Prefix.NONE)
    if chosen is None:
        return None
    _check_together(form, chosen)
    if not schema or bool(message) != (chosen is Format.PROTOBUF):
        return None
    decoding = Decoding(chosen, schema, message, prefix)
    try:
        reader_of(decoding)
    except UnknownMessage as error:
        form.note(_MESSAGE, str(error))
    except Invalid as error:
        form.note(_SCHEMA if form.has(_SCHEMA) else _SCHEMA_FILE, str(error))
    return decoding


def read_schema_file(path: PurePath, disk: Disk) -> bytes:
    """Return the content of a file; Invalid if there is none, or it is empty or too large."""
    try:
        file = disk.open(path, writable=False)
        try:
            found = file.read_at(0, SCHEMA_BYTES_MAX + 1)
        finally:
            file.close()
    except OSError as error:
        told = f"{path} cannot be read: {error.strerror}"
        raise Invalid(told, hint="name a file of the machine that starts the query") from None
    if not 0 < len(found) <= SCHEMA_BYTES_MAX:
        told = "has more than 8 MiB" if found else "is empty"
        raise Invalid(f"{path} {told}", hint="name the file of a schema")
    return found


def _schema(form: OptionsForm, disk: Disk) -> str | bytes:
    form.one_of((_SCHEMA, _SCHEMA_FILE))
    inline = form.read(_SCHEMA, parse_text, default="")
    stored = form.read(_SCHEMA_FILE, lambda path: read_schema_file(PurePath(parse_text(path)), disk), default=b"")
    return stored or inline


def _check_together(form: OptionsForm, chosen: Format) -> None:
    is_protobuf = chosen is Format.PROTOBUF
    if not form.has(_SCHEMA) and not form.has(_SCHEMA_FILE):
        form.note(DECODE, f"is {chosen}, which needs a schema: {_EXAMPLES[chosen]}")
    if is_protobuf and form.has(_SCHEMA):
        form.note(_SCHEMA, f"belongs to JSON and Avro: {_EXAMPLES[chosen]}")
    if is_protobuf and not form.has(_MESSAGE):
        form.note(_MESSAGE, "is missing: set the full name of the message, for example shop.Order")
    if not is_protobuf and form.has(_MESSAGE):
        form.note(_MESSAGE, "belongs to protobuf: leave it out")


def _one_of(kind: type[T], written: str) -> T:
    try:
        return kind(written.strip().lower())
    except ValueError:
        raise Invalid(f"{quoted(written)} is none of {', '.join(kind)}") from None

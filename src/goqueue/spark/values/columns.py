"""Decodes the values of messages to columns, with errors beside them.

    orders = decode_json(spark.readStream.format("goqueue")..., "id BIGINT, amount DOUBLE")

No row is dropped: `data` is the decoded value, null where `error` has a reason. So bad messages can be counted,
separated or sent to a dead-letter topic. Spark's engine reads JSON. Spark's Python package has no readers of Avro and
Protobuf, so Python reads these, one Arrow batch at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pyarrow as pa

from goqueue.errors import Invalid
from goqueue.spark.values.decode import DATA, ERROR, fields_of, reader_of
from goqueue.spark.values.decoding import Decoding, FormatName, Prefix

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

_UNREAD = "__unread"
_PARSED = "__parsed"
_EXCERPT_CHARACTERS = 200


def decode_json(rows: DataFrame, schema: str | StructType, *, column: str = "value") -> DataFrame:
    """Add the columns `data`, a struct of that schema, and `error`, a text; exactly one of them is null.

    Both are null where the value is null, which marks a deleted key. Fields missing in the JSON are null in `data`;
    fields missing in the schema are ignored.
    """
    from pyspark.sql import functions as F  # noqa: N812 - its usual name
    from pyspark.sql.types import StringType, StructType

    wanted = schema if isinstance(schema, StructType) else StructType.fromDDL(schema)
    if not isinstance(wanted, StructType):
        raise Invalid("the schema of JSON is a list of columns", hint="write id BIGINT, amount DOUBLE")
    _check_room(rows)
    text = F.col(column).cast("string")
    with_unread = StructType([*wanted.fields]).add(_UNREAD, StringType())
    parsed = rows.withColumn(_PARSED, F.from_json(text, with_unread, json_options(_UNREAD)))
    fields = [F.col(_PARSED).getField(name).alias(name) for name in wanted.fieldNames()]
    excerpt = F.substring(text, 1, _EXCERPT_CHARACTERS)
    reason = (
        F.when(~F.is_valid_utf8(text), F.lit("the value is not UTF-8"))
        .when(F.trim(text) == "", F.lit("the value is empty"))
        .when(F.try_parse_json(text).isNull() | ~is_one_json(text), F.concat(F.lit("the value is not JSON: "), excerpt))
        .otherwise(F.concat(F.lit(f"the value does not fit {wanted.simpleString()}: "), excerpt))
    )
    is_unread = F.col(_PARSED).isNull() | F.col(_PARSED).getField(_UNREAD).isNotNull()
    is_bad = F.col(column).isNotNull() & (is_unread | ~is_one_json(text) | ~F.is_valid_utf8(text))
    return (
        parsed.withColumn(DATA, F.when(F.col(column).isNotNull() & ~is_bad, F.struct(*fields)))
        .withColumn(ERROR, F.when(is_bad, reason))
        .drop(_PARSED)
    )


def json_options(unread: str) -> dict[str, str]:
    """Return Spark's options for standard JSON, with unreadable values in a column of that name."""
    return {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": unread, "allowSingleQuotes": "false"}


def is_one_json(text: Column) -> Column:
    """Return whether a text is exactly one JSON value, since Spark ignores text after the first value."""
    from pyspark.sql import functions as F  # noqa: N812 - its usual name

    length = F.json_array_length(F.concat(F.lit("["), text, F.lit("]")))
    return F.coalesce(length == 1, F.lit(False))  # noqa: FBT003 - a column


def decode_avro(rows: DataFrame, schema: str, *, column: str = "value", prefix: str = Prefix.NONE) -> DataFrame:
    """Add the columns `data`, a struct of the fields of an Avro record, and `error`; see `decode_json`.

    The schema is JSON. The prefix `confluent` skips the bytes that serializers with a schema registry write before a
    value; values must be written with the given schema.
    """
    return _decoded(rows, Decoding(FormatName.AVRO, schema, prefix=_prefix(prefix)), column)


def decode_protobuf(
    rows: DataFrame, descriptors: bytes, message: str, *, column: str = "value", prefix: str = Prefix.NONE
) -> DataFrame:
    """Add the columns `data`, a struct of the fields of a Protobuf message, and `error`; see `decode_json`.

    The descriptors are what `protoc --include_imports --descriptor_set_out` writes, the message is a full name such as
    `shop.Order`.
    """
    return _decoded(rows, Decoding(FormatName.PROTOBUF, descriptors, message, _prefix(prefix)), column)


def decoded_column(value: Column, decoding: Decoding) -> Column:
    """Return a struct of `data` and `error`; Invalid if there is something wrong with the schema."""
    from pyspark.sql.pandas.functions import arrow_udf
    from pyspark.sql.pandas.types import from_arrow_type

    both = pa.struct(fields_of(decoding))

    def decode(values: pa.Array) -> pa.Array:
        return pa.StructArray.from_arrays(list(reader_of(decoding).decode(values)), fields=list(both))

    result = from_arrow_type(both, prefer_timestamp_ntz=True)
    # Spark learns from the annotations which kind of function it is, which its stubs do not know.
    udf = arrow_udf(decode, result)  # type: ignore[call-overload]
    # # Otherwise Spark decodes twice when rows are filtered by their error.
    return cast("Column", udf.asNondeterministic()(value))


def _decoded(rows: DataFrame, decoding: Decoding, column: str) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812 - its usual name

    _check_room(rows)
    parsed = rows.withColumn(_PARSED, decoded_column(F.col(column), decoding))
    return (
        parsed.withColumn(DATA, F.col(_PARSED).getField(DATA))
        .withColumn(ERROR, F.col(_PARSED).getField(ERROR))
        .drop(_PARSED)
    )


def _prefix(written: str) -> Prefix:
    try:
        return Prefix(written)
    except ValueError:
        raise Invalid(f"there is no prefix {written!r}", hint=f"write {' or '.join(Prefix)}") from None


def _check_room(rows: DataFrame) -> None:
    taken = [name for name in (DATA, ERROR) if name in rows.columns]
    if taken:
        raise Invalid(f"the rows have a column {' and '.join(taken)} already", hint="rename it before")

"""Decodes the values of messages to rows.

A value that is no JSON object of the schema is bad: not UTF-8, no JSON, something else than an object, or a field of
another type. A message without a value is bad as well. Fields that the schema does not name are left out, and those
that a value does not have are NULL. Invalid UTF-8 in a text is replaced by U+FFFD. Avro and Protobuf are read as
`goqueue.spark.values.columns` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import StringType, StructType

from goqueue.spark.pipelines.compile.dead_letters import MESSAGE_COLUMN, DeadRowCause, DeadRowReason, dead_letters_of
from goqueue.spark.pipelines.compile.expectations import Judged, Observe
from goqueue.spark.pipelines.run.progress import RULES_PREFIX
from goqueue.spark.pipelines.spec.model import Decode, DecodeFormat, OnBadValue
from goqueue.spark.values.columns import decoded_column, is_one_json, json_options
from goqueue.spark.values.decode import DATA, ERROR, reader_of
from goqueue.spark.values.decoding import Decoding

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

RULE: Final = "decode"
"""Under this name bad values are counted."""

_DATA: Final = "__goqueue_data"
_BOTH: Final = "__goqueue_both"
_CORRUPT: Final = "__goqueue_corrupt"
_WHY: Final = "__goqueue_why"


@dataclass(frozen=True, slots=True)
class Decoder:
    """The decoding part, for counts and dead letters."""

    pipeline: str
    source: str
    observe: Observe


def decode(messages: DataFrame, how: Decode, by: Decoder) -> Judged:
    """Return rows with the columns of the values, then the kept ones of the message, and dead letters."""
    beside = [F.col(each.value) for each in how.keep]
    if MESSAGE_COLUMN in messages.columns:
        beside.append(F.col(MESSAGE_COLUMN))
    if how.format is DecodeFormat.RAW:
        return Judged(messages.select("value", *beside), None)
    text = F.col("value").cast("string")
    if how.format is DecodeFormat.TEXT:
        return Judged(messages.select(F.make_valid_utf8(text).alias("value"), *beside), None)
    parsed = _parsed(messages, how.schema) if how.values is None else _decoded(messages, how.values)
    counted = by.observe(parsed, f"{RULES_PREFIX}{by.source}", {RULE: F.count_if(F.col(_WHY).isNotNull())})
    names = _struct(how.schema).fieldNames() if how.values is None else reader_of(how.values).type.names
    columns = [F.col(_DATA).getField(name).alias(name) for name in names]
    good = _good(counted, how.on_bad_value).select(*columns, *beside)
    if how.on_bad_value is not OnBadValue.DLQ:
        return Judged(good, None)
    cause = DeadRowCause(DeadRowReason.BAD_VALUE, by.pipeline, by.source, error=F.col(_WHY), rules=F.lit(RULE))
    bad = counted.where(F.col(_WHY).isNotNull())
    if MESSAGE_COLUMN not in messages.columns:
        # # This query writes no dead letters.
        return Judged(good, None)
    return Judged(good, dead_letters_of(bad, cause))


def _parsed(messages: DataFrame, schema: str) -> DataFrame:
    text = F.try_validate_utf8(F.col("value").cast("string"))
    fields = _struct(schema).add(_CORRUPT, StringType())
    return messages.withColumn(_DATA, F.from_json(text, fields, json_options(_CORRUPT))).withColumn(_WHY, _why(text))


def _decoded(messages: DataFrame, values: Decoding) -> DataFrame:
    both = messages.withColumn(_BOTH, decoded_column(F.col("value"), values))
    why = F.when(F.col("value").isNull(), F.lit("there is no value")).otherwise(F.col(_BOTH).getField(ERROR))
    return both.withColumn(_DATA, F.col(_BOTH).getField(DATA)).withColumn(_WHY, why).drop(_BOTH)


def _struct(schema: str) -> StructType:
    found = StructType.fromDDL(schema)
    assert isinstance(found, StructType), "columns and their types are a struct"
    return found


def _why(text: Column) -> Column:
    """Return in words why a value is bad; NULL if it is good."""
    return (
        F.when(F.col("value").isNull(), F.lit("there is no value"))
        .when(text.isNull(), F.lit("the value is not UTF-8"))
        .when(~text.rlike(r"\S"), F.lit("the value is empty"))
        .when(~text.rlike(r"\A\s*\{") | ~is_one_json(text), F.lit("the value is no JSON object"))
        .when(
            F.col(_DATA).isNull() | F.col(_DATA).getField(_CORRUPT).isNotNull(),
            F.lit("the value is no JSON object of the schema"),
        )
    )


def _good(counted: DataFrame, on_bad_value: OnBadValue) -> DataFrame:
    if on_bad_value is not OnBadValue.FAIL:
        return counted.where(F.col(_WHY).isNull())
    failure = F.raise_error(F.concat(F.lit("a message cannot be decoded: "), F.col(_WHY)))
    return counted.where(F.when(F.col(_WHY).isNotNull(), failure.cast("boolean")).otherwise(F.lit(True)))  # noqa: FBT003

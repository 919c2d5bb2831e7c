"""From bytes to columns: what the value of a message says, beside what is wrong with it.

    orders = decode_json(spark.readStream.format("goqueue")..., "id BIGINT, amount DOUBLE")

Rows are added to, never dropped: `data` is what was read, and null where `error` says why it could not be. So bad
messages can be counted, kept apart or sent to a dead-letter topic. All of it runs inside of Spark's engine, with no
Python per row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.errors import Invalid

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_UNREAD = "__unread"
_PARSED = "__parsed"
_EXCERPT_CHARACTERS = 200


def decode_json(rows: DataFrame, schema: str | StructType, *, column: str = "value") -> DataFrame:
    """Add the columns `data`, a struct of that schema, and `error`, a text; exactly one of them is null.

    Both are null where the value itself is null: that is no mistake, but a message that says that its key is gone. A
    field that the JSON does not have is null inside of `data`. Fields that the schema does not have are left out.
    """
    from pyspark.sql import functions as F  # noqa: N812 - its usual name
    from pyspark.sql.types import StringType, StructType

    wanted = schema if isinstance(schema, StructType) else StructType.fromDDL(schema)
    if not isinstance(wanted, StructType):
        raise Invalid("the schema of JSON is a list of columns", hint="write id BIGINT, amount DOUBLE")
    taken = [name for name in ("data", "error") if name in rows.columns]
    if taken:
        raise Invalid(f"the rows have a column {' and '.join(taken)} already", hint="rename it before")
    text = F.col(column).cast("string")
    with_unread = StructType([*wanted.fields]).add(_UNREAD, StringType())
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _UNREAD}
    parsed = rows.withColumn(_PARSED, F.from_json(text, with_unread, options))
    fields = [F.col(_PARSED).getField(name).alias(name) for name in wanted.fieldNames()]
    excerpt = F.substring(text, 1, _EXCERPT_CHARACTERS)
    reason = (
        F.when(~F.is_valid_utf8(text), F.lit("the value is not UTF-8"))
        .when(F.trim(text) == "", F.lit("the value is empty"))
        .when(F.try_parse_json(text).isNull(), F.concat(F.lit("the value is not JSON: "), excerpt))
        .otherwise(F.concat(F.lit(f"the value does not fit {wanted.simpleString()}: "), excerpt))
    )
    is_unread = F.col(_PARSED).isNull() | F.col(_PARSED).getField(_UNREAD).isNotNull()
    is_bad = F.col(column).isNotNull() & (is_unread | ~F.is_valid_utf8(text))
    return (
        parsed.withColumn("data", F.when(F.col(column).isNotNull() & ~is_bad, F.struct(*fields)))
        .withColumn("error", F.when(is_bad, reason))
        .drop(_PARSED)
    )

"""From the rows of a topic to the messages of another: which are chosen, and what becomes of them. Pure.

Key, value, headers and timestamp stay as they are. Behind the headers of a message come those that say where it was:

| header                     | value                                                    |
|----------------------------|----------------------------------------------------------|
| `goqueue-replay-topic`     | the topic it was read from                               |
| `goqueue-replay-partition` | its partition there                                      |
| `goqueue-replay-offset`    | its offset there                                         |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TEXT: Final = "text"
"""The value as a string, for whoever chooses rows."""

TOPIC_HEADER: Final = "goqueue-replay-topic"
PARTITION_HEADER: Final = "goqueue-replay-partition"
OFFSET_HEADER: Final = "goqueue-replay-offset"

_HEADERS_TYPE: Final = "ARRAY<STRUCT<key: STRING, value: BINARY>>"
MESSAGE_SCHEMA: Final = (
    f"key BINARY, value BINARY, headers {_HEADERS_TYPE}, topic STRING, partition INT, offset BIGINT"
    ", timestamp TIMESTAMP"
)
"""What `messages` needs of the rows of a topic."""


def chosen(rows: DataFrame, where: str) -> DataFrame:
    """Return the rows for which an expression of SQL is true; all if it is empty."""
    if not where:
        return rows
    return rows.withColumn(TEXT, F.col("value").cast("string")).where(F.expr(where)).drop(TEXT)


def messages(rows: DataFrame, *, keeps_partitions: bool, has_origin: bool) -> DataFrame:
    """Return rows as messages to write; those that do not keep their partitions go where their keys belong."""
    headers = F.col("headers")
    if has_origin:
        origin = {TOPIC_HEADER: "topic", PARTITION_HEADER: "partition", OFFSET_HEADER: "offset"}
        pairs = [
            F.struct(F.lit(name).alias("key"), F.col(column).cast("string").cast("binary").alias("value"))
            for name, column in origin.items()
        ]
        originals = F.coalesce(headers, F.array().cast(_HEADERS_TYPE))
        headers = F.concat(originals, F.array(*pairs).cast(_HEADERS_TYPE))
    partition = [F.col("partition")] if keeps_partitions else []
    return rows.select("key", "value", headers.alias("headers"), "timestamp", *partition)

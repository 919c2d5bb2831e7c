"""The rows that Spark works on: made once, stored in a topic and as Parquet, and counted in both.

A row is a message of 100 bytes with a key of 8. Keys are spread evenly, values hardly repeat themselves: neither
Parquet's dictionaries nor a codec make them much smaller than they would be in practice. The Parquet files are what a
read of the topic gives, all columns of it, as an archive would have them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from goqueue.client.kafka import KafkaData, NamedOffset, TopicPartition
from goqueue.records.layout import headers
from goqueue_bench.broker_process import Broker
from goqueue_bench.measure import require

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = 4
ROW_BYTES = 100

_PREFIX_BYTES = 2
# Multiplied by an odd number below 2^32, no two ids up to there have the same key.
_KEY = "lower(lpad(hex(id * 2654435761 % 4294967296), 8, '0'))"
_VALUE = "concat(md5(CAST(id AS STRING)), md5(CAST(-id - 1 AS STRING)), left(md5(CAST(id * 7 AS STRING)), 28))"

Groups = Mapping[bytes, int]


@dataclass(frozen=True, slots=True)
class Lab:
    """Inputs of a case."""

    spark: SparkSession
    broker: Broker
    workspace: Path
    codec: str

    def read_options(self, topic: str) -> dict[str, str]:
        """The options of a read from the broker."""
        return {"kafka.bootstrap.servers": self.broker.bootstrap, "topic": topic, "startingOffsets": "earliest"}

    def write_options(self, topic: str) -> dict[str, str]:
        """The options of a write to the broker."""
        options = {"kafka.bootstrap.servers": self.broker.bootstrap, "topic": topic}
        return options | {"kafka.compression.type": self.codec}


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that are stored twice, and how many of them there are for each prefix of a key."""

    count: int
    topic: str
    parquet: str
    groups: Groups

    def from_topic(self, lab: Lab) -> DataFrame:
        """Read the topic, as a batch."""
        return lab.spark.read.format("goqueue").options(**lab.read_options(self.topic)).load()

    def keys_from_topic(self, lab: Lab) -> DataFrame:
        """Read the keys of the topic and nothing else: a schema names them, since Spark does not."""
        options = lab.read_options(self.topic)
        return lab.spark.read.format("goqueue").schema("key BINARY").options(**options).load()

    def from_parquet(self, lab: Lab) -> DataFrame:
        """Read the files."""
        return lab.spark.read.parquet(self.parquet)


def fill(lab: Lab, topic: str, count: int) -> Rows:
    """Make so many rows, write them to an empty topic, and what can be read there to files."""
    made = new_rows(lab.spark, count)
    write(lab, made, topic)
    require_committed(lab.broker, topic, count)
    rows = Rows(count, topic, str(lab.workspace / f"{topic}.parquet"), count_groups(made))
    rows.from_topic(lab).write.parquet(rows.parquet)
    archived = rows.from_parquet(lab).count()
    require(archived == count, f"{count} rows are read from the topic and written as Parquet ({archived} were)")
    return rows


def new_rows(spark: SparkSession, count: int) -> DataFrame:
    """Return rows that are made when they are needed, the same each time."""
    ids = spark.range(0, count, 1, PARTITIONS)
    return ids.selectExpr(f"CAST({_KEY} AS BINARY) AS key", f"CAST({_VALUE} AS BINARY) AS value")


def write(lab: Lab, rows: DataFrame, topic: str) -> None:
    """Write rows to a topic, as a batch."""
    rows.write.format("goqueue").options(**lab.write_options(topic)).mode("append").save()


def count_groups(rows: DataFrame) -> dict[bytes, int]:
    """Count rows by the first bytes of their keys."""
    prefix = f"substring(key, 1, {_PREFIX_BYTES})"
    counted = rows.selectExpr(f"{prefix} AS prefix").groupBy("prefix").count().collect()
    return {bytes(prefix): number for prefix, number in counted}


def require_committed(broker: Broker, topic: str, count: int) -> None:
    """Raise unless a topic holds exactly so many messages, all of them committed."""
    found = committed_messages(broker, topic)
    require(found == count, f"{count} rows are committed messages of the topic ({found} are)")


def committed_messages(broker: Broker, topic: str) -> int:
    """Count the messages of a topic by the headers of their batches; there must be none that was given up."""
    count = 0
    places = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    with KafkaData(broker.bootstrap) as data:
        for place, found in data.offsets(places, NamedOffset.LATEST).items():
            for fetched in data.read_range(place, 0, found.offset or 0):
                require(not fetched.aborted, "every transaction of the topic is committed")
                count += sum(header.record_count for _, header in headers(fetched.records) if not header.is_control)
    return count

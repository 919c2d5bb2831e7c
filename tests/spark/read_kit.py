"""What the tests of the data source share: topics, messages by librdkafka, reads, and streams that run to their end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from goqueue.client import Client, topics
from goqueue.testing.broker import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, Row, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

# The first query of a Spark starts several Pythons, which takes long on a machine that is busy with other tests.
WAIT_S = 600
_numbers = count()


def new_topic(broker: Broker, partitions: int = 1, name: str | None = None) -> str:
    """Make a topic and return its name."""
    name = name or f"topic-{next(_numbers)}"
    with Client(broker.http) as client:
        client.send(topics.create(name, partitions=partitions))
    return name


def delete_topic(broker: Broker, name: str) -> None:
    """Delete a topic."""
    with Client(broker.http) as client:
        client.send(topics.delete(name))


def publish(bootstrap: str, topic: str, values: Sequence[str], *, partition: int = 0, codec: str = "none") -> None:
    """Write values to a partition."""
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "log_level": 0})
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(WAIT_S) == 0


def publish_in_transaction(bootstrap: str, topic: str, values: Sequence[str], *, is_commit: bool) -> None:
    """Write values in a transaction, which is committed or aborted."""
    identity = f"writer-{next(_numbers)}"
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": identity, "log_level": 0})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(WAIT_S) == 0
    if is_commit:
        producer.commit_transaction(WAIT_S)
    else:
        producer.abort_transaction(WAIT_S)


def remove_records(bootstrap: str, topic: str, before: int, partition: int = 0) -> None:
    """Remove the oldest records of a partition, as retention does."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for future in admin.delete_records([TopicPartition(topic, partition, before)]).values():
        future.result(WAIT_S)


def widen(broker: Broker, topic: str, partitions: int) -> None:
    """Give a topic more partitions."""
    with Client(broker.http) as client:
        client.send(topics.alter(topic, partitions=partitions))


def reading(spark: SparkSession, bootstrap: str, topic: str | None = None, **options: Any) -> DataFrameReader:
    """Return a batch read of a topic that has not begun."""
    reader = spark.read.format("goqueue").option("kafka.bootstrap.servers", bootstrap).options(**options)
    return reader if topic is None else reader.option("topic", topic)


def values(rows: DataFrame) -> list[str]:
    """Return the values of all rows in the order of topic, partition and offset."""
    found = rows.select("topic", "partition", "offset", "value").collect()
    return [row.value.decode() for row in sorted(found)]


class Stream:
    """A query over a topic with a checkpoint, run again and again; it keeps the rows of each batch."""

    def __init__(self, spark: SparkSession, checkpoint: Path, bootstrap: str, topic: str, **options: Any) -> None:
        self._spark = spark
        self._checkpoint = checkpoint
        self.options: Mapping[str, Any] = {
            "kafka.bootstrap.servers": bootstrap,
            "topic": topic,
            "startingOffsets": "earliest",
            **options,
        }
        self.batches: dict[int, list[str]] = {}
        self.fails_in_batch: int | None = None

    @property
    def values(self) -> list[str]:
        """All values that came, in the order of batches."""
        return [value for number in sorted(self.batches) for value in self.batches[number]]

    def run(self, **options: Any) -> StreamingQuery:
        """Read what is there, and return when the query has ended; its error is raised."""
        query = self.start(is_endless=False, **options)
        assert query.awaitTermination(WAIT_S)
        return query

    def start(self, *, is_endless: bool = True, **options: Any) -> StreamingQuery:
        """Begin to read."""
        rows = self._spark.readStream.format("goqueue").options(**{**self.options, **options})
        writer = rows.schema("topic STRING, partition INT, offset BIGINT, value BINARY").load().writeStream
        writer = writer.foreachBatch(self._take).option("checkpointLocation", str(self._checkpoint))
        return writer.trigger(**({"processingTime": "0 seconds"} if is_endless else {"availableNow": True})).start()

    def _take(self, rows: DataFrame, number: int) -> None:
        taken: list[Row] = rows.collect()
        if number == self.fails_in_batch:
            raise RuntimeError("the sink is broken")
        self.batches[number] = [row.value.decode() for row in sorted(taken)]

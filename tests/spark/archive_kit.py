"""What the tests of archives share: topics with messages of some days, jobs, and rows to compare."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

from goqueue.client import Client, topics
from goqueue.spark.archive.commits import load
from goqueue.spark.archive.manifest import TopicArchive
from goqueue.spark.archive.store import ArchiveStore
from goqueue.spark.jobs.archive.job import ArchiveJob, ArchiveOutcome, ArchiveRequest
from goqueue.testing.broker import Broker
from tests.spark.read_kit import WAIT_S, reading

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY_MS = 86_400_000
# A day of long ago, at noon.
NOON_MS = 1_700_000_000_000 // DAY_MS * DAY_MS + DAY_MS // 2
_numbers = count()


def kept_topic(broker: Broker, partitions: int = 1) -> str:
    """Make a topic that keeps its messages however old they are."""
    name = f"archived-{next(_numbers)}"
    with Client(broker.http) as client:
        client.send(topics.create(name, partitions=partitions, config={"retention.ms": "-1"}))
    return name


def publish_at(broker: Broker, topic: str, messages: Sequence[tuple[int, str]], partition: int = 0) -> None:
    """Write values, each with its timestamp in milliseconds."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for timestamp_ms, value in messages:
        headers: list[tuple[str, str | bytes | None]] = [("goqueue-priority", b"4"), ("n", None)]
        producer.produce(
            topic,
            value,
            f"k{value}",
            partition=partition,
            timestamp=timestamp_ms,
            headers=headers if "0" in value else None,
        )
    assert producer.flush(WAIT_S) == 0


def setting_of(broker: Broker, topic: str) -> str:
    """Return where the topic says that its archive is."""
    with Client(broker.http) as client:
        settings = client.send(topics.describe(topic)).settings
    return next(each.value for each in settings if each.name == "goqueue.archive.path")


def job(broker: Broker, topic: str, path: Path, store: ArchiveStore | None = None, **request: Any) -> ArchiveJob:
    """Return a job that has looked what there is to do."""
    return ArchiveJob(ArchiveRequest(topic=topic, path=str(path), bootstrap=broker.bootstrap, **request), store=store)


def archive(spark: SparkSession, broker: Broker, topic: str, path: Path, **request: Any) -> ArchiveOutcome:
    """Archive what is new."""
    return job(broker, topic, path, **request).run(spark)


def archived(path: Path, topic: str) -> TopicArchive:
    """Return what the archive holds of a topic."""
    return load(ArchiveStore(str(path))).topics[topic]


def files_in(path: Path) -> set[str]:
    """Return all Parquet files that are there, whether they are named or not."""
    return {str(file.relative_to(path)) for file in path.rglob("*.parquet")}


def rows_of(spark: SparkSession, broker: Broker, topic: str, **options: Any) -> list[tuple[Any, ...]]:
    """Return all rows of a read with all columns, in the order of partition and offset."""
    found = reading(spark, broker.bootstrap, topic, includeHeaders=True, **options).load().collect()
    return sorted((tuple(row) for row in found), key=lambda row: (row[4], row[5]))

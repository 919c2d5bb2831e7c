"""What tests of the sink share: inputs, a query that writes them, sources with faults, and the judge.

The judge is a consumer that nobody here wrote, which reads committed messages only. An input line is `KEY PADDING
NUMBER`, and each line has to be there once, those of a key and file in their order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, TopicPartition
from typing_extensions import override

from goqueue.client import Client, topics, transactions
from goqueue.client.kafka import KafkaData
from goqueue.spark.broker import http_address
from goqueue.spark.source.data_source import GoQueueSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WAIT_S = 180.0
KEYS = 10
LINES_MAX = 1_000_000
"""How many lines a file may have: lines are numbered through all files."""


class Row(NamedTuple):
    """A message as the judge sees it."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int


def committed(bootstrap: str, topic: str) -> list[Row]:
    """Return all that a reader of committed messages sees in a topic, partition after partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "judge",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    try:
        partitions = consumer.list_topics(topic, WAIT_S).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, confluent_kafka.OFFSET_BEGINNING) for number in partitions])
        rows: list[Row] = []
        open_partitions = set(partitions)
        while open_partitions:
            message = consumer.poll(WAIT_S)
            assert message is not None, f"nothing came within {WAIT_S:g} s"
            error = message.error()
            if error is None:
                rows.append(_row(message))
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                open_partitions.discard(message.partition())
    finally:
        consumer.close()
    return sorted(rows, key=lambda row: row.partition)


def _row(message: Any) -> Row:
    headers = tuple((name, value) for name, value in message.headers() or ())
    return Row(message.partition(), message.key(), message.value(), headers, message.timestamp()[1])


def write_input(directory: Path, files: range, lines: int = 1_000, padding: int = 0) -> list[str]:
    """Write numbered files of input lines, each longer by some padding; return the lines."""
    (directory / "in").mkdir(exist_ok=True)
    written: list[str] = []
    for name in files:
        of_file = [f"key-{n % KEYS} {'x' * padding} {name * LINES_MAX + n}" for n in range(lines)]
        (directory / "in" / str(name)).write_text("".join(f"{line}\n" for line in of_file))
        written += of_file
    return written


def rows_of(lines: DataFrame) -> DataFrame:
    """Return lines as rows that can be written."""
    return lines.selectExpr("split(value, ' ')[0] AS key", "value")


def run_query(
    spark: SparkSession, directory: Path, options: Mapping[str, str], source: str = "goqueue", files_per_batch: int = 2
) -> Any:
    """Start a query that writes all input files of a directory, so many in a batch, a task for each, and then ends."""
    lines = spark.readStream.option("maxFilesPerTrigger", files_per_batch).text(str(directory / "in"))
    writer = rows_of(lines).writeStream.format(source).option("checkpointLocation", str(directory / "checkpoint"))
    return writer.options(**options).trigger(availableNow=True).start()


def require_once(bootstrap: str, topic: str, lines: list[str]) -> None:
    """Check that each line is there once, and that lines of a key are in order within each file."""
    rows = committed(bootstrap, topic)
    found = Counter((row.value or b"").decode() for row in rows)
    assert found == Counter(lines), _difference(found, Counter(lines))
    per_file: dict[tuple[bytes | None, int], int] = {}
    for row in rows:
        number = int((row.value or b"").rpartition(b" ")[2])
        place = row.key, number // LINES_MAX
        assert per_file.get(place, -1) < number, f"line {number} comes behind line {per_file[place]} of the same key"
        per_file[place] = number


def _difference(found: Counter[str], wanted: Counter[str]) -> str:
    missing, extra = wanted - found, found - wanted
    numbers = [[line.rpartition(" ")[2] for line in lines][:5] for lines in (missing, extra)]
    return f"{missing.total()} lost, such as {numbers[0]}; {extra.total()} too many, such as {numbers[1]}"


def http_of(bootstrap: str) -> str:
    """Return where a broker speaks HTTP."""
    with KafkaData(bootstrap) as data:
        return http_address(data.describe_broker())


def open_transactions(bootstrap: str) -> list[str]:
    """Return the transactional ids under which something is open."""
    with Client(http_of(bootstrap)) as client:
        return [view.transactional_id for view in client.send(transactions.list_all(state="Ongoing"))]


def create_topic(bootstrap: str, topic: str, partitions: int = 3, **config: str) -> None:
    """Make a topic."""
    with Client(http_of(bootstrap)) as client:
        settings = {name.replace("_", "."): text for name, text in config.items()}
        client.send(topics.create(topic, partitions=partitions, config=settings))


def register(spark: SparkSession, name: str, stream_writer: Callable[[Any], Any]) -> str:
    """Register a source like ours, whose stream writers are made of our options by somebody else."""

    class Faulty(GoQueueSource):
        @classmethod
        @override
        def name(cls) -> str:
            return name

        @override
        def streamWriter(self, schema: Any, overwrite: bool) -> Any:
            from goqueue.spark.sink.writers import check_write

            return stream_writer(check_write(self.options, schema, is_overwrite=overwrite))

    spark.dataSource.register(Faulty)
    return name

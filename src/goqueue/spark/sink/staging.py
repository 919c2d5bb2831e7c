"""Stages the rows of a task in its own transaction, which stays open.

Rows are gathered into larger batches, encoded by partition, and sent without waiting for each reply, so that the broker
works while the next rows are encoded. Memory is a few times `GATHERED_BYTES`, for any number of rows.

The transaction begins with the first row: a task without rows stages nothing. The driver commits it together with those
of the other tasks; otherwise it ends by its timeout. A failing task aborts it, if it still can.

`fitted` cuts messages that are too large for their topic, for dead letters, which must not block the query. It removes
added headers (`goqueue-dlq-...`) first, the largest before the others, so that the message itself stays unchanged; then
the value, then the key and the message's own headers, while the added headers still name its origin. The header
`goqueue-dlq-cut` lists the removed parts, if it fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from goqueue.client.kafka import KafkaData, ProducerIdentity, Publishing, TopicPartition
from goqueue.errors import GoQueueError, TooLarge, UnknownTopic
from goqueue.model.sinks import stage_id
from goqueue.seams.clock import Clock, SystemClock
from goqueue.spark.records.encode import BATCH_BYTES_MAX, ProducerState, bytes_alone, encode
from goqueue.spark.sink.options import BATCH_BYTES, SinkOptions, TooLargeUse
from goqueue.spark.sink.rows import Router
from goqueue.spark.source.columns import HEADER_TYPE

GATHERED_BYTES = 4 * 1024 * 1024
"""The approximate size of rows that are encoded together."""

_LIMIT_SETTING = "max.message.bytes"
# # Short, since Spark waits for the task to end.
_ABORT_TIMEOUT_S = 5.0

ADDED_PREFIX: Final = "goqueue-dlq-"
CUT_HEADER: Final = "goqueue-dlq-cut"

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt of a task in a sink; `turn` is the first partition for rows without a key."""

    sink: str
    task: int
    number: int
    turn: int = 0


@dataclass(frozen=True, slots=True)
class StagedRows(WriterCommitMessage):
    """The result of a task: the transaction with its rows, or None without rows."""

    sink: str
    task: int
    attempt: int
    producer: ProducerIdentity | None
    rows: int
    size_bytes: int


def stage(options: SinkOptions, attempt: Attempt, batches: Iterable[pa.RecordBatch]) -> StagedRows:
    """Stage all rows; they are durable at return, and invisible to committed reads."""
    with Staging(options, attempt) as staging:
        for rows in gathered(batches):
            staging.write(rows)
        return staging.finish()


def gathered(batches: Iterable[pa.RecordBatch], bytes_min: int = GATHERED_BYTES) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in larger batches, without empty ones."""
    waiting: list[pa.RecordBatch] = []
    waiting_bytes = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        waiting.append(batch)
        waiting_bytes += batch.nbytes
        if waiting_bytes >= bytes_min:
            yield from _joined(waiting)
            waiting, waiting_bytes = [], 0
    yield from _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if len(batches) > 1:
        yield from pa.Table.from_batches(batches).combine_chunks().to_batches()
    else:
        yield from batches


class Staging:
    """An open transaction; as a context manager, it is aborted on an exception."""

    def __init__(self, options: SinkOptions, attempt: Attempt, clock: Clock | None = None) -> None:
        self._options = options
        self._attempt = attempt
        self._clock = clock or SystemClock()
        self._producer: ProducerIdentity | None = None
        self._stack = ExitStack()
        self._data: KafkaData
        self._publishing: Publishing
        self._router = Router(options.topic, self._partitions_of, attempt.turn)
        self._partition_counts: dict[str, int] = {}
        self._limits: dict[str, int] = {}
        self._writers: dict[TopicPartition, ProducerState] = {}
        self._rows = 0
        self._size_bytes = 0

    def write(self, rows: pa.RecordBatch) -> None:
        """Send rows, without waiting for replies."""
        producer = self._producer or self._begin()
        streams: dict[TopicPartition, Iterator[bytearray]] = {}
        new: list[TopicPartition] = []
        for place, placed in self._router.placed(rows):
            writer = self._writers.get(place)
            if writer is None:
                new.append(place)
                writer = ProducerState(producer.producer_id, producer.epoch, 0, is_transactional=True)
            streams[place] = self._encoded(place.topic, placed, writer)
            self._writers[place] = writer.after(placed.num_rows)
        self._data.add_partitions(producer, new)
        while streams:
            self._send_next(streams)
        self._rows += rows.num_rows

    def finish(self) -> StagedRows:
        """Wait until everything is stored, and return the transaction."""
        attempt = self._attempt
        if self._producer is not None:
            with _explained():
                self._publishing.settle()
        return StagedRows(attempt.sink, attempt.task, attempt.number, self._producer, self._rows, self._size_bytes)

    def _begin(self) -> ProducerIdentity:
        options = self._options
        timeout_s = options.timeout_ms / 1000
        # # The broker may be restarting.
        data = KafkaData(options.bootstrap, timeout_s=timeout_s, connect_timeout_s=timeout_s)
        self._data = self._stack.enter_context(data)
        attempt = self._attempt
        self._producer = self._data.init_producer(
            stage_id(attempt.sink, attempt.task, attempt.number),
            transaction_timeout_ms=options.transaction_timeout_ms,
        )
        self._publishing = self._data.publishing(self._producer)
        self._stack.callback(self._publishing.close)
        return self._producer

    def _encoded(self, topic: str, rows: pa.RecordBatch, writer: ProducerState) -> Iterator[bytearray]:
        options, now_ms, limit = self._options, self._clock.now_ms(), self._limit_of(topic)
        if options.too_large is TooLargeUse.CUT:
            rows = fitted(rows, now_ms=now_ms, bytes_max=limit)
        return encode(
            rows,
            now_ms=now_ms,
            codec=options.codec,
            producer=writer,
            batch_bytes_max=options.batch_bytes_max or BATCH_BYTES_MAX,
            record_bytes_max=limit,
        )

    def _send_next(self, streams: dict[TopicPartition, Iterator[bytearray]]) -> None:
        """Send the next batch of each partition that has one, and forget those that have none."""
        batches = {}
        with _explained():
            for place, stream in list(streams.items()):
                batch = next(stream, None)
                if batch is None:
                    del streams[place]
                else:
                    batches[place] = batch
                    self._size_bytes += len(batch)
            self._publishing.send(batches)

    def _partitions_of(self, topic: str) -> int:
        known = self._partition_counts.get(topic)
        if known is None:
            (found,) = self._data.topics([topic])
            if isinstance(found.error, UnknownTopic):
                raise UnknownTopic(
                    f"there is no topic {topic!r}",
                    hint=f"create it first: goqueue topic create {topic}; writes create none, whatever the broker's "
                    "setting auto_create_topics",
                )
            if found.error is not None:
                raise found.error
            known = self._partition_counts[topic] = len(found.partitions)
        return known

    def _limit_of(self, topic: str) -> int:
        """Return the largest batch: by the option, or else by the topic's setting."""
        limit = self._options.batch_bytes_max or self._limits.get(topic)
        if limit is None:
            found = self._data.topic_setting([topic], _LIMIT_SETTING)
            limit = self._limits[topic] = int(found.get(topic, BATCH_BYTES_MAX))
        return limit

    def _abort(self) -> None:
        """Abort the transaction, if the broker knows it; if that fails, it ends by its timeout."""
        if self._producer is None or not self._writers:
            return
        with (
            suppress(GoQueueError),
            KafkaData(self._options.bootstrap, timeout_s=_ABORT_TIMEOUT_S, connect_timeout_s=_ABORT_TIMEOUT_S) as data,
        ):
            data.abort(self._producer)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
        if error is not None:
            self._abort()


@contextmanager
def _explained() -> Iterator[None]:
    """Add the relevant settings to an error about sizes."""
    try:
        yield
    except TooLarge as error:
        hint = (
            f"raise {_LIMIT_SETTING} of the topic: goqueue topic alter TOPIC --config {_LIMIT_SETTING}=BYTES; the "
            f"option {BATCH_BYTES} limits it, too, if it is set"
        )
        raise TooLarge(error.message, hint=hint) from error


def fitted(rows: pa.RecordBatch, *, now_ms: int, bytes_max: int) -> pa.RecordBatch:
    """Cut rows so that each fits into a batch of `bytes_max` bytes, if possible."""
    if not rows.num_rows or bytes_alone(rows, now_ms).max() <= bytes_max:
        return rows
    if "headers" not in rows.schema.names:
        rows = rows.append_column("headers", pa.nulls(rows.num_rows, pa.list_(HEADER_TYPE)))
    kept, start = [], 0
    for number in (bytes_alone(rows, now_ms) > bytes_max).nonzero()[0].tolist():
        kept += [rows.slice(start, number - start), _made_smaller(rows.slice(number, 1), now_ms, bytes_max)]
        start = number + 1
    kept.append(rows.slice(start))
    (whole,) = pa.Table.from_batches(kept).combine_chunks().to_batches()
    return whole


def _made_smaller(row: pa.RecordBatch, now_ms: int, bytes_max: int) -> pa.RecordBatch:
    if _fits(row, now_ms, bytes_max):
        return row
    (written,) = row.to_pylist()
    smaller = (pa.RecordBatch.from_pylist([each], schema=row.schema) for each in _smaller(written))
    # # A row that cannot be made small enough is refused when it is sent.
    return next((each for each in smaller if _fits(each, now_ms, bytes_max)), row)


def _fits(row: pa.RecordBatch, now_ms: int, bytes_max: int) -> bool:
    try:
        list(encode(row, now_ms=now_ms, batch_bytes_max=bytes_max))
    except TooLarge:
        return False
    return True


def _smaller(row: Row) -> Iterator[Row]:
    """Yield versions of a message, each smaller than the one before."""
    headers: list[Row] = row["headers"] or []
    added = [each for each in headers if each["key"].startswith(ADDED_PREFIX)]
    own = [each for each in headers if not each["key"].startswith(ADDED_PREFIX)]
    by_size = sorted(added, key=lambda each: len(each["value"] or b""), reverse=True)
    for count in range(1, len(by_size) + 1):
        gone, kept = by_size[:count], by_size[count:]
        names = ", ".join(each["key"] for each in gone)
        yield row | {"headers": [*own, *(each for each in added if each in kept), _cut_header(names)]}
    if added:
        yield row | {"headers": own or None}
    value = f"the value, {len(row['value'] or b''):,} bytes"
    yield row | {"value": None, "headers": [*headers, _cut_header(value)]}
    yield row | {"key": None, "value": None, "headers": [*added, _cut_header(f"the key, the headers, {value}")]}
    yield row | {"key": None, "value": None, "headers": [*by_size[1:], _cut_header(f"the key, the headers, {value}")]}


def _cut_header(what: str) -> Row:
    return {"key": CUT_HEADER, "value": what.encode()}

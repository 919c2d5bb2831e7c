"""A pipeline as it is meant to run: frozen values, whichever file or module they came from.

`PipelineSpec` is only made of a file without errors: every name that is read exists, nothing goes in circles, each step
comes after its inputs, and paths are absolute or relative to the working directory.

A step does what it has, in this order: `transform`, `expectations`, `watermark`, `deduplicate`, `aggregate`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from goqueue.model.start_at import StartAt
from goqueue.spark.values.decoding import Decoding


class DecodeFormat(StrEnum):
    """The format of message values."""

    JSON = "json"
    TEXT = "text"
    RAW = "raw"
    AVRO = "avro"
    PROTOBUF = "protobuf"


class OnBadValue(StrEnum):
    """The action for a message whose value cannot be decoded."""

    FAIL = "fail"
    DROP = "drop"
    DLQ = "dlq"


class MessageColumn(StrEnum):
    """Columns of a message besides its value."""

    KEY = "key"
    HEADERS = "headers"
    TOPIC = "topic"
    PARTITION = "partition"
    OFFSET = "offset"
    TIMESTAMP = "timestamp"
    PRIORITY = "priority"
    TRACE_ID = "trace_id"
    SCHEMA_ID = "schema_id"


class FileFormat(StrEnum):
    """Formats of files that Spark reads and writes by itself."""

    PARQUET = "parquet"
    JSON = "json"
    CSV = "csv"


class JoinKind(StrEnum):
    """Which rows a join keeps."""

    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    SEMI = "semi"
    ANTI = "anti"


class Action(StrEnum):
    """The action for a row that breaks a rule; it is always counted."""

    KEEP = "expect"
    DROP = "expect_or_drop"
    DLQ = "expect_or_dlq"


class Mode(StrEnum):
    """Which rows of a result are written after each batch."""

    APPEND = "append"
    UPDATE = "update"
    COMPLETE = "complete"


@dataclass(frozen=True, slots=True)
class AvailableNow:
    """Work through what is there, and end."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Go on until stopped, with a batch every so often."""

    interval_ms: int


Trigger = AvailableNow | Interval


@dataclass(frozen=True, slots=True)
class Decode:
    """How the values of messages become columns; `keep` are columns of the message that stay beside them.

    `schema` is that of JSON; `values` has the schema of Avro or Protobuf, itself and not its file.
    """

    format: DecodeFormat = DecodeFormat.RAW
    schema: str = ""
    keep: tuple[MessageColumn, ...] = ()
    on_bad_value: OnBadValue = OnBadValue.DLQ
    values: Decoding | None = None

    @property
    def may_fail(self) -> bool:
        """Whether there are values that cannot be decoded."""
        return self.format not in {DecodeFormat.RAW, DecodeFormat.TEXT}

    @property
    def makes_dead_letters(self) -> bool:
        """Whether messages whose values cannot be decoded become dead letters."""
        return self.may_fail and self.on_bad_value is OnBadValue.DLQ


@dataclass(frozen=True, slots=True)
class TopicSource:
    """A stream of the messages of some topics; `rows_per_batch_max` is 0 if there is no limit."""

    name: str
    topics: tuple[str, ...]
    decode: Decode
    start: StartAt | datetime = StartAt.EARLIEST
    rows_per_batch_max: int = 0

    @property
    def is_stream(self) -> bool:
        """Whether it never ends: always."""
        return True

    @property
    def makes_dead_letters(self) -> bool:
        """Whether its messages can become dead letters."""
        return self.decode.makes_dead_letters


@dataclass(frozen=True, slots=True)
class ArchiveSource:
    """A table of the messages that were archived from a topic."""

    name: str
    path: str
    decode: Decode

    @property
    def is_stream(self) -> bool:
        """Whether it never ends: an archive is a table."""
        return False

    @property
    def makes_dead_letters(self) -> bool:
        """Whether its messages can become dead letters."""
        return self.decode.makes_dead_letters


@dataclass(frozen=True, slots=True)
class FileSource:
    """A table of what files hold; or a stream of files as they come."""

    name: str
    format: FileFormat
    path: str
    schema: str = ""
    is_stream: bool = False
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def makes_dead_letters(self) -> bool:
        """Whether its rows can become dead letters: there is nothing to decode."""
        return False


Source = TopicSource | ArchiveSource | FileSource


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """A function by name, `file.py:function` or `package.module:function`; a module has the function itself."""

    reference: str
    function: Callable[..., Any] | None = None


@dataclass(frozen=True, slots=True)
class SqlTransform:
    """A query over the inputs, by their names."""

    text: str


@dataclass(frozen=True, slots=True)
class PythonTransform:
    """A function that takes the inputs as DataFrames, in their order, and returns one."""

    function: PythonFunction


@dataclass(frozen=True, slots=True)
class JoinTransform:
    """The first input joined with the second: by columns that both have, or by a condition."""

    kind: JoinKind
    columns: tuple[str, ...] = ()
    condition: str = ""


Transform = SqlTransform | PythonTransform | JoinTransform


@dataclass(frozen=True, slots=True)
class Expectation:
    """A rule that rows should keep."""

    name: str
    condition: str
    action: Action


@dataclass(frozen=True, slots=True)
class Watermark:
    """How late rows may come, by a column of times."""

    column: str
    delay_ms: int


@dataclass(frozen=True, slots=True)
class Deduplicate:
    """Keep the first of rows with equal columns; with a watermark, compare only rows within its delay."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """Time windows: consecutive, overlapping if `slide_ms` is less than the size, or sessions with a gap."""

    column: str
    size_ms: int = 0
    slide_ms: int = 0
    gap_ms: int = 0


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One row per group: the window (as column `window`), the columns of the group, and computed columns."""

    columns: Mapping[str, str]
    group_by: tuple[str, ...] = ()
    window: TimeWindow | None = None


@dataclass(frozen=True, slots=True)
class PipelineStep:
    """Something done to rows; other steps and sinks read its result by its name."""

    name: str
    inputs: tuple[str, ...]
    transform: Transform | None = None
    expectations: tuple[Expectation, ...] = ()
    watermark: Watermark | None = None
    deduplicate: Deduplicate | None = None
    aggregate: Aggregate | None = None

    @property
    def makes_dead_letters(self) -> bool:
        """Whether a rule turns rows into dead letters."""
        return any(rule.action is Action.DLQ for rule in self.expectations)


@dataclass(frozen=True, slots=True)
class TopicSink:
    """Messages to a topic; without a `value` column, the value is a JSON object of all columns but the key."""

    name: str
    input: str
    topic: str
    key: str = ""
    value: str = ""
    mode: Mode = Mode.APPEND


@dataclass(frozen=True, slots=True)
class FileSink:
    """Files in a directory."""

    name: str
    input: str
    format: FileFormat
    path: str
    partition_by: tuple[str, ...] = ()
    mode: Mode = Mode.APPEND


@dataclass(frozen=True, slots=True)
class DeltaSink:
    """A Delta table."""

    name: str
    input: str
    path: str
    partition_by: tuple[str, ...] = ()
    mode: Mode = Mode.APPEND


@dataclass(frozen=True, slots=True)
class ConsoleSink:
    """The first rows of each batch, printed."""

    name: str
    input: str
    rows: int = 20
    mode: Mode = Mode.APPEND


@dataclass(frozen=True, slots=True)
class BatchSink:
    """A function that is called with each batch, as a DataFrame, and its number."""

    name: str
    input: str
    function: PythonFunction
    mode: Mode = Mode.APPEND


Sink = TopicSink | FileSink | DeltaSink | ConsoleSink | BatchSink


@dataclass(frozen=True, slots=True)
class PipelineSpec:
    """A whole pipeline; `broker` and `checkpoint` are empty if the file leaves them to the caller."""

    name: str
    trigger: Trigger
    sources: tuple[Source, ...]
    steps: tuple[PipelineStep, ...]
    sinks: tuple[Sink, ...]
    dead_letters: str
    description: str = ""
    broker: str = ""
    checkpoint: str = ""
    spark: Mapping[str, str] = field(default_factory=dict)

    @property
    def dead_letter_parts(self) -> list[str]:
        """The names of the sources and steps that can make dead letters."""
        return [part.name for part in (*self.sources, *self.steps) if part.makes_dead_letters]

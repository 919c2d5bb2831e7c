"""Dead letters: rejected rows as messages, with the reason in headers.

If a row is still a message of a topic (after steps with only rules, a watermark or `deduplicate`), the dead letter is
that message, with key, value and headers byte for byte and the cause in more headers. After SQL, a function, a join or
an aggregation it is the row as a JSON object without a key.

| header                                            | value                                                    |
|---------------------------------------------------|----------------------------------------------------------|
| `goqueue-dlq-reason`                              | `broken_rule` or `bad_value`                             |
| `goqueue-dlq-error`                               | the same in words                                        |
| `goqueue-dlq-rule`                                | the rules that were broken, with commas between them     |
| `goqueue-dlq-pipeline`, `goqueue-dlq-step`        | the pipeline and its step, or the source that decodes        |
| `goqueue-dlq-topic`, `-partition`, `-offset`, `-timestamp` | where the message came from; milliseconds since 1970 |

A dead letter that is too large for its topic is cut by `sink/staging`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - its usual name

from goqueue.model.dead_letters import (
    ERROR_HEADER,
    OFFSET_HEADER,
    PARTITION_HEADER,
    PIPELINE_HEADER,
    REASON_HEADER,
    RULE_HEADER,
    STEP_HEADER,
    TIMESTAMP_HEADER,
    TOPIC_HEADER,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MESSAGE_COLUMN: Final = "__goqueue_message"
"""Beside the columns of a row, the message that it was: a struct of `MESSAGE_FIELDS`."""
MESSAGE_FIELDS: Final = ("key", "value", "headers", "topic", "partition", "offset", "timestamp")

_HEADERS_TYPE: Final = "ARRAY<STRUCT<key: STRING, value: BINARY>>"


class DeadRowReason(StrEnum):
    """Why a row is dead."""

    BROKEN_RULE = "broken_rule"
    BAD_VALUE = "bad_value"


@dataclass(frozen=True, slots=True)
class DeadRowCause:
    """Why rows are dead, and who found it; `error` and `rules` are columns of strings."""

    reason: DeadRowReason
    pipeline: str
    step: str
    error: Column
    rules: Column


def with_message(messages: DataFrame) -> DataFrame:
    """Put each message of a topic beside its own columns."""
    return messages.withColumn(MESSAGE_COLUMN, F.struct(*MESSAGE_FIELDS))


def dead_letters_of(dead: DataFrame, cause: DeadRowCause) -> DataFrame:
    """Make messages of dead rows: `key`, `value` and `headers`."""
    headers: dict[str, Column] = {
        REASON_HEADER: F.lit(cause.reason.value),
        ERROR_HEADER: cause.error,
        RULE_HEADER: cause.rules,
        PIPELINE_HEADER: F.lit(cause.pipeline),
        STEP_HEADER: F.lit(cause.step),
    }
    if MESSAGE_COLUMN not in dead.columns:
        columns = [F.col(_quoted(name)) for name in dead.columns]
        value = F.to_json(F.struct(*columns), {"ignoreNullFields": "false"}).cast("binary")
        return dead.select(
            F.lit(None).cast("binary").alias("key"), value.alias("value"), _headers(headers).alias("headers")
        )
    message = F.col(MESSAGE_COLUMN)
    headers |= {
        TOPIC_HEADER: message["topic"],
        PARTITION_HEADER: message["partition"].cast("string"),
        OFFSET_HEADER: message["offset"].cast("string"),
        TIMESTAMP_HEADER: F.unix_millis(message["timestamp"]).cast("string"),
    }
    originals = F.coalesce(message["headers"], F.array().cast(_HEADERS_TYPE))
    return dead.select(
        message["key"].alias("key"),
        message["value"].alias("value"),
        F.concat(originals, _headers(headers)).alias("headers"),
    )


def _headers(headers: Mapping[str, Column]) -> Column:
    pairs = [
        F.struct(F.lit(name).alias("key"), text.cast("string").cast("binary").alias("value"))
        for name, text in headers.items()
    ]
    return F.array(*pairs).cast(_HEADERS_TYPE)


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"

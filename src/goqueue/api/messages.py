"""Requests and replies about messages."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from goqueue.api.fields import (
    BYTES_PATTERN,
    OFFSET_MAX,
    PARTITION_MAX,
    WAIT_PATTERN,
    Base64Bytes,
    Milliseconds,
    Moment,
)
from goqueue.api.problems import MessageError
from goqueue.model.request_limits import MESSAGES_MAX

_Reserved = Annotated[
    Raw, Meta(description="Reserved; messages with this field are refused.", extra_json_schema={"not": {}})
]
_Key = Annotated[Raw, Meta(description="A text, or any JSON value, which is stored as its JSON text.")]


class NewHeader(msgspec.Struct, forbid_unknown_fields=True):
    """A header of a message; unlike an object, a list can repeat names and hold values that are not text."""

    name: str
    value: str | UnsetType | None = UNSET
    value_base64: Base64Bytes | UnsetType | None = UNSET


class MessageToPublish(msgspec.Struct, forbid_unknown_fields=True):
    """A message. Without `partition`, its key decides on the partition, as in Kafka's clients."""

    key: _Key | UnsetType = UNSET
    key_base64: Base64Bytes | UnsetType = UNSET
    value: _Key | UnsetType = UNSET
    value_base64: Base64Bytes | UnsetType = UNSET
    headers: dict[str, str | None] | list[NewHeader] | UnsetType = UNSET
    partition: Annotated[int, Meta(ge=0, le=PARTITION_MAX)] | None = None
    timestamp: Milliseconds | Moment | None = None
    priority: _Reserved | UnsetType = UNSET
    delay: _Reserved | UnsetType = UNSET
    deliver_at: _Reserved | UnsetType = UNSET
    dedup_id: _Reserved | UnsetType = UNSET


class MessagesToPublish(msgspec.Struct, forbid_unknown_fields=True):
    """Messages to publish. `acks`: all waits until they are on disk, leader until in memory, none not at all."""

    messages: Annotated[list[MessageToPublish], Meta(min_length=1, max_length=MESSAGES_MAX)]
    acks: Literal["all", "leader", "none"] = "all"


class Result(msgspec.Struct):
    """The result of one message: its position, or an error."""

    partition: int | UnsetType = UNSET
    offset: int | UnsetType = UNSET
    timestamp: int | UnsetType = UNSET
    error: MessageError | UnsetType = UNSET


class Results(msgspec.Struct):
    """The result of each message, in the order of the request.

    `topic_created` is true if the topic did not exist and was created with default settings.
    """

    results: list[Result]
    topic_created: bool | UnsetType = UNSET


class ReadQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Where to start reading, how much to read, and how long to wait for a message."""

    offset: Annotated[int, Meta(ge=0, le=OFFSET_MAX, description="The first offset to read.")] | UnsetType = UNSET
    timestamp: (
        Annotated[
            str,
            Meta(
                description="Read from this time on: milliseconds since 1970, or ISO 8601 with an offset from UTC.",
                extra_json_schema={"anyOf": [{"pattern": "^[0-9]{1,14}$"}, {"format": "date-time"}]},
            ),
        ]
        | UnsetType
    ) = UNSET
    limit: Annotated[int, Meta(ge=1, le=MESSAGES_MAX, description="Maximum number of messages.")] = 100
    wait: Annotated[str, Meta(pattern=WAIT_PATTERN, description="How long to wait for a message, up to 60s.")] = "0"
    max_bytes: Annotated[
        str,
        Meta(pattern=BYTES_PATTERN, description="Maximum bytes of keys and values; at least one message is returned."),
    ] = "1MiB"
    isolation: Annotated[
        Literal["read_committed", "read_uncommitted"],
        Meta(description="read_committed leaves out messages of transactions that have not committed."),
    ] = "read_committed"


class Message(msgspec.Struct):
    """A message: text if it is UTF-8, else base64. `headers_base64` is present if an object cannot hold the headers."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: str | UnsetType | None = UNSET
    key_base64: bytes | UnsetType = UNSET
    value: str | UnsetType | None = UNSET
    value_base64: bytes | UnsetType = UNSET
    headers: dict[str, str | None] = {}
    headers_base64: list[tuple[str, bytes | None]] | UnsetType = UNSET


class Messages(msgspec.Struct):
    """Messages in order, the offset to continue at, and the readable range (end exclusive)."""

    messages: list[Message]
    next_offset: int
    start_offset: int
    end_offset: int

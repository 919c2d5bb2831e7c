"""Calls about messages: publish in batches, and read by offset or time.

Keys, values and headers are bytes here. On the wire they are text where they are UTF-8, and base64 where they are not.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from goqueue.api.messages import Message as WireMessage
from goqueue.api.messages import Messages
from goqueue.client.calls import Call, Reply, reading, topic_path
from goqueue.client.durations import Duration, milliseconds, seconds_of
from goqueue.client.problems import Problem, error_of
from goqueue.errors import GoQueueError, Invalid

Header = tuple[str, bytes | None]
Json = dict[str, object]

_VALUE_HINT = "json.dumps(...) makes a str of what is JSON, str(...) of a number"
_BATCH_HINT = 'write [NewMessage("first"), NewMessage(b"second", key="k")]'


class Acks(StrEnum):
    """Whom a publisher waits for."""

    ALL = "all"
    LEADER = "leader"
    NONE = "none"


class NewMessage(NamedTuple):
    """A message to publish; text is stored as UTF-8, and no value at all is a tombstone."""

    value: bytes | str | None = None
    key: bytes | str | None = None
    headers: Sequence[tuple[str, bytes | str | None]] = ()
    partition: int | None = None
    timestamp: int | None = None


class Published(NamedTuple):
    """Where a message was stored, and its timestamp in milliseconds; without acks nothing of it is known."""

    partition: int | None
    offset: int | None
    timestamp: int | None


class Message(NamedTuple):
    """A message as it is stored; `timestamp` in milliseconds since 1970."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


class Page(NamedTuple):
    """Messages of one partition in order, where reading goes on, and the range that readers see."""

    messages: list[Message]
    next_offset: int
    start_offset: int
    end_offset: int


class _Result(msgspec.Struct):
    partition: int | None = None
    offset: int | None = None
    timestamp: int | None = None
    error: Problem | None = None


class _Results(msgspec.Struct):
    results: list[_Result]


_read_results = reading(_Results)
_read_page = reading(Messages)
_encode = msgspec.json.Encoder().encode


def publish(
    topic: str, batch: Sequence[NewMessage | bytes], *, acks: Acks = Acks.ALL
) -> Call[Sequence[Published | GoQueueError]]:
    """Publish a batch; the result has the fate of each message, in the order of the batch.

    A message that is bytes is JSON as the HTTP interface takes it. An error is raised only if the batch was refused as
    a whole, and then nothing of it was stored.
    """
    messages = encode_batch(batch)
    body = b'{"messages":[%b],"acks":%b}' % (b",".join(messages), _encode(acks))
    return Call("POST", topic_path(topic, "messages"), read_fates, body=body, tells_failures=True)


def read(
    topic: str,
    partition: int,
    *,
    offset: int | None = None,
    timestamp_ms: int | None = None,
    limit: int = 100,
    wait_s: Duration = 0.0,
    bytes_max: int | None = None,
    is_committed_only: bool = True,
) -> Call[Page]:
    """Read from an offset, or from the first message that is not older than a time; else from the oldest message.

    With `wait_s` the broker waits that long for a message if there is none yet. OffsetOutOfRange tells the valid range.
    Messages of transactions that have not committed are left out, unless `is_committed_only` is False.
    """
    wait_s = seconds_of(wait_s, "wait_s")
    query = {"limit": str(limit)}
    if offset is not None:
        query["offset"] = str(offset)
    if timestamp_ms is not None:
        query["timestamp"] = str(timestamp_ms)
    if wait_s:
        query["wait"] = f"{milliseconds(wait_s)}ms"
    if bytes_max is not None:
        query["max_bytes"] = str(bytes_max)
    if not is_committed_only:
        query["isolation"] = "read_uncommitted"
    path = topic_path(topic, "partitions", partition, "messages")
    return Call("GET", path, _read_messages, query=query, wait_s=wait_s)


def encode(message: NewMessage) -> bytes:
    """Return a message as the JSON that `publish` takes; batches that are made by size need it before."""
    return _encode(_as_json(message))


def encode_batch(batch: Sequence[NewMessage | bytes]) -> list[bytes]:
    """Return the messages of a batch as JSON; Invalid, with the type, if there is anything else in it."""
    if isinstance(batch, NewMessage | str | bytes | Mapping):
        raise Invalid(f"the batch is a {type(batch).__name__}, and has to be a list of NewMessage", hint=_BATCH_HINT)
    return [message if isinstance(message, bytes) else encode(_checked(message)) for message in batch]


def _checked(message: NewMessage) -> NewMessage:
    if not isinstance(message, NewMessage):
        raise Invalid(
            f"a message of the batch is a {type(message).__name__}, and has to be a NewMessage", hint=_BATCH_HINT
        )
    return message


def as_json(message: Message) -> Json:
    """Return a message that was read as the HTTP interface writes it; every field is there."""
    fields: Json = {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp,
    }
    fields |= _as_field("key", message.key) | _as_field("value", message.value)
    fields["headers"] = {name: _as_text(value) for name, value in message.headers}
    if not _is_plain(message.headers):
        fields["headers_base64"] = [(name, _as_base64(value)) for name, value in message.headers]
    return fields


def as_new(fields: Mapping[str, object]) -> Json:
    """Return what a message that was read looks like to publish it again: the same bytes in the same partition."""
    again = {name: value for name, value in fields.items() if name not in {"topic", "offset", "headers_base64"}}
    exact = fields.get("headers_base64")
    if isinstance(exact, list):
        again["headers"] = [_as_header(pair) for pair in exact]
    return again


def _as_header(pair: object) -> object:
    match pair:
        case [name, None]:
            return {"name": name, "value": None}
        case [name, encoded]:
            return {"name": name, "value_base64": encoded}
    return pair  # which the broker will refuse, with the reason


def _as_json(message: NewMessage) -> Json:
    fields = _as_field("value", message.value)
    if message.key is not None:
        fields |= _as_field("key", message.key)
    if message.headers:
        pairs = message.headers.items() if isinstance(message.headers, Mapping) else message.headers
        fields["headers"] = [{"name": name, **_as_field("value", value)} for name, value in pairs]
    if message.partition is not None:
        fields["partition"] = message.partition
    if message.timestamp is not None:
        fields["timestamp"] = message.timestamp
    return fields


def _as_field(name: str, data: bytes | str | None) -> Json:
    if data is None or isinstance(data, str):
        return {name: data}
    if isinstance(data, bytearray | memoryview):
        data = bytes(data)
    if not isinstance(data, bytes):
        raise Invalid(f"the {name} is a {type(data).__name__}, and has to be bytes, str or None", hint=_VALUE_HINT)
    text = _as_text(data)
    return {name: text} if text is not None else {f"{name}_base64": _as_base64(data)}


def _as_text(data: bytes | None) -> str | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _as_base64(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def _is_plain(headers: Sequence[Header]) -> bool:
    """Return whether an object of texts says all about headers: no name repeats, and each value is text."""
    names = {name for name, _ in headers}
    return len(names) == len(headers) and all(_as_text(value) is not None for _, value in headers)


def read_fates(reply: Reply) -> Sequence[Published | GoQueueError]:
    """Read what became of each message that was published."""
    return [
        error_of(result.error) if result.error else Published(result.partition, result.offset, result.timestamp)
        for result in _read_results(reply).results
    ]


def _read_messages(reply: Reply) -> Page:
    page = _read_page(reply)
    return Page([as_message(each) for each in page.messages], page.next_offset, page.start_offset, page.end_offset)


def as_message(wire: WireMessage) -> Message:
    """Return a message that the HTTP interface wrote."""
    if wire.headers_base64 is not UNSET:
        headers = tuple(wire.headers_base64)
    else:
        headers = tuple((name, None if value is None else value.encode()) for name, value in wire.headers.items())
    key = _as_bytes(wire.key, wire.key_base64)
    value = _as_bytes(wire.value, wire.value_base64)
    return Message(wire.topic, wire.partition, wire.offset, wire.timestamp, key, value, headers)


def _as_bytes(text: str | UnsetType | None, data: bytes | UnsetType) -> bytes | None:
    if data is not UNSET:
        return data
    return text.encode() if isinstance(text, str) else None

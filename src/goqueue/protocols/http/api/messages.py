"""Messages by HTTP: from JSON to bytes, and from bytes to JSON.

| in JSON                       | as bytes                                     |
|-------------------------------|----------------------------------------------|
| `"value": "text"`             | the text as UTF-8                            |
| `"value": {"any": ["json"]}`  | exactly the JSON text that was sent          |
| `"value": null`, or left out  | no value: a tombstone                        |
| `"value_base64": "AP8="`      | the bytes                                    |

The same holds for `key`. Messages that are read have text if it is UTF-8, and else base64.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec
from msgspec import UNSET, Raw, UnsetType

from goqueue.api.fields import (
    TIMESTAMP_MAX,
    WAIT_MS_MAX,
)
from goqueue.api.messages import (
    Message,
    Messages,
    MessagesToPublish,
    MessageToPublish,
    NewHeader,
    ReadQuery,
    Result,
    Results,
)
from goqueue.broker.messages.produce import Acks
from goqueue.broker.messages.publish import Fate, NewMessage, new_message, publish_messages
from goqueue.broker.messages.reading import ReadRequest, read_messages
from goqueue.errors import (
    Corrupt,
    Draining,
    GoQueueError,
    InvalidRecord,
    InvalidTopicName,
    LogOffline,
    MalformedRequest,
    NotEnoughReplicas,
    NotOffered,
    OffsetOutOfRange,
    TooLarge,
    TopicPrivate,
    TopicProtected,
    UnknownPartition,
    UnknownTopic,
)
from goqueue.model.units import parse_bytes, parse_duration_ms, quoted
from goqueue.protocols.http.calls import Answer, Context
from goqueue.protocols.http.route import STORAGE_ERRORS, item_statuses, route
from goqueue.protocols.http.wire.problems import error_of
from goqueue.records.reader import Record
from goqueue.runtime.waiters import pause, pieces

_OF_MESSAGES = (
    InvalidRecord,
    NotOffered,
    TooLarge,
    UnknownPartition,
    NotEnoughReplicas,
    Draining,
    *STORAGE_ERRORS,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_ACKS = {"all": Acks.ALL, "leader": Acks.LEADER, "none": Acks.NONE}
_QUOTE = ord('"')
_NOT_OFFERED = ("priority", "delay", "deliver_at", "dedup_id")


@route(
    "POST",
    "/topics/{topic}/messages",
    "messages.publish",
    other_statuses=item_statuses(_OF_MESSAGES),
    errors=(InvalidTopicName, UnknownTopic, TopicProtected, *_OF_MESSAGES),
)
async def publish(context: Context, request: MessagesToPublish) -> Answer[Results]:
    """Publish messages; each has its own result."""
    is_absent = context.topic not in context.broker.topics.by_name
    fates = await publish_messages(
        context.broker.messages,
        context.caller,
        context.services.turns,
        context.topic,
        await all_translated(request.messages),
        _ACKS[request.acks],
    )
    return told(fates, topic_created=True if is_absent else UNSET)


def told(fates: Sequence[Fate], *, topic_created: bool | UnsetType = UNSET) -> Answer[Results]:
    """Return the answer with the result of each message, and whether their topic was created."""
    results = []
    failures = []
    for fate in fates:
        if isinstance(fate, GoQueueError):
            failures.append(error_of(fate))
            results.append(Result(error=failures[-1]))
        else:
            results.append(Result(*fate))
    if not failures:
        return Answer(Results(results, topic_created))
    return Answer(Results(results, topic_created), 207 if len(failures) < len(results) else failures[0].status)


async def all_translated(given: Sequence[MessageToPublish]) -> list[NewMessage | GoQueueError]:
    """Convert messages, each to a message to store or an error; other requests have turns in between."""
    found: list[NewMessage | GoQueueError] = []
    for start, piece in pieces(given):
        if start:
            await pause(given)
        found += [translated(message) for message in piece]
    return found


def translated(given: MessageToPublish) -> NewMessage | GoQueueError:
    """Convert a message to a message to store, or an error."""
    headers, timestamp = given.headers, given.timestamp
    try:
        if not given.priority is given.delay is given.deliver_at is given.dedup_id is UNSET:
            _refuse_what_is_not_offered(given)
        return new_message(
            (
                None if given.key is given.key_base64 else _bytes("key", given.key, given.key_base64),
                None if given.value is given.value_base64 else _bytes("value", given.value, given.value_base64),
                () if headers is UNSET else _headers(headers),
                given.partition,
                None if timestamp is None else timestamp_of(timestamp),
            )
        )
    except GoQueueError as error:
        return error


def _refuse_what_is_not_offered(given: MessageToPublish) -> None:
    named = [name for name in _NOT_OFFERED if getattr(given, name) is not UNSET]
    raise NotOffered(f"this version does not support {', '.join(named)}", hint="publish the message without")


def _bytes(name: str, given: Raw | UnsetType, encoded: bytes | UnsetType) -> bytes | None:
    if given is UNSET:
        return None if encoded is UNSET else encoded
    if encoded is not UNSET:
        raise InvalidRecord(f"{name} and {name}_base64 are both given")
    text = bytes(given)
    if text[0] == _QUOTE and text.isascii() and b"\\" not in text:
        return text[1:-1]
    if text == b"null":
        return None
    try:
        return msgspec.json.decode(text, type=str).encode() if text[0] == _QUOTE else text.decode().encode()
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidRecord(f"{name} is not UTF-8: {error}", hint=f"send bytes as {name}_base64") from None


def _headers(given: dict[str, str | None] | list[NewHeader]) -> Sequence[tuple[str, bytes | None]]:
    if isinstance(given, dict):
        return [(name, None if text is None else text.encode()) for name, text in given.items()]
    headers: list[tuple[str, bytes | None]] = []
    for header in given:
        if header.value_base64 is UNSET:
            headers.append((header.name, header.value.encode() if isinstance(header.value, str) else None))
        elif header.value is UNSET:
            headers.append((header.name, header.value_base64))
        else:
            raise InvalidRecord(f"value and value_base64 of header {quoted(header.name)} are both given")
    return headers


def timestamp_of(written: int | str) -> int:
    """Return a time in milliseconds since 1970; InvalidRecord if it is malformed or out of range."""
    timestamp = written if isinstance(written, int) else _parsed(written)
    if not 0 <= timestamp <= TIMESTAMP_MAX:
        raise InvalidRecord("a timestamp is outside of the years 1970 to 9999", hint="timestamps are in milliseconds")
    return timestamp


def _parsed(written: str) -> int:
    try:
        moment = datetime.fromisoformat(written.upper())
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise InvalidRecord(
            f"{quoted(written)} is not a time", hint="write milliseconds since 1970, or 2025-01-31T12:00:00Z"
        )
    return (moment - _EPOCH) // _MILLISECOND


@route(
    "GET",
    "/topics/{topic}/partitions/{partition}/messages",
    "messages.read",
    errors=(UnknownTopic, UnknownPartition, TopicPrivate, OffsetOutOfRange, LogOffline, Corrupt),
)
async def read(context: Context, query: ReadQuery) -> Messages:
    """Read messages of a partition; wait for one if there is none."""
    topic, partition = context.topic, context.partition
    found = await read_messages(
        context.broker.messages, context.caller, context.services.polls, topic, partition, _reading(query)
    )
    messages = [message_of(topic, partition, record) for record in found.records]
    return Messages(messages, found.next_offset, found.start_offset, found.end_offset)


def _reading(query: ReadQuery) -> ReadRequest:
    if query.offset is not UNSET and query.timestamp is not UNSET:
        raise MalformedRequest("offset and timestamp are both given", hint="give one of them")
    timestamp_ms = None
    if query.timestamp is not UNSET:
        # A plus in a query stands for a space, unless it was written as %2B.
        written = query.timestamp.replace(" ", "+")
        try:
            timestamp_ms = timestamp_of(int(written) if re.fullmatch("[0-9]{1,15}", written) else written)
        except InvalidRecord as error:
            raise MalformedRequest(error.message, hint=error.hint) from None
    return ReadRequest(
        None if query.offset is UNSET else query.offset,
        timestamp_ms,
        query.limit,
        min(parse_duration_ms(query.wait), WAIT_MS_MAX),
        max(parse_bytes(query.max_bytes), 1),
        is_committed_only=query.isolation == "read_committed",
    )


def message_of(topic: str, partition: int, record: Record) -> Message:
    """Return a record as a message of a reply."""
    message = Message(topic, partition, record.offset, record.timestamp)
    filled(message, record)
    return message


def filled(message: Message, record: Record) -> None:
    """Copy key, value and headers of a record into a message."""
    _, _, key, value, headers = record
    try:
        message.key = None if key is None else key.decode()
    except UnicodeDecodeError:
        message.key_base64 = key or b""
    try:
        message.value = None if value is None else value.decode()
    except UnicodeDecodeError:
        message.value_base64 = value or b""
    if headers:
        message.headers = {name: _text(text) for name, text in headers}
        if len(message.headers) < len(headers) or None in message.headers.values():
            message.headers_base64 = headers


def _text(data: bytes | None) -> str | None:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return None

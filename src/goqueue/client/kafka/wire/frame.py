"""The requests that are used, each in one version, and their frames."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple, TypeVar

from goqueue.client.problems import BadReply
from goqueue.errors import Corrupt, Invalid
from goqueue.kafka_wire import frames
from goqueue.kafka_wire.decode import Response, decode_response
from goqueue.kafka_wire.encode import Values, encode_request
from goqueue.kafka_wire.frames import Buffer

T = TypeVar("T")


class _Version(NamedTuple):
    key: int
    version: int


class ApiVersion(_Version, Enum):
    """The requests that are used, each in one version.

    Fetch names topics by id, so that a topic which was deleted and created again is not taken for the former one.
    Produce and EndTxn are the last versions in which the producer adds partitions to a transaction and keeps its epoch:
    any process that knows the identity can end the transaction.
    """

    PRODUCE = (0, 11)
    FETCH = (1, 13)
    LIST_OFFSETS = (2, 7)
    METADATA = (3, 12)
    FIND_COORDINATOR = (10, 4)
    API_VERSIONS = (18, 0)
    INIT_PRODUCER_ID = (22, 4)
    ADD_PARTITIONS_TO_TXN = (24, 3)
    END_TXN = (26, 4)
    DESCRIBE_CONFIGS = (32, 4)


def request_frame(api: ApiVersion, correlation_id: int, client_id: bytes, body: Sequence[Buffer]) -> list[Buffer]:
    """Return a whole frame in parts, so that large ones need not be copied."""
    return [frames.request_head(*api, correlation_id, client_id, sum(map(len, body))), *body]


def reply_body(api: ApiVersion, correlation_id: int, frame: memoryview) -> memoryview:
    """Return the body of a reply, given without its size; BadReply if it answers another request."""
    try:
        return frames.reply_body(*api, correlation_id, frame)
    except Corrupt as error:
        raise BadReply(error.message) from None


def encoded(api: ApiVersion, request: Values) -> bytearray:
    """Return the body of a request; Invalid if a string in it cannot be sent."""
    try:
        return encode_request(*api, request)
    except UnicodeEncodeError as error:
        raise unsendable(error) from None


def unsendable(error: UnicodeEncodeError) -> Invalid:
    """Return the error for a string that has no UTF-8."""
    return Invalid(f"{error.object!r} has characters that cannot be sent")


def decoded(api: ApiVersion, body: memoryview) -> Response:
    """Return a reply; BadReply if it cannot be read."""
    try:
        return decode_response(*api, body)
    except Corrupt as error:
        raise BadReply(error.message) from None


def only(found: Iterable[T]) -> T:
    """Return the one answer to a request with one question."""
    answers = list(found)
    if len(answers) != 1:
        raise BadReply(f"the reply answers {len(answers)} questions where one was asked")
    return answers[0]

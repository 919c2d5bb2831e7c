"""Calls and replies as values: the part of the client that knows HTTP but no socket.

A `Call` holds a request and how its reply becomes a result. The modules of nouns make calls; `conversation` decides
what happens to them; `client` carries them over the network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec

from goqueue.client.problems import BadReply
from goqueue.model.topic import check_name

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

PROBLEM_TYPE = "application/problem+json"
JSON_TYPE = "application/json"


class Reply(NamedTuple):
    """What came back; names of headers are in small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def media_type(self) -> str:
        """What the body is, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class Lost(NamedTuple):
    """No reply came; `is_sent` unless it is sure that the broker has seen nothing of the request."""

    reason: str
    is_sent: bool
    is_timeout: bool = False


@dataclass(frozen=True, slots=True)
class Call(Generic[T_co]):
    """One request, and how its reply is read.

    `wait_s` is how long the broker may take on purpose. Replies with a status of failure are raised as errors, unless
    `tells_failures`: then the body of such a reply is a result as well, if it is no problem document. One that
    `is_repeatable` is answered as before if it arrives twice.
    """

    method: str
    path: str
    read: Callable[[Reply], T_co]
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    wait_s: float = 0.0
    tells_failures: bool = False
    is_repeatable: bool = False

    @property
    def is_safe(self) -> bool:
        """Whether it may be sent again though nobody knows if it has arrived: that changes nothing."""
        return self.is_repeatable or self.method == "GET"

    def is_answered_by(self, reply: Reply) -> bool:
        """Return whether a reply is a result rather than an error."""
        if reply.media_type == PROBLEM_TYPE:
            return False
        return reply.status < 300 or (self.tells_failures and reply.media_type == JSON_TYPE)


def reading(kind: type[T]) -> Callable[[Reply], T]:
    """Return a reader of JSON bodies of that kind; fields that it does not know are left out."""
    decoder = msgspec.json.Decoder(kind)

    def read(reply: Reply) -> T:
        try:
            return decoder.decode(reply.body)
        except msgspec.DecodeError as error:
            raise BadReply(
                f"the reply cannot be read: {error}", hint="is that address the HTTP port of a GoQueue broker?"
            ) from None

    return read


def read_nothing(reply: Reply) -> None:
    """Read a reply that has no body."""
    del reply


def topic_path(name: str, *rest: str | int) -> str:
    """Return the path of a topic or of something below it; InvalidTopicName if it cannot be a name."""
    check_name(name)
    return "/v1/topics/" + "/".join(quote(str(part), safe="") for part in (name, *rest))

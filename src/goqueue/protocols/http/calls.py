"""What a handler is called with, and what it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, NamedTuple, Protocol, TypeVar

from goqueue.api.fields import GROUP_NAME_MAX
from goqueue.broker.admission import Caller
from goqueue.broker.broker import Broker
from goqueue.broker.groups.positions import Positions
from goqueue.broker.messages.publish import PartitionTurns
from goqueue.broker.messages.reading import Polls
from goqueue.broker.transactions.request_dedup import TransactionRequestDedup
from goqueue.errors import InvalidGroup, MalformedRequest
from goqueue.protocols.http.wire.requests import Header

JSON = "application/json"
HTML = "text/html; charset=utf-8"


T_co = TypeVar("T_co", covariant=True)


class Check(Protocol):
    """One thing that was looked at; `detail` says what is wrong."""

    @property
    def name(self) -> str: ...
    @property
    def status(self) -> Literal["ok", "failed"]: ...
    @property
    def detail(self) -> str: ...


class Health(Protocol):
    """How the broker is: degraded if something does not work, down if nothing does."""

    @property
    def status(self) -> Literal["ok", "degraded", "down"]: ...
    @property
    def checks(self) -> Sequence[Check]: ...


@dataclass(frozen=True, slots=True)
class Services:
    """What requests are handled with; the same for all.

    `metrics` is told which formats a reader accepts, and returns the text and which one it is of.
    """

    broker: Broker
    health: Callable[[], Awaitable[Health]]
    metrics: Callable[[str], Awaitable[tuple[bytes, str]]]
    polls: Polls
    turns: PartitionTurns
    positions: Positions = field(default_factory=Positions)
    numbering: TransactionRequestDedup = field(default_factory=TransactionRequestDedup)


class Context(NamedTuple):
    """One request: who asks, where (below which prefix, with which variables of the path), with which headers."""

    services: Services
    caller: Caller
    prefix: str
    path: Mapping[str, str]
    headers: Sequence[Header]

    @property
    def broker(self) -> Broker:
        """The broker that is asked."""
        return self.services.broker

    @property
    def topic(self) -> str:
        """The topic in the path."""
        return self.path["topic"]

    @property
    def group(self) -> str:
        """The group in the path; InvalidGroup if no group is called so here."""
        name = self.path["group"]
        if len(name) > GROUP_NAME_MAX:
            raise InvalidGroup(f"the name of a group may have {GROUP_NAME_MAX} characters")
        return name

    @property
    def partition(self) -> int:
        """The partition in the path; MalformedRequest if it is no number."""
        text = self.path["partition"]
        if not (text.isascii() and text.isdigit() and len(text) <= 10):
            raise MalformedRequest(f"{text[:40]!r} is no partition", hint="partitions are numbered from 0")
        return int(text)

    def header(self, name: bytes) -> str:
        """Return the value of a header; empty if there is none."""
        return next((value.decode("latin-1") for key, value in self.headers if key == name), "")


class Answer(NamedTuple, Generic[T_co]):
    """A reply: `value` is told as JSON, bytes as they are, None as nothing."""

    value: T_co
    status: int = 200
    media_type: str = JSON
    headers: Sequence[Header] = ()

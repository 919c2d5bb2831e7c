"""The arguments and the answers of handlers."""

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
    """The outcome of one check; `detail` says what is wrong."""

    @property
    def name(self) -> str: ...
    @property
    def status(self) -> Literal["ok", "failed"]: ...
    @property
    def detail(self) -> str: ...


class Health(Protocol):
    """The health of the broker: degraded if something does not work, down if nothing does."""

    @property
    def status(self) -> Literal["ok", "degraded", "down"]: ...
    @property
    def checks(self) -> Sequence[Check]: ...


@dataclass(frozen=True, slots=True)
class Services:
    """The shared state of all requests.

    `metrics` takes the formats that a reader accepts, and returns the text and its format.
    """

    broker: Broker
    health: Callable[[], Awaitable[Health]]
    metrics: Callable[[str], Awaitable[tuple[bytes, str]]]
    polls: Polls
    turns: PartitionTurns
    positions: Positions = field(default_factory=Positions)
    numbering: TransactionRequestDedup = field(default_factory=TransactionRequestDedup)


class Context(NamedTuple):
    """One request: its caller, the prefix and the variables of its path, and its headers."""

    services: Services
    caller: Caller
    prefix: str
    path: Mapping[str, str]
    headers: Sequence[Header]

    @property
    def broker(self) -> Broker:
        """The broker."""
        return self.services.broker

    @property
    def topic(self) -> str:
        """The topic in the path."""
        return self.path["topic"]

    @property
    def group(self) -> str:
        """The group in the path; InvalidGroup if the name is too long."""
        name = self.path["group"]
        if len(name) > GROUP_NAME_MAX:
            raise InvalidGroup(f"the name of a group may have at most {GROUP_NAME_MAX} characters")
        return name

    @property
    def partition(self) -> int:
        """The partition in the path; MalformedRequest if it is not a number."""
        text = self.path["partition"]
        if not (text.isascii() and text.isdigit() and len(text) <= 10):
            raise MalformedRequest(f"{text[:40]!r} is not a partition", hint="partitions are numbered from 0")
        return int(text)

    def header(self, name: bytes) -> str:
        """Return the value of a header; empty if there is none."""
        return next((value.decode("latin-1") for key, value in self.headers if key == name), "")


class Answer(NamedTuple, Generic[T_co]):
    """A reply: `value` is sent as JSON, bytes unchanged, and None as an empty body."""

    value: T_co
    status: int = 200
    media_type: str = JSON
    headers: Sequence[Header] = ()

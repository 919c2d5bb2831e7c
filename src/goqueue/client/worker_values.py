"""Words of workers: what a handler may raise, what is counted and what is reported.

A worker runs a handler for each message of a queue group. What the handler does says what becomes of the message:

| the handler               | the message                                             |
|---------------------------|---------------------------------------------------------|
| returns                   | is done (`ack`)                                         |
| raises `Retry`            | is tried again, after its delay or the group's backoff  |
| raises `Reject`           | becomes a dead letter at once                           |
| raises anything else      | is tried again, after the group's backoff               |
| runs beyond `lease_max_s` | goes to others; an async handler is cancelled           |

An async handler that raises `SystemExit` or `KeyboardInterrupt` has its worker stop as well, and `run` raises it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Self

from typing_extensions import override

from goqueue.client import durations
from goqueue.client.durations import Duration
from goqueue.client.queues import QueueMessage
from goqueue.errors import GoQueueError, Invalid
from goqueue.seams.sink import Event, Severity


class Retry(Exception):
    """Raised by a handler: not now. The message is tried again after the delay, or else after the group's backoff.

    ValueError if it is to wait for longer than 7 days, which no message does.
    """

    def __init__(self, reason: object = "", *, delay_s: Duration | None = None) -> None:
        super().__init__(reason)
        self.reason = str(reason)
        # The broker would refuse any other, and the message would stay leased.
        try:
            self.delay_s = None if delay_s is None else durations.delay_s(delay_s, "delay_s")
        except Invalid as error:
            raise ValueError(str(error)) from None


class Reject(Exception):
    """Raised by a handler: never. The message becomes a dead letter, with the reason."""

    def __init__(self, reason: object = "") -> None:
        super().__init__(reason)
        self.reason = str(reason)


@dataclass(slots=True)
class WorkerStats:
    """What a worker has done, message by message; `running` and `waiting` is what it holds now.

    `done`, `retried`, `rejected` and `released` are what the broker has confirmed. `lost` are messages whose lease had
    ended, `unknown` those that were settled by a request whose answer was lost. `overrun` is how many took too long.
    """

    received: int = 0
    done: int = 0
    retried: int = 0
    rejected: int = 0
    released: int = 0
    lost: int = 0
    unknown: int = 0
    overrun: int = 0
    renewed: int = 0
    failed_requests: int = 0
    running: int = 0
    waiting: int = 0


class Place(NamedTuple):
    """Which message, and which delivery of it."""

    topic: str
    partition: int
    offset: int
    delivery: int

    @classmethod
    def of(cls, message: QueueMessage) -> Self:
        """Return the place of a message."""
        where = message.message
        return cls(where.topic, where.partition, where.offset, message.delivery_count)

    @override
    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}@{self.offset}#{self.delivery}"


@dataclass(frozen=True, slots=True)
class WorkFailed(Event):
    """A handler has raised an error, and the message is to be tried again; the log has its `traceback` as well."""

    severity: ClassVar[Severity] = Severity.WARNING
    place: Place
    error: str
    traceback: str = field(default="", compare=False, repr=False)

    @override
    def describe(self) -> str:
        """Return the event as one line, without the traceback."""
        return f"WorkFailed place={self.place} error={self.error}"

    @override
    def details(self) -> str:
        """Return the traceback."""
        return self.traceback


@dataclass(frozen=True, slots=True)
class WorkRetried(Event):
    """A handler wants its message to be tried again: after so many seconds, or else after the group's backoff."""

    place: Place
    reason: str
    delay_s: float | None

    @override
    def describe(self) -> str:
        """Return the event as one line, without a reason that was not given."""
        after = "the group's backoff" if self.delay_s is None else f"{self.delay_s:g} s"
        return f"WorkRetried place={self.place} after={after}" + (f" reason={self.reason}" if self.reason else "")


@dataclass(frozen=True, slots=True)
class WorkRejected(Event):
    """A handler has rejected a message, which is to become a dead letter."""

    severity: ClassVar[Severity] = Severity.WARNING
    place: Place
    reason: str


@dataclass(frozen=True, slots=True)
class WorkOverran(Event):
    """A handler took longer than a lease may last: it is not renewed any more, and the message goes to others."""

    severity: ClassVar[Severity] = Severity.WARNING
    place: Place
    seconds: float


@dataclass(frozen=True, slots=True)
class WorkCut(Event):
    """A handler was still running when the worker had to end; its message is given back, or its lease runs out."""

    severity: ClassVar[Severity] = Severity.WARNING
    place: Place


@dataclass(frozen=True, slots=True)
class LeaseLost(Event):
    """A message had gone to others before it was settled here: what the handler did may be done twice."""

    severity: ClassVar[Severity] = Severity.WARNING
    place: Place
    act: str


@dataclass(frozen=True, slots=True)
class LoopBlocked(Event):
    """Leases were renewed so many seconds late, since nothing else could run: an async handler must not block.

    So it is if the whole process was stopped, too, or code that holds the interpreter ran for long.
    """

    severity: ClassVar[Severity] = Severity.WARNING
    seconds: float


@dataclass(frozen=True, slots=True)
class FateUnknown(Event):
    """A message is not leased any more, and a request without an answer may have settled it, or not."""

    severity: ClassVar[Severity] = Severity.WARNING
    place: Place
    act: str


@dataclass(frozen=True, slots=True)
class RequestFailed(Event):
    """The broker cannot be reached, or refuses; it is asked again after a pause."""

    severity: ClassVar[Severity] = Severity.WARNING
    act: str
    error: GoQueueError
    pause_s: float


@dataclass(frozen=True, slots=True)
class WorkWithheld(Event):
    """The broker gives a worker nothing of what there is: its group is paused, the worker may hold no more, or too many
    messages wait for others of their key.
    """

    severity: ClassVar[Severity] = Severity.WARNING
    group: str
    reason: str


@dataclass(frozen=True, slots=True)
class WorkerDraining(Event):
    """A worker receives nothing more: so many handlers run on, and so many messages are given back unopened."""

    running: int
    given_back: int

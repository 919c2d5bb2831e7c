"""Calls about queues: receive messages, say what became of them, and look after the groups that share them.

Whoever receives a message has it until its deadline. Then it goes to others, unless it was settled: `ack` (done),
`nack` (try again), `reject` (never again: a dead letter), or `extend`ed.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Literal, NamedTuple
from urllib.parse import quote

import msgspec

from goqueue.api.queues import PartitionMove as QueueMove
from goqueue.api.queues import PeekedMessages, QueueMember, ReceivedMessages, ReliabilityStats
from goqueue.api.queues import Reliability as QueueStats
from goqueue.client import durations
from goqueue.client.calls import Call, Reply, read_nothing, reading
from goqueue.client.durations import Duration, milliseconds
from goqueue.client.messages import Message, as_message
from goqueue.client.problems import Problem, error_of
from goqueue.errors import GoQueueError, Invalid
from goqueue.model.near_names import did_you_mean


class QueueMessage(NamedTuple):
    """A message that somebody has until a deadline, in milliseconds since 1970."""

    message: Message
    receipt_handle: str
    delivery_count: int
    deadline: int

    @property
    def value(self) -> bytes | None:
        """What the message says."""
        return self.message.value

    @property
    def key(self) -> bytes | None:
        """The key of the message."""
        return self.message.key


class Received(NamedTuple):
    """Messages, and why they are fewer than there could be; empty if there is no reason."""

    messages: list[QueueMessage]
    shortfall: str


class SettledMessage(NamedTuple):
    """What became of a message: `done`, `dead`, `ready`, or `leased` and `waiting` until a time."""

    status: str
    until: int | None


class QueuePartition(msgspec.Struct, frozen=True, kw_only=True):
    """How a queue group stands in a partition: all before `floor` is done, nothing from `cursor` on was delivered.

    `dead_letter_trouble` is why dead messages cannot become letters now, or empty.
    """

    topic: str
    partition: int
    floor: int
    cursor: int
    backlog: int
    leased: int
    waiting: int
    ready: int
    held: int
    dead: int
    end_offset: int | None = None
    oldest_seconds: float | None = None
    dead_letter_trouble: str = ""


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue group: how many messages are not done (at most), how many of them are leased, and its settings.

    `consumers` are those who hold messages, and how many each of them; `members` are Kafka's share consumers in it.
    """

    group: str
    paused: bool
    pause_reason: str
    depth: int
    in_flight: int
    consumers: dict[str, int]
    settings: dict[str, str | int | float]
    partitions: list[QueuePartition]
    members: tuple[QueueMember, ...] = ()
    oldest_seconds: float | None = None


class MovedQueue(Queue, frozen=True, kw_only=True):
    """A queue group as it is now, and how it was moved; by a dry run, how it would be."""

    moves: list[QueueMove]


class _Result(msgspec.Struct):
    status: str
    until: int | None = None
    error: Problem | None = None


class _Results(msgspec.Struct):
    results: list[_Result]


class _Queues(msgspec.Struct):
    queues: list[Queue]


_read_received = reading(ReceivedMessages)
_read_results = reading(_Results)
_read_queue = reading(Queue)
_read_moved = reading(MovedQueue)
_read_queues = reading(_Queues)
_read_messages = reading(PeekedMessages)
_read_stats = reading(ReliabilityStats)
_encode = msgspec.json.Encoder().encode

_DURATIONS = {
    "visibility_timeout": durations.visibility_s,
    "backoff": durations.delay_s,
    "backoff_max": durations.delay_s,
}
_SETTINGS = (
    *_DURATIONS,
    "retries",
    "backoff_factor",
    "in_flight_max",
    "ordering",
    "start",
    "dead_letters",
    "breaker_ratio",
)

Settling = Call[Sequence[SettledMessage | GoQueueError]]
Receipt = str | QueueMessage


def receive(
    group: str,
    topics: str | Sequence[str],
    *,
    limit: int = 10,
    wait_s: Duration = 0.0,
    visibility_s: Duration | None = None,
    consumer: str = "",
    ordering: Literal["key", "none"] = "none",
) -> Call[Received]:
    """Lease up to so many messages of a topic, or of several; with `wait_s` wait for the first one.

    The group is made by the first receive, with that `ordering`; once it is there, only `alter` changes it. Consumers
    are told apart by their names: each may hold so many at once, and those without one share the name of their IP
    address. UnknownTopic if nothing came and a topic is not there.
    """
    body: dict[str, object] = {"topics": [topics] if isinstance(topics, str) else list(topics), "max": limit}
    wait_s = durations.wait_s(wait_s)
    body |= {"wait": milliseconds(wait_s), "consumer": consumer}
    if ordering != "none":
        body["ordering"] = ordering
    if visibility_s is not None:
        body["visibility_timeout"] = milliseconds(durations.visibility_s(visibility_s, "visibility_s"))
    path = f"/v1/groups/{quote(group, safe='')}/receive"
    return Call("POST", path, _as_received, body=_encode(body), wait_s=wait_s)


def ack(*receipts: Receipt) -> Settling:
    """Have messages done; the result has the fate of each, and `require_settled` raises what was refused."""
    return _settle("ack", receipts)


def nack(*receipts: Receipt, delay_s: Duration | None = None, reason: str = "") -> Settling:
    """Have messages tried again: after the delay, or else after the group's backoff."""
    delay_ms = None if delay_s is None else milliseconds(durations.delay_s(delay_s, "delay_s"))
    return _settle("nack", receipts, delay=delay_ms, reason=reason)


def reject(*receipts: Receipt, reason: str = "") -> Settling:
    """Have messages become dead letters at once."""
    return _settle("reject", receipts, reason=reason)


def extend(*receipts: Receipt, timeout_s: Duration) -> Settling:
    """Have leases last so long from now on; with 0, give the messages back."""
    seconds = durations.seconds_of(timeout_s, "timeout_s")
    if seconds:
        durations.visibility_s(timeout_s, "timeout_s")
    return _settle("visibility", receipts, timeout=milliseconds(seconds))


def require_settled(results: Sequence[SettledMessage | GoQueueError]) -> Sequence[SettledMessage]:
    """Return what became of messages, if none was refused; else raise why the first one was, and how many more."""
    refused = [each for each in results if isinstance(each, GoQueueError)]
    if refused:
        others = f" (and {len(refused) - 1:,} more)" if len(refused) > 1 else ""
        raise type(refused[0])(refused[0].message + others, hint=refused[0].hint)
    return [each for each in results if isinstance(each, SettledMessage)]


def list_all() -> Call[list[Queue]]:
    """Return all queue groups, in the order of their names."""
    return Call("GET", "/v1/queues", lambda reply: _read_queues(reply).queues)


def stats() -> Call[list[QueueStats]]:
    """Return what has happened in all queue groups, by their names and topics."""
    return Call("GET", "/v1/reliability/stats", lambda reply: _read_stats(reply).queues)


def describe(group: str) -> Call[Queue]:
    """Return a queue group; UnknownQueue if there is none."""
    return Call("GET", _path(group), _read_queue)


def alter(group: str, **settings: str | float | timedelta | None) -> Call[Queue]:
    """Change settings of a queue group, which is made if there is none: `retries=5`, `visibility_timeout=30`.

    None stands for the default. `visibility_timeout`, `backoff` and `backoff_max` are durations, in seconds.
    """
    body = {name: _setting(name, value) for name, value in settings.items()}
    return Call("PATCH", _path(group), _read_queue, body=_encode(body), is_repeatable=True)


def _setting(name: str, value: str | float | timedelta | None) -> str | float | None:
    """Return a setting as HTTP takes it; TypeError if there is none of that name."""
    if name not in _SETTINGS:
        raise TypeError(
            f"{name!r} is no setting of a queue group; "
            + (did_you_mean(name, _SETTINGS) or f"there are {', '.join(_SETTINGS)}")
        )
    if value is not None and name in _DURATIONS:
        return f"{milliseconds(_DURATIONS[name](value, name))}ms"
    if isinstance(value, timedelta):
        raise Invalid(f"{name} is {value}, and is no duration")
    return value


def delete(group: str) -> Call[None]:
    """Forget a queue group, with all that is in flight."""
    return Call("DELETE", _path(group), read_nothing)


def pause(group: str, reason: str = "paused by hand") -> Call[Queue]:
    """Deliver nothing to a group until it is resumed."""
    return _change(group, "pause", reason=reason)


def resume(group: str) -> Call[Queue]:
    """Deliver to a group again."""
    return _change(group, "resume")


def seek(
    group: str,
    topic: str,
    *,
    to: Literal["earliest", "latest"] | None = None,
    offset: int | None = None,
    time: int | str | None = None,
    partitions: Sequence[int] | None = None,
    is_dry_run: bool = False,
) -> Call[MovedQueue]:
    """Go on with a topic elsewhere, and forget what is in flight there; one of the places is given.

    It is about all partitions unless some are named. A dry run tells what would happen, and changes nothing.
    """
    said = {"to": to, "offset": offset, "time": time, "partitions": partitions, "dry_run": is_dry_run}
    body = {"topic": topic, **{name: value for name, value in said.items() if value is not None}}
    return Call("POST", f"{_path(group)}/seek", _read_moved, body=_encode(body), is_repeatable=True)


def purge(group: str, topic: str) -> Call[Queue]:
    """Have everything done that is in a topic now."""
    return _change(group, "purge", topic=topic)


def peek(group: str, topic: str, *, limit: int = 10) -> Call[list[Message]]:
    """Return what the next receives would bring, and lease nothing."""

    def read(reply: Reply) -> list[Message]:
        return [as_message(each) for each in _read_messages(reply).messages]

    return Call("GET", f"{_path(group)}/peek", read, query={"topic": topic, "limit": str(limit)})


def _settle(verb: str, receipts: Sequence[Receipt], **said: object) -> Settling:
    handles = [each if isinstance(each, str) else each.receipt_handle for each in receipts]
    body = {"receipt_handles": handles, **{name: value for name, value in said.items() if value is not None}}
    return Call("POST", f"/v1/messages/{verb}", _as_results, body=_encode(body), tells_failures=True)


def _change(group: str, verb: str, **said: object) -> Call[Queue]:
    return Call("POST", f"{_path(group)}/{verb}", _read_queue, body=_encode(said), is_repeatable=True)


def _path(group: str) -> str:
    return f"/v1/queues/{quote(group, safe='')}"


def _as_received(reply: Reply) -> Received:
    told = _read_received(reply)
    messages = [
        QueueMessage(as_message(each), each.receipt_handle, each.delivery_count, each.deadline)
        for each in told.messages
    ]
    return Received(messages, "" if told.shortfall is msgspec.UNSET else told.shortfall)


def _as_results(reply: Reply) -> Sequence[SettledMessage | GoQueueError]:
    results = _read_results(reply).results
    return [SettledMessage(each.status, each.until) if each.error is None else error_of(each.error) for each in results]

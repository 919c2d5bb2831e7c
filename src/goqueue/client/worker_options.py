"""How a worker goes about it: its options and topics, checked when it is made, before anybody is asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Self, TypedDict

from goqueue.errors import Invalid
from goqueue.model.queue_limits import CONSUMER_CHARS_MAX, TOPICS_MAX
from goqueue.model.queue_settings import VISIBILITY_MS_MAX
from goqueue.model.topic import check_name
from goqueue.seams.sink import Sink

IN_HAND_MAX = 1_000
"""How many messages a worker holds: what the broker lets a consumer have in flight, unless its group says otherwise."""

# Without a wait, a worker would ask all the time.
_WAIT_S_MIN = 0.1
# What the broker takes.
_WAIT_S_MAX = 60
_VISIBILITY_S_MIN = 0.001
_VISIBILITY_S_MAX = VISIBILITY_MS_MAX // 1000


class WorkerOptions(TypedDict, total=False):
    """How a worker goes about it.

    `concurrency` (10, up to 1,000) is how many handlers run at once; up to `ahead_max` (100) more messages are held
    that can be started within a second. A lease lasts `visibility_s` (30, up to 12 hours) and is renewed after a third
    of it while the handler runs, for `lease_max_s` (an hour) at most. With `ordering="key"` the group delivers messages
    of one key one after another, and so they are handled. A receive waits up to `wait_s` (20, up to 60); a worker that
    is to stop lets handlers run on for `drain_s` (30). `consumer` is its name, if it is to have a certain one. What
    happens is told to the `sink`, else to the logger `goqueue`.
    """

    concurrency: int
    ahead_max: int
    visibility_s: float
    lease_max_s: float
    ordering: Literal["key"] | None
    wait_s: float
    drain_s: float
    consumer: str
    sink: Sink


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLimits:
    """The numbers of a worker, checked."""

    concurrency: int = 10
    ahead_max: int = 100
    visibility_s: float = 30.0
    lease_max_s: float = 3600.0
    wait_s: float = 20.0
    drain_s: float = 30.0

    @classmethod
    def of(cls, options: WorkerOptions) -> Self:
        """Return the numbers of options; Invalid, with all that is wrong, if no worker could keep them."""
        given = {name: value for name, value in options.items() if name in cls.__dataclass_fields__}
        limits = cls(**given)  # type: ignore[arg-type]
        if wrong := [*limits._wrong(), *_wrong_words(options)]:
            raise Invalid("; ".join(wrong))
        return limits

    def _wrong(self) -> Iterator[str]:
        for name, value, low, high in (
            ("concurrency", self.concurrency, 1, IN_HAND_MAX),
            ("visibility_s", self.visibility_s, _VISIBILITY_S_MIN, _VISIBILITY_S_MAX),
            ("wait_s", self.wait_s, _WAIT_S_MIN, _WAIT_S_MAX),
        ):
            if not low <= value <= high:
                yield f"{name} is {value}, and may be {low:,} to {high:,}"
        for name, count in (("concurrency", self.concurrency), ("ahead_max", self.ahead_max)):
            if not isinstance(count, int):
                yield f"{name} is {count}, and has to be a whole number"
        if not self.lease_max_s >= self.visibility_s:
            yield f"lease_max_s is {self.lease_max_s}, and visibility_s is {self.visibility_s}: a lease lasts that long"
        for name, least in (("ahead_max", self.ahead_max), ("drain_s", self.drain_s)):
            if not least >= 0:
                yield f"{name} is {least}, and cannot be negative"


def _wrong_words(options: WorkerOptions) -> Iterator[str]:
    ordering, consumer = options.get("ordering"), options.get("consumer") or ""
    if ordering not in {None, "key"}:
        yield f"ordering is {ordering!r}, and may be 'key', or None for what the group has"
    if len(consumer) > CONSUMER_CHARS_MAX:
        yield f"consumer has {len(consumer)} characters, and may have {CONSUMER_CHARS_MAX}"


def check_topics(topics: Sequence[str]) -> None:
    """Raise Invalid if no worker could have these topics; whether they are there is another matter."""
    if not topics:
        raise Invalid("a worker needs a topic")
    if len(topics) > TOPICS_MAX:
        raise Invalid(f"{len(topics)} topics are too many: a worker has at most {TOPICS_MAX}")
    for topic in topics:
        check_name(topic)

"""How a worker goes about it: its options and topics, checked when it is made, before anybody is asked."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Self, TypedDict

from goqueue.client.durations import DURATION_HINT, Duration, seconds_of
from goqueue.errors import Invalid
from goqueue.model.queue_settings import CONSUMER_CHARS_MAX, TOPICS_MAX, VISIBILITY_MS_MAX, VISIBILITY_MS_MIN
from goqueue.model.topic import check_name
from goqueue.seams.sink import Sink

IN_HAND_MAX = 1_000
"""How many messages a worker holds: what the broker lets a consumer have in flight, unless its group says otherwise."""

# Without a wait, a worker would ask all the time.
_WAIT_S_MIN = 0.1
# What the broker takes.
_WAIT_S_MAX = 60
_DURATIONS = {
    "visibility_s": (VISIBILITY_MS_MIN / 1000, VISIBILITY_MS_MAX / 1000),
    "lease_max_s": (0.0, math.inf),
    "wait_s": (_WAIT_S_MIN, _WAIT_S_MAX),
    "drain_s": (0.0, math.inf),
}


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
    visibility_s: Duration
    lease_max_s: Duration
    ordering: Literal["key"] | None
    wait_s: Duration
    drain_s: Duration
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
        wrong: list[str] = []
        for name, (least_s, most_s) in _DURATIONS.items():
            if name in given:
                try:
                    given[name] = seconds_of(given[name], name, least_s=least_s, most_s=most_s)  # type: ignore[arg-type]
                except Invalid as error:
                    wrong.append(error.message)
                    del given[name]
        limits = cls(**given)  # type: ignore[arg-type]
        if wrong := [*wrong, *limits._wrong(), *_wrong_words(options)]:
            raise Invalid("; ".join(wrong), hint=DURATION_HINT)
        return limits

    def _wrong(self) -> Iterator[str]:
        if not 1 <= self.concurrency <= IN_HAND_MAX:
            yield f"concurrency is {self.concurrency}, and may be 1 to {IN_HAND_MAX:,}"
        for name, count in (("concurrency", self.concurrency), ("ahead_max", self.ahead_max)):
            if not isinstance(count, int):
                yield f"{name} is {count}, and has to be a whole number"
        if not self.lease_max_s >= self.visibility_s:
            lasts = f"visibility_s is {self.visibility_s:g}: a lease lasts that long"
            yield f"lease_max_s is {self.lease_max_s:g}, and {lasts}"
        if not self.ahead_max >= 0:
            yield f"ahead_max is {self.ahead_max}, and cannot be negative"


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

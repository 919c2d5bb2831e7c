"""Settings of a queue group, and the limits of requests about queues. Durations are in milliseconds."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from goqueue.errors import Invalid, InvalidTopicName
from goqueue.model.start_at import StartAt
from goqueue.model.topic import check_name, is_internal
from goqueue.model.units import duration_text

VISIBILITY_MS_MIN = 100
"""How long a lease lasts at least: less is over before a reply arrives, and is most likely a mistake in the unit."""
VISIBILITY_MS_MAX = 12 * 3_600_000
"""How long a lease lasts at most, as in SQS."""
DELAY_MS_MAX = 7 * 24 * 3_600_000
"""How long a message waits at most until it is tried again."""
RETRIES_MAX = 1_000
BACKOFF_FACTOR_MAX = 100
IN_FLIGHT_MAX = 100_000
TOPICS_MAX: Final = 100
"""The last four bound requests: the broker refuses more, the client and the command line refuse it beforehand."""
CONSUMER_CHARS_MAX: Final = 250
REASON_CHARS_MAX: Final = 4096
"""Why a message failed."""
PAUSE_CHARS_MAX: Final = 1000
"""Why a group is paused."""


class Ordering(StrEnum):
    """Which messages wait for others."""

    NONE = "none"
    """None does."""
    KEY = "key"
    """Messages of one key are delivered one after another; each waits until the one before is settled."""


class QueueSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The settings of one queue group.

    `start` is where a partition begins that the group has not read before; a number is a time in milliseconds since
    1970. `dead_letters` is the topic for what cannot be processed, of which the group gets no messages: empty for the
    topic's own, `{topic}.dlq`. Of the messages settled last, at most `breaker_ratio` may be rejected or out of retries;
    above that the group pauses.
    """

    visibility_ms: int = 30_000
    retries: int = 3
    backoff_ms: int = 1_000
    backoff_factor: float = 2.0
    backoff_max_ms: int = 60_000
    in_flight_max: int = 1_000
    ordering: Ordering = Ordering.NONE
    start: StartAt | int = StartAt.EARLIEST
    dead_letters: str = ""
    breaker_ratio: float = 0.5

    def check(self) -> None:
        """Raise Invalid, with all that is wrong."""
        wrong = [
            f"{name} is {duration_text(value)}, and may be {duration_text(low)} to {duration_text(high)}"
            for name, value, low, high in (
                ("visibility_timeout", self.visibility_ms, VISIBILITY_MS_MIN, VISIBILITY_MS_MAX),
                ("backoff", self.backoff_ms, 0, DELAY_MS_MAX),
                ("backoff_max", self.backoff_max_ms, 0, DELAY_MS_MAX),
            )
            if not low <= value <= high
        ]
        wrong += [
            f"{name} is {value}, and may be {low} to {high}"
            for name, value, low, high in (
                ("retries", self.retries, 0, RETRIES_MAX),
                ("backoff_factor", self.backoff_factor, 1, BACKOFF_FACTOR_MAX),
                ("in_flight_max", self.in_flight_max, 1, IN_FLIGHT_MAX),
                ("breaker_ratio", self.breaker_ratio, 0, 1),
            )
            if not low <= value <= high
        ]
        if not isinstance(self.start, StartAt) and self.start < 0:
            wrong.append(f"start is {self.start}, and may be a time since 1970")
        if self.dead_letters:
            wrong += _wrong_with_letters(self.dead_letters)
        if wrong:
            raise Invalid("; ".join(wrong))

    def backoff_of(self, deliveries: int) -> int:
        """Return how long a message waits after it has failed for the so-manieth time; without jitter."""
        # Powers of large numbers take long, and reach the limit early.
        factor = self.backoff_factor ** min(deliveries - 1, 64)
        return int(min(self.backoff_ms * factor, self.backoff_max_ms))


def _wrong_with_letters(topic: str) -> list[str]:
    """Return why dead letters cannot be sent to a topic."""
    advice = "name another topic for dead letters, or none for {topic}.dlq"
    try:
        check_name(topic)
    except InvalidTopicName as error:
        return [f"dead_letters: {error.message} ({error.hint}); {advice}"]
    return [f"dead_letters: {topic!r} is the broker's own; {advice}"] if is_internal(topic) else []

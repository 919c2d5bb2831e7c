"""How dead letters say why they are there: headers beside those of the message, which is otherwise as it was.

Whoever makes one (a queue group, a pipeline) sets those that it knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from goqueue.model.topic import NAME_MAX

PREFIX: Final = "goqueue-dlq-"
"""How the names of all headers begin that say why a message died, and where it was."""

REASON_HEADER: Final = "goqueue-dlq-reason"
ERROR_HEADER: Final = "goqueue-dlq-error"
TOPIC_HEADER: Final = "goqueue-dlq-topic"
PARTITION_HEADER: Final = "goqueue-dlq-partition"
OFFSET_HEADER: Final = "goqueue-dlq-offset"
TIMESTAMP_HEADER: Final = "goqueue-dlq-timestamp"

GROUP_HEADER: Final = "goqueue-dlq-group"
CONSUMER_HEADER: Final = "goqueue-dlq-consumer"
ATTEMPTS_HEADER: Final = "goqueue-dlq-attempts"
FIRST_DELIVERY_HEADER: Final = "goqueue-dlq-first-delivery"
LAST_DELIVERY_HEADER: Final = "goqueue-dlq-last-delivery"

PIPELINE_HEADER: Final = "goqueue-dlq-pipeline"
STEP_HEADER: Final = "goqueue-dlq-step"
RULE_HEADER: Final = "goqueue-dlq-rule"

UNREADABLE_HEADER: Final = "goqueue-dlq-unreadable"
"""What is wrong with a message that cannot be read."""
BATCH_HEADER: Final = "goqueue-dlq-batch"
"""First and last offset of the stored batch that such a letter stands for; its value is that batch, or empty."""

REDRIVES_HEADER: Final = "goqueue-redrives"
"""How often a message was published again after it had died; it stays with the message if that dies again."""

UNKNOWN_REASON: Final = "unknown"
"""The reason of a letter that does not say why it is there."""

RETENTION_MS: Final = 336 * 3_600_000
"""How long dead letters are kept."""


_SUFFIX: Final = ".dlq"
_DIGEST_BYTES: Final = 8
_DIGITS_MAX: Final = 19

Headers = Sequence[tuple[str, bytes | None]]


def dead_letters_of(topic: str) -> str:
    """Return the topic that gets the dead letters of a topic, if nobody says otherwise.

    Where a name has no room for more, its end is replaced by a digest of all of it.
    """
    if len(topic) + len(_SUFFIX) <= NAME_MAX:
        return topic + _SUFFIX
    digest = blake2b(topic.encode(), digest_size=_DIGEST_BYTES).hexdigest()
    return f"{topic[: NAME_MAX - len(_SUFFIX) - len(digest) - 1]}-{digest}{_SUFFIX}"


def is_for_dead_letters(topic: str) -> bool:
    """Tell whether a topic is called as those are that get dead letters if nobody says otherwise."""
    return topic.endswith(_SUFFIX)


class DeadLetterCause(NamedTuple):
    """Why a message died and where it was, as its letter says; what it does not say is empty or None.

    `redrives` is how often it was published again before.
    """

    reason: str
    error: str
    attempts: int | None
    group: str
    consumer: str
    topic: str
    partition: int | None
    offset: int | None
    timestamp: int | None
    first_delivery: int | None
    last_delivery: int | None
    redrives: int


def cause_of(headers: Headers) -> DeadLetterCause:
    """Return what the headers of a letter say; anybody may have written them, so nothing is taken for granted."""
    said = {name: value for name, value in headers if name.startswith(PREFIX) or name == REDRIVES_HEADER}

    def text(name: str) -> str:
        return (said.get(name) or b"").decode("utf-8", "replace")

    def number(name: str) -> int | None:
        written = said.get(name) or b""
        return int(written) if written.isdigit() and len(written) <= _DIGITS_MAX else None

    return DeadLetterCause(
        reason=text(REASON_HEADER) or UNKNOWN_REASON,
        error=text(ERROR_HEADER),
        attempts=number(ATTEMPTS_HEADER),
        group=text(GROUP_HEADER),
        consumer=text(CONSUMER_HEADER),
        topic=text(TOPIC_HEADER),
        partition=number(PARTITION_HEADER),
        offset=number(OFFSET_HEADER),
        timestamp=number(TIMESTAMP_HEADER),
        first_delivery=number(FIRST_DELIVERY_HEADER),
        last_delivery=number(LAST_DELIVERY_HEADER),
        redrives=number(REDRIVES_HEADER) or 0,
    )


def reason_and_topic(headers: Headers) -> tuple[str, str]:
    """Return why and in which topic a message has died, as `cause_of` does, for those who have many to look at."""
    reason, topic = b"", b""
    for name, value in headers:
        if name == REASON_HEADER:
            reason = value or b""
        elif name == TOPIC_HEADER:
            topic = value or b""
    return reason.decode("utf-8", "replace") or UNKNOWN_REASON, topic.decode("utf-8", "replace")


def says_why(headers: Headers) -> bool:
    """Tell whether a message says why it died; without that, only the name of its topic can make it a letter."""
    return any(name == REASON_HEADER for name, _ in headers)


def is_unreadable(headers: Headers) -> bool:
    """Tell whether a letter stands for a message that cannot be read, so that there is nothing to publish again."""
    return any(name == UNREADABLE_HEADER for name, _ in headers)


def original_headers(headers: Headers) -> list[tuple[str, bytes | None]]:
    """Return the headers that a message had before it died, without those that say why."""
    return [(name, value) for name, value in headers if not name.startswith(PREFIX)]


def redriven_headers(headers: Headers) -> list[tuple[str, bytes | None]]:
    """Return the headers with which a letter is published again: those of the message, and how often that was done."""
    kept = [(name, value) for name, value in original_headers(headers) if name != REDRIVES_HEADER]
    return [*kept, (REDRIVES_HEADER, str(cause_of(headers).redrives + 1).encode())]

"""How dead letters say why they are there: headers beside those of the message, which is otherwise as it was.

Whoever makes one (a queue group, a pipeline) sets those that it knows.
"""

from __future__ import annotations

from typing import Final

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

RETENTION_MS: Final = 336 * 3_600_000
"""How long dead letters are kept."""


def dead_letters_of(topic: str) -> str:
    """Return the topic that gets the dead letters of a topic, if nobody says otherwise."""
    return f"{topic}.dlq"

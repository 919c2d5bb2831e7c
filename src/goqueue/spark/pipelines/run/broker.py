"""What a run asks of the broker before it begins: its HTTP address, and the topics that it writes."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from goqueue.client import Client, topics
from goqueue.errors import TopicExists
from goqueue.spark.pipelines.spec.model import PipelineSpec, TopicSink, TopicSource

LETTERS_RETENTION_MS: Final = 336 * 3_600_000


def uses_topics(spec: PipelineSpec) -> bool:
    """Tell whether a pipeline needs a broker."""
    parts = (*spec.sources, *spec.sinks)
    return any(isinstance(part, TopicSource | TopicSink) for part in parts) or bool(spec.dead_letter_parts)


def make_topics(spec: PipelineSpec, http_url: str) -> list[str]:
    """Make the topics that a pipeline writes and that are not there; return which were made.

    Those of sinks are as the broker makes topics; dead letters are kept for two weeks.
    """
    wanted: dict[str, dict[str, str]] = {sink.topic: {} for sink in spec.sinks if isinstance(sink, TopicSink)}
    if spec.dead_letter_parts:
        wanted.setdefault(spec.dead_letters, {"retention.ms": str(LETTERS_RETENTION_MS)})
    made = []
    with Client(http_url) as client:
        for topic, config in wanted.items():
            with suppress(TopicExists):
                client.send(topics.create(topic, config=config))
                made.append(topic)
    return made

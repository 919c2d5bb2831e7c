"""What a run asks of the broker before it begins: its HTTP address, and the topics that it writes."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from goqueue.client import Client, topics
from goqueue.client.kafka import KafkaData
from goqueue.errors import NotFound, TopicExists
from goqueue.spark.pipelines.compile.pipeline import dying_parts
from goqueue.spark.pipelines.spec.model import PipelineSpec, TopicSink, TopicSource
from goqueue.spark.source.stream_progress import http_address

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
LETTERS_RETENTION_MS: Final = 336 * 3_600_000

_TIMEOUT_S: Final = 10.0


def uses_topics(spec: PipelineSpec) -> bool:
    """Tell whether a pipeline needs a broker."""
    parts = (*spec.sources, *spec.sinks)
    return any(isinstance(part, TopicSource | TopicSink) for part in parts) or bool(dying_parts(spec))


def find_http_url(bootstrap: str) -> str | None:
    """Return where a broker speaks HTTP; None if it does not tell. ServerUnreachable if there is no broker."""
    with KafkaData(bootstrap, timeout_s=_TIMEOUT_S, connect_timeout_s=_TIMEOUT_S) as data, suppress(NotFound):
        return http_address(data.describe_broker())
    return None


def make_topics(spec: PipelineSpec, http_url: str) -> list[str]:
    """Make the topics that a pipeline writes and that are not there; return which were made.

    Those of sinks are as the broker makes topics; dead letters are kept for two weeks.
    """
    wanted: dict[str, dict[str, str]] = {sink.topic: {} for sink in spec.sinks if isinstance(sink, TopicSink)}
    if dying_parts(spec):
        wanted.setdefault(spec.dead_letters, {"retention.ms": str(LETTERS_RETENTION_MS)})
    made = []
    with Client(http_url) as client:
        for topic, config in wanted.items():
            with suppress(TopicExists):
                client.send(topics.create(topic, config=config))
                made.append(topic)
    return made

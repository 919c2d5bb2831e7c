"""Topics of a run: creates missing ones before it begins, and asks for their ends every second for live lag.

Spark reports the progress of a query only after each batch, which can take minutes. Asking for ends is best effort: a
broker that does not answer does not affect the run.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from goqueue.client import Client, topics
from goqueue.client.kafka import KafkaData, NamedOffset, TopicPartition
from goqueue.errors import GoQueueError, TopicExists
from goqueue.spark.pipelines.run.pipeline import PipelineStatus
from goqueue.spark.pipelines.run.progress import RunProgress, TopicOffsets, live_lag
from goqueue.spark.pipelines.spec.model import PipelineSpec, TopicSink, TopicSource

DEAD_LETTERS_RETENTION_MS: Final = 336 * 3_600_000

INTERVAL_S: Final = 1.0
_TIMEOUT_S: Final = 5.0


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
        wanted.setdefault(spec.dead_letters, {"retention.ms": str(DEAD_LETTERS_RETENTION_MS)})
    made = []
    with Client(http_url) as client:
        for topic, config in wanted.items():
            with suppress(TopicExists):
                client.send(topics.create(topic, config=config))
                made.append(topic)
    return made


def topics_of(spec: PipelineSpec) -> list[str]:
    """Return the topics that a pipeline reads."""
    return sorted({topic for source in spec.sources if isinstance(source, TopicSource) for topic in source.topics})


class LiveEnds:
    """The ends of some topics, from a thread of its own."""

    def __init__(self, bootstrap: str, topics: Sequence[str]) -> None:
        self._bootstrap = bootstrap
        self._topics = topics
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="live-ends", daemon=True)
        self.ends: TopicOffsets = {}
        """The last that was heard; empty as long as nothing was."""

    def begin(self) -> None:
        """Begin to ask."""
        if self._topics:
            self._thread.start()

    def end(self) -> None:
        """Ask no more."""
        self._ending.set()

    def applied(self, progress: RunProgress) -> RunProgress:
        """Return progress with the lag of now."""
        return replace(progress, lag=live_lag(progress, self.ends))

    def applied_to_all(self, status: PipelineStatus) -> PipelineStatus:
        """Return a status with the lags of now."""
        queries = tuple(replace(query, progress=self.applied(query.progress)) for query in status.queries)
        return replace(status, queries=queries)

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                with KafkaData(self._bootstrap, timeout_s=_TIMEOUT_S, connect_timeout_s=_TIMEOUT_S) as data:
                    self._ask(data)
            except GoQueueError:
                # Others tell that the broker is not there; a new connection is tried in the next round.
                self._ending.wait(INTERVAL_S)

    def _ask(self, data: KafkaData) -> None:
        while not self._ending.is_set():
            self.ends = _ends(data, self._topics)
            self._ending.wait(INTERVAL_S)


def _ends(data: KafkaData, topics: Sequence[str]) -> TopicOffsets:
    places = [
        TopicPartition(topic.name, partition.number)
        for topic in data.topics(topics)
        if topic.error is None
        for partition in topic.partitions
    ]
    found = data.offsets(places, NamedOffset.LATEST)
    return {
        (place.topic, str(place.partition)): each.offset for place, each in found.items() if each.offset is not None
    }

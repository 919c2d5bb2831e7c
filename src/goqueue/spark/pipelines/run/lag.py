"""Where the topics of a pipeline end now, asked of the broker every second: so that lag is live.

Spark tells how far a query has got only when a batch is done, and a batch can take minutes. It is a courtesy, like
`run_report`: a broker that does not answer changes nothing about the run.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from goqueue.client.kafka import KafkaData, Place, TopicPartition
from goqueue.errors import GoQueueError
from goqueue.spark.pipelines.run.pipeline import PipelineStatus
from goqueue.spark.pipelines.run.progress import Positions, QueryProgress, live_lag
from goqueue.spark.pipelines.spec.model import PipelineSpec, TopicSource

INTERVAL_S: Final = 1.0
_TIMEOUT_S: Final = 5.0


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
        self.ends: Positions = {}
        """The last that was heard; empty as long as nothing was."""

    def begin(self) -> None:
        """Begin to ask."""
        if self._topics:
            self._thread.start()

    def end(self) -> None:
        """Ask no more."""
        self._ending.set()

    def applied(self, progress: QueryProgress) -> QueryProgress:
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


def _ends(data: KafkaData, topics: Sequence[str]) -> Positions:
    places = [
        TopicPartition(topic.name, partition.number)
        for topic in data.topics(topics)
        if topic.error is None
        for partition in topic.partitions
    ]
    found = data.offsets(places, Place.LATEST)
    return {
        (place.topic, str(place.partition)): each.offset for place, each in found.items() if each.offset is not None
    }

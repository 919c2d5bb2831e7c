"""A topic in use, with its partitions."""

from __future__ import annotations

from dataclasses import dataclass

from goqueue.errors import GoQueueError, UnknownPartition
from goqueue.model.topic import Topic
from goqueue.model.topic_settings import TopicSettings
from goqueue.runtime.partition import Partition


@dataclass(slots=True, eq=False)
class OpenTopic:
    """A topic in use; a partition whose log could not be opened is there as the reason why."""

    topic: Topic
    settings: TopicSettings
    partitions: list[Partition | GoQueueError]

    def partition(self, index: int) -> Partition:
        """Return a partition; UnknownPartition if there is none, Unavailable if its log cannot be used."""
        if not 0 <= index < len(self.partitions):
            raise UnknownPartition(
                f"topic {self.topic.name!r} has no partition {index}", hint=f"it has 0 to {len(self.partitions) - 1}"
            )
        found = self.partitions[index]
        error = found if isinstance(found, GoQueueError) else found.log.open_error
        if error is not None:
            # It is raised for as long as the broker runs, and must not keep the frames of earlier callers in memory.
            raise error.with_traceback(None)
        return found  # type: ignore[return-value]

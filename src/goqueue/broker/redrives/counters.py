"""What redrives have done with dead letters since the broker was started, counted by the topic of the letters.

Counted is what is stored, once each: a redrive that goes on after a start counts from there. Nothing is kept for topics
that are gone.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from uuid import UUID

from goqueue.machines.redrives.values import Moves, Redrive


class RedriveTallies:
    """The tallies of all topics, by their ids."""

    def __init__(self) -> None:
        self._by_topic: dict[UUID, Moves] = {}
        # How far redrives were when they were looked at last.
        self._seen: dict[str, Moves] = {}

    @property
    def by_topic(self) -> Mapping[UUID, Moves]:
        """What was counted for each topic."""
        return self._by_topic

    def begin(self, job: Redrive) -> None:
        """Count what a redrive does from now on."""
        self._seen[job.id] = job.moves

    def note(self, job: Redrive, known: Container[UUID]) -> None:
        """Count what a redrive has done since it was looked at last, if its topic is still known."""
        before = self._seen.get(job.id)
        if before is None or before == job.moves:
            return
        self._seen[job.id] = job.moves
        if job.topic_id not in self._by_topic:
            self._by_topic = {each: moves for each, moves in self._by_topic.items() if each in known}
        if job.topic_id in known:
            self._by_topic[job.topic_id] = self._by_topic.get(job.topic_id, Moves()) + (job.moves - before)

    def end(self, redrive_id: str) -> None:
        """Count nothing more of a redrive."""
        self._seen.pop(redrive_id, None)

"""A range of offsets of one partition, read at the pace of the decoder.

While the caller works on one reply, the next one is already requested. A lost connection, a broker that restarts and a
leader that moves are retried, as long as there is progress within the time limit. All else is an error: records that
retention has removed, a topic that was deleted (or deleted and created again: that is another topic), an end that does
not become visible in time.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from uuid import UUID

from goqueue.client.kafka.cluster import Cluster, Leader
from goqueue.client.kafka.connection import Connection
from goqueue.client.kafka.reading import FetchTerms, answer, ask, judge
from goqueue.client.kafka.values import FetchedBatches
from goqueue.client.kafka.waiting import Deadline
from goqueue.client.problems import RequestTimedOut
from goqueue.errors import GoQueueError, UnknownTopic
from goqueue.model.topic import TopicPartition

_WAIT_MS = 500
_GRACE_S = 5.0

Batches = Generator[FetchedBatches, None, None]


@dataclass(slots=True)
class RangeReader:
    """Reads offsets from `offset` up to `end`, which is not included; `offset` moves on with what was yielded."""

    cluster: Cluster
    place: TopicPartition
    offset: int
    end: int
    terms: FetchTerms
    timeout_s: float
    topic_id: UUID | None = None
    """The id that the topic must have; None for that of the first metadata."""
    _visible: FetchedBatches | None = None

    def read(self) -> Batches:
        """Yield the batches of the range; each is valid until the next is requested.

        The last one may hold records at or after the end, and the first one records before the start.
        """
        attempt = 1
        deadline = self._deadline()
        while self.offset < self.end:
            before = self.offset
            try:
                yield from self._read_from_leader(deadline)
            except GoQueueError as error:
                if self.offset != before:
                    attempt, deadline = 1, self._deadline()
                if not self.cluster.may_try_again(error, attempt, deadline):
                    raise
                attempt += 1

    def _read_from_leader(self, deadline: Deadline) -> Batches:
        leader = self._leader(deadline)
        with self.cluster.connected(leader.address, deadline) as connection:
            self._ask(connection, leader, self.offset, deadline)
            while True:
                fetched = self._fetched(connection, leader, deadline)
                if not fetched.records:
                    if self._is_exhausted(fetched):
                        self.offset = self.end
                        return
                    self._require_time(deadline)
                    self._ask(connection, leader, self.offset, deadline)
                    continue
                # If this fails, the same batches are fetched again: they were not yielded yet.
                if fetched.next_offset < self.end:
                    self._ask(connection, leader, fetched.next_offset, deadline)
                self.offset = fetched.next_offset
                yield fetched
                if self.offset >= self.end:
                    return
                deadline = self._deadline()

    def _leader(self, deadline: Deadline) -> Leader:
        leader = self.cluster.leader(self.place, deadline)
        if self.topic_id is None:
            self.topic_id = leader.topic.id
        if leader.topic.id != self.topic_id:
            raise UnknownTopic(f"topic {self.place.topic!r} was deleted and made again: it is another one by now")
        return leader

    def _ask(self, connection: Connection, leader: Leader, offset: int, deadline: Deadline) -> None:
        wait_ms = min(_WAIT_MS, max(1, int(deadline.left_s * 1000)))
        ask(connection, leader, offset, self.terms, wait_ms, deadline)

    def _fetched(self, connection: Connection, leader: Leader, deadline: Deadline) -> FetchedBatches:
        # A broker without new records answers at the deadline, so wait for its reply a little longer.
        patient = self.cluster.waiting.deadline(deadline.left_s + _GRACE_S)
        reply = answer(connection, leader, patient)
        self._visible = judge(self.cluster, self.place, self.offset, reply, patient)
        return self._visible

    def _is_exhausted(self, fetched: FetchedBatches) -> bool:
        """Return whether nothing is left up to the end: it is visible, and yet there is no batch.

        A broker sends any batch that it has there. Compaction may have removed them all.
        """
        visible = fetched.last_stable_offset if self.terms.is_committed_only else fetched.high_watermark
        return visible >= self.end

    def _require_time(self, deadline: Deadline) -> None:
        seen = self._visible
        if not deadline.is_over or seen is None:
            return
        hint = "the log ends before"
        if self.terms.is_committed_only and seen.high_watermark >= self.end:
            hint = "an open transaction hides them; its producer has to end it, or its time has to run out"
        raise RequestTimedOut(
            f"{self.place}: offsets {self.offset} to {self.end} (exclusive) did not become visible within "
            f"{self.timeout_s:g} s; the high watermark is {seen.high_watermark}, the last stable offset "
            f"{seen.last_stable_offset}",
            hint=hint,
        )

    def _deadline(self) -> Deadline:
        return self.cluster.waiting.deadline(self.timeout_s)

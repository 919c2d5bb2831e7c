"""Finishes transactions whose end is decided: markers to the partitions, offsets to the groups, then a note of it.

Each partition and group is served whatever happens to the others: a sick disk holds up only its own readers.
The coordinator stores the decision before the first marker is written, so the work is repeated after a crash: a marker
that exists is not written twice, and offsets that were set have no trace of the transaction any more. A later
transaction is never affected: it begins only when this one is noted as finished, in the same log.

A failed end is retried by the next maintenance round, a second later. Until it succeeds, `obstacle_of` returns the
reason why the transaction cannot end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from goqueue.errors import GoQueueError
from goqueue.machines.groups.commands import EndOffsets
from goqueue.machines.transactions.machine import TransactionMachine
from goqueue.machines.transactions.values import Ending
from goqueue.model.topic import TopicPartition
from goqueue.runtime.partition import Partition

if TYPE_CHECKING:
    from goqueue.broker.transactions.service import TransactionService

_AT_ONCE_MAX = 100


class _Marked(NamedTuple):
    """A partition that has its marker, before an offset."""

    partition: Partition
    end_offset: int


class TransactionMarkerWriter:
    """Each transaction is being finished at most once at a time, and only so many at the same time."""

    def __init__(self, service: TransactionService) -> None:
        self._service = service
        # By id and number of the transaction; in the order in which they were decided.
        self._waiting: dict[tuple[str, int], Ending] = {}
        self._under_way: set[tuple[str, int]] = set()
        self._obstacles: dict[str, str] = {}

    def obstacle_of(self, transactional_id: str) -> str | None:
        """Return what keeps a transaction whose end is decided from ending; None if nothing has failed."""
        return self._obstacles.get(transactional_id)

    def look_at_all(self) -> None:
        """Begin to finish whatever waits for it; what has failed before is tried again."""
        for machine in self._service.machines:
            self._take_on(machine.ending())

    def look(self, machine: TransactionMachine) -> None:
        """Begin to finish what a machine has decided to end just now."""
        self._take_on(machine.take_new_endings())

    def _take_on(self, endings: Sequence[Ending]) -> None:
        for ending in endings:
            which = (ending.id, ending.number)
            if which not in self._under_way:
                self._waiting[which] = ending
        self._begin_some()

    def _begin_some(self) -> None:
        while self._waiting and len(self._under_way) < _AT_ONCE_MAX:
            which = next(iter(self._waiting))
            ending = self._waiting.pop(which)
            self._under_way.add(which)
            self._service.core.tasks.start(self._finish(ending, which), f"end of transaction {ending.id}")

    async def _finish(self, ending: Ending, which: tuple[str, int]) -> None:
        try:
            await self._decided(ending)
            marked = [self._mark(partition, ending) for partition in sorted(ending.partitions)]
            end_offsets = EndOffsets(ending.producer_id, ending.is_commit)
            told = (self._service.groups.submit(group, end_offsets) for group in sorted(ending.groups))
            outcomes = await asyncio.gather(*told, return_exceptions=True) if ending.groups else []
            written = [await _durable(each) for each in marked]
            self._take_note(ending, written)
            for outcome in (*outcomes, *written):
                if isinstance(outcome, BaseException):
                    raise outcome
            await self._service.submit(ending.id, ending.completion)
        except GoQueueError:
            # A disk that is full or broken, which is reported where it happens; the next look tries again.
            return
        finally:
            self._under_way.discard(which)
            self._begin_some()

    def _take_note(self, ending: Ending, written: Sequence[GoQueueError | None]) -> None:
        """Remember the first partition that takes no marker, or that all of them have theirs."""
        self._obstacles.pop(ending.id, None)
        for partition, failure in zip(sorted(ending.partitions), written, strict=True):
            if failure is not None:
                self._obstacles[ending.id] = f"{partition.topic}-{partition.partition}: {failure.message}"
                return

    async def _decided(self, ending: Ending) -> None:
        """Wait until it is durable how the transaction ends: a crash must not bring back one that may end otherwise."""
        await self._service.machine(ending.id)

    def _mark(self, where: TopicPartition, ending: Ending) -> _Marked | GoQueueError | None:
        """Write the marker of one partition; a topic that is deleted needs none."""
        opened = self._service.topics.by_name.get(where.topic)
        if opened is None or where.partition >= len(opened.partitions):
            return None
        try:
            partition = opened.partition(where.partition)
            end = partition.end_transaction(ending.producer_id, ending.epoch, is_commit=ending.is_commit)
        except GoQueueError as error:
            return error
        return _Marked(partition, end)


async def _durable(marked: _Marked | GoQueueError | None) -> GoQueueError | None:
    """Wait until a marker is durable, however its partition is flushed; return what prevents that."""
    if not isinstance(marked, _Marked):
        return marked
    try:
        await marked.partition.flusher.durable(marked.end_offset)
    except GoQueueError as error:
        return error
    return None

"""Drives redrives: takes dead letters, publishes them again, and takes note of how far it has come, exactly once.

A batch is published in a transaction, which is committed under the number of the batch, as those of a sink are
(`machines/transactions/sinks`). In this order, each step durable before the next:

    stage      the copies are in the target, in an open transaction: nobody sees them
    plan       the redrive knows what the batch holds (`machines/redrives/machine`)
    commit     the coordinator of transactions knows the batch as committed, by its number: all see the copies
    advance    the redrive knows that, moves its position, and marks the letters

After a crash, or an answer that never came, there is one question: is the planned batch committed? If so, it is
advanced; if not, what was staged is aborted and the same letters are taken again. So nothing is lost, and nothing is
published twice. Numbers of batches are remembered for 30 days, so a broker may be away for that long between the last
two steps.

What goes wrong is tried again after a while, and told meanwhile. Letters that can never be published (their topic is
gone, or another target takes none of that size) are counted as failed, and the redrive goes on.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from goqueue.broker.admission import INSIDE
from goqueue.broker.events import RedriveEnded, RedriveStalled
from goqueue.broker.redrives.batches import Gathered, gather, sink_of, stage
from goqueue.broker.redrives.counters import RedriveTallies
from goqueue.broker.reminders import Reminders
from goqueue.broker.transactions.coordination import ANSWER_WITHIN_S, abort_transaction, find_transaction
from goqueue.broker.transactions.sinks import commit_batch, find_sink, forget_sink
from goqueue.errors import CoordinatorUnavailable, GoQueueError, UnknownTransaction
from goqueue.machines.redrives.values import Advance, Finish, PlanBatch, Redrive, RedriveBatch
from goqueue.machines.transactions.values import SinkStage
from goqueue.model.redrives import RedriveState
from goqueue.model.sinks import stage_id
from goqueue.runtime.partition import Partition

if TYPE_CHECKING:
    from goqueue.broker.redrives.service import RedriveService
    from goqueue.broker.topics.open_topic import OpenTopic

_BACKOFF_S = 1.0
_BACKOFF_MAX_S = 60.0
# So that a cancel, or a clock that was moved, is noticed within this time in any case.
_PAUSE_MAX_S = 5.0


class RedriveTrouble(NamedTuple):
    """What keeps a redrive from going on, and how often it has failed in a row."""

    error: str
    failures: int


@dataclass(slots=True)
class _Run:
    """A redrive in the hands of its task: when it goes on, unless it `is_hurried`, and with which of its partitions."""

    id: str
    nudged: asyncio.Event = field(default_factory=asyncio.Event)
    is_hurried: bool = False
    turn: int = 0
    failures: int = 0
    due: float = 0.0


class RedriveRunner:
    """Each redrive that is under way has one task."""

    def __init__(self, service: RedriveService) -> None:
        self.troubles: dict[str, RedriveTrouble] = {}
        self.tallies = RedriveTallies()
        self._service = service
        self._runs: dict[str, _Run] = {}
        self._reminders = Reminders()
        self._is_closed = False

    def look_at_all(self) -> None:
        """Begin to drive whatever is under way."""
        self._reminders.prune(self._service.core.clock.monotonic())
        for machine in self._service.machines:
            for job in machine.under_way:
                self._begin(job)

    def _begin(self, job: Redrive) -> None:
        if job.id not in self._runs and not self._is_closed:
            run = self._runs[job.id] = _Run(job.id)
            self.tallies.begin(job)
            self._service.core.tasks.start(self._drive(run), f"redrive {job.id}")

    def cancelled(self, redrive_id: str) -> None:
        """Have a redrive look at once whether it is to end."""
        run = self._runs.get(redrive_id)
        if run is not None:
            run.is_hurried = True
            run.nudged.set()

    def pass_time(self) -> None:
        """Have those that wait look at the clock."""
        for run in self._runs.values():
            run.nudged.set()

    def close(self) -> None:
        """End all tasks where they are; the next start goes on."""
        self._is_closed = True
        self.pass_time()

    async def _drive(self, run: _Run) -> None:
        try:
            while not self._is_closed:
                try:
                    if await self._step(run):
                        return
                    run.failures = 0
                    self.troubles.pop(run.id, None)
                except GoQueueError as error:
                    self._take_note(run, error)
                await self._pause(run)
        finally:
            del self._runs[run.id]
            self.tallies.end(run.id)
            self.troubles.pop(run.id, None)

    def _take_note(self, run: _Run, error: GoQueueError) -> None:
        run.failures += 1
        run.turn += 1
        now = self._service.core.clock.monotonic()
        run.due = now + min(_BACKOFF_S * 2 ** min(run.failures - 1, 10), _BACKOFF_MAX_S)
        job = self._find(run.id)
        if self._is_closed or job is None:
            return
        self.troubles[run.id] = RedriveTrouble(error.message, run.failures)
        if self._reminders.is_due(run.id, now):
            self._service.core.sink.emit(RedriveStalled(run.id, job.topic, str(error)))

    def _find(self, redrive_id: str) -> Redrive | None:
        jobs = (job for machine in self._service.machines for job in machine.under_way)
        return next((job for job in jobs if job.id == redrive_id), None)

    async def _pause(self, run: _Run) -> None:
        """Wait until the redrive is due, or hurried."""
        while not self._is_closed and not run.is_hurried:
            left = run.due - self._service.core.clock.monotonic()
            if left <= 0:
                break
            run.nudged.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left, _PAUSE_MAX_S)):
                    await run.nudged.wait()
        run.is_hurried = False

    async def _step(self, run: _Run) -> bool:
        """Go on by one batch; tell whether the redrive has ended."""
        machine = await self._service.machine(run.id)
        job = await self._settled(machine.find(run.id))
        self.tallies.note(job, self._service.topics.by_id)
        if job.state.is_end:
            return True
        if job.state is RedriveState.CANCELLING:
            return await self._finish(job, RedriveState.CANCELLED, "cancelled")
        topic = self._service.topics.by_id.get(job.topic_id)
        if topic is None:
            return await self._finish(job, RedriveState.FAILED, f"topic {job.topic!r} was deleted")
        if job.left == 0:
            return await self._finish(job, RedriveState.DONE, "as many letters as were asked for are moved")
        open_partitions = job.open_partitions
        if not open_partitions:
            return await self._finish(job, RedriveState.DONE, "all letters were looked at")
        await self._do_some(run, job, topic, open_partitions[run.turn % len(open_partitions)])
        return False

    async def _settled(self, job: Redrive) -> Redrive:
        """Return the redrive with the batch done that was planned, if it was done."""
        batch = job.batch
        if batch is None:
            return job
        if batch.moved:
            last = await find_sink(self._service.transactions, INSIDE, sink_of(job))
            if last is None or last.batch < batch.number:
                return job
        return await self._advance(job, batch)

    async def _do_some(self, run: _Run, job: Redrive, topic: OpenTopic, index: int) -> None:
        began = self._service.core.clock.monotonic()
        gathered = await gather(self._service, job, topic.partition(index))
        batch = RedriveBatch(job.number + 1, index, gathered.end, (), gathered.moves, gathered.error)
        if gathered.letters:
            batch = await self._move(job, batch, gathered)
        else:
            await self._service.submit(job.id, PlanBatch(job.id, batch))
        job = await self._advance(job, batch)
        self.tallies.note(job, self._service.topics.by_id)
        if job.terms.rate is not None and job.open_partitions and job.left != 0:
            run.due = began + len(batch.moved) / job.terms.rate

    async def _move(self, job: Redrive, batch: RedriveBatch, gathered: Gathered) -> RedriveBatch:
        """Publish letters again, and return the batch that says so."""
        sink = sink_of(job)
        try:
            staged = await stage(self._service, job, gathered.letters)
            moves = staged.moves + gathered.moves
            batch = RedriveBatch(
                batch.number, batch.partition, batch.end, staged.moved, moves, staged.error or batch.error
            )
            await self._service.submit(job.id, PlanBatch(job.id, batch))
            if staged.moved:
                await self._commit(
                    sink, batch.number, SinkStage(staged.writer.transactional_id, *staged.writer.identity)
                )
        except GoQueueError:
            # Those who read the target would wait for it.
            await self._abort(sink)
            raise
        return batch

    async def _commit(self, sink: str, number: int, staged: SinkStage) -> None:
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                await commit_batch(self._service.transactions, INSIDE, sink, number, [staged])
        except TimeoutError:
            obstacle = self._service.transactions.markers.obstacle_of(staged.id) or "it takes longer than usual"
            raise CoordinatorUnavailable(f"a batch is decided and cannot end: {obstacle}") from None

    async def _abort(self, sink: str) -> None:
        with suppress(GoQueueError):
            await abort_transaction(self._service.transactions, INSIDE, stage_id(sink, 0, 0))

    async def _require_aborted(self, sink: str) -> None:
        """Abort what is staged; raises what has kept that from being decided."""
        staged = stage_id(sink, 0, 0)
        if self._service.transactions.is_damaged(staged):
            # There is nobody who could abort it, and may never be.
            return
        with suppress(UnknownTransaction):
            try:
                await abort_transaction(self._service.transactions, INSIDE, staged)
            except GoQueueError:
                # Once it is decided, it ends by itself.
                if (await find_transaction(self._service.transactions, INSIDE, staged)).is_ongoing:
                    raise

    async def _advance(self, job: Redrive, batch: RedriveBatch) -> Redrive:
        topic = self._service.topics.by_id.get(job.topic_id)
        partition = None if topic is None else topic.partitions[batch.partition]
        start = partition.log.start_offset if isinstance(partition, Partition) else 0
        advanced: Redrive = await self._service.submit(job.id, Advance(job.id, batch.number, start))
        return advanced

    async def _finish(self, job: Redrive, state: RedriveState, reason: str) -> bool:
        # What is staged, planned or not, was not committed, and never will be. Those who read the target would wait.
        await self._require_aborted(sink_of(job))
        ended: Redrive = await self._service.submit(job.id, Finish(job.id, state, reason))
        self._service.core.sink.emit(RedriveEnded(job.id, job.topic, ended.state.value, ended.moves.moved))
        with suppress(GoQueueError):
            await forget_sink(self._service.transactions, INSIDE, sink_of(job))
        return True

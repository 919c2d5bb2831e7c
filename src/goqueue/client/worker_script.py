"""What a worker does when, decided once for both clients: it knows no socket, no thread and no task.

Messages come by `receive`, are started by `start`, end with `finish` and are settled by `settle`; `renew` keeps their
leases. Who carries it out asks what is to be done and tells what happened.

Invariants: no more handlers run than `concurrency`; no two of one lane; nothing is held that was not asked for; what is
said about a message carries the receipt of this delivery, so that nobody else's can be meant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from goqueue.client import queues
from goqueue.client.acts import Acts
from goqueue.client.conversation import Patience
from goqueue.client.problems import RequestTimedOut, ServerUnreachable, is_from_broker
from goqueue.client.queues import QueueMessage, Received, SettledMessage
from goqueue.client.worker_jobs import ACK, BATCH_MAX, RELEASE, Job, Outbox, Statement
from goqueue.client.worker_options import IN_HAND_MAX, WorkerLimits, WorkerOptions, check_topics
from goqueue.client.worker_sink import SafeSink, told, traced
from goqueue.client.worker_values import (
    FateUnknown,
    LeaseLost,
    LoopBlocked,
    Place,
    Reject,
    RequestFailed,
    Retry,
    WorkCut,
    WorkerDraining,
    WorkerStats,
    WorkFailed,
    WorkOverran,
    WorkRejected,
    WorkRetried,
    WorkWithheld,
)
from goqueue.errors import Conflict, Fenced, GoQueueError, Invalid, Unavailable, UnknownTopic
from goqueue.seams.clock import Clock
from goqueue.seams.entropy import Entropy

# What is held ahead can be started within this time.
_AHEAD_S = 1.0
_WEIGHT_OF_NEWS = 0.1
_PATIENCE = Patience(first_pause_s=0.1, pause_s_max=5.0)


class WorkerScript:
    """One worker."""

    def __init__(
        self, group: str, topics: Sequence[str], options: WorkerOptions, clock: Clock, entropy: Entropy
    ) -> None:
        self.limits = WorkerLimits.of(options)
        check_topics(topics)
        # Nothing more is begun or asked for; what was not begun is to be given back.
        self.is_stopping = False
        self._group = group
        self._topics = topics
        self._ordering = options.get("ordering")
        self._consumer = options.get("consumer") or f"worker-{entropy.uuid()}"
        self._sink = SafeSink(options.get("sink"))
        self._clock = clock
        self._entropy = entropy
        self._stats = WorkerStats()
        self._waiting: list[Job] = []
        self._running: list[Job] = []
        self._outbox = Outbox()
        self._handling_s: float | None = None
        self._failures: dict[str, int] = {}
        # Why the last receive has brought nothing.
        self._shortfall = ""
        # Which topics are not there, as far as it was told.
        self._missing = ""

    @property
    def stats(self) -> WorkerStats:
        """What was done so far."""
        return replace(self._stats, running=len(self._running), waiting=len(self._waiting))

    @property
    def running(self) -> Sequence[Job]:
        """The jobs whose handlers run."""
        return self._running

    @property
    def is_to_settle(self) -> bool:
        """Whether there is something to say to the broker."""
        return self._outbox.is_waiting

    @property
    def is_settled(self) -> bool:
        """Whether the broker knows all that there is to say."""
        return not len(self._outbox)

    # -- messages come

    def prepare(self) -> Acts[None]:
        """Have the group keep the order that is asked for."""
        if self._ordering is not None:
            yield queues.alter(self._group, ordering=self._ordering)

    def room(self) -> int:
        """Return how many messages to ask for; 0 if there are enough."""
        if self.is_stopping:
            return 0
        ahead = self._ahead()
        if len(self._waiting) > ahead // 2:
            # Half of them are left: it is better to ask for many at a time.
            return 0
        held = len(self._running) + len(self._waiting)
        return max(0, min(self.limits.concurrency + ahead - held, IN_HAND_MAX - held - len(self._outbox)))

    def receive(self, limit: int) -> Acts[None]:
        """Ask for so many messages, and keep what comes."""
        received: Received = yield queues.receive(
            self._group,
            self._topics,
            limit=limit,
            wait_s=self.limits.wait_s,
            visibility_s=self.limits.visibility_s,
            consumer=self._consumer,
            # Somebody may have deleted the group since it was given its order.
            ordering=self._ordering or "none",
        )
        now = self._clock.monotonic()
        self._stats.received += len(received.messages)
        self._waiting += [self._job(message, now) for message in received.messages]
        self._note_shortfall("" if received.messages else received.shortfall)
        if not received.messages:
            self._missing = ""

    def _note_shortfall(self, reason: str) -> None:
        """Tell why nothing comes, once; it would look as if there was nothing."""
        if reason and reason != self._shortfall:
            self._sink.emit(WorkWithheld(self._group, reason))
        self._shortfall = reason

    def _job(self, message: QueueMessage, now: float) -> Job:
        where = message.message
        is_in_lane = self._ordering is not None and where.key is not None
        lane = (where.topic, where.partition, where.key or b"") if is_in_lane else None
        return Job(message, lane, since=now, renew_at=now + self.limits.visibility_s / 3)

    def _ahead(self) -> int:
        """Return how many messages are worth holding that cannot be started at once."""
        if self._handling_s is None:
            return 0
        now = self._clock.monotonic()
        # Handlers that have not ended yet tell as well how long they take.
        ages = sum(now - job.since for job in self._running) / max(len(self._running), 1)
        slowest_s = max(self._handling_s, ages, 1e-6)
        return min(self.limits.ahead_max, int(self.limits.concurrency * _AHEAD_S / slowest_s))

    # -- handlers run

    def start(self) -> Job | None:
        """Return a job whose handler is to run now; None if none may."""
        if self.is_stopping or len(self._running) >= self.limits.concurrency:
            return None
        busy = {job.lane for job in self._running if job.lane is not None}
        for number, job in enumerate(self._waiting):
            if job.lane not in busy:
                del self._waiting[number]
                self._running.append(job)
                job.since = self._clock.monotonic()
                return job
        return None

    def finish(self, job: Job, error: BaseException | None) -> None:
        """Record how a handler has ended, and of what is to be said about it."""
        self._running.remove(job)
        took_s = self._clock.monotonic() - job.since
        before_s = took_s if self._handling_s is None else self._handling_s
        self._handling_s = before_s + (took_s - before_s) * _WEIGHT_OF_NEWS
        if not job.is_lost:
            self._outbox.put(self._statement(job, error), job)

    def cut(self, job: Job, *, goes_on: bool) -> None:
        """Record that the worker ends before a handler; if that goes on all the same, its lease runs out."""
        job.is_cut = True
        job.is_lost = job.is_lost or goes_on
        self._sink.emit(WorkCut(Place.of(job.message)))

    def _statement(self, job: Job, error: BaseException | None) -> Statement:
        place = Place.of(job.message)
        if error is None:
            return ACK
        if job.is_cut:
            # Whatever it raised, it was not to blame.
            return RELEASE
        if isinstance(error, Reject):
            self._sink.emit(WorkRejected(place, error.reason))
            return Statement("reject", error.reason)
        if isinstance(error, Retry):
            self._sink.emit(WorkRetried(place, error.reason, error.delay_s))
            return Statement("nack", error.reason, error.delay_s)
        reason = f"the handler took longer than {self.limits.lease_max_s:g} s" if job.is_given_up else told(error)
        trace = "" if job.is_given_up else traced(error)
        self._sink.emit(WorkFailed(place, reason, trace))
        return Statement("nack", reason)

    # -- leases are kept

    def until_due_s(self) -> float:
        """Return after how many seconds there is something to renew, or to give up."""
        now = self._clock.monotonic()
        third_s = self.limits.visibility_s / 3
        moments = [job.renew_at for job in self._held()]
        moments += [job.since + self.limits.lease_max_s for job in self._running if not job.is_given_up]
        return max(0.0, min([*moments, now + third_s]) - now)

    def woken(self, late_s: float) -> None:
        """Record how much later than that it was asked what is due; told if leases may have ended meanwhile."""
        if late_s > self.limits.visibility_s / 3:
            self._sink.emit(LoopBlocked(round(late_s, 3)))

    @property
    def _soon_s(self) -> float:
        """A time that makes little difference to a lease."""
        return self.limits.visibility_s / 12

    def give_up_overrun(self) -> Sequence[Job]:
        """Return the jobs whose handlers have run for too long: their leases are not renewed any more."""
        now = self._clock.monotonic()
        late = [job for job in self._running if not job.is_given_up and now - job.since >= self.limits.lease_max_s]
        for job in late:
            job.is_given_up = True
            self._stats.overrun += 1
            self._sink.emit(WorkOverran(Place.of(job.message), round(now - job.since, 3)))
        return late

    def due(self) -> Sequence[Job]:
        """Return the jobs whose leases are to be renewed now, or soon would be."""
        soon = self._clock.monotonic() + self._soon_s
        return [job for job in self._held() if job.renew_at <= soon][:BATCH_MAX]

    def renew(self, due: Sequence[Job]) -> Acts[Sequence[Job]]:
        """Renew leases; return the running jobs that have lost theirs. If that fails, all of them stay due."""
        now = self._clock.monotonic()
        visibility_s = self.limits.visibility_s
        fates = yield queues.extend(*(job.message.receipt_handle for job in due), timeout_s=visibility_s)
        lost = []
        for job, fate in zip(due, fates, strict=True):
            if isinstance(fate, SettledMessage):
                job.renew_at = now + visibility_s / 3
                self._stats.renewed += 1
            elif job in self._waiting:
                self._waiting.remove(job)
                self._lose(job, "renew")
            elif job in self._running:
                job.is_given_up = job.is_lost = True
                self._lose(job, "renew")
                lost.append(job)
        return lost

    def _held(self) -> list[Job]:
        return [*self._waiting, *(job for job in self._running if not job.is_given_up)]

    def give_back_what_waits(self) -> None:
        """Give back what has waited for a whole lease: others may have time for it."""
        now = self._clock.monotonic()
        for job in [job for job in self._waiting if now - job.since >= self.limits.visibility_s]:
            self._waiting.remove(job)
            self._outbox.put(RELEASE, job)

    def _lose(self, job: Job, act: str) -> None:
        self._stats.lost += 1
        self._sink.emit(LeaseLost(Place.of(job.message), act))

    # -- messages are settled

    def settle(self) -> Acts[None]:
        """Say what is next to be said; if that fails it is said again by the next one, unless it never can be."""
        statement, jobs = self._outbox.take()
        try:
            fates = yield statement.call(jobs)
        except GoQueueError as error:
            if is_final(error):
                self._outbox.settled(jobs)
                raise
            self._outbox.put_back(statement, jobs)
            for job in jobs:
                job.is_doubtful = job.is_doubtful or _is_doubt(error)
            raise
        self._outbox.settled(jobs)
        for job, fate in zip(jobs, fates, strict=True):
            if isinstance(fate, SettledMessage):
                self._count(statement)
            elif job.is_doubtful:
                self._stats.unknown += 1
                self._sink.emit(FateUnknown(Place.of(job.message), statement.act))
            else:
                self._lose(job, statement.act)

    def _count(self, statement: Statement) -> None:
        if statement.act == "ack":
            self._stats.done += 1
        elif statement.act == "nack":
            self._stats.retried += 1
        elif statement.act == "reject":
            self._stats.rejected += 1
        else:
            self._stats.released += 1

    # -- the end, and failures

    def give_back_unstarted(self) -> None:
        """Give back what was not begun. While a receive is under way, the broker would deliver it here again."""
        self._sink.emit(WorkerDraining(len(self._running), len(self._waiting)))
        for job in self._waiting:
            self._outbox.put(RELEASE, job)
        self._waiting.clear()

    def failed(self, act: str, error: GoQueueError) -> float:
        """Record that a request has failed; return how long to pause before the next one."""
        # It comes when a receive has waited for the topic in vain; messages of others should not wait for longer.
        is_missing = act == "receive" and isinstance(error, UnknownTopic)
        attempt = self._failures[act] = 1 if is_missing else self._failures.get(act, 0) + 1
        # The pause does not grow any more long before this.
        pause_s = _PATIENCE.pause_s(min(attempt, 20), self._entropy)
        if act in {"settle", "renew"}:
            # Leases run out meanwhile.
            pause_s = min(pause_s, max(self._soon_s, _PATIENCE.first_pause_s))
        self._stats.failed_requests += 1
        if not is_missing or str(error) != self._missing:
            self._sink.emit(RequestFailed(act, error, round(pause_s, 3)))
        if is_missing:
            self._missing = str(error)
        return pause_s

    def succeeded(self, act: str) -> None:
        """Record that a request was answered."""
        self._failures.pop(act, None)


def is_final(error: GoQueueError) -> bool:
    """Return whether a request that was refused so can never succeed; a topic may still come, and a proxy may go."""
    return isinstance(error, Invalid | Conflict | Fenced) and is_from_broker(error)


def is_unanswered(error: GoQueueError) -> bool:
    """Return whether no broker has answered a request; a proxy may have said that there is none."""
    is_lost = isinstance(error, RequestTimedOut | ServerUnreachable)
    return is_lost or (isinstance(error, Unavailable) and not is_from_broker(error))


def _is_doubt(error: GoQueueError) -> bool:
    return isinstance(error, RequestTimedOut) or (isinstance(error, ServerUnreachable) and error.is_sent)

"""The redrives of a broker, and the dead letters that they have published again.

| command       | needs                                  | effect                                                      |
|---------------|----------------------------------------|-------------------------------------------------------------|
| `Start`       | no redrive of the same topic           | a redrive begins; the oldest ended ones are forgotten       |
| `PlanBatch`   | it is running                          | the next batch is stored, and has not run yet               |
| `Advance`     | the batch of that number is planned    | it has run: the position moves, its dead letters are marked |
| `Cancel`      | it has not ended                       | no batch is planned any more                                |
| `Finish`      | it has not ended                       | it has ended; a batch that is only planned never runs       |
| `DropLetters` |                                        | all marks of the topic are gone; its redrive sets none      |

`Advance` and `Finish` do nothing if they are repeated. A redrive and the marks of its dead letters change by one write,
so position and marks always agree. All state is in keyed records of a compacted log: `redrive ID` holds a redrive as
JSON, and `redriven` has the keys of marks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never
from uuid import UUID

import msgspec
from msgspec.structs import replace

from goqueue.errors import Conflict, Corrupt, RedriveRunning, UnknownRedrive
from goqueue.machines.decision import Decision, KeyedRecord, Now, TicketReply
from goqueue.machines.redrives.redriven import KEY_PREFIX as MARK_PREFIX
from goqueue.machines.redrives.redriven import Redriven
from goqueue.machines.redrives.values import (
    Advance,
    Cancel,
    Command,
    DropLetters,
    Finish,
    PlanBatch,
    Redrive,
    RedriveBatch,
    RedriveSpan,
    Start,
)
from goqueue.model.redrives import RedriveState

ENDED_MAX = 200
"""Ended redrives that are remembered."""

_JOB_PREFIX = b"redrive "


class RedriveMachine:
    """All remembered redrives, and the dead letters that they have moved."""

    def __init__(self, ended_max: int = ENDED_MAX) -> None:
        self.redriven = Redriven()
        self._ended_max = ended_max
        self._jobs: dict[str, Redrive] = {}

    @property
    def all(self) -> Sequence[Redrive]:
        """All redrives, the newest first."""
        return sorted(self._jobs.values(), key=lambda job: (job.started_ms, job.id), reverse=True)

    @property
    def under_way(self) -> Sequence[Redrive]:
        """Redrives that have not ended."""
        return [job for job in self._jobs.values() if not job.state.is_end]

    def find(self, redrive_id: str) -> Redrive:
        """Return a redrive; UnknownRedrive if there is none."""
        job = self._jobs.get(redrive_id)
        if job is None:
            raise UnknownRedrive(
                f"there is no redrive {redrive_id[:100]!r}", hint=f"the last {ENDED_MAX} that ended are remembered"
            )
        return job

    def of_topic(self, topic_id: UUID) -> Redrive | None:
        """Return the redrive of a topic that is in progress."""
        return next((job for job in self.under_way if job.topic_id == topic_id), None)

    def is_independent(self, command: Command) -> bool:  # noqa: ARG002 - what a shard asks all machines
        """Return False: every command reads what others change."""
        return False

    def decide(self, command: Command, ticket: int, now: Now) -> Decision:
        """Return the decision on a command; raise what forbids it. Every reply is the redrive, if there is one."""
        if isinstance(command, DropLetters):
            return Decision([*self._orphaned(command.topic_id)], [TicketReply(ticket, None)])
        records: list[KeyedRecord] = []
        match command:
            case Start():
                job = self._start(command, now)
                records += self._forgotten()
            case PlanBatch():
                job = _planned(self.find(command.id), command.batch)
            case Advance():
                before = self.find(command.id)
                job = _advanced(before, command.number)
                if before.batch is not None and job is not before and not job.is_orphan:
                    records += self._marks(before, before.batch, command.start)
            case Cancel():
                job = self.find(command.id)
                if job.state is RedriveState.RUNNING:
                    job = replace(job, state=RedriveState.CANCELLING)
            case Finish():
                job = _finished(self.find(command.id), command, now)
            case _:
                assert_never(command)
        if job != self._jobs.get(job.id):
            records.append(KeyedRecord(_job_key(job.id), msgspec.json.encode(job)))
        return Decision(records, [TicketReply(ticket, job)])

    def _start(self, command: Start, now: Now) -> Redrive:
        other = self.of_topic(command.topic_id)
        if other is not None:
            raise RedriveRunning(
                f"redrive {other.id} of {other.topic} is {other.state}", hint="wait for its end, or cancel it"
            )
        if command.id in self._jobs:
            raise Conflict(f"there is a redrive {command.id} already")
        spans = {index: RedriveSpan(start, start, end) for index, (start, end) in sorted(command.spans.items())}
        return Redrive(
            id=command.id,
            topic=command.topic,
            topic_id=command.topic_id,
            terms=command.terms,
            spans=spans,
            started_ms=now.wall_ms,
        )

    def _forgotten(self) -> Iterator[KeyedRecord]:
        ended = sorted((job for job in self._jobs.values() if job.state.is_end), key=lambda job: job.ended_ms or 0)
        for job in ended[: max(len(ended) - self._ended_max + 1, 0)]:
            yield KeyedRecord(_job_key(job.id), None)

    def _orphaned(self, topic_id: UUID) -> Iterator[KeyedRecord]:
        yield from self.redriven.dropped(topic_id)
        for job in self.under_way:
            if job.topic_id == topic_id:
                yield KeyedRecord(_job_key(job.id), msgspec.json.encode(replace(job, is_orphan=True)))

    def _marks(self, job: Redrive, batch: RedriveBatch, start: int) -> Iterator[KeyedRecord]:
        marked = {each.key: each for each in self.redriven.marked(job.topic_id, batch.partition, batch.moved)}
        # Marks of dead letters that retention has removed are dropped, which may include new ones.
        gone = {each.key: each for each in self.redriven.passed(job.topic_id, batch.partition, start)}
        yield from {**marked, **gone}.values()

    def adopt(self, decision: Decision) -> None:
        """Apply a decision whose records are stored."""
        for record in decision.records:
            self.apply(record)

    def apply(self, record: KeyedRecord) -> None:
        """Apply a stored record; Corrupt if it is not a record of redrives."""
        if record.key.startswith(MARK_PREFIX):
            self.redriven.apply(record)
        elif not record.key.startswith(_JOB_PREFIX):
            raise Corrupt(f"there is a record {record.key!r} among redrives that this version does not know")
        elif record.value is None:
            self._jobs.pop(record.key.removeprefix(_JOB_PREFIX).decode(), None)
        else:
            try:
                job = msgspec.json.decode(record.value, type=Redrive)
            except msgspec.MsgspecError as error:
                raise Corrupt(f"the redrive {record.key!r} cannot be read: {error}") from error
            self._jobs[job.id] = job

    def revive(self, now: Now) -> None:
        """Do nothing: redrives have no deadlines."""

    def deadline_ms(self) -> int | None:
        """Return None: redrives have no deadlines."""
        return None

    def due(self, now: Now) -> Sequence[Command]:
        """Return nothing: redrives have no deadlines."""
        del now
        return ()

    def records(self) -> list[KeyedRecord]:
        """Return the records from which a new machine becomes equal to this one."""
        jobs = [KeyedRecord(_job_key(job.id), msgspec.json.encode(job)) for job in self._jobs.values()]
        return [*jobs, *self.redriven.records()]

    def validate(self) -> None:
        """Check the invariants; AssertionError if one is broken."""
        self.redriven.validate()
        topics = [job.topic_id for job in self.under_way]
        assert len(topics) == len(set(topics)), "letters are moved by one redrive at a time"
        for job in self._jobs.values():
            assert all(span.start <= span.position <= span.end for span in job.spans.values())
            assert job.batch is None or (not job.state.is_end and job.batch.number == job.number + 1)
            assert (job.ended_ms is not None) is job.state.is_end


def _planned(job: Redrive, batch: RedriveBatch) -> Redrive:
    if job.state is not RedriveState.RUNNING:
        raise Conflict(f"redrive {job.id} is {job.state}")
    span = job.spans[batch.partition]
    if batch.number != job.number + 1 or not span.position < batch.end <= span.end:
        raise Conflict(f"batch {batch.number} does not follow what redrive {job.id} has done")
    return replace(job, batch=batch)


def _advanced(job: Redrive, number: int) -> Redrive:
    batch = job.batch
    if batch is None or batch.number != number:
        return job
    span = job.spans[batch.partition]
    return replace(
        job,
        spans={**job.spans, batch.partition: replace(span, position=batch.end)},
        moves=job.moves + batch.moves,
        error=batch.error or job.error,
        number=number,
        batch=None,
    )


def _finished(job: Redrive, command: Finish, now: Now) -> Redrive:
    if job.state.is_end:
        return job
    is_cancelled = job.state is RedriveState.CANCELLING
    state = RedriveState.CANCELLED if is_cancelled else command.state
    return replace(job, state=state, reason=command.reason, batch=None, ended_ms=now.wall_ms)


def _job_key(redrive_id: str) -> bytes:
    return _JOB_PREFIX + redrive_id.encode()

"""Sinks as Spark drives them: tasks stage rows in transactions of their own, a driver commits those of a batch at once.

A driver that has no answer asks again, or lets its tasks stage everything once more. Two drivers may share a sink: then
each is the other's zombie, and both go on from the same checkpoint. Whatever happens, of each batch one try of each
task is committed, all of them by one request, or none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from goqueue.broker.broker import Broker
from goqueue.broker.transactions import sinks
from goqueue.machines.transactions.sinks import BatchCommit
from goqueue.machines.transactions.values import SinkStage
from goqueue.model.sinks import stage_id
from tests.simulation.group_calls import CALLER
from tests.simulation.group_history import History
from tests.simulation.group_life import Life
from tests.simulation.group_people import STABLE
from tests.simulation.txn_calls import InitProducer, ReadAll, Send, Sent
from tests.simulation.txn_producers import values_of


@dataclass(frozen=True, slots=True)
class StageRows:
    """Publish rows of a try; `batch` is what they belong to."""

    sink: str
    batch: int
    stage: SinkStage
    send: Send

    async def perform(self, broker: Broker) -> Sent:
        return await self.send.perform(broker)


@dataclass(frozen=True, slots=True)
class CommitStages:
    """Commit a batch."""

    sink: str
    batch: int
    stages: tuple[SinkStage, ...]

    async def perform(self, broker: Broker) -> BatchCommit:
        return await sinks.commit_batch(broker.transactions, CALLER, self.sink, self.batch, self.stages)


@dataclass(slots=True)
class Checkpoint:
    """Which batch is next, as drivers remember it."""

    batch: int = 0


@dataclass(slots=True)
class SinkDriver:
    """One driver and its tasks; `doubt` is the commit that it has no answer to."""

    name: str
    sink: str
    checkpoint: Checkpoint
    batch: int = 0
    attempt: int = 0
    tries: int = 0
    doubt: CommitStages | None = None
    is_gone: bool | None = None
    sequences: dict[tuple[str, int], int] = field(default_factory=dict)

    async def run(self, life: Life) -> None:
        """Do one batch after the other."""
        if life.is_settling and self.is_gone is None:
            self.is_gone = life.entropy.chance(0.4)
        if life.entropy.chance(0.5):
            # A new process: it goes by the checkpoint, and its tasks are counted anew.
            self.doubt, self.batch, self.attempt = None, self.checkpoint.batch, 0
        while not life.is_over and not self.is_gone:
            if life.is_settling and self.doubt is None:
                await life.pause(0.5)
                continue
            request = self.doubt or await self._stage_all(life)
            if request is not None:
                await self._commit(life, request)
            await life.pause(life.entropy.choice([0.02, 0.2, 1.0]))

    async def _commit(self, life: Life, request: CommitStages) -> None:
        self.doubt = request
        call = await life.ask(self.name, request)
        if call.is_done:
            self.doubt = None
            self.batch = request.batch + 1
            self.checkpoint.batch = max(self.checkpoint.batch, self.batch)
        elif not call.is_in_doubt or life.entropy.chance(0.3):
            # The batch is tried again, by tasks that know nothing of this.
            self.doubt = None
        if life.entropy.chance(0.3):
            life.later(life.entropy.choice([0.05, 2.0]), self.name, request)

    async def _stage_all(self, life: Life) -> CommitStages | None:
        """Let all tasks of the batch stage; None if one of them cannot."""
        stages: list[SinkStage] = []
        for task in range(1 + life.entropy.below(3)):
            if life.entropy.chance(0.1):
                # An attempt that was given up, and whose rows are there all the same.
                await self._stage(life, task)
            stage = await self._stage(life, task)
            if stage is None:
                return None
            stages.append(stage)
        return CommitStages(self.sink, self.batch, tuple(stages))

    async def _stage(self, life: Life, task: int) -> SinkStage | None:
        self.attempt += 1
        self.tries += 1
        name = stage_id(self.sink, task, self.attempt % 10)
        timeout_ms = life.entropy.choice([500, 2_000, 5_000, 5_000])
        taken = await life.ask(self.name, InitProducer(name, timeout_ms))
        if not taken.is_done:
            return None
        stage = SinkStage(name, taken.answer.producer_id, taken.answer.epoch)
        places = life.partitions(*STABLE)
        for place in sorted({life.entropy.choice(places) for _ in range(2)}) if places else ():
            values = values_of(f"{self.name}.{self.tries}", life, 1 + life.entropy.below(2))
            send = Send(f"{self.name}.{self.tries}", name, stage.identity, place, 0, values, adds_partition=True)
            if not (await life.ask(self.name, StageRows(self.sink, self.batch, stage, send))).is_done:
                return None
        return stage if places else None


def check_sinks(history: History) -> list[str]:
    """Return what is wrong with the batches of sinks, by what there is in the end."""
    committed = {
        value for call, request in history.of(ReadAll) if request.is_committed_only for _, value in call.answer.records
    }
    seen: dict[tuple[str, int], set[SinkStage]] = {}
    faults = []
    for call, rows in history.of(StageRows):
        there = committed.intersection(rows.send.values)
        if there and call.is_done and len(there) < len(rows.send.values):
            faults.append(f"of {rows.send.values} there is {there} only")
        if there:
            seen.setdefault((rows.sink, rows.batch), set()).add(rows.stage)
    return [*faults, *_faults_of_batches(history, seen)]


def _faults_of_batches(history: History, seen: dict[tuple[str, int], set[SinkStage]]) -> Iterator[str]:
    asked: dict[tuple[str, int], list[set[SinkStage]]] = {}
    told: set[tuple[str, int]] = set()
    for call, request in history.of(CommitStages):
        key = request.sink, request.batch
        asked.setdefault(key, []).append(set(request.stages))
        if call.is_done:
            told.add(key)
    for key in sorted(seen.keys() | told):
        found = seen.get(key, set())
        if found and found not in asked.get(key, []):
            yield f"of batch {key} there is {sorted(found)}, which nobody has asked for: {asked.get(key)}"
        if key in told and not found:
            yield f"of batch {key} there is nothing, though it was committed"

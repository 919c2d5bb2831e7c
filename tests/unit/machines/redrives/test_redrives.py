"""The machine of redrives: what a job does, step by step, and which letters it has moved."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from goqueue.errors import Conflict, Corrupt, GoQueueError, RedriveRunning, UnknownRedrive
from goqueue.machines.decision import KeyedRecord, Now
from goqueue.machines.redrives.machine import RedriveMachine
from goqueue.machines.redrives.values import (
    Advance,
    Cancel,
    Command,
    DropLetters,
    Finish,
    Moves,
    PlanBatch,
    Redrive,
    RedriveBatch,
    RedriveTerms,
    Start,
)
from goqueue.model.redrives import RedriveState
from tests.unit.machines.compaction import compactions

TOPIC, OTHER = UUID(int=1), UUID(int=2)


class Story:
    """A machine with its log."""

    def __init__(self) -> None:
        self.machine = RedriveMachine(ended_max=2)
        self.stored: list[KeyedRecord] = []
        self.now_ms = 0

    def tell(self, command: Command) -> Any:
        """Carry out a command; return its answer."""
        self.now_ms += 1
        decision = self.machine.decide(command, 1, Now(self.now_ms, 0))
        self.stored += decision.records
        self.machine.adopt(decision)
        self.machine.validate()
        return decision.answers[0].reply

    def start(self, name: str, topic: UUID = TOPIC, **terms: Any) -> Redrive:
        """Begin a redrive of two partitions with ten letters each."""
        job: Redrive = self.tell(Start(name, "orders.dlq", topic, RedriveTerms(**terms), {0: (0, 10), 1: (5, 10)}))
        return job

    def move(self, name: str, partition: int, end: int, *offsets: int) -> Redrive:
        """Plan a batch and say that it was done."""
        number = self.machine.find(name).number + 1
        self.tell(PlanBatch(name, RedriveBatch(number, partition, end, offsets, Moves(moved=len(offsets)))))
        job: Redrive = self.tell(Advance(name, number, 0))
        return job


@pytest.fixture
def story() -> Story:
    return Story()


def test_a_redrive_goes_through_its_letters_and_ends(story: Story) -> None:
    job = story.start("a")
    assert (job.state, job.open_partitions, job.left) == (RedriveState.RUNNING, [0, 1], None)
    assert story.move("a", 0, 10, 3, 4).open_partitions == [1]
    job = story.move("a", 1, 10)
    assert (job.open_partitions, job.moves, job.number) == ([], Moves(moved=2), 2)
    ended = story.tell(Finish("a", RedriveState.DONE, "all"))
    assert (ended.state, ended.reason, ended.ended_ms) == (RedriveState.DONE, "all", story.now_ms)
    # Once more changes nothing.
    assert story.tell(Finish("a", RedriveState.FAILED, "no")) == ended
    assert story.tell(Cancel("a")) == ended


def test_what_is_planned_has_not_happened(story: Story) -> None:
    story.start("a")
    planned = story.tell(PlanBatch("a", RedriveBatch(1, 0, 10, (3,), Moves(moved=1))))
    assert (planned.moves, planned.open_partitions) == (Moves(), [0, 1])
    assert not story.machine.redriven.has(TOPIC, 0, 3)
    # Another plan takes its place; what was done is that one.
    story.tell(PlanBatch("a", RedriveBatch(1, 0, 5, (4,), Moves(moved=1))))
    story.tell(Advance("a", 1, 0))
    assert [story.machine.redriven.has(TOPIC, 0, offset) for offset in (3, 4)] == [False, True]
    assert story.tell(Advance("a", 1, 0)).moves == Moves(moved=1)


def test_a_plan_follows_what_was_done(story: Story) -> None:
    story.start("a")
    for batch in (RedriveBatch(2, 0, 10), RedriveBatch(1, 0, 11), RedriveBatch(1, 0, 0)):
        with pytest.raises(Conflict):
            story.tell(PlanBatch("a", batch))
    story.tell(Cancel("a"))
    with pytest.raises(Conflict):
        story.tell(PlanBatch("a", RedriveBatch(1, 0, 10)))


def test_a_batch_that_was_done_counts_though_the_redrive_is_to_end(story: Story) -> None:
    story.start("a")
    story.tell(PlanBatch("a", RedriveBatch(1, 0, 10, (3,), Moves(moved=1))))
    story.tell(Cancel("a"))
    story.tell(Advance("a", 1, 0))
    ended = story.tell(Finish("a", RedriveState.DONE, "cancelled"))
    assert (ended.state, ended.moves) == (RedriveState.CANCELLED, Moves(moved=1))


def test_letters_belong_to_one_redrive_at_a_time(story: Story) -> None:
    story.start("a")
    with pytest.raises(RedriveRunning):
        story.start("b")
    story.start("b", OTHER)
    story.tell(Finish("a", RedriveState.DONE, ""))
    story.start("c")
    assert [job.id for job in story.machine.all] == ["c", "b", "a"]


def test_only_so_many_that_have_ended_are_remembered(story: Story) -> None:
    for name in "abcd":
        story.start(name)
        story.move(name, 0, 10, ord(name) - 97)
        story.tell(Finish(name, RedriveState.DONE, ""))
    assert [job.id for job in story.machine.all] == ["d", "c"]
    with pytest.raises(UnknownRedrive):
        story.machine.find("a")
    # What they have moved is remembered nevertheless.
    assert story.machine.redriven.count(TOPIC, 0, 0) == 4


def test_letters_that_are_gone_are_forgotten(story: Story) -> None:
    story.tell(Start("a", "t", TOPIC, RedriveTerms(), {0: (0, 100_000)}))
    story.move("a", 0, 50_000, 1, 5000, 40_000)
    assert story.machine.redriven.count(TOPIC, 0, 5000) == 2
    story.tell(PlanBatch("a", RedriveBatch(2, 0, 60_000, (50_000,), Moves(moved=1))))
    story.tell(Advance("a", 2, 20_000))
    assert story.machine.redriven.count(TOPIC, 0, 0) == 2
    story.tell(DropLetters(OTHER))
    assert story.machine.redriven.count(TOPIC, 0, 0) == 2
    story.tell(DropLetters(TOPIC))
    assert story.machine.redriven.count(TOPIC, 0, 0) == 0


def test_a_batch_that_is_done_when_its_letters_are_gone_leaves_no_marks(story: Story) -> None:
    story.start("a")
    story.tell(PlanBatch("a", RedriveBatch(1, 0, 10, (3, 4), Moves(moved=2))))
    story.tell(DropLetters(TOPIC))
    assert story.tell(Advance("a", 1, 0)).moves == Moves(moved=2)
    story.tell(Finish("a", RedriveState.FAILED, "deleted"))
    assert story.machine.redriven.records() == []


def test_the_same_comes_from_its_records(story: Story) -> None:
    story.start("a", limit=5, target="orders")
    story.move("a", 0, 4, 0, 3)
    story.tell(PlanBatch("a", RedriveBatch(2, 0, 10, (7,), Moves(moved=1))))
    story.start("b", OTHER)
    story.tell(Cancel("b"))
    for left in compactions(story.stored):
        again = RedriveMachine()
        for record in left:
            again.apply(record)
        again.validate()
        assert sorted(again.records()) == sorted(story.machine.records())


@pytest.mark.parametrize("key", [b"redrive a", b"redriven x 0 0", b"something"])
def test_a_record_that_cannot_be_read_is_reported(key: bytes) -> None:
    with pytest.raises(Corrupt):
        RedriveMachine().apply(KeyedRecord(key, b"{"))


def test_what_is_not_there_cannot_be_changed(story: Story) -> None:
    commands: list[Command] = [PlanBatch("x", RedriveBatch(1, 0, 1)), Advance("x", 1, 0), Cancel("x")]
    for command in commands:
        with pytest.raises(GoQueueError, match="there is no redrive"):
            story.tell(command)

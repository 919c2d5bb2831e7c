"""What a worker decides, step by step, on a clock that the test moves: what it asks for, renews, settles, gives up."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from goqueue.client import Message, QueueMessage, Received, SettledMessage
from goqueue.client.acts import Acts
from goqueue.client.calls import Call
from goqueue.client.problems import ServerUnreachable, error_of_reply
from goqueue.client.worker_jobs import Job
from goqueue.client.worker_options import WorkerOptions
from goqueue.client.worker_script import WorkerScript
from goqueue.client.worker_values import LeaseLost, RequestFailed, WorkOverran
from goqueue.errors import GoQueueError, StaleReceipt, UnknownTopic
from goqueue.testing import ManualClock, RecordingSink, SeededEntropy

DONE = SettledMessage("done", None)


class Stage:
    """A worker, its clock, and a broker that answers as the test says."""

    def __init__(self, **options: Any) -> None:
        self.clock = ManualClock()
        self.sink = RecordingSink()
        given: WorkerOptions = {"sink": self.sink, **options}  # type: ignore[typeddict-item]
        self.script = WorkerScript("billing", ["orders"], given, self.clock, SeededEntropy(1))
        self._next = 0

    def ask(self, acts: Acts[Any]) -> dict[str, Any] | None:
        """Return what the next call of acts says, as JSON; None if there is none."""
        try:
            call: Call[Any] = acts.send(None)
        except StopIteration:
            return None
        return {"path": call.path, **msgspec.json.decode(call.body or b"{}")}

    def answer(self, acts: Acts[Any], outcome: object) -> Any:
        """Answer the call, which is the last one; return what the acts return."""
        with pytest.raises(StopIteration) as ended:
            acts.send(outcome)
        return ended.value.value

    def fail(self, acts: Acts[Any], error: GoQueueError) -> None:
        """Have the call fail."""
        with pytest.raises(type(error)):
            acts.throw(error)

    def bring(self, *keys: str | None) -> None:
        """Have a receive bring one message for each key."""
        acts = self.script.receive(len(keys))
        self.ask(acts)
        self.answer(acts, Received([self._message(key) for key in keys], ""))

    def _message(self, key: str | None) -> QueueMessage:
        self._next += 1
        text = None if key is None else key.encode()
        return QueueMessage(Message("orders", 0, self._next, 0, text, b"", ()), f"receipt-{self._next}", 1, 0)

    def start_all(self) -> list[Job]:
        """Start as many handlers as may run."""
        started = []
        while job := self.script.start():
            started.append(job)
        return started

    def settle(self, *fates: SettledMessage | GoQueueError) -> dict[str, Any] | None:
        """Have what is next to be said answered; return what it was."""
        acts = self.script.settle()
        said = self.ask(acts)
        self.answer(acts, fates)
        return said

    def renew(self, *fates: SettledMessage | GoQueueError) -> tuple[list[str], list[Job]]:
        """Have due leases renewed; return their receipts and the jobs that were lost."""
        self.script.give_back_what_waits()
        due = self.script.due()
        if not due:
            return [], []
        acts = self.script.renew(due)
        said = self.ask(acts) or {}
        return said["receipt_handles"], list(self.answer(acts, fates))


def test_the_first_receive_asks_for_what_can_be_started_at_once() -> None:
    assert Stage(concurrency=7).script.room() == 7


def test_quick_handlers_have_messages_waiting_for_them() -> None:
    stage = Stage(concurrency=2, ahead_max=50)
    stage.bring(None, None)
    for job in stage.start_all():
        stage.clock.advance(0.05)
        stage.script.finish(job, None)
    # Two handlers of 50 and 100 ms begin some 38 messages within a second.
    assert 20 < stage.script.room() - 2 <= 40


def test_slow_handlers_have_nothing_waiting_for_them() -> None:
    stage = Stage(concurrency=2)
    stage.bring(None, None)
    first, _ = stage.start_all()
    stage.clock.advance(10)
    stage.script.finish(first, None)
    assert stage.script.room() == 1


def test_a_handler_that_hangs_counts_as_slow_before_it_has_ended() -> None:
    stage = Stage(concurrency=2)
    stage.bring(None, None)
    for job in stage.start_all():
        stage.script.finish(job, None)
    stage.settle(DONE, DONE)
    stage.bring(None)
    stage.start_all()
    assert stage.script.room() == 101
    stage.clock.advance(20)
    assert stage.script.room() == 1


def test_half_of_what_waits_is_used_up_before_more_is_asked_for() -> None:
    stage = Stage(concurrency=1, ahead_max=10)
    stage.bring(None)
    (job,) = stage.start_all()
    stage.script.finish(job, None)
    stage.bring(*[None] * 11)
    (job,) = stage.start_all()
    rooms = []
    for _ in range(6):
        rooms.append(stage.script.room())
        stage.script.finish(job, None)
        (job,) = stage.start_all()
    assert rooms == [0, 0, 0, 0, 0, 5]


def test_no_more_is_held_than_a_consumer_may_have() -> None:
    stage = Stage(concurrency=990)
    stage.bring(*[None] * 990)
    for job in stage.start_all():
        stage.script.finish(job, None)
    # None of them is settled yet.
    assert stage.script.room() == 10


def test_many_acks_are_one_request() -> None:
    stage = Stage(concurrency=3)
    stage.bring(None, None, None)
    for job in stage.start_all():
        stage.script.finish(job, None)
    said = stage.settle(DONE, DONE, DONE)
    assert said == {"path": "/v1/messages/ack", "receipt_handles": ["receipt-1", "receipt-2", "receipt-3"]}
    assert (stage.script.stats.done, stage.script.is_to_settle) == (3, False)


def test_messages_of_a_key_run_one_at_a_time() -> None:
    stage = Stage(ordering="key")
    stage.bring("a", "a", "b", None, None)
    started = stage.start_all()
    assert [job.message.receipt_handle for job in started] == ["receipt-1", "receipt-3", "receipt-4", "receipt-5"]
    stage.script.finish(started[0], None)
    assert [job.message.receipt_handle for job in stage.start_all()] == ["receipt-2"]


def test_leases_are_renewed_after_a_third_of_their_time() -> None:
    stage = Stage(concurrency=1, visibility_s=30)
    stage.bring(None, None)
    stage.start_all()
    assert stage.script.until_due_s() == 10
    assert stage.renew() == ([], [])
    stage.clock.advance(10)
    assert stage.script.until_due_s() == 0
    leased = SettledMessage("leased", 1)
    # What waits is renewed as well as what runs.
    assert stage.renew(leased, leased) == (["receipt-2", "receipt-1"], [])
    assert stage.script.until_due_s() == 10
    assert stage.script.stats.renewed == 2


def test_leases_that_are_due_soon_are_renewed_with_those_that_are_due() -> None:
    stage = Stage(concurrency=2, visibility_s=30)
    stage.bring(None)
    stage.clock.advance(2)
    stage.bring(None)
    stage.start_all()
    stage.clock.advance(8)
    assert stage.renew(SettledMessage("leased", 1), SettledMessage("leased", 1))[0] == ["receipt-1", "receipt-2"]


def test_a_renewal_that_fails_is_tried_again_soon() -> None:
    stage = Stage(visibility_s=30)
    stage.bring(None)
    stage.start_all()
    stage.clock.advance(10)
    acts = stage.script.renew(stage.script.due())
    stage.ask(acts)
    stage.fail(acts, ServerUnreachable("nobody"))
    # As soon as the pause is over.
    assert stage.script.until_due_s() == 0
    assert len(stage.script.due()) == 1


def test_what_has_waited_for_a_whole_lease_is_given_back() -> None:
    stage = Stage(concurrency=1, visibility_s=30)
    stage.bring(None, None)
    stage.start_all()
    leased = SettledMessage("leased", 1)
    for _ in range(2):
        stage.clock.advance(10)
        stage.renew(leased, leased)
    stage.clock.advance(10)
    assert stage.renew(leased)[0] == ["receipt-1"]
    said = stage.settle(SettledMessage("ready", None))
    assert said == {"path": "/v1/messages/visibility", "receipt_handles": ["receipt-2"], "timeout": 0}
    assert stage.script.stats.released == 1


def test_a_lease_that_is_lost_is_told_and_nothing_more_is_said_about_its_message() -> None:
    stage = Stage(concurrency=1)
    stage.bring(None)
    (job,) = stage.start_all()
    stage.clock.advance(10)
    assert stage.renew(StaleReceipt("gone")) == (["receipt-1"], [job])
    stage.script.finish(job, None)
    assert not stage.script.is_to_settle
    assert [event.act for event in stage.sink.of(LeaseLost)] == ["renew"]


def test_a_renewal_that_meets_an_ack_is_no_loss() -> None:
    stage = Stage(concurrency=1)
    stage.bring(None)
    (job,) = stage.start_all()
    stage.clock.advance(10)
    acts = stage.script.renew(stage.script.due())
    stage.ask(acts)
    stage.script.finish(job, None)
    stage.settle(DONE)
    assert stage.answer(acts, [StaleReceipt("gone")]) == []
    assert (stage.script.stats.done, stage.script.stats.lost) == (1, 0)


def test_a_lease_is_not_renewed_for_ever() -> None:
    stage = Stage(visibility_s=30, lease_max_s=40)
    stage.bring(None)
    (job,) = stage.start_all()
    for _ in range(3):
        stage.clock.advance(10)
        assert stage.script.give_up_overrun() == []
        assert stage.renew(SettledMessage("leased", 1))[0] == ["receipt-1"]
    stage.clock.advance(10)
    assert stage.script.give_up_overrun() == [job]
    assert stage.renew() == ([], [])
    assert stage.script.give_up_overrun() == []
    assert [event.seconds for event in stage.sink.of(WorkOverran)] == [40]


def test_what_could_not_be_said_is_said_again_before_anything_else() -> None:
    stage = Stage(concurrency=2)
    stage.bring(None, None)
    first, second = stage.start_all()
    stage.script.finish(first, None)
    acts = stage.script.settle()
    stage.ask(acts)
    stage.script.finish(second, ValueError("bad"))
    assert not stage.script.is_settled
    stage.fail(acts, ServerUnreachable("nobody"))
    said = stage.settle(DONE)
    assert said is not None
    assert said["receipt_handles"] == ["receipt-1"]
    said = stage.settle(SettledMessage("waiting", 1))
    assert said == {"path": "/v1/messages/nack", "receipt_handles": ["receipt-2"], "reason": "ValueError: bad"}
    assert stage.script.is_settled


@pytest.mark.parametrize(("body", "is_said_again"), [(b"too large", True), (b'{"code": "body_too_large"}', False)])
def test_only_a_broker_can_refuse_what_is_said_for_good(body: bytes, *, is_said_again: bool) -> None:
    stage = Stage()
    stage.bring(None)
    (job,) = stage.start_all()
    stage.script.finish(job, None)
    acts = stage.script.settle()
    stage.ask(acts)
    stage.fail(acts, error_of_reply(413, body))
    assert stage.script.is_to_settle is is_said_again


def test_pauses_between_failures_grow_until_something_succeeds() -> None:
    stage = Stage()
    pauses = [stage.script.failed("receive", ServerUnreachable("nobody")) for _ in range(30)]
    assert pauses[0] < 0.11
    assert 2.5 <= pauses[-1] <= 5
    stage.script.succeeded("receive")
    assert stage.script.failed("receive", ServerUnreachable("nobody")) < 0.11
    assert len(stage.sink.of(RequestFailed)) == 31


@pytest.mark.parametrize("act", ["settle", "renew"])
def test_a_pause_that_uses_up_leases_is_a_twelfth_of_one_at_most(act: str) -> None:
    stage = Stage(visibility_s=6)
    pauses = [stage.script.failed(act, ServerUnreachable("nobody")) for _ in range(30)]
    assert pauses[0] < 0.11
    assert pauses[-1] == 0.5


def test_topics_that_are_not_there_are_told_once_and_make_no_pause_longer() -> None:
    stage = Stage()

    def tell(text: str) -> float:
        return stage.script.failed("receive", UnknownTopic(text))

    assert max(tell("no a") for _ in range(30)) < 0.11
    stage.bring(None)
    assert tell("no a") < 0.11
    assert [str(each.error) for each in stage.sink.of(RequestFailed)] == ["no a"]
    tell("no b")
    assert [str(each.error) for each in stage.sink.of(RequestFailed)] == ["no a", "no b"]
    # Nothing has come, and nothing is said about topics: all of them are there.
    stage.bring()
    tell("no b")
    assert len(stage.sink.of(RequestFailed)) == 3
    assert stage.script.stats.failed_requests == 33


def test_a_worker_that_stops_starts_and_asks_for_nothing_more() -> None:
    stage = Stage(concurrency=1)
    stage.bring(None, None)
    stage.start_all()
    stage.script.is_stopping = True
    assert stage.script.room() == 0
    assert stage.script.start() is None
    stage.script.give_back_unstarted()
    said = stage.settle(SettledMessage("ready", None))
    assert said is not None
    assert said["receipt_handles"] == ["receipt-2"]

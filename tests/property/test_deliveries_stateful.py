"""Queue groups beside a naive model, under restarts, lost messages, compaction of their log and a clock that jumps."""

from __future__ import annotations

from uuid import UUID

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from typing_extensions import override

from goqueue.errors import StaleReceipt
from goqueue.machines.decision import KeyedRecord, Now
from goqueue.machines.queues.commands import (
    BeginTopic,
    Command,
    Configure,
    MarkDeadLettered,
    Offer,
    Receipt,
    Receive,
    Retreat,
    Seek,
    Settle,
    Taker,
    claims_of,
)
from goqueue.machines.queues.machine import Leased, QueueMachine
from goqueue.machines.queues.steps import Settled
from goqueue.machines.queues.values import AckType, LetterPlace
from goqueue.machines.queues.window import QueueWindow
from goqueue.model.queue_settings import Ordering, QueueSettings
from goqueue.model.topic import TopicPartition
from tests.property.delivery_model import Message, NaiveQueue
from tests.unit.machines.compaction import compactions

GROUP = "billing"
PARTITIONS = (TopicPartition("orders", 0), TopicPartition("orders", 1))
TOPIC_ID = UUID(int=7)
RETRIES = 2
IN_FLIGHT_MAX = 40
VISIBILITY_MS = 30_000

partitions = st.sampled_from(PARTITIONS)
consumers = st.sampled_from(["ann", "bob"])
keys = st.sampled_from([None, b"a", b"b", b"c"])
shares = st.sampled_from([0.0, 0.1, 0.3, 1.0])
limits = st.integers(1, 60)
asked = st.lists(st.tuples(consumers, limits), min_size=1, max_size=3)
messages = st.lists(st.tuples(keys, st.sampled_from([0, 0, 0, 1, 300])), max_size=20)
verdicts = st.sampled_from(AckType)
letter_places = st.sampled_from([None, (), (LetterPlace(TOPIC_ID, 0, 5),), (LetterPlace(TOPIC_ID, 1, 0),) * 2])
delays = st.sampled_from([0, 1_000, 20_000, 90_000])


class Queues(RuleBasedStateMachine):
    """A machine that is offered what lies in two partitions, of which the model knows every message."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = QueueMachine()
        self.log: list[KeyedRecord] = []
        self.now = Now(1_700_000_000_000, 0)
        self.models = {each: NaiveQueue(RETRIES) for each in PARTITIONS}
        self.ends = dict.fromkeys(PARTITIONS, 0)
        self.starts = dict.fromkeys(PARTITIONS, 0)
        self.leases = 0
        self.receipts: list[Receipt] = []
        self.letters: dict[TopicPartition, tuple[LetterPlace, ...]] = dict.fromkeys(PARTITIONS, ())
        self.is_ordered = False

    @initialize(is_ordered=st.booleans(), offset=st.sampled_from([0, 3, 250]))
    def begin(self, is_ordered: bool, offset: int) -> None:
        self.set_ordering(Ordering.KEY if is_ordered else Ordering.NONE)
        self.ends = dict.fromkeys(PARTITIONS, offset)
        self.starts = dict(self.ends)
        self.say(BeginTopic(GROUP, TOPIC_ID, self.starts))

    def set_ordering(self, ordering: Ordering) -> None:
        self.is_ordered = ordering is Ordering.KEY
        self.say(
            Configure(
                GROUP, QueueSettings(ordering=ordering, retries=RETRIES, in_flight_max=IN_FLIGHT_MAX, breaker_ratio=1)
            )
        )

    @rule(is_done=st.sampled_from([False, False, False, True]))
    def give_up_order(self, is_done: bool) -> None:
        """From now on nobody waits for others of their key; not in most lives."""
        if is_done:
            self.set_ordering(Ordering.NONE)

    def say(self, command: Command) -> object:
        """Carry out a command, and what time has brought before it, as a shard does."""
        for due in [*self.machine.due(self.now), command]:
            decision = self.machine.decide(due, 1, self.now)
            self.log += decision.records
            self.machine.adopt(decision)
        return dict(decision.answers).get(1)

    def window(self, partition: TopicPartition) -> QueueWindow:
        return self.machine.require(GROUP).windows[partition]

    def publish(self, partition: TopicPartition, published: list[tuple[bytes | None, int]]) -> None:
        """Messages come, some behind a gap: what was compacted away, or aborted."""
        for key, gap in published:
            self.ends[partition] += gap
            self.models[partition].messages[self.ends[partition]] = Message(key)
            self.ends[partition] += 1

    def offer(self, partition: TopicPartition, limit: int) -> Offer:
        """Look at what lies in a partition, as the broker does."""
        window, messages = self.window(partition), self.models[partition].messages
        ready = list(window.ready)[:limit]
        fresh = [offset for offset in sorted(messages) if offset >= window.cursor][:limit]
        has_all = len(fresh) < limit
        return Offer(
            partition,
            fresh,
            self.ends[partition] if has_all or not fresh else fresh[-1] + 1,
            [offset for offset in ready if offset in messages],
            [offset for offset in ready if offset not in messages],
            self.starts[partition],
            {each: key for each in fresh if (key := messages[each].key) is not None} if self.is_ordered else None,
        )

    def deliverable(self, wanted: list[TopicPartition]) -> set[tuple[TopicPartition, int]]:
        models = self.models
        return {(each, offset) for each in wanted for offset in models[each].deliverable(is_ordered=self.is_ordered)}

    def room(self, consumer: str) -> int:
        return IN_FLIGHT_MAX - sum(model.held_by(consumer) for model in self.models.values())

    @rule(asked=asked, wanted=st.permutations(PARTITIONS), published=messages)
    def publish_and_receive(
        self, asked: list[tuple[str, int]], wanted: list[TopicPartition], published: list[tuple[bytes | None, int]]
    ) -> None:
        for each in wanted:
            self.publish(each, published)
        self.receive(asked, wanted)

    @rule(asked=asked, wanted=st.lists(partitions, min_size=1, max_size=2, unique=True))
    def receive(self, asked: list[tuple[str, int]], wanted: list[TopicPartition]) -> None:
        """Some consumers, or one several times, receive together."""
        self.pass_time(0)
        takers = [
            Taker(consumer, limit, VISIBILITY_MS, self.leases + number)
            for number, (consumer, limit) in enumerate(asked, 1)
        ]
        self.leases += len(takers)
        is_something_there = bool(self.deliverable(wanted)) and any(self.room(consumer) for consumer, _ in asked)
        leased = [Leased((), 0)] * len(takers)
        cursors = None
        # As the broker does it: as long as it gets on, and finds nothing but messages that wait for their key.
        while not any(each.deliveries for each in leased) and cursors != (
            cursors := [self.window(each).cursor for each in wanted]
        ):
            offers = [self.offer(each, sum(taker.limit for taker in takers)) for each in wanted]
            answer = self.say(Receive(GROUP, takers, offers))
            assert isinstance(answer, list)
            leased = answer
        # What waits for a key is found out as it is passed, so not all get what they might, but one of them does.
        assert any(each.deliveries for each in leased) == is_something_there
        for taker, each in zip(takers, leased, strict=True):
            self.has_received(taker, each, wanted)

    def has_received(self, taker: Taker, leased: Leased, wanted: list[TopicPartition]) -> None:
        """Compare what a consumer got with what it may get, after those before it."""
        deliverable, room = self.deliverable(wanted), min(taker.limit, self.room(taker.consumer))
        got = [(each.partition, offset) for each in leased.deliveries for offset in each.offsets]
        assert len(set(got)) == len(got) <= room
        assert set(got) <= deliverable
        assert bool(leased.shortfall) is (len(got) == room < taker.limit)
        # Nothing is kept back, but for its order.
        assert self.is_ordered or len(got) == min(room, len(deliverable))
        for delivery in leased.deliveries:
            for offset in delivery.offsets:
                message = self.models[delivery.partition].messages[offset]
                message.state, message.lease, message.consumer = "leased", taker.lease_id, taker.consumer
                message.deliveries += 1
                message.tries += 1
                message.until = self.now.wall_ms + VISIBILITY_MS
                assert delivery.deliveries == message.deliveries
                self.receipts.append(Receipt(delivery.partition, offset, taker.lease_id))

    @rule(verdict=verdicts, delay_ms=delays, every=st.integers(1, 3))
    def settle_latest(self, verdict: AckType, delay_ms: int, every: int) -> None:
        """The latest consumer says something about all of its messages, or about every second or third."""
        self.settle([each for each in self.receipts if each.lease_id == self.leases][::every], verdict, delay_ms)

    @rule(data=st.data(), verdict=verdicts, delay_ms=delays)
    def settle_any(self, data: st.DataObject, verdict: AckType, delay_ms: int) -> None:
        """Somebody says something about messages, some of which are not theirs any more."""
        if self.receipts:
            known = st.sampled_from(self.receipts[-60:])
            self.settle(data.draw(st.lists(known, min_size=1, max_size=20)), verdict, delay_ms)

    def settle(self, chosen: list[Receipt], verdict: AckType, delay_ms: int) -> None:
        self.pass_time(0)
        results = self.say(Settle(GROUP, verdict, claims_of(chosen), delay_ms, "no luck"))
        assert isinstance(results, list)
        for (partition, offset, lease), result in zip(chosen, results, strict=True):
            model = self.models[partition]
            if model.is_leased(offset, lease, self.now.wall_ms):
                assert isinstance(result, Settled)
                model.settle(offset, verdict, self.now.wall_ms + delay_ms, self.now.wall_ms)
                assert (result.state or "done") == model.messages[offset].state
            else:
                assert isinstance(result, StaleReceipt)

    @rule(partition=partitions, letters=letter_places)
    def bury(self, partition: TopicPartition, letters: tuple[LetterPlace, ...] | None) -> None:
        self.pass_time(0)
        dead = [offset for offset, each in self.models[partition].messages.items() if each.state == "dead"]
        assert set(self.window(partition).dead) == set(dead)
        flights = {offset: self.window(partition).find(offset) for offset in dead}
        leases = {offset: each.lease.id for offset, each in flights.items() if each is not None and each.lease}
        self.say(MarkDeadLettered(GROUP, partition, TOPIC_ID, leases, letters))
        self.letters[partition] = self.letters[partition] if letters is None else letters
        for offset in dead:
            self.models[partition].messages[offset].state = "done"

    @rule(elapsed_ms=st.sampled_from([1, 999, 20_000, 30_000, 100_000]))
    def pass_time(self, elapsed_ms: int) -> None:
        self.now = Now(self.now.wall_ms + elapsed_ms, self.now.monotonic_ms + elapsed_ms)
        for due in self.machine.due(self.now):
            decision = self.machine.decide(due, 1, self.now)
            self.log += decision.records
            self.machine.adopt(decision)
        for model in self.models.values():
            model.pass_time(self.now.wall_ms)

    @rule(partition=partitions, share=shares)
    def lose(self, partition: TopicPartition, share: float) -> None:
        """Retention removes the oldest messages, in flight or not."""
        start = self.starts[partition] + int((self.ends[partition] - self.starts[partition]) * share)
        self.starts[partition] = start
        messages = self.models[partition].messages
        for offset in [each for each in messages if each < start]:
            del messages[offset]
        self.leases += 1
        nobody = Taker("nobody", 1, VISIBILITY_MS, self.leases)
        self.say(Receive(GROUP, [nobody], [Offer(partition, [], start, start=start)]))

    @rule(partition=partitions, share=shares)
    def seek(self, partition: TopicPartition, share: float) -> None:
        offset = self.starts[partition] + int((self.ends[partition] - self.starts[partition]) * share)
        self.say(Seek(GROUP, partition, offset))
        for each, message in self.models[partition].messages.items():
            self.models[partition].messages[each] = Message(message.key, "new" if each >= offset else "done")

    @rule(partition=partitions, share=shares)
    def lose_tail(self, partition: TopicPartition, share: float) -> None:
        """The log loses its last messages with the power; others come in their place."""
        end = self.ends[partition] - int((self.ends[partition] - self.starts[partition]) * share)
        self.ends[partition] = end
        model = self.models[partition]
        model.messages = {offset: message for offset, message in model.messages.items() if offset < end}
        if self.window(partition).cursor > end:
            self.say(Retreat(GROUP, partition, end))

    @rule(data=st.data(), jump_ms=st.sampled_from([0, 1, 500_000]))
    def restart(self, data: st.DataObject, jump_ms: int) -> None:
        """The broker starts anew from its log, compacted or not, and hours by its own clock before."""
        log = data.draw(st.sampled_from(list(compactions(self.log))))
        self.machine = QueueMachine()
        for record in log:
            self.machine.apply(record)
        # Only the wall clock outlives a start.
        self.now = Now(self.now.wall_ms + jump_ms, 0)
        self.machine.revive(self.now)
        for each in PARTITIONS:
            assert self.window(each).old_dead == set(self.window(each).dead)
        self.pass_time(0)

    @invariant()
    def all_is_well(self) -> None:
        group = self.machine.find(GROUP)
        if group is not None:
            group.validate()
            assert {each: window.letter_places for each, window in group.windows.items()} == self.letters

    @override
    def teardown(self) -> None:
        """Whatever was done before, in the end every message is delivered and done."""
        rounds = 0
        while any(message.state != "done" for model in self.models.values() for message in model.messages.values()):
            rounds += 1
            assert rounds < 500, "some messages are never delivered"
            self.pass_time(100_000)
            for each in PARTITIONS:
                self.bury(each, None)
            first = len(self.receipts)
            self.receive([("carol", 40)], list(PARTITIONS))
            self.say(Settle(GROUP, AckType.ACK, claims_of(self.receipts[first:])))
            for partition, offset, _ in self.receipts[first:]:
                self.models[partition].messages[offset].state = "done"
        group = self.machine.require(GROUP)
        self.receive([("carol", 1)], list(PARTITIONS))
        for window in group.windows.values():
            assert window.floor == window.cursor
            assert not window.chunks
        assert not group.leases


TestQueues = Queues.TestCase
TestQueues.settings = hypothesis_settings(max_examples=60, stateful_step_count=40, deadline=None)

"""What a machine of queue groups says, step by step; everything else is compared with a model in tests/property."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest

from goqueue.errors import StaleReceipt, UnknownQueue
from goqueue.machines.decision import Now
from goqueue.machines.queues.commands import (
    BeginTopic,
    Configure,
    DeleteQueue,
    DropQueueTopic,
    MarkDeadLettered,
    Offer,
    Receive,
    Retreat,
    Seek,
    Taker,
)
from goqueue.machines.queues.draft import QueueDraft
from goqueue.machines.queues.machine import Leased
from goqueue.machines.queues.records import partition_record
from goqueue.machines.queues.values import AckType, FlightState, LetterPlace
from goqueue.machines.queues.window import Chunk
from goqueue.model.queue_settings import Ordering, QueueSettings
from tests.unit.machines.compaction import compactions
from tests.unit.machines.queues.deliveries_kit import P0, TOPIC_ID, WALL_MS, Talk


def test_a_lease_is_over_at_its_deadline_even_if_nobody_has_noticed() -> None:
    talk = Talk()
    talk.begin()
    talk.receive(0, 1)
    talk.let_pass(30)
    (result,) = talk.settle(AckType.ACK, 0)
    assert isinstance(result, StaleReceipt)
    assert talk.state(0) is FlightState.LEASED
    talk.tick()
    assert talk.state(0) is FlightState.READY


def test_a_lease_that_was_made_longer_ends_later() -> None:
    talk = Talk()
    talk.begin()
    talk.receive(0, 1)
    talk.let_pass(20)
    talk.settle(AckType.EXTEND, 0, delay_ms=30_000)
    talk.let_pass(10)
    talk.tick()
    assert (talk.state(0), talk.state(1)) == (FlightState.LEASED, FlightState.READY)
    talk.let_pass(20)
    talk.tick()
    assert talk.state(0) is FlightState.READY


def test_leases_that_have_ended_are_not_counted_any_more_when_their_topic_is_gone() -> None:
    talk = Talk()
    talk.begin()
    talk.receive(0, 1)
    talk.let_pass(30)
    talk.tick()
    assert talk.machine.require("g").expired == {"orders": 2}
    talk.receive(2, lease=2)
    talk.say(DropQueueTopic("orders"))
    # What was due there is still looked at.
    talk.let_pass(30)
    talk.tick()
    assert dict(talk.machine.require("g").expired) == {}


def test_a_group_that_somebody_only_needs_keeps_the_settings_that_it_has() -> None:
    talk = Talk()
    talk.begin(QueueSettings(retries=7))
    talk.say(Configure("g", QueueSettings(), is_made_only=True))
    assert talk.machine.require("g").settings.retries == 7
    talk.say(Configure("new", QueueSettings(retries=1), is_made_only=True))
    assert talk.machine.require("new").settings.retries == 1


def test_an_extension_by_a_clock_that_was_ahead_lasts_no_longer_than_it_was_given_for() -> None:
    stage = Talk()
    stage.begin()
    stage.receive(0)
    stage.let_pass(10)
    ahead = Now(stage.now.wall_ms + 120_000, stage.now.monotonic_ms)
    true, stage.now = stage.now, ahead
    stage.settle(AckType.EXTEND, 0, delay_ms=20_000)
    again = Talk(stage.log, wall_ms=true.wall_ms)
    again.let_pass(20)
    again.tick()
    assert again.state(0) is FlightState.READY


def test_after_a_start_with_a_clock_that_was_set_back_a_lease_is_no_longer_than_it_was() -> None:
    before = Talk()
    before.begin()
    before.receive(0)
    after = Talk(before.log, wall_ms=WALL_MS - 3_600_000)
    after.let_pass(29)
    after.tick()
    assert after.state(0) is FlightState.LEASED
    after.let_pass(1)
    after.tick()
    assert after.state(0) is FlightState.READY


def test_what_is_done_leaves_nothing_behind_but_where_the_group_is() -> None:
    talk = Talk()
    talk.begin()
    for start in range(0, 1000, 100):
        talk.receive(*range(start, start + 100))
    for offset in (*range(999, 500, -1), *range(501)):
        talk.settle(AckType.ACK, offset)
    window = talk.machine.require("g").windows[P0]
    assert (window.floor, window.cursor, window.chunks) == (1000, 1000, {})
    smallest = compactions(talk.log)[-1]
    assert len(smallest) == 2
    assert Talk(smallest).machine.require("g").windows[P0].floor == 1000


def test_a_dead_message_is_done_once_it_is_buried_and_not_before() -> None:
    talk = Talk()
    talk.begin(QueueSettings(retries=0))
    talk.receive(0)
    talk.settle(AckType.NACK, 0)
    assert list(talk.machine.dying()) == [("g", P0)]
    assert list(Talk(talk.log).machine.dying()) == [("g", P0)]
    talk.let_pass(3600)
    talk.tick()
    assert talk.receive(1, lease=2, again=[0]) == [1]
    talk.say(MarkDeadLettered("g", P0, TOPIC_ID, {0: 1}))
    assert list(talk.machine.dying()) == []
    assert talk.machine.require("g").windows[P0].floor == 1


def test_of_what_was_moved_or_made_anew_nothing_is_buried_that_has_died_before() -> None:
    talk = Talk()
    talk.begin(QueueSettings(retries=0))
    talk.receive(0)
    talk.settle(AckType.NACK, 0)
    before = MarkDeadLettered("g", P0, TOPIC_ID, {0: 1})
    # The same message dies again.
    talk.say(Seek("g", P0, 0))
    talk.receive(0, lease=2)
    talk.settle(AckType.NACK, 0, lease=2)
    talk.say(before)
    assert talk.state(0) is FlightState.DEAD
    # Another message dies, in a topic of the same name.
    talk.say(DropQueueTopic("orders"))
    talk.say(before)
    talk.say(BeginTopic("g", UUID(int=8), {P0: 0}))
    talk.receive(0)
    talk.settle(AckType.NACK, 0)
    talk.say(before)
    assert talk.state(0) is FlightState.DEAD
    talk.say(DeleteQueue("g"))
    talk.say(before)


def test_a_topic_and_a_group_that_are_gone_leave_nothing_to_load() -> None:
    talk = Talk()
    talk.begin()
    talk.receive(0, 1, 2)
    talk.settle(AckType.ACK, 1)
    talk.say(DropQueueTopic("orders"))
    group = talk.machine.require("g")
    assert (group.windows, group.leases) == ({}, {})
    talk.let_pass(30)
    talk.tick()
    talk.say(DeleteQueue("g"))
    for records in compactions(talk.log):
        assert Talk(records).machine.groups == {}
    with pytest.raises(UnknownQueue, match="there is no queue group 'g'"):
        talk.settle(AckType.ACK, 0)


def test_messages_that_are_lost_let_one_of_their_key_go_whatever_is_stored_first() -> None:
    stage = Talk()
    stage.begin(QueueSettings(ordering=Ordering.KEY))
    keyed = Offer(P0, range(404), 404, keys=dict.fromkeys((5, 300, 400, 401), b"k"))
    stage.say(Receive("g", [Taker("ann", 1000, 30_000, 1)], [keyed]))
    # What is written again comes to stand behind the rest.
    stage.settle(AckType.NACK, 5, delay_ms=3_600_000)
    for records in compactions(stage.log):
        again = Talk(records)
        again.say(Receive("g", [Taker("bob", 1, 30_000, 9)], [Offer(P0, [404], 405, start=350, looked_from=404)]))
        assert (again.state(400), again.state(401)) == (FlightState.READY, FlightState.HELD)


def test_a_gap_in_the_log_costs_nothing_however_large_it_is() -> None:
    stage = Talk()
    stage.begin()
    end = 1 << 40
    offers = [Offer(P0, [0], end), Offer(P0, [end + 7], end + 8, looked_from=end)]
    for number, offer in enumerate(offers):
        stage.say(Receive("g", [Taker("ann", 1000, 30_000, number)], [offer]))
    window = stage.machine.require("g").windows[P0]
    assert len(window.chunks) <= 4
    assert (window.floor, window.cursor) == (0, end + 8)
    assert window.is_done(end // 2)
    assert not window.is_done(end + 7)
    stage.settle(AckType.ACK, 0, lease=0)
    assert (window.floor, len(window.chunks)) == (end + 7, 1)
    stage.settle(AckType.ACK, end + 7, lease=1)
    assert (window.floor, window.chunks) == (end + 8, {})


def test_what_was_looked_for_before_the_group_went_back_skips_nothing() -> None:
    stage = Talk()
    stage.begin()
    stage.receive(*range(10))
    stage.settle(AckType.ACK, *range(10))
    stage.say(Seek("g", P0, 3))
    stale = Offer(P0, [10, 11], 12, looked_from=10)
    leased = stage.say(Receive("g", [Taker("bob", 1000, 30_000, 2)], [stale]))
    assert leased == [Leased([], stage.now.wall_ms + 30_000)]
    assert stage.machine.require("g").windows[P0].cursor == 3


def test_the_leader_epoch_in_which_a_group_was_where_it_is_outlives_the_broker() -> None:
    def told() -> tuple[int, int]:
        for log in compactions(stage.log):
            loaded = Talk(log).machine.require("g").windows[P0]
            assert (loaded.cursor, loaded.epoch) == (window.cursor, window.epoch)
        return window.cursor, window.epoch

    def offered(*fresh: int, again: Sequence[int] = (), epoch: int) -> None:
        offer = Offer(P0, fresh, fresh[-1] + 1 if fresh else 5, again, epoch=epoch)
        stage.say(Receive("g", [Taker("ann", 1000, 30_000, epoch)], [offer]))

    stage = Talk()
    stage.say(Configure("g", QueueSettings()))
    stage.say(BeginTopic("g", TOPIC_ID, {P0: 0}, {P0: 2}))
    window = stage.machine.require("g").windows[P0]
    assert told() == (0, 2)
    offered(*range(5), epoch=3)
    assert told() == (5, 3)
    stage.settle(AckType.RELEASE, *range(5), lease=3)
    offered(again=range(5), epoch=4)
    assert told() == (5, 4)
    stage.settle(AckType.ACK, *range(5), lease=4)
    # What is left was there in that epoch.
    stage.say(Retreat("g", P0, 3))
    assert told() == (3, 4)
    stage.say(Seek("g", P0, 1, 6))
    assert told() == (1, 6)


def test_where_letters_may_lie_outlives_the_broker_but_not_what_the_group_knows_of_the_partition() -> None:
    def told() -> tuple[LetterPlace, ...]:
        known = talk.machine.require("g").windows[P0].letter_places
        for log in compactions(talk.log):
            assert Talk(log).machine.require("g").windows[P0].letter_places == known
        return known

    here, there = LetterPlace(UUID(int=8), 3, 0), LetterPlace(UUID(int=9), 0, 12)
    talk = Talk()
    talk.begin(QueueSettings(retries=0))
    assert told() == ()
    talk.say(MarkDeadLettered("g", P0, TOPIC_ID, {}, (here,)))
    assert told() == (here,)
    talk.receive(0, 1)
    talk.settle(AckType.NACK, 0, 1)
    talk.say(MarkDeadLettered("g", P0, TOPIC_ID, {0: 1}))
    assert told() == (here,)
    talk.say(MarkDeadLettered("g", P0, TOPIC_ID, {1: 1}, (here, there)))
    assert told() == (here, there)
    # Somebody means another topic of that name.
    talk.say(MarkDeadLettered("g", P0, UUID(int=6), {}, (there,)))
    assert told() == (here, there)
    talk.say(BeginTopic("g", UUID(int=6), {P0: 0}))
    assert told() == ()


def test_only_those_that_were_dead_at_the_start_may_have_got_letters_before() -> None:
    talk = Talk()
    talk.begin(QueueSettings(retries=0))
    talk.receive(0, 1, 2)
    talk.settle(AckType.NACK, 0, 1)
    again = Talk(talk.log)
    again.settle(AckType.NACK, 2)
    window = again.machine.require("g").windows[P0]
    assert (window.old_dead, list(window.dead)) == ({0, 1}, [0, 1, 2])
    again.say(MarkDeadLettered("g", P0, TOPIC_ID, {0: 1}))
    assert window.old_dead == {1}
    again.say(Seek("g", P0, 1))
    assert window.old_dead == set()


def test_a_partition_that_was_stored_without_a_leader_epoch_is_still_read() -> None:
    stage = Talk()
    stage.begin()
    record = partition_record("g", P0, None)._replace(value=b'["00000000-0000-0000-0000-000000000007",3,8]')
    window = Talk([*stage.log, record]).machine.require("g").windows[P0]
    assert (window.topic_id, window.floor, window.cursor, window.epoch) == (TOPIC_ID, 3, 8, -1)


def test_a_consumer_is_told_of_its_limit_only_where_that_keeps_messages_back() -> None:
    talk = Talk()
    talk.begin(QueueSettings(in_flight_max=5))

    def shortfall(count: int, offered: range) -> str:
        leased = talk.say(Receive("g", [Taker("ann", 10, 30_000, 1)], [Offer(P0, offered, offered.stop)]))
        assert isinstance(leased, list)
        (got,) = leased
        assert sum(len(each.offsets) for each in got.deliveries) == count
        return str(got.shortfall)

    assert shortfall(3, range(3)) == ""
    assert shortfall(2, range(3, 9)) == "consumer 'ann' may hold 5 messages at once"
    assert shortfall(0, range(5, 9)) == "consumer 'ann' may hold 5 messages at once"


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The chunks at which drafts look."""
    found = []
    real = QueueDraft._look

    def look(self: QueueDraft, index: int) -> Chunk | None:
        found.append(index)
        return real(self, index)

    monkeypatch.setattr(QueueDraft, "_look", look)
    return found


def test_messages_of_one_key_that_are_lost_together_take_no_more_steps_the_more_they_are(looks: list[int]) -> None:
    many = 900
    stage = Talk()
    stage.begin(QueueSettings(ordering=Ordering.KEY))
    stage.say(
        Receive(
            "g", [Taker("ann", many, 30_000, 1)], [Offer(P0, range(many), many, keys=dict.fromkeys(range(many), b"k"))]
        )
    )
    looks.clear()
    stage.say(Receive("g", [Taker("bob", 1, 30_000, 2)], [Offer(P0, [], many, start=many - 1, looked_from=many)]))
    assert stage.state(many - 1) is FlightState.READY
    assert len(looks) < 10 * many


@pytest.mark.parametrize("kind", ["fresh", "again", "keyed"])
def test_a_decision_for_many_consumers_takes_no_more_steps_for_each(kind: str, looks: list[int]) -> None:
    many = 500
    stage = Talk()
    stage.begin(QueueSettings(in_flight_max=2 * many, ordering=Ordering.KEY if kind == "keyed" else Ordering.NONE))
    offsets = list(range(many))
    if kind == "again":
        stage.receive(*offsets)
        stage.settle(AckType.RELEASE, *offsets)
        offer = Offer(P0, [], many, again=offsets, looked_from=many)
    else:
        keys = {offset: b"%d" % offset for offset in offsets} if kind == "keyed" else None
        offer = Offer(P0, offsets, many, keys=keys)
    looks.clear()
    takers = [Taker(f"c{number}", 1, 30_000, 100 + number) for number in range(many)]
    leased = stage.say(Receive("g", takers, [offer]))
    assert isinstance(leased, list)
    assert [each.offsets[0] for one in leased for each in one.deliveries] == offsets
    assert len(looks) < 10 * many

"""Messages that are delivered again: which deliveries count, who waits no longer, and how all that is stored."""

from __future__ import annotations

import pytest

from goqueue.errors import Corrupt
from goqueue.machines.decision import Now
from goqueue.machines.queues.commands import Configure
from goqueue.machines.queues.records import flights_record, read_flights
from goqueue.machines.queues.values import AckType, Flight, FlightState, Lease
from goqueue.model.queue_settings import Ordering, QueueSettings
from tests.unit.machines.compaction import compactions
from tests.unit.machines.queues.deliveries_kit import P0, Talk

LEASE = Lease(7, "ann", 1_000)
LEASED = Flight(FlightState.LEASED, 1, 1_000, Now(31_000, -1), LEASE, since_ms=1_000)
READY = LEASED._replace(state=FlightState.READY, error="no luck", key=b"k", returned=2)


def _flights(talk: Talk) -> dict[int, Flight]:
    chunks = talk.machine.require("g").windows[P0].chunks.values()
    return {offset: flight for chunk in chunks for offset, flight in chunk.flights.items()}


def test_a_delivery_that_is_given_back_is_no_failure() -> None:
    talk = Talk()
    talk.begin(QueueSettings(retries=1))
    talk.receive(0)
    for lease in range(2, 6):
        talk.settle(AckType.EXTEND, 0, lease=lease - 1, delay_ms=0)
        assert talk.receive(lease=lease, again=[0]) == [0]
    talk.settle(AckType.NACK, 0, lease=5, delay_ms=0)
    assert talk.state(0) is FlightState.READY
    for log in compactions(talk.log):
        again = Talk(log, wall_ms=talk.now.wall_ms)
        assert again.receive(lease=6, again=[0]) == [0]
        assert _flights(again)[0].deliveries == 6
        again.settle(AckType.NACK, 0, lease=6, delay_ms=0)
        assert again.state(0) is FlightState.DEAD


def test_the_first_wait_is_short_however_often_a_message_was_given_back() -> None:
    talk = Talk()
    talk.begin(QueueSettings(retries=10, backoff_ms=1_000, backoff_factor=10.0))
    talk.receive(0)
    for lease in range(2, 5):
        talk.settle(AckType.EXTEND, 0, lease=lease - 1, delay_ms=0)
        talk.receive(lease=lease, again=[0])
    talk.settle(AckType.NACK, 0, lease=4)
    assert _flights(talk)[0].until.wall_ms - talk.now.wall_ms <= 1_100


def test_nobody_waits_for_others_of_their_key_once_that_is_not_asked_for_any_more() -> None:
    talk = Talk()
    talk.begin(QueueSettings(ordering=Ordering.KEY))
    assert talk.receive(0, 1, 2, keys=dict.fromkeys(range(3), b"k")) == [0]
    assert talk.state(2) is FlightState.HELD
    talk.say(Configure("g", QueueSettings(ordering=Ordering.KEY, retries=5)))
    assert talk.state(2) is FlightState.HELD
    talk.say(Configure("g", QueueSettings()))
    for log in compactions(talk.log):
        again = Talk(log, wall_ms=talk.now.wall_ms)
        assert [again.state(offset) for offset in range(3)] == [FlightState.LEASED, *[FlightState.READY] * 2]
        assert again.receive(lease=2, again=[1, 2]) == [1, 2]


def test_messages_that_waited_for_others_are_ready_in_their_order() -> None:
    talk = Talk()
    talk.begin(QueueSettings(ordering=Ordering.KEY))
    talk.receive(*range(8), keys={offset: b"ab"[offset % 2 :][:1] for offset in range(8)})
    talk.say(Configure("g", QueueSettings()))
    assert list(talk.machine.require("g").windows[P0].ready) == [2, 3, 4, 5, 6, 7]


def test_messages_that_wait_for_the_same_time_share_their_flight_though_chance_spreads_them() -> None:
    talk = Talk()
    talk.begin(QueueSettings(in_flight_max=10_000))
    talk.receive(*range(900))
    talk.settle(AckType.NACK, *range(900))
    flights = list(_flights(talk).values())
    delays_ms = {flight.until.wall_ms - talk.now.wall_ms for flight in flights}
    assert 100 < len(delays_ms) <= 200
    assert min(delays_ms) >= 900
    assert max(delays_ms) <= 1_100
    assert len({id(flight) for flight in flights}) == len(delays_ms)


@pytest.mark.parametrize("verdict", [AckType.NACK, AckType.EXTEND, AckType.RELEASE])
def test_messages_that_fly_alike_share_their_flight(verdict: AckType) -> None:
    talk = Talk()
    talk.begin()
    talk.receive(*range(100), lease=1)
    talk.receive(*range(100, 200), lease=2)
    for offset in range(0, 100, 2):
        talk.settle(verdict, offset, lease=1, delay_ms=0)
    talk.settle(verdict, *range(100, 200, 3), lease=2, delay_ms=0)
    assert len({id(flight) for flight in _flights(talk).values()}) == 4 + 49
    again = Talk(talk.log, wall_ms=talk.now.wall_ms)
    assert len({id(flight) for flight in _flights(again).values()}) == 4
    again.receive(lease=3, again=list(talk.machine.require("g").windows[P0].ready))
    assert len({id(flight) for flight in _flights(again).values()}) == 3


def test_flights_are_stored_once_each_with_the_runs_of_their_messages() -> None:
    flights = {5: LEASED, 6: LEASED, 7: READY, 9: LEASED}
    _, value = flights_record("g", P0, 0, flights)
    assert value == (
        b'{"flights":[["leased",1,1000,31000,[7,"ann",1000],"","",null,1000,0],'
        b'["ready",1,1000,31000,[7,"ann",1000],"","no luck","aw==",1000,2]],"runs":[5,2,0,7,1,1,9,1,0]}'
    )
    assert read_flights(value) == flights


def test_flights_that_were_stored_in_each_run_are_still_read() -> None:
    former = (
        b'[[5,2,"leased",1,1000,31000,[7,"ann",1000],"","",null,1000],[9,1,"waiting",2,1000,32000,null,"","","aw=="]]'
    )
    waiting = Flight(FlightState.WAITING, 2, 1_000, Now(32_000, -1), key=b"k")
    assert read_flights(former) == {5: LEASED, 6: LEASED, 9: waiting}


@pytest.mark.parametrize(
    "value", [b"", b"{}", b'{"flights":[],"runs":[1,1]}', b'{"flights":[],"runs":[1,1,0]}', b'[[5,2,"flying"]]']
)
def test_what_are_no_flights_is_damage(value: bytes) -> None:
    with pytest.raises(Corrupt):
        read_flights(value)

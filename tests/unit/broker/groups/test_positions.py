"""Where members have got to: what a poll goes back to, what is forgotten, and whose turn it is."""

from __future__ import annotations

from uuid import UUID

import pytest

from goqueue.broker.groups.positions import MemberPositions, Position, Positions
from goqueue.errors import MalformedRequest
from goqueue.machines.groups.consumer.values import ConsumerMember
from goqueue.model.topic import TopicPartition

ID, OTHER_ID = UUID(int=1), UUID(int=2)
ZERO, ONE, TWO = (TopicPartition("t", index) for index in range(3))


def started(**offsets: int) -> MemberPositions:
    """Positions of a member that has begun at offsets of `p0`, `p1`..."""
    positions = MemberPositions()
    for name, offset in offsets.items():
        positions.start(TopicPartition("t", int(name[1:])), Position(ID, offset), is_committed=True)
    return positions


def now(positions: MemberPositions) -> dict[int, int]:
    return {each.partition: position.offset for each, position in positions.now.items()}


def test_a_poll_that_was_seen_is_behind_the_member() -> None:
    positions = started(p0=5)
    positions.begin(None)
    positions.move(ZERO, 9)
    positions.number = 1
    positions.begin(1)
    assert now(positions) == {0: 9}


def test_a_poll_that_was_not_seen_begins_anew_any_number_of_times() -> None:
    positions = started(p0=5)
    positions.begin(0)
    for _ in range(3):
        positions.move(ZERO, 9)
        positions.number += 1
        positions.begin(0)
        assert (now(positions), positions.number) == ({0: 5}, 0)


def test_a_partition_that_began_in_a_lost_poll_begins_at_the_same_offset_again() -> None:
    positions = started(p0=5)
    positions.begin(None)
    positions.start(ONE, Position(ID, 70), is_committed=False)
    positions.move(ONE, 75)
    positions.number = 1
    positions.begin(0)
    assert now(positions) == {0: 5, 1: 70}


def test_numbers_go_on_where_the_member_is() -> None:
    positions = MemberPositions()
    positions.begin(41)
    positions.number += 1
    assert positions.number == 42
    with pytest.raises(MalformedRequest, match="number 42, and not 40"):
        positions.begin(40)


def test_only_what_has_moved_is_uncommitted() -> None:
    positions = started(p0=5, p1=7)
    positions.start(TWO, Position(ID, 3), is_committed=False)
    assert positions.uncommitted() == {TWO: 3}
    positions.move(ZERO, 6)
    assert positions.uncommitted() == {ZERO: 6, TWO: 3}
    positions.committed[ZERO] = 6
    assert positions.uncommitted() == {TWO: 3}


def test_a_position_in_a_former_topic_of_that_name_is_none() -> None:
    positions = started(p0=5)
    assert positions.find(ZERO, ID) == 5
    assert positions.find(ZERO, OTHER_ID) is None


def test_what_a_member_has_given_back_is_forgotten() -> None:
    positions = started(p0=5, p1=6, p2=7)
    positions.keep(ConsumerMember(id="m", assigned=frozenset({ZERO}), revoking=frozenset({ONE})))
    assert now(positions) == {0: 5, 1: 6}
    assert TWO not in positions.before
    assert TWO not in positions.committed


def test_partitions_that_were_served_come_last() -> None:
    positions = MemberPositions()
    assert positions.in_turn({TWO, ZERO, ONE}) == [ZERO, ONE, TWO]
    positions.served([ZERO])
    assert positions.in_turn({ZERO, ONE, TWO}) == [ONE, TWO, ZERO]
    positions.served([TWO, ONE])
    assert positions.in_turn({ZERO, ONE, TWO}) == [ZERO, TWO, ONE]
    assert positions.in_turn({ONE}) == [ONE]
    assert positions.in_turn({ZERO, ONE}) == [ONE, ZERO]


def test_whoever_waits_is_woken_once() -> None:
    positions = MemberPositions()
    woken: list[int] = []
    positions.end_wait = lambda: woken.append(positions.turn)
    first = positions.interrupt()
    assert positions.interrupt() == first + 1
    assert woken == [first]


def test_a_member_polls_anew_when_it_has_other_partitions() -> None:
    positions = Positions()
    mine = positions.of("g", "m", lambda *_: True)
    woken: list[str] = []
    mine.watched = frozenset({ZERO})
    mine.end_wait = lambda: woken.append("woken")
    positions.keep("g", ConsumerMember(id="m", assigned=frozenset({ZERO})))
    assert woken == []
    positions.keep("g", ConsumerMember(id="m", assigned=frozenset({ZERO, ONE})))
    assert woken == ["woken"]


def test_positions_do_not_outlive_their_members_for_long() -> None:
    positions = Positions()
    members: list[str] = []
    for number in range(10_000):
        members.append(f"m{number}")
        positions.of("g", members[-1], lambda _, member_id: member_id in members[-10:])
    assert len(positions) < 200


def test_members_that_live_keep_their_positions() -> None:
    positions = Positions()
    kept = [positions.of("g", f"m{number}", lambda *_: True) for number in range(1000)]
    assert [positions.of("g", f"m{number}", lambda *_: True) for number in range(1000)] == kept
    positions.forget("g", "m7")
    assert positions.of("g", "m7", lambda *_: True) is not kept[7]

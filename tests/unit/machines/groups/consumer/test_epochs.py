"""Members that come late, twice, again or under their instance id, as transcripts."""

from __future__ import annotations

from goqueue.errors import Conflict, InstanceFenced, InstanceInUse, MalformedRequest, MemberFenced, UnknownMember
from goqueue.machines.groups.consumer import group as consumer_group
from goqueue.machines.groups.consumer.values import AWAY_EPOCH, LEAVE_EPOCH, MemberState
from tests.unit.machines.groups.consumer.consumer_kit import Coordinator, partitions

ORDERS = frozenset({"orders"})
ALL = "orders-0 orders-1 orders-2"


def two_members() -> Coordinator:
    """Return a group in which a has orders-0 and orders-1, b has orders-2, both at epoch 2."""
    broker = Coordinator()
    broker.join("a")
    broker.join("b")
    broker.settle()
    return broker


def test_a_member_with_another_epoch_is_fenced_and_changes_nothing() -> None:
    broker = two_members()
    broker.join("c")
    broker.settle()
    for epoch in (4, 100, 1):
        broker.refused(MemberFenced, "a", epoch=epoch, owned=frozenset(), is_full=True)


def test_a_refused_heartbeat_is_no_sign_of_life() -> None:
    broker = two_members()
    broker.wait(29_999)
    broker.refused(MemberFenced, "a", epoch=9)
    broker.wait(1)
    assert "a" not in broker.known.members


def test_a_member_that_missed_an_answer_is_told_again() -> None:
    broker = Coordinator()
    broker.join("a")
    broker.join("b")
    broker.beat("a")
    broker.beat("a", "orders-0 orders-1")  # the answer to this, epoch 2, is lost
    again = broker.beat("a", "orders-0 orders-1", epoch=1)
    assert (again.epoch, again.assignment) == (2, partitions("orders-0 orders-1"))


def test_a_member_can_miss_several_answers_in_one_epoch() -> None:
    broker = two_members()
    broker.topics["audit"] = 1
    broker.beat("b", topics=frozenset({"audit"}))
    assert broker.beat("a", "orders-0 orders-1", epoch=2).epoch == 3
    for _ in range(3):
        again = broker.beat("a", "orders-0 orders-1", epoch=2)
        assert (again.epoch, again.assignment) == (3, partitions("orders-0 orders-1"))
    broker.beat("b", "")
    assert broker.beat("a", "orders-0 orders-1", epoch=2).assignment == partitions(ALL)


def test_the_epoch_before_will_not_do_with_what_is_not_ones_own() -> None:
    broker = two_members()
    broker.refused(MemberFenced, "a", epoch=1, owned=partitions(ALL))
    broker.refused(MemberFenced, "a", epoch=1)


def test_a_late_heartbeat_gives_nothing_back() -> None:
    """One that was sent long ago does not know what the member has taken over since."""
    broker = two_members()
    broker.beat("b", epoch=LEAVE_EPOCH)
    broker.beat("a", "orders-0 orders-1")
    assert broker.has("a") == ALL
    broker.join("c")
    broker.beat("a", "orders-0 orders-1", epoch=2)
    assert broker.member("a").state is MemberState.UNREVOKED
    broker.beat("a", "orders-0 orders-1", epoch=2)
    assert broker.member("a").revoking == partitions("orders-2")
    assert broker.beat("c").assignment is None


def test_a_fenced_member_joins_again_with_its_id() -> None:
    broker = two_members()
    count = broker.known.rebalance_count
    broker.refused(MemberFenced, "a", epoch=9)
    again = broker.join("a")
    assert (again.epoch, again.assignment) == (2, partitions("orders-0 orders-1"))
    assert broker.known.rebalance_count == count


def test_whoever_joins_again_has_given_everything_back() -> None:
    broker = Coordinator()
    broker.join("a")
    broker.join("b")
    broker.beat("a")
    assert broker.join("a").assignment == partitions("orders-0 orders-1")
    assert broker.beat("b").assignment == partitions("orders-2")


def test_a_lost_answer_to_a_join_costs_nothing() -> None:
    broker = Coordinator()
    broker.join("a")
    again = broker.join("a")
    assert (again.epoch, again.assignment) == (1, partitions(ALL))
    assert broker.known.rebalance_count == 1


def test_a_static_member_comes_back_to_what_it_had() -> None:
    broker = Coordinator()
    broker.join("a1", instance_id="a")
    broker.join("b")
    broker.settle()
    had, count = broker.has("a1"), broker.known.rebalance_count
    left = broker.beat("a1", epoch=AWAY_EPOCH, instance_id="a")
    assert (left.epoch, left.assignment) == (AWAY_EPOCH, None)
    assert consumer_group.state_of(broker.known) == "stable"
    broker.wait(20_000)
    broker.beat("b")
    assert broker.beat("b").assignment is None
    back = broker.join("a2", instance_id="a")
    assert back.assignment == partitions(had)
    assert set(broker.known.members) == {"a2", "b"}
    assert broker.known.rebalance_count == count


def test_a_static_member_that_stays_away_is_removed() -> None:
    broker = Coordinator()
    broker.join("a1", instance_id="a")
    broker.join("b")
    broker.settle()
    broker.beat("a1", epoch=AWAY_EPOCH)
    broker.wait(29_999)
    broker.beat("b")
    broker.wait(1)
    assert broker.beat("b").assignment == partitions(ALL)


def test_what_the_target_takes_from_an_absent_member_is_free_at_once() -> None:
    broker = Coordinator()
    broker.join("a1", instance_id="a")
    broker.beat("a1", epoch=AWAY_EPOCH)
    assert broker.join("b").assignment == partitions("orders-2")
    assert broker.join("a2", instance_id="a").assignment == partitions("orders-0 orders-1")


def test_a_static_member_that_leaves_while_giving_back_has_given_back() -> None:
    broker = Coordinator()
    broker.join("a1", instance_id="a")
    broker.join("b")
    broker.beat("a1")
    broker.beat("a1", epoch=AWAY_EPOCH)
    assert broker.beat("b").assignment == partitions("orders-2")


def test_an_instance_id_belongs_to_one_member() -> None:
    broker = Coordinator()
    broker.join("a1", instance_id="a")
    broker.refused(InstanceInUse, "a2", epoch=0, topics=ORDERS, instance_id="a")
    broker.beat("a1", epoch=AWAY_EPOCH)
    broker.join("a2", instance_id="a")
    broker.refused(InstanceFenced, "a1", epoch=1, instance_id="a")
    broker.refused(InstanceFenced, "a1", epoch=LEAVE_EPOCH, instance_id="a")
    broker.refused(UnknownMember, "a1", epoch=1)
    broker.refused(UnknownMember, "a2", epoch=1, instance_id="other")
    assert broker.beat("a2", instance_id="a").epoch == 1


def test_a_static_member_joins_again_with_its_own_id() -> None:
    broker = Coordinator()
    broker.join("a1", instance_id="a")
    assert broker.join("a1", instance_id="a").assignment == partitions(ALL)
    broker.beat("a1", epoch=AWAY_EPOCH)
    broker.refused(MemberFenced, "a1", epoch=1)
    assert broker.join("a1").assignment == partitions(ALL)


def test_a_member_that_left_for_a_while_has_no_epoch_to_come_with() -> None:
    broker = Coordinator()
    broker.join("a1", instance_id="a")
    broker.join("b")
    broker.settle()
    broker.beat("a1", epoch=AWAY_EPOCH)
    for epoch in (1, 2, 3):
        broker.refused(MemberFenced, "a1", epoch=epoch, owned=frozenset(), is_full=True)


def test_only_a_static_member_leaves_for_a_while() -> None:
    broker = two_members()
    broker.refused(Conflict, "a", epoch=AWAY_EPOCH)


def test_a_member_does_not_change_its_instance_id() -> None:
    broker = two_members()
    broker.refused(MalformedRequest, "a", epoch=0, topics=ORDERS, instance_id="x")


def test_a_static_member_that_leaves_for_good_is_gone() -> None:
    broker = Coordinator()
    broker.join("a1", instance_id="a")
    broker.beat("a1", epoch=LEAVE_EPOCH)
    assert not broker.known.members
    assert broker.join("a2", instance_id="a").assignment == partitions(ALL)

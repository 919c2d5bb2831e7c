"""Groups whose broker assigns, as transcripts: what members say, and what they are told."""

from __future__ import annotations

import pytest

from goqueue.errors import InvalidPattern, MalformedRequest, StaleMemberEpoch, UnknownMember, UnsupportedAssignor
from goqueue.machines.groups.consumer import group as consumer_group
from goqueue.machines.groups.consumer.records import changes
from goqueue.machines.groups.consumer.values import AWAY_EPOCH, LEAVE_EPOCH, MemberState
from goqueue.machines.groups.values import REBALANCES_KEPT
from goqueue.model.topic import TopicPartition
from tests.unit.machines.groups.consumer.consumer_kit import Coordinator, partitions, written


def test_the_first_member_gets_everything_at_once() -> None:
    broker = Coordinator()
    reply = broker.join("a")
    assert reply.epoch == 1
    assert reply.assignment == partitions("orders-0 orders-1 orders-2")
    assert consumer_group.state_of(broker.known) == "stable"
    assert broker.reasons == ["member a joined"]


def test_a_joiner_gets_a_partition_once_it_was_given_back() -> None:
    broker = Coordinator()
    broker.join("a")
    joined = broker.join("b")
    assert (joined.epoch, joined.assignment) == (2, frozenset())
    assert consumer_group.state_of(broker.known) == "reconciling"

    told = broker.beat("a")
    assert (told.epoch, told.assignment) == (1, partitions("orders-0 orders-1"))
    assert broker.member("a").state is MemberState.UNREVOKED
    assert broker.beat("b").assignment is None
    assert broker.beat("a", "orders-0 orders-1 orders-2").assignment is None

    gave_back = broker.beat("a", "orders-0 orders-1")
    assert (gave_back.epoch, gave_back.assignment) == (2, None)
    assert broker.member("b").state is MemberState.UNRELEASED
    got = broker.beat("b")
    assert (got.epoch, got.assignment) == (2, partitions("orders-2"))
    assert consumer_group.state_of(broker.known) == "stable"


def test_a_rebalance_has_a_reason_a_duration_and_moves() -> None:
    broker = Coordinator()
    broker.join("a")
    broker.wait(500)
    broker.join("b")
    broker.wait(250)
    assert broker.known.rebalances[-1].ended_ms == -1
    broker.settle()
    first, second = broker.known.rebalances
    assert (first.reason, first.began_ms, first.ended_ms, first.moves) == ("member a joined", 1_000_000, 1_000_000, 0)
    assert (second.reason, second.began_ms, second.ended_ms, second.moves) == (
        "member b joined",
        1_000_500,
        1_000_750,
        1,
    )
    assert (broker.known.rebalance_count, broker.known.move_count) == (2, 1)


def test_a_rebalance_that_another_one_overtakes_ends_with_it() -> None:
    broker = Coordinator()
    broker.join("a")
    broker.join("b")
    broker.wait(100)
    broker.join("c")
    broker.wait(100)
    broker.settle()
    assert [rebalance.ended_ms for rebalance in broker.known.rebalances] == [1_000_000, 1_000_200, 1_000_200]


def test_of_many_rebalances_the_last_ones_are_kept() -> None:
    broker = Coordinator()
    for number in range(REBALANCES_KEPT + 3):
        broker.join(f"m{number}")
    assert broker.reasons == [f"member m{number} joined" for number in range(3, REBALANCES_KEPT + 3)]
    assert broker.known.rebalance_count == REBALANCES_KEPT + 3


def test_what_stays_is_assigned_all_the_time() -> None:
    broker = Coordinator({"orders": 6})
    broker.join("a")
    broker.join("b")
    broker.beat("a")
    assert broker.has("a") == "orders-0 orders-1 orders-2"
    broker.join("c")
    assert broker.has("a") == "orders-0 orders-1 orders-2"
    kept = written(broker.member("a").target)
    broker.beat("a", "orders-0 orders-1 orders-2")
    assert broker.has("a") == kept == "orders-0 orders-1"


def test_partitions_can_be_given_back_one_by_one() -> None:
    broker = Coordinator({"orders": 4})
    broker.join("a")
    broker.join("b")
    broker.beat("a")
    broker.beat("a", "orders-0 orders-1 orders-3")
    assert broker.beat("b").assignment == partitions("orders-2")
    assert broker.member("a").state is MemberState.UNREVOKED
    broker.beat("a", "orders-0 orders-1")
    assert broker.beat("b").assignment == partitions("orders-2 orders-3")


def test_what_was_never_taken_over_need_not_be_given_back() -> None:
    broker = Coordinator()
    broker.join("a")
    broker.join("b")
    assert broker.beat("a", "orders-0").epoch == 2
    assert broker.beat("b").assignment == partitions("orders-2")


def test_what_was_promised_to_a_member_that_goes_stays_where_it_is() -> None:
    broker = Coordinator()
    broker.join("b")
    broker.join("a")
    broker.settle()
    assert (broker.has("a"), broker.has("b")) == ("orders-2", "orders-0 orders-1")
    broker.join("c")
    broker.beat("b")
    broker.beat("c", epoch=LEAVE_EPOCH)
    assert broker.beat("b", "orders-0").assignment == partitions("orders-0 orders-1")
    assert broker.beat("a").assignment is None
    assert consumer_group.state_of(broker.known) == "stable"


def test_what_was_promised_to_a_member_that_stays_is_on_its_way() -> None:
    broker = Coordinator({"orders": 2})
    broker.join("a", "orders")
    broker.join("b", "orders audit")
    assert written(broker.member("b").target) == "orders-1"
    broker.change_topics(audit=1)
    assert written(broker.member("b").target) == "audit-0 orders-1"


def test_a_member_that_leaves_hands_on_what_it_has_at_once() -> None:
    broker = Coordinator()
    broker.join("a")
    broker.join("b")
    broker.settle()
    left = broker.beat("a", epoch=LEAVE_EPOCH)
    assert (left.epoch, left.assignment) == (LEAVE_EPOCH, None)
    assert broker.beat("b").assignment == partitions("orders-0 orders-1 orders-2")
    assert broker.reasons[-1] == "member a left"
    assert broker.known.rebalances[-1].moves == 2


def test_a_group_without_members_stays_and_remembers_since_when() -> None:
    broker = Coordinator()
    broker.join("a")
    broker.wait(10)
    broker.beat("a", epoch=LEAVE_EPOCH)
    assert consumer_group.state_of(broker.known) == "empty"
    assert broker.known.emptied_ms == 1_000_010
    assert consumer_group.deadline_ms(broker.known) is None
    assert broker.join("b").epoch == 3
    assert broker.known.emptied_ms == 0


def test_members_beyond_the_number_of_partitions_get_nothing_and_are_stable() -> None:
    broker = Coordinator({"orders": 1})
    broker.join("a")
    broker.join("b")
    broker.settle()
    assert sorted([broker.has("a"), broker.has("b")]) == ["", "orders-0"]


def test_a_heartbeat_without_news_stores_and_tells_nothing() -> None:
    broker = Coordinator()
    broker.join("a")
    before = broker.known
    broker.wait(1_000)
    assert broker.beat("a").assignment is None
    assert broker.beat("a", "orders-0 orders-1 orders-2").assignment is None
    assert changes(before, broker.known) == []


def test_a_full_request_gets_a_full_answer() -> None:
    broker = Coordinator()
    broker.join("a")
    assert broker.beat("a", is_full=True).assignment == partitions("orders-0 orders-1 orders-2")


def test_a_silent_member_is_removed_when_its_session_is_over() -> None:
    broker = Coordinator()
    broker.join("a")
    broker.wait(10_000)
    broker.join("b")
    assert consumer_group.deadline_ms(broker.known) == 31_000
    broker.wait(19_999)
    assert set(broker.known.members) == {"a", "b"}
    broker.beat("b")
    before = broker.known
    broker.wait(1)
    assert broker.known is not before
    assert broker.reasons[-1] == "member a was silent for 30 s"
    assert broker.beat("b").assignment == partitions("orders-0 orders-1 orders-2")
    with pytest.raises(UnknownMember):
        broker.beat("a")


def test_members_that_fall_silent_together_are_one_rebalance() -> None:
    broker = Coordinator()
    for member in "abc":
        broker.join(member)
    broker.wait(30_000)
    assert broker.reasons[-1] == "member a was silent for 30 s, and 2 more"
    assert broker.known.rebalance_count == 4


def test_a_tick_before_its_time_changes_nothing() -> None:
    broker = Coordinator()
    broker.join("a")
    assert consumer_group.tick(broker.known, broker.known_topics, broker.now) is broker.known


@pytest.mark.parametrize(
    ("asked_ms", "limit_ms", "shown"), [(300_000, 60_000, "60 s"), (0, 60_000, "60 s"), (1_500, 1_500, "1.5 s")]
)
def test_a_member_that_does_not_give_back_is_removed(asked_ms: int, limit_ms: int, shown: str) -> None:
    broker = Coordinator()
    broker.join("a", rebalance_timeout_ms=asked_ms)
    broker.join("b")
    broker.beat("a")
    left_ms = limit_ms
    while left_ms > 1:
        step_ms = min(20_000, left_ms - 1)
        broker.wait(step_ms)
        left_ms -= step_ms
        broker.beat("a", "orders-0 orders-1 orders-2")
        broker.beat("b")
    assert consumer_group.deadline_ms(broker.known) == broker.now.monotonic_ms + 1
    broker.wait(1)
    assert broker.reasons[-1] == f"member a did not revoke orders-2 within {shown}"
    assert broker.beat("b").assignment == partitions("orders-0 orders-1 orders-2")


def test_a_joiner_of_three_partitions_waits_less_than_a_second() -> None:
    """Both members come as often as they are told; giving back takes the old one a heartbeat more."""
    broker = Coordinator()
    interval_ms = broker.join("a").heartbeat_interval_ms
    began_ms = broker.now.wall_ms
    broker.join("b")
    broker.wait(interval_ms)
    broker.beat("a")
    broker.beat("b")
    broker.beat("a", "orders-0 orders-1")  # at once: clients tell it as soon as it is done
    broker.wait(interval_ms)
    broker.beat("b")
    assert consumer_group.state_of(broker.known) == "stable"
    assert broker.now.wall_ms - began_ms < 1_000


def test_members_have_their_full_time_after_a_restart() -> None:
    broker = Coordinator()
    broker.join("a")
    broker.join("b")
    broker.beat("a")
    broker.wait(25_000)
    before = broker.known
    broker.restart()
    assert broker.known == before
    broker.wait(29_999)
    assert set(broker.known.members) == {"a", "b"}
    broker.beat("b")
    broker.wait(1)
    assert set(broker.known.members) == {"b"}


def test_members_can_be_removed() -> None:
    broker = Coordinator()
    for member in "abc":
        broker.join(member)
    gone, reason = ["a", "b", "z"], "an operator asked for it"
    broker.keep(consumer_group.remove(broker.known, gone, reason, broker.known_topics, broker.now))
    assert set(broker.known.members) == {"c"}
    assert broker.reasons[-1] == "an operator asked for it"
    assert consumer_group.remove(broker.known, ["z"], "again", broker.known_topics, broker.now) is broker.known


def test_long_ids_are_shortened_where_they_are_shown() -> None:
    broker = Coordinator()
    broker.join("x" * 10_000)
    assert broker.reasons == [f"member {'x' * 64}... joined"]


def commit(broker: Coordinator, member: str, epoch: int, text: str) -> str:
    found = consumer_group.check_commit(broker.group, member, epoch, sorted(partitions(text)))
    assert all(isinstance(error, StaleMemberEpoch) for error in found.values())
    return written(frozenset(found))


def test_members_commit_for_what_they_have_and_what_they_are_giving_back() -> None:
    broker = Coordinator()
    broker.join("a")
    broker.join("b")
    broker.beat("a")
    assert commit(broker, "a", 1, "orders-0 orders-2 audit-0") == "audit-0"
    assert commit(broker, "b", 2, "orders-0 orders-2") == "orders-0 orders-2"
    broker.beat("a", "orders-0 orders-1")
    assert commit(broker, "a", 2, "orders-0 orders-2") == "orders-2"


@pytest.mark.parametrize("epoch", [-1, 0, 1, 3])
def test_a_zombie_cannot_commit(epoch: int) -> None:
    broker = Coordinator()
    broker.join("a")
    broker.join("b")
    broker.settle()
    with pytest.raises(StaleMemberEpoch):
        commit(broker, "a", epoch, "orders-0")
    with pytest.raises(UnknownMember):
        commit(broker, "z", 2, "orders-0")


def test_whoever_left_for_a_while_cannot_commit() -> None:
    broker = Coordinator()
    broker.join("a", instance_id="i")
    broker.beat("a", epoch=AWAY_EPOCH)
    for epoch in (AWAY_EPOCH, LEAVE_EPOCH, 1):
        with pytest.raises(StaleMemberEpoch):
            commit(broker, "a", epoch, "orders-0")


def test_without_members_anybody_commits() -> None:
    broker = Coordinator()
    assert commit(broker, "", -1, "orders-0") == ""
    broker.join("a")
    with pytest.raises(UnknownMember):
        commit(broker, "", -1, "orders-0")
    broker.beat("a", epoch=LEAVE_EPOCH)
    assert commit(broker, "", -1, "orders-0") == ""
    with pytest.raises(UnknownMember):
        commit(broker, "a", 1, "orders-0")


def test_what_cannot_be_meant_is_refused() -> None:
    broker = Coordinator()
    orders = frozenset({"orders"})
    broker.refused(MalformedRequest, "", epoch=0, topics=orders)
    broker.refused(MalformedRequest, "a", epoch=-3)
    broker.refused(MalformedRequest, "a", epoch=0)
    broker.refused(MalformedRequest, "a", epoch=0, topics=orders, owned=frozenset({TopicPartition("orders", 0)}))
    broker.refused(UnsupportedAssignor, "a", epoch=0, topics=orders, assignor="mine")
    broker.refused(InvalidPattern, "a", epoch=0, pattern="(")
    broker.refused(InvalidPattern, "a", epoch=0, pattern="x" * 1001)
    for epoch in (5, -1, -2):
        broker.refused(UnknownMember, "a", epoch=epoch)

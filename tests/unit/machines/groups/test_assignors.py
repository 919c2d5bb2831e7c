"""The assignors, by example: who gets which partitions."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from goqueue.machines.groups.assignors import ASSIGNORS, Assignment
from goqueue.model.groups import ASSIGNOR_NAMES
from goqueue.model.topic import TopicPartition

Short = Mapping[str, str]
"""An assignment as a test writes it: `a0 b1` for partition 0 of topic a and partition 1 of topic b."""


def written(assignment: Assignment) -> Short:
    return {
        member: " ".join(f"{topic}{number}" for topic, number in sorted(partitions))
        for member, partitions in assignment.items()
    }


def read(short: Short) -> Assignment:
    return {
        member: frozenset(TopicPartition(each[0], int(each[1:])) for each in text.split())
        for member, text in short.items()
    }


def assign(name: str, subscriptions: Short, current: Short | None = None, **topics: int) -> Short:
    wanted = {member: frozenset(names) for member, names in subscriptions.items()}
    return written(ASSIGNORS[name](wanted, topics, read(current or {})))


def test_range_gives_the_first_members_one_more() -> None:
    assert assign("range", {"x": "a", "y": "a", "z": "a"}, a=8) == {"x": "a0 a1 a2", "y": "a3 a4 a5", "z": "a6 a7"}


def test_range_deals_out_each_topic_for_itself() -> None:
    assert assign("range", {"y": "ab", "x": "ab"}, a=3, b=3) == {"x": "a0 a1 b0 b1", "y": "a2 b2"}


def test_range_leaves_members_empty_if_there_are_too_few_partitions() -> None:
    assert assign("range", {"x": "a", "y": "a", "z": "a"}, a=2) == {"x": "a0", "y": "a1", "z": ""}


def test_round_robin_goes_on_with_the_next_topic_where_it_was() -> None:
    assert assign("roundrobin", {"x": "ab", "y": "ab"}, a=3, b=3) == {"x": "a0 a2 b1", "y": "a1 b0 b2"}


def test_round_robin_passes_over_members_that_do_not_subscribe() -> None:
    assert assign("roundrobin", {"x": "a", "y": "ab", "z": "b"}, a=2, b=4) == {"x": "a0", "y": "a1 b1 b3", "z": "b0 b2"}


def test_the_second_consumer_of_three_partitions_gets_one() -> None:
    assert assign("sticky", {"x": "a", "y": "a"}, {"x": "a0 a1 a2"}, a=3) == {"x": "a0 a1", "y": "a2"}


def test_sticky_moves_nothing_that_it_need_not() -> None:
    current = {"x": "a0 a5", "y": "a1 a4", "z": "a2 a3"}
    assert assign("sticky", {"x": "a", "y": "a", "z": "a"}, current, a=6) == current
    joined = assign("sticky", {"x": "a", "y": "a", "z": "a", "w": "a"}, current, a=6)
    assert sorted(len(each.split()) for each in joined.values()) == [1, 1, 2, 2]
    left = assign("sticky", {"x": "a", "z": "a"}, current, a=6)
    assert left == {"x": "a0 a1 a5", "z": "a2 a3 a4"}


def test_sticky_gives_a_joiner_its_share_through_others() -> None:
    """The joiner can only take from y, and y has no more than its share: x has to hand on to y."""
    given = assign("sticky", {"x": "a", "y": "ab", "z": "b"}, {"x": "a0 a1", "y": "b0"}, a=2, b=1)
    assert given == {"x": "a0", "y": "a1", "z": "b0"}


def test_sticky_does_not_believe_what_members_have_if_it_cannot_be() -> None:
    current = {"x": "a0 a7 c0", "y": "a0 b0", "gone": "a1"}
    assert assign("sticky", {"x": "a", "y": "a"}, current, a=2, b=1) == {"x": "a0", "y": "a1"}


@pytest.mark.parametrize("name", ["range", "roundrobin", "sticky", "uniform"])
def test_members_without_topics_that_exist_get_nothing(name: str) -> None:
    assert assign(name, {}, a=3) == {}
    assert assign(name, {"x": "", "y": "q"}, a=3) == {"x": "", "y": ""}
    assert assign(name, {"x": "", "y": "a"}, a=1) == {"x": "", "y": "a0"}


def test_uniform_is_another_name_of_sticky() -> None:
    assert ASSIGNORS["uniform"] is ASSIGNORS["sticky"]


def test_a_thousand_members_share_ten_thousand_partitions() -> None:
    topics = {f"t{number}": 100 for number in range(100)}
    members = {f"m{number}": frozenset(topics) for number in range(1000)}
    first = ASSIGNORS["sticky"](members, topics, {})
    assert {len(partitions) for partitions in first.values()} == {10}
    members["joiner"] = frozenset(topics)
    second = ASSIGNORS["sticky"](members, topics, first)
    assert len(second["joiner"]) == 9
    assert sum(len(first[member] - second[member]) for member in first) == 9


def test_members_may_vote_for_every_assignor() -> None:
    assert tuple(ASSIGNORS) == ASSIGNOR_NAMES

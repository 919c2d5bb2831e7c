"""The assignors against brute force and naive rules, for any subscriptions and any assignment before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import combinations, cycle, pairwise, product
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.machines.groups.assignors import ASSIGNORS, Assignment, Subscriptions
from goqueue.model.topic import TopicPartition

Value = TypeVar("Value")

TOPICS = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 5), max_size=4)
FEW = st.dictionaries(st.sampled_from("abc"), st.integers(1, 2), max_size=3)
SUBSCRIPTIONS = st.dictionaries(st.sampled_from("uvwxyz"), st.frozensets(st.sampled_from("abcde")), max_size=6)
FEW_MEMBERS = st.dictionaries(st.sampled_from("wxyz"), st.frozensets(st.sampled_from("abc")), max_size=4)
PARTITIONS = st.builds(TopicPartition, st.sampled_from("abcde"), st.integers(0, 5))
CURRENT = st.dictionaries(st.sampled_from("tuvwxyz"), st.frozensets(PARTITIONS))

any_assignor = pytest.mark.parametrize("name", ["range", "roundrobin", "sticky"])


def partitions_of(subscriptions: Subscriptions, topics: dict[str, int]) -> list[TopicPartition]:
    wanted = frozenset[str]().union(*subscriptions.values())
    return [
        TopicPartition(topic, number) for topic in sorted(wanted & topics.keys()) for number in range(topics[topic])
    ]


def backwards(mapping: Mapping[str, Value]) -> dict[str, Value]:
    return dict(reversed(list(mapping.items())))


def squares(loads: Counter[str]) -> int:
    return sum(load * load for load in loads.values())


def loads_of(assignment: Assignment) -> Counter[str]:
    return Counter({member: len(partitions) for member, partitions in assignment.items()})


@any_assignor
@settings(max_examples=100, deadline=None)
@given(subscriptions=SUBSCRIPTIONS, topics=TOPICS, current=CURRENT)
def test_every_partition_goes_to_one_subscriber(
    name: str, subscriptions: dict[str, frozenset[str]], topics: dict[str, int], current: Assignment
) -> None:
    assignment = ASSIGNORS[name](subscriptions, topics, current)
    assert assignment.keys() == subscriptions.keys()
    given_out = [partition for partitions in assignment.values() for partition in partitions]
    assert sorted(given_out) == partitions_of(subscriptions, topics)
    for member, partitions in assignment.items():
        assert {partition.topic for partition in partitions} <= subscriptions[member]


@any_assignor
@settings(max_examples=50, deadline=None)
@given(subscriptions=SUBSCRIPTIONS, topics=TOPICS, current=CURRENT)
def test_the_order_of_the_arguments_does_not_matter(
    name: str, subscriptions: dict[str, frozenset[str]], topics: dict[str, int], current: Assignment
) -> None:
    again = ASSIGNORS[name](backwards(subscriptions), backwards(topics), backwards(current))
    assert again == ASSIGNORS[name](subscriptions, topics, current)


@settings(max_examples=150, deadline=None)
@given(subscriptions=FEW_MEMBERS, topics=FEW, current=CURRENT)
def test_sticky_is_as_even_as_can_be(
    subscriptions: dict[str, frozenset[str]], topics: dict[str, int], current: Assignment
) -> None:
    assignment = ASSIGNORS["sticky"](subscriptions, topics, current)
    choices = [
        [member for member, names in subscriptions.items() if partition.topic in names]
        for partition in partitions_of(subscriptions, topics)
    ]
    assert squares(loads_of(assignment)) == min(squares(Counter(owners)) for owners in product(*choices))


@settings(max_examples=150, deadline=None)
@given(subscriptions=SUBSCRIPTIONS, topics=TOPICS, current=CURRENT)
def test_sticky_leaves_alone_what_is_even_already(
    subscriptions: dict[str, frozenset[str]], topics: dict[str, int], current: Assignment
) -> None:
    assignment = ASSIGNORS["sticky"](subscriptions, topics, current)
    assert ASSIGNORS["sticky"](subscriptions, topics, assignment) == assignment
    for (one, names), (other, other_names) in combinations(subscriptions.items(), 2):
        if names == other_names:
            assert abs(len(assignment[one]) - len(assignment[other])) <= 1


@settings(max_examples=150, deadline=None)
@given(members=st.frozensets(st.sampled_from("uvwxyz"), min_size=1), count=st.integers(0, 20), data=st.data())
def test_sticky_keeps_as_much_as_an_even_assignment_can(
    members: frozenset[str], count: int, data: st.DataObject
) -> None:
    """With one topic it is known how much that is: as many members as have it keep one more than the others."""
    owners = data.draw(st.lists(st.sampled_from(["", *sorted(members)]), min_size=count, max_size=count))
    current = {
        member: frozenset(TopicPartition("a", number) for number, owner in enumerate(owners) if owner == member)
        for member in members
    }
    assignment = ASSIGNORS["sticky"](dict.fromkeys(members, frozenset("a")), {"a": count}, current)
    share, rest = divmod(count, len(members))
    had = sorted((len(current[member]) for member in members), reverse=True)
    can_stay = sum(min(has, share + (place < rest)) for place, has in enumerate(had))
    assert sum(len(assignment[member] & current[member]) for member in members) == can_stay


@settings(max_examples=100, deadline=None)
@given(subscriptions=SUBSCRIPTIONS, topics=TOPICS)
def test_range_gives_each_subscriber_one_piece_of_each_topic(
    subscriptions: dict[str, frozenset[str]], topics: dict[str, int]
) -> None:
    assignment = ASSIGNORS["range"](subscriptions, topics, {})
    for topic, count in topics.items():
        subscribers = sorted(member for member, names in subscriptions.items() if topic in names)
        pieces = [
            sorted(each.partition for each in assignment[member] if each.topic == topic) for member in subscribers
        ]
        assert [number for piece in pieces for number in piece] == list(range(count if subscribers else 0))
        assert all(len(former) - len(latter) in {0, 1} for former, latter in pairwise(pieces))
        assert not pieces or len(pieces[0]) - len(pieces[-1]) in {0, 1}


@settings(max_examples=100, deadline=None)
@given(subscriptions=SUBSCRIPTIONS, topics=TOPICS)
def test_round_robin_goes_round(subscriptions: dict[str, frozenset[str]], topics: dict[str, int]) -> None:
    expected: dict[str, set[TopicPartition]] = {member: set() for member in subscriptions}
    turns = cycle(sorted(subscriptions))
    for partition in partitions_of(subscriptions, topics):
        expected[next(member for member in turns if partition.topic in subscriptions[member])].add(partition)
    assert ASSIGNORS["roundrobin"](subscriptions, topics, {}) == expected

"""The bytes of Kafka consumers: what they read, and what they were given; anything else is nobody's business."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from goqueue.machines.groups.classic.consumer_protocol import (
    PARTITIONS_MAX,
    TOPICS_MAX,
    assigned_of,
    assigned_partitions,
    subscribed_topics,
)
from goqueue.model.topic import TopicPartition
from tests.unit.machines.groups.classic.consumer_bytes import assignment, subscription

NAMES = st.text(max_size=20)
PARTITIONS = st.builds(TopicPartition, NAMES, st.integers(0, 2**31 - 1))

# As a Java client writes them: version 3 of a subscription to two topics, version 1 of an assignment.
JAVA_SUBSCRIPTION = bytes.fromhex(
    "0003 00000002 0006 6f7264657273 0005 6175646974 ffffffff"
    "00000001 0006 6f7264657273 00000002 00000000 00000002 0000000c ffff"
)
JAVA_ASSIGNMENT = bytes.fromhex("0001 00000001 0006 6f7264657273 00000002 00000000 00000002 ffffffff")


def test_what_clients_write_is_understood() -> None:
    assert subscribed_topics(JAVA_SUBSCRIPTION) == frozenset({"orders", "audit"})
    assert assigned_partitions(JAVA_ASSIGNMENT) == frozenset({TopicPartition("orders", 0), TopicPartition("orders", 2)})


@given(st.lists(NAMES), st.binary(max_size=20))
def test_subscriptions_of_any_topics_are_read(topics: list[str], user_data: bytes) -> None:
    assert subscribed_topics(subscription(*topics, user_data=user_data)) == frozenset(topics)
    assert subscribed_topics(subscription(*topics, owned=(TopicPartition("t", 1),))) == frozenset(topics)


@given(st.sets(PARTITIONS))
def test_assignments_of_any_partitions_are_read(partitions: set[TopicPartition]) -> None:
    assert assigned_partitions(assignment(*partitions)) == frozenset(partitions)


@given(st.sets(PARTITIONS), st.sets(PARTITIONS))
def test_partitions_are_found_in_an_assignment_without_reading_all_of_it(
    has: set[TopicPartition], others: set[TopicPartition]
) -> None:
    wanted = {*others, *sorted(has)[::2]}
    assert assigned_of(assignment(*has), wanted) == has & wanted
    assert assigned_of(assignment(*has)[:-5], wanted) <= has
    assert assigned_of(b"something else", wanted) == frozenset()


def test_no_bytes_are_no_partitions_and_no_subscription() -> None:
    assert assigned_partitions(b"") == frozenset()
    assert subscribed_topics(b"") is None


@given(st.binary(max_size=100))
def test_any_bytes_are_read_or_not_but_nothing_breaks(data: bytes) -> None:
    assert isinstance(subscribed_topics(data), frozenset | None)
    assert isinstance(assigned_partitions(data), frozenset | None)


@given(st.data())
def test_what_was_cut_off_is_not_taken_for_less(data: st.DataObject) -> None:
    partitions = data.draw(st.sets(PARTITIONS, min_size=1))
    whole = assignment(*partitions)
    cut = data.draw(st.integers(1, len(whole) - 5))
    assert assigned_partitions(whole[:cut]) is None


def test_counts_are_believed_only_if_there_are_bytes_for_them() -> None:
    for count in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff"):
        assert subscribed_topics(b"\x00\x00" + count) is None
        assert assigned_partitions(b"\x00\x00" + count) is None
        assert assigned_partitions(b"\x00\x00\x00\x00\x00\x01\x00\x01t" + count) is None


def test_more_than_anybody_needs_is_not_read() -> None:
    most = [TopicPartition("t", index) for index in range(PARTITIONS_MAX)]
    assert len(assigned_partitions(assignment(*most)) or ()) == PARTITIONS_MAX
    for one_more in (TopicPartition("t", PARTITIONS_MAX), TopicPartition("u", 0)):
        assert assigned_partitions(assignment(*most, one_more)) is None
        assert assigned_of(assignment(*most, one_more), {one_more}) == frozenset()
    names = [str(number) for number in range(TOPICS_MAX + 1)]
    assert subscribed_topics(subscription(*names[1:])) == frozenset(names[1:])
    assert subscribed_topics(subscription(*names)) is None


def test_nothing_is_kept_of_what_was_read() -> None:
    data = assignment(*(TopicPartition("t", index) for index in range(1000)))
    assert assigned_partitions(data) is not assigned_partitions(data)

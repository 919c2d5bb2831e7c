"""Where a member is: what there is to commit, to tell a broker that has forgotten, and to tell it in portions."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest

from goqueue.client import GroupPartition, Message, PartitionOffset
from goqueue.client.groups import GroupPage
from goqueue.client.member_places import Places

ZERO, ONE = GroupPartition("t", 0), GroupPartition("t", 1)


def page(offsets: dict[GroupPartition, int], *messages: Message) -> GroupPage:
    told = [PartitionOffset(each.topic, each.partition, offset) for each, offset in offsets.items()]
    return GroupPage(messages, told, 1, is_rebalancing=False, errors=())


def message(each: GroupPartition, offset: int) -> Message:
    return Message(
        topic=each.topic, partition=each.partition, offset=offset, timestamp=0, key=None, value=b"", headers=()
    )


def test_what_the_first_page_has_brought_is_not_done_and_where_an_idle_partition_began_is() -> None:
    places = Places()
    assert len(places.take(page({ZERO: 9, ONE: 70}, message(ZERO, 7), message(ZERO, 8)), {})) == 2
    assert places.wanted(is_done=False) == {ZERO: 7, ONE: 70}
    assert places.wanted(is_done=True) == {ZERO: 9, ONE: 70}
    places.finish()
    assert places.wanted(is_done=False) == {ZERO: 9, ONE: 70}


def test_only_what_was_brought_is_worth_a_commit() -> None:
    places = Places()
    places.take(page({ZERO: 9, ONE: 70}, message(ZERO, 7)), {})
    assert places.has_unsaved
    places.saved(ZERO, 9)
    assert not places.has_unsaved
    assert places.unsaved(places.wanted(is_done=True)) == {ONE: 70}
    assert places.has_uncommitted_start


def test_a_broker_that_has_forgotten_is_told_all_places_in_portions() -> None:
    places = Places()
    wide = {GroupPartition("t" * 200, index): index for index in range(100)}
    places.take(page(wide), {})
    assert places.seek_again({})
    assert not places.seek_again({})
    heard: dict[GroupPartition, int] = {}
    for _ in range(100):
        sent, is_all = places.next_sought()
        heard |= sent
        places.take(page({}), sent)
        if is_all:
            break
    assert heard == wide
    assert places.next_sought() == ({}, True)


def test_messages_of_a_partition_that_is_left_are_not_taken() -> None:
    places = Places()
    places.take(page({ZERO: 5}), {})
    sent, _ = places.next_sought()
    places.seek(ZERO, 2)
    assert places.take(page({ZERO: 6}, message(ZERO, 5)), sent) == []
    assert places.wanted(is_done=True) == {ZERO: 2}
    assert places.next_sought() == ({ZERO: 2}, True)


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty_threads")
def test_heartbeats_take_partitions_away_while_another_thread_looks() -> None:
    places = Places()
    many = {GroupPartition("t", index): index for index in range(200)}
    is_over = threading.Event()

    def beat() -> None:
        while not is_over.is_set():
            places.keep((ZERO,))

    beating = threading.Thread(target=beat)
    beating.start()
    try:
        for _ in range(300):
            places.take(page(many), {})
            assert len(places.positions) <= len(many)
            places.unsaved(places.wanted(is_done=True))
    finally:
        is_over.set()
        beating.join()

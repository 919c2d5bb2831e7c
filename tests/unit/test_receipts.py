"""Receipts: opaque to consumers, believed by nobody who has not written them."""

from __future__ import annotations

import pytest

from goqueue.broker.receipts import Receipts
from goqueue.machines.delivery_commands import Receipt
from goqueue.machines.delivery_values import Delivery
from goqueue.machines.group_values import TopicPartition

ORDERS = [TopicPartition("orders", number) for number in range(2)]


def deliveries(count: int = 3) -> list[Delivery]:
    """Return deliveries of two partitions, of which some are the first of their message."""
    return [Delivery(each, offset, 1 + offset % 2) for each in ORDERS for offset in range(count)]


def test_what_was_written_together_is_read_as_it_was() -> None:
    written = Receipts().write("billing", 7, deliveries())
    claims, unreadable = Receipts().read(written)
    assert unreadable == {}
    assert list(claims) == ["billing"]
    assert list(claims["billing"].numbers) == list(range(6))
    assert claims["billing"].receipts == [Receipt(each.partition, each.offset, 7) for each in deliveries()]
    assert len(set(written)) == 6


def test_a_group_may_have_any_name() -> None:
    group = "a\0b\0é"
    claims, unreadable = Receipts().read(Receipts().write(group, 7, deliveries(1)))
    assert unreadable == {}
    assert claims[group].receipts == [Receipt(each, 0, 7) for each in ORDERS]


def test_receipts_of_several_groups_and_topics_are_told_apart() -> None:
    receipts = Receipts()
    (first,) = receipts.write("a", 1, [Delivery(ORDERS[0], 5, 1)])
    (second,) = receipts.write("b", 2, [Delivery(ORDERS[0], 5, 1)])
    (third,) = receipts.write("a", 3, [Delivery(TopicPartition("bills", 0), 6, 70_000)])
    claims, unreadable = receipts.read([first, second, third])
    assert unreadable == {}
    assert claims["a"] == ([0, 2], [Receipt(ORDERS[0], 5, 1), Receipt(TopicPartition("bills", 0), 6, 3)])
    assert claims["b"] == ([1], [Receipt(ORDERS[0], 5, 2)])


@pytest.mark.parametrize(
    "spoil",
    [
        lambda written: "",
        lambda written: "x",
        lambda written: written[1:],
        lambda written: written[:32],
        lambda written: written[:-1],
        lambda written: "!" + written[1:],
        lambda written: "=" + written[1:],
        lambda written: "é" + written[1:],
        lambda written: "\n" + written[1:],
        # An offset below zero, and something where nothing is to be.
        lambda written: written[:10] + "e" + written[11:],
        lambda written: written[:31] + "B" + written[32:],
    ],
)
def test_one_that_is_none_is_told_and_spoils_no_other(spoil: object) -> None:
    assert callable(spoil)
    receipts = Receipts()
    first, second, third, *_ = receipts.write("billing", 7, deliveries())
    claims, unreadable = receipts.read([first, spoil(second), third])
    assert list(unreadable) == [1]
    assert unreadable[1].code == "invalid_receipt"
    assert list(claims["billing"].numbers) == [0, 2]
    assert [each.offset for each in claims["billing"].receipts] == [0, 2]


def test_none_is_no_receipts() -> None:
    assert Receipts().read([]) == ({}, {})

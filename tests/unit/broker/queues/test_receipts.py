"""Receipts: opaque to consumers, and refused unless the broker has written them."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from hashlib import blake2b

import pytest

from goqueue.broker.queues.receipts import ReceiptCodec
from goqueue.machines.queues.commands import Claim
from goqueue.machines.queues.values import Delivery
from goqueue.model.request_limits import RECEIPT_CHARS_MAX
from goqueue.model.topic import TopicPartition

KEY = bytes(range(32))
ORDERS = [TopicPartition("orders", number) for number in range(2)]


OFFSETS = [0, 5, 2**63 - 1]


def write(receipts: ReceiptCodec, group: str, lease_id: int = 7) -> list[str]:
    """Return the receipts of messages in two partitions."""
    return [each for where in ORDERS for each in receipts.write(group, lease_id, Delivery(where, OFFSETS, 2))]


def test_what_was_written_together_is_read_as_it_was() -> None:
    written = write(ReceiptCodec(KEY), "billing", 2**64 - 1)
    shown, unreadable = ReceiptCodec(KEY).read(written)
    assert unreadable == {}
    assert list(shown) == ["billing"]
    assert list(shown["billing"].numbers) == list(range(6))
    assert shown["billing"].claims == [Claim(where, OFFSETS, 2**64 - 1) for where in ORDERS]
    assert len(set(written)) == 6


def test_receipt_is_not_taken_by_a_broker_with_another_key() -> None:
    written = write(ReceiptCodec(KEY), "billing")
    shown, unreadable = ReceiptCodec(bytes(32)).read(written)
    assert shown == {}
    assert list(unreadable) == list(range(6))
    assert {each.code for each in unreadable.values()} == {"invalid_receipt"}


@pytest.mark.parametrize(
    "forge",
    [
        # By a writer who knows the id of another lease, another partition, number of deliveries, group or topic.
        lambda written: b64encode((8).to_bytes(8) + b64decode(written[:32])[8:]).decode() + written[32:],
        lambda written: written[:22] + b64encode(bytes.fromhex("00000001 0002 0000"))[:10].decode() + written[32:],
        lambda written: written[:26] + "A" * 6 + written[32:],
        lambda written: written[:44] + b64encode(b"billing2\0orders").decode(),
        lambda written: written[:44] + b64encode(b"billing\0bills").decode(),
        # Without a tag, or with a wrong one.
        lambda written: written[:32] + written[44:],
        lambda written: written[:32] + "A" * 12 + written[44:],
    ],
)
@pytest.mark.parametrize("count", [1, 3])
def test_forged_receipt_is_refused_alone_and_among_others(forge: Callable[[str], str], count: int) -> None:
    receipts = ReceiptCodec(KEY)
    written = write(receipts, "billing")[:count]
    forged = forge(written[0])
    assert forged != written[0]
    shown, unreadable = receipts.read([forged, *written[1:]])
    assert {number: error.code for number, error in unreadable.items()} == {0: "invalid_receipt"}
    assert [list(each.numbers) for each in shown.values()] == ([list(range(1, count))] if count > 1 else [])


def test_a_receipt_is_the_same_on_every_machine() -> None:
    signed = bytes.fromhex("0000000000000001 00000003 0004 0000") + b64encode(b"g\0t")
    tag = b64encode(blake2b(signed, key=KEY, digest_size=9).digest()).decode()
    assert ReceiptCodec(KEY).write("g", 1, Delivery(TopicPartition("t", 3), [2], 4)) == [
        b64encode(bytes.fromhex("0000000000000001 0000000000000002 00000003 0004 0000")).decode()
        + tag
        + b64encode(b"g\0t").decode()
    ]


def test_a_group_may_have_any_name() -> None:
    group = "a\0b\0é"
    shown, unreadable = ReceiptCodec(KEY).read(write(ReceiptCodec(KEY), group))
    assert unreadable == {}
    assert shown[group].claims == [Claim(each, OFFSETS, 7) for each in ORDERS]


def test_receipts_of_several_groups_and_topics_are_told_apart() -> None:
    receipts = ReceiptCodec(KEY)
    (first,) = receipts.write("a", 1, Delivery(ORDERS[0], [5], 1))
    (second,) = receipts.write("b", 2, Delivery(ORDERS[0], [5], 1))
    (third,) = receipts.write("a", 3, Delivery(TopicPartition("bills", 0), [6], 70_000))
    shown, unreadable = receipts.read([first, second, third])
    assert unreadable == {}
    assert shown["a"] == ([0, 2], [Claim(ORDERS[0], [5], 1), Claim(TopicPartition("bills", 0), [6], 3)])
    assert shown["b"] == ([1], [Claim(ORDERS[0], [5], 2)])


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
        # No topic has such a name.
        lambda written: written[:32] + b64encode(b"billing\0\xff").decode(),
    ],
)
def test_one_that_is_none_is_told_and_spoils_no_other(spoil: object) -> None:
    assert callable(spoil)
    receipts = ReceiptCodec(KEY)
    first, second, third, *_ = write(receipts, "billing")
    shown, unreadable = receipts.read([first, spoil(second), third])
    assert list(unreadable) == [1]
    assert unreadable[1].code == "invalid_receipt"
    assert list(shown["billing"].numbers) == [0, 2]
    assert [each.offsets for each in shown["billing"].claims] == [[OFFSETS[0]], [OFFSETS[2]]]


def test_none_is_no_receipts() -> None:
    assert ReceiptCodec(KEY).read([]) == ({}, {})


def test_a_receipt_of_the_longest_names_is_read_and_a_longer_one_is_none() -> None:
    group = "\U0001f4ee" * 250
    (written,) = ReceiptCodec(KEY).write(group, 1, Delivery(TopicPartition("t" * 249, 0), [0], 1))
    assert len(written) <= RECEIPT_CHARS_MAX
    shown, _ = ReceiptCodec(KEY).read([written])
    assert list(shown) == [group]
    _, unreadable = ReceiptCodec(KEY).read(["A" * (RECEIPT_CHARS_MAX + 4)])
    assert list(unreadable) == [0]

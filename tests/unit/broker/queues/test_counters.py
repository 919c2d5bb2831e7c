"""What is counted of queue groups is kept for groups and topics that there are, and for no others."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from goqueue.broker.queues.counters import Partitions, QueueTallies, QueueTally
from goqueue.errors import StaleReceipt
from goqueue.machines.queues.commands import Claim, MarkDeadLettered, Settle
from goqueue.machines.queues.steps import DONE
from goqueue.machines.queues.values import AckType, Delivery
from goqueue.model.topic import TopicPartition

ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("bills", 0)
COUNTED = QueueTally(delivered=2, redelivered=1, acked=1, refused=1, dead_letters=Counter(rejected=1))


def count(tallies: QueueTallies, known: Partitions) -> None:
    """Have something of everything happen in both topics, of which only some are known by then."""
    for where in (ORDERS, BILLS):
        tallies.leased("g", [Delivery(where, [0], 1), Delivery(where, [1], 2)], known)
        claims = [Claim(where, [0], 1), Claim(where, [1], 9)]
        tallies.settled(Settle("g", AckType.ACK, claims), [DONE, StaleReceipt("gone")], known)
        tallies.buried(MarkDeadLettered("g", where, UUID(int=7), {1: 9}), ["rejected"], known)


def test_what_happens_is_counted_by_topic() -> None:
    tallies = QueueTallies()
    count(tallies, {ORDERS, BILLS})
    assert tallies.find("g", "orders") == tallies.find("g", "bills") == COUNTED
    assert tallies.find("g", "letters") == tallies.find("h", "orders") == QueueTally()


def test_a_topic_that_is_gone_is_forgotten_and_does_not_come_back() -> None:
    tallies = QueueTallies()
    count(tallies, {ORDERS, BILLS})
    tallies.forget_topic("orders")
    count(tallies, {BILLS})
    assert tallies.find("g", "orders") == QueueTally()
    assert tallies.find("g", "bills").delivered == 4


def test_a_group_that_is_gone_is_forgotten_and_does_not_come_back() -> None:
    tallies = QueueTallies()
    count(tallies, {ORDERS, BILLS})
    tallies.forget("g")
    count(tallies, ())
    assert tallies.find("g", "orders") == QueueTally()


def test_what_was_found_does_not_change_any_more() -> None:
    tallies = QueueTallies()
    count(tallies, {ORDERS})
    found = tallies.find("g", "orders")
    count(tallies, {ORDERS})
    assert found == COUNTED

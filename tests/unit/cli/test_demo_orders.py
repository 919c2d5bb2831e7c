"""The orders of the demonstration: most are as they should be, and each mistake is there."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime

from goqueue.cli.demo.orders import CUSTOMERS, LATE, Orders
from goqueue.testing import SeededEntropy

NOW = datetime(2030, 1, 31, 12, tzinfo=UTC)


def test_every_mistake_is_made_and_counted_and_most_orders_are_good() -> None:
    orders = Orders(SeededEntropy(1), first=7)
    made = orders.take(5000, NOW)
    found: Counter[str] = Counter()
    numbers: Counter[str] = Counter()
    for message in made:
        assert message.key in CUSTOMERS
        try:
            order = json.loads(message.value or b"")
        except ValueError:
            found["malformed"] += 1
            continue
        assert order["customer"] == message.key
        found["negative"] += order["amount"] < 0
        found["nameless"] += order["order_id"] is None
        found["late"] += datetime.fromisoformat(order["placed_at"]) == NOW - LATE
        if order["order_id"] is not None:
            numbers[order["order_id"]] += 1
    found["twice"] = sum(count - 1 for count in numbers.values())
    tally = orders.tally
    assert tally.orders == 5000
    assert dict(found) == tally.kinds
    assert all(count > 0 for count in tally.kinds.values())
    assert sum(tally.kinds.values()) < 500
    assert min(numbers) == "order-000008"


def test_orders_that_follow_have_other_numbers() -> None:
    orders = Orders(SeededEntropy(2))
    first, second = orders.take(50, NOW), orders.take(50, NOW)
    assert not {each.value for each in first[:-1]} & {each.value for each in second[1:]}

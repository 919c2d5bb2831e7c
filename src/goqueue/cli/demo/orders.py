"""Sample orders of a shop; some are malformed, late or duplicates."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec

from goqueue.client.messages import NewMessage
from goqueue.seams.entropy import Entropy

TOPIC = "orders"
CUSTOMERS = {
    "ada": "UK",
    "blaise": "FR",
    "carl": "DE",
    "emmy": "DE",
    "grace": "US",
    "hedy": "AT",
    "kurt": "AT",
    "lise": "SE",
}
"""The country of each customer."""

LATE = timedelta(minutes=30)
_CENTS_MAX = 20_000
# Per thousand orders; the others are valid.
_KINDS = {"malformed": 10, "negative": 15, "nameless": 5, "late": 10, "twice": 20}


class OrderCounts(NamedTuple):
    """The number of orders, and of each kind among them."""

    orders: int
    kinds: dict[str, int]


class Orders:
    """Generates orders, numbered from `first` on."""

    def __init__(self, entropy: Entropy, first: int = 0) -> None:
        self._entropy = entropy
        self._number = first
        self._last: NewMessage | None = None
        self._kinds = dict.fromkeys(_KINDS, 0)
        self._made = 0

    def take(self, count: int, now: datetime) -> list[NewMessage]:
        """Return the next orders."""
        return [self._next(now) for _ in range(count)]

    @property
    def tally(self) -> OrderCounts:
        """The orders so far."""
        return OrderCounts(self._made, dict(self._kinds))

    def _next(self, now: datetime) -> NewMessage:
        kind = self._kind()
        if kind == "twice" and self._last is None:
            kind = ""
        if kind:
            self._kinds[kind] += 1
        self._made += 1
        if kind == "twice":
            assert self._last is not None
            return self._last
        self._number += 1
        customer = sorted(CUSTOMERS)[self._entropy.below(len(CUSTOMERS))]
        amount = (1 + self._entropy.below(_CENTS_MAX)) / 100
        order = {
            "order_id": None if kind == "nameless" else f"order-{self._number:06d}",
            "customer": customer,
            "amount": -amount if kind == "negative" else amount,
            "placed_at": (now - LATE if kind == "late" else now).astimezone(UTC).isoformat(timespec="milliseconds"),
        }
        value = msgspec.json.encode(order)
        made = NewMessage(value[: len(value) // 2] if kind == "malformed" else value, key=customer)
        if not kind:
            self._last = made
        return made

    def _kind(self) -> str:
        """Choose what is wrong with the next order; usually nothing."""
        drawn = self._entropy.below(1000)
        for kind, share in _KINDS.items():
            if drawn < share:
                return kind
            drawn -= share
        return ""

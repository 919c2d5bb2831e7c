"""Which batches of a log belong to aborted transactions, for those who look at them in any order."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from goqueue.machines.producer import AbortedRange
from goqueue.records.layout import BatchHeader


class AbortedRanges:
    """The aborted transactions of a stretch of the log, by producer."""

    def __init__(self, transactions: Iterable[AbortedRange]) -> None:
        """Take transactions in the order of their markers; a producer has one at a time, so its own never overlap."""
        self._by_producer: dict[int, list[AbortedRange]] = {}
        for each in transactions:
            self._by_producer.setdefault(each.producer_id, []).append(each)

    def hold(self, header: BatchHeader) -> bool:
        """Tell whether a batch belongs to one of them."""
        if not header.is_transactional:
            return False
        own = self._by_producer.get(header.producer_id, ())
        number = bisect_left(own, header.base_offset, key=_last_offset)
        return number < len(own) and own[number].first_offset <= header.base_offset


def _last_offset(transaction: AbortedRange) -> int:
    return transaction.last_offset

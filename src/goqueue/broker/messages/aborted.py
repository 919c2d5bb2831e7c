"""Which batches belong to aborted transactions, for those who read batch by batch."""

from __future__ import annotations

from collections.abc import Sequence

from goqueue.machines.producer import AbortedRange
from goqueue.records.layout import BatchHeader


class Aborted:
    """Follows a reader through a stretch of the log, of which all aborted transactions are known."""

    def __init__(self, transactions: Sequence[AbortedRange]) -> None:
        self._later = sorted(transactions, key=lambda each: each.first_offset, reverse=True)
        # Until where the records of a producer are aborted; its marker is the last of them.
        self._last_offsets: dict[int, int] = {}

    def hides(self, header: BatchHeader) -> bool:
        """Tell whether the next batch belongs to an aborted transaction; call it for each batch, in order."""
        while self._later and self._later[-1].first_offset <= header.last_offset:
            each = self._later.pop()
            self._last_offsets[each.producer_id] = each.last_offset
        return header.is_transactional and header.base_offset <= self._last_offsets.get(header.producer_id, -1)

"""History that workers of a queue group recorded, and checks of it.

Knows nothing of who was killed and when: whatever happened, no message is handled after it was confirmed to be done,
and no two handlers have a message under one lease.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import NamedTuple

Place = tuple[int, int]


class Handled(NamedTuple):
    """A handler began with a message: where it lies, which delivery of it, and when."""

    worker: str
    place: Place
    delivery: int
    receipt: str
    at: float


class QueueHistory:
    """The events of all workers."""

    def __init__(self) -> None:
        self.handled: list[Handled] = []
        self.acked: dict[str, float] = {}
        self.ended: set[str] = set()
        self._read: Counter[str] = Counter()

    def read(self, worker: str, path: Path) -> None:
        """Take in what a worker has written since the last time; its last line may be cut short."""
        lines = path.read_text("utf-8").splitlines(keepends=True)
        for line in lines[self._read[worker] :]:
            if not line.endswith("\n"):
                break
            self._read[worker] += 1
            self._take(worker, json.loads(line))

    def _take(self, worker: str, event: dict[str, object]) -> None:
        match event:
            case {"event": "handled", "place": [int(partition), int(offset)], "at": float(at), **rest}:
                place = (partition, offset)
                self.handled.append(Handled(worker, place, int(str(rest["delivery"])), str(rest["receipt"]), at))
            case {"event": "acked", "receipts": list(receipts), "at": float(at)}:
                self.acked |= dict.fromkeys(map(str, receipts), at)
            case {"event": "ended"}:
                self.ended.add(worker)
            case _:
                raise AssertionError(f"{worker} wrote {event}")

    @property
    def places(self) -> set[Place]:
        """The messages that were handled at least once."""
        return {each.place for each in self.handled}

    @property
    def done(self) -> dict[Place, float]:
        """The messages that are confirmed to be done, and since when."""
        return {each.place: self.acked[each.receipt] for each in self.handled if each.receipt in self.acked}


def check(history: QueueHistory) -> None:
    """Look for what must never happen."""
    done = history.done
    again = [each for each in history.handled if each.at > done.get(each.place, each.at)]
    assert not again, f"handled after the broker had confirmed that it is done: {again}"
    receipts = Counter(each.receipt for each in history.handled)
    twice = [receipt for receipt, count in receipts.items() if count > 1]
    assert not twice, f"handled twice under one lease: {[each for each in history.handled if each.receipt in twice]}"
    deliveries = Counter((each.place, each.delivery) for each in history.handled)
    same = [each for each, count in deliveries.items() if count > 1]
    assert not same, f"two deliveries of a message have the same number: {same}"

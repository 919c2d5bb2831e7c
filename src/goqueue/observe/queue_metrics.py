"""What metrics tell of queue groups: at most 1,000 pairs of group and topic, one by one; others are only counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from goqueue.broker.broker import Broker
from goqueue.broker.queue_stats import QueueStats, look_at_queues

QUEUES_MAX = 1000


@dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """Queue groups, as they were at about one moment; `now_ms` is when that was."""

    count: int
    queues: Sequence[QueueStats]
    now_ms: int

    @property
    def omitted(self) -> int:
        """How many groups have nothing told of them."""
        return self.count - len({each.group for each in self.queues}) if len(self.queues) >= QUEUES_MAX else 0


async def look_at_queue_groups(broker: Broker) -> QueueSnapshot:
    """Return what is to be told."""
    count = sum(len(machine.groups) for machine in broker.queues.machines)
    return QueueSnapshot(count, await look_at_queues(broker, QUEUES_MAX), broker.clock.now_ms())

"""Metrics of queue groups, their share consumers, and redrives of their dead letters.

At most 1,000 pairs of group and topic, 1,000 groups with share consumers, and 1,000 topics of dead letters have series
of their own; other groups are only counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from goqueue.broker.broker import Broker
from goqueue.broker.queues.stats import QueueTopicStats, look_at_queues
from goqueue.machines.redrives.values import Moves
from goqueue.model.redrives import RedriveState

QUEUES_MAX = 1000
STALLED = "stalled"
"""The state of a running redrive that cannot continue now."""


@dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """Queue groups, as they were at about one moment; `now_ms` is when that was.

    `members` are share consumers by group, `redrives` those under way by state, `redriven` is by topic of dead letters.
    """

    count: int
    queues: Sequence[QueueTopicStats]
    now_ms: int
    members: Mapping[str, int]
    redrives: Mapping[str, int]
    redriven: Mapping[str, Moves]

    @property
    def omitted(self) -> int:
        """How many groups have no series."""
        return self.count - len({each.group for each in self.queues}) if len(self.queues) >= QUEUES_MAX else 0


async def look_at_queue_groups(broker: Broker) -> QueueSnapshot:
    """Return the snapshot."""
    count = sum(len(machine.groups) for machine in broker.queues.machines)
    queues = await look_at_queues(broker.queues, QUEUES_MAX)
    members = dict.fromkeys((each.group for each in queues), 0)
    members |= {name: len(group.members) for name, group in broker.share_groups.members.groups.items()}
    driver = broker.redrives.driver
    under_way = [job for machine in broker.redrives.machines for job in machine.under_way]
    states = Counter(STALLED if job.id in driver.troubles else job.state.value for job in under_way)
    topics = broker.topics.by_id
    redriven = {topics[each].topic.name: moves for each, moves in driver.tallies.by_topic.items() if each in topics}
    return QueueSnapshot(
        count,
        queues,
        broker.core.clock.now_ms(),
        dict(islice(sorted(members.items()), QUEUES_MAX)),
        {state: states[state] for state in (RedriveState.RUNNING.value, STALLED, RedriveState.CANCELLING.value)},
        dict(islice(sorted(redriven.items()), QUEUES_MAX)),
    )

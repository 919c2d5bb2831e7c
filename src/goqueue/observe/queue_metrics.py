"""Metrics of queue groups, their share consumers, and redrives of their dead letters.

At most 1,000 pairs of group and topic, 1,000 groups with share consumers, and 1,000 topics of dead letters have series
of their own; other groups are only counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from goqueue.broker.broker import Broker
from goqueue.broker.queues.stats import QueueTopicStats, look_at_queues
from goqueue.machines.redrives.values import Moves
from goqueue.model.redrives import RedriveState
from goqueue.observe.group_metrics import shown

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


_LABELS = ("group", "topic")
_SETTLED = ("acked", "nacked", "rejected", "released", "extended", "refused")


def tell_queues(snapshot: QueueSnapshot) -> Iterator[Metric]:
    """Yield all metrics about queue groups, and about redrives of their dead letters."""
    yield GaugeMetricFamily("goqueue_queues", "Queue groups.", snapshot.count)
    yield GaugeMetricFamily(
        "goqueue_queues_omitted", "Queue groups that have no series of their own.", snapshot.omitted
    )
    yield from _state(snapshot)
    yield from _history(snapshot)
    yield from _redrives(snapshot)


def _state(snapshot: QueueSnapshot) -> Iterator[Metric]:
    paused = GaugeMetricFamily("goqueue_queue_paused", "1 while nothing is delivered to the group.", labels=("group",))
    depth = GaugeMetricFamily(
        "goqueue_queue_depth_messages", "Upper bound of messages that are not settled.", labels=_LABELS
    )
    leased = GaugeMetricFamily(
        "goqueue_queue_in_flight_messages", "Messages that are leased to consumers.", labels=_LABELS
    )
    oldest = GaugeMetricFamily(
        "goqueue_queue_oldest_message_age_seconds", "The age of the oldest message that is not settled.", labels=_LABELS
    )
    stalled = GaugeMetricFamily(
        "goqueue_queue_stalled_dead_messages", "Dead messages that cannot become dead letters now.", labels=_LABELS
    )
    for group, is_paused in {each.group: bool(each.paused) for each in snapshot.queues}.items():
        paused.add_metric((shown(group),), is_paused)
    for each in snapshot.queues:
        labels = (shown(each.group), each.topic)
        depth.add_metric(labels, each.depth)
        leased.add_metric(labels, each.in_flight)
        stalled.add_metric(labels, each.stalled)
        if each.depth == 0:
            oldest.add_metric(labels, 0)
        elif each.oldest_ms is not None:
            oldest.add_metric(labels, max(snapshot.now_ms - each.oldest_ms, 0) / 1000)
    members = GaugeMetricFamily(
        "goqueue_queue_share_members", "Kafka's share consumers that are members of the group.", labels=("group",)
    )
    for group, count in snapshot.members.items():
        members.add_metric((shown(group),), count)
    yield from (paused, depth, leased, oldest, stalled, members)


def _history(snapshot: QueueSnapshot) -> Iterator[Metric]:
    delivered = CounterMetricFamily("goqueue_queue_deliveries", "Messages delivered to consumers.", labels=_LABELS)
    again = CounterMetricFamily(
        "goqueue_queue_redeliveries", "Deliveries that were not the first of their message.", labels=_LABELS
    )
    settled = CounterMetricFamily(
        "goqueue_queue_settled", "Messages that consumers settled, by verdict.", labels=(*_LABELS, "verdict")
    )
    expired = CounterMetricFamily("goqueue_queue_leases_expired", "Leases that expired.", labels=_LABELS)
    dead = CounterMetricFamily(
        "goqueue_queue_dead_letters", "Messages that became dead letters.", labels=(*_LABELS, "reason")
    )
    for each in snapshot.queues:
        labels = (shown(each.group), each.topic)
        delivered.add_metric(labels, each.tally.delivered)
        again.add_metric(labels, each.tally.redelivered)
        expired.add_metric(labels, each.expired)
        for verdict in _SETTLED:
            settled.add_metric((*labels, verdict), getattr(each.tally, verdict))
        for reason, count in each.tally.dead_letters.items():
            dead.add_metric((*labels, reason), count)
    yield from (delivered, again, settled, expired, dead)


def _redrives(snapshot: QueueSnapshot) -> Iterator[Metric]:
    under_way = GaugeMetricFamily("goqueue_redrives", "Redrives that are under way.", labels=("state",))
    for state, count in snapshot.redrives.items():
        under_way.add_metric((state,), count)
    letters = CounterMetricFamily(
        "goqueue_redrive_letters", "Dead letters that redrives processed, by outcome.", labels=("topic", "fate")
    )
    for topic, moves in snapshot.redriven.items():
        letters.add_metric((topic, "moved"), moves.moved)
        letters.add_metric((topic, "skipped_redriven"), moves.redriven)
        letters.add_metric((topic, "skipped_looping"), moves.looping)
        letters.add_metric((topic, "failed"), moves.failed)
    yield from (under_way, letters)

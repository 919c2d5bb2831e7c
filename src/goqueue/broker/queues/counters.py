"""What has happened to messages of queue groups since the broker was started, counted by group and topic.

Counted is what was decided and stored, whoever asked for it, in partitions that the group still has by then: nothing is
kept for groups and topics that are gone. What time does to leases is known to the machines only, which count it
themselves (`QueueGroup.expired`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from goqueue.machines.queues.commands import MarkDeadLettered, Settle
from goqueue.machines.queues.steps import Result, Settled, dead_as_told
from goqueue.machines.queues.values import AckType, Delivery
from goqueue.model.topic import TopicPartition

if TYPE_CHECKING:
    from goqueue.machines.queues.group import QueueGroup

Partitions = Container[TopicPartition]


@dataclass(slots=True)
class QueueTally:
    """How many messages of a topic; `dead_letters` are by reason, and have been written."""

    delivered: int = 0
    redelivered: int = 0
    acked: int = 0
    nacked: int = 0
    rejected: int = 0
    released: int = 0
    extended: int = 0
    refused: int = 0
    dead_letters: Counter[str] = field(default_factory=Counter)


class QueueTallies:
    """The tallies of all queue groups."""

    def __init__(self) -> None:
        self._by_group: dict[str, dict[str, QueueTally]] = {}

    def find(self, group: str, topic: str) -> QueueTally:
        """Return what was counted for a group in a topic, as it is now."""
        tally = self._by_group.get(group, {}).get(topic, QueueTally())
        return replace(tally, dead_letters=tally.dead_letters.copy())

    def forget(self, group: str) -> None:
        """Forget a group that is deleted."""
        self._by_group.pop(group, None)

    def forget_topic(self, topic: str) -> None:
        """Forget a topic that is deleted: one of this name that is made later is another one."""
        for tallies in self._by_group.values():
            tallies.pop(topic, None)

    def leased(self, group: str, deliveries: Sequence[Delivery], known: Partitions) -> None:
        """Count messages that a consumer got; `known` are the partitions of the group."""
        for partition, offsets, times in deliveries:
            if partition in known:
                tally = self._of(group, partition.topic)
                tally.delivered += len(offsets)
                tally.redelivered += len(offsets) if times > 1 else 0

    def settled(self, command: Settle, results: Sequence[Result], known: Partitions) -> None:
        """Count messages about which a consumer has said something."""
        kind = _kind(command)
        start = 0
        for partition, offsets, _ in command.claims:
            told = results[start : start + len(offsets)]
            start += len(offsets)
            if partition in known:
                tally = self._of(command.group, partition.topic)
                done = sum([result.__class__ is Settled for result in told])
                setattr(tally, kind, getattr(tally, kind) + done)
                tally.refused += len(told) - done

    def buried(self, command: MarkDeadLettered, causes: Sequence[str], known: Partitions) -> None:
        """Count messages that are dead letters now, by what they died of."""
        if command.partition in known:
            self._of(command.group, command.partition.topic).dead_letters.update(causes)

    def _of(self, group: str, topic: str) -> QueueTally:
        tallies = self._by_group.setdefault(group, {})
        tally = tallies.get(topic)
        if tally is None:
            tally = tallies[topic] = QueueTally()
        return tally


def causes_of_death(group: QueueGroup | None, command: MarkDeadLettered) -> Sequence[str]:
    """Return what messages died of that are about to be forgotten."""
    window = None if group is None else group.windows.get(command.partition)
    flights = [] if window is None else map(window.find, dead_as_told(window, command))
    return [each.reason for each in flights if each is not None]


def _kind(command: Settle) -> str:
    match command.verdict:
        case AckType.ACK:
            return "acked"
        case AckType.REJECT:
            return "rejected"
        case AckType.EXTEND if command.delay_ms != 0:
            return "extended"
        case AckType.EXTEND | AckType.RELEASE:
            return "released"
        case AckType.NACK:
            return "nacked"

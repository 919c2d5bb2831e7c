"""How often members of groups whose broker assigns are to come, so that heartbeats cost no more than their share.

A member learns at its next heartbeat that a rebalance has begun, so a joiner waits for those who have to give back. Few
members come often, and a joiner waits less than a second. The more there are, the less often they come: from 100 to
3,000 of them, groups in which nothing happens cost some 330 heartbeats a second, less than a tenth of a core. Members
of groups that are being rebalanced come up to three times as often, since each of their steps takes a heartbeat.

One pace is shared by all machines of a broker, which keep it up to date. It is nothing that is stored.
"""

from __future__ import annotations

from goqueue.machines.groups.consumer.values import SESSION_TIMEOUT_MS, ConsumerGroup

INTERVAL_MIN_MS = 300
INTERVAL_MAX_MS = SESSION_TIMEOUT_MS * 3 // 10
"""Two heartbeats in a row may be lost, and the session is not over yet."""

_PER_MEMBER_MS = 3
_PER_REBALANCING_MEMBER_MS = 1


class HeartbeatPace:
    """How many members there are, and how many of them are in groups that are being rebalanced."""

    def __init__(self) -> None:
        self.members = 0
        self.rebalancing = 0

    def replaced(self, before: ConsumerGroup | None, after: ConsumerGroup | None) -> None:
        """Take note that a group was replaced by its next value; None is no group."""
        for group, sign in ((before, -1), (after, 1)):
            if group is not None:
                count = sign * len(group.members)
                self.members += count
                self.rebalancing += count if group.is_rebalancing else 0

    def interval_ms(self, group: ConsumerGroup) -> int:
        """Return how long members of a group are to wait between two heartbeats."""
        if group.is_rebalancing:
            wanted = _PER_REBALANCING_MEMBER_MS * max(self.rebalancing, len(group.members))
        else:
            wanted = _PER_MEMBER_MS * max(self.members, len(group.members))
        return min(max(wanted, INTERVAL_MIN_MS), INTERVAL_MAX_MS)

"""The heartbeat interval of consumer groups, so that heartbeats cost no more than their share.

A member learns at its next heartbeat that a rebalance has begun, so a joiner waits for the members that have to revoke
partitions. Few members have a short interval, and a joiner waits less than a second. The interval grows with the number
of members: between 100 and 3,000 of them, stable groups cost some 330 heartbeats a second, less than a tenth of a core.
Members of rebalancing groups have up to a third of the interval, since each of their steps takes a heartbeat.

All machines of a broker share one pace and keep it up to date. It is not stored.
"""

from __future__ import annotations

from goqueue.machines.groups.consumer.values import ConsumerGroup
from goqueue.model.groups import SESSION_TIMEOUT_MS

INTERVAL_MIN_MS = 300
INTERVAL_MAX_MS = SESSION_TIMEOUT_MS * 3 // 10
"""Two heartbeats in a row may be lost before the session expires."""

_PER_MEMBER_MS = 3
_PER_REBALANCING_MEMBER_MS = 1


class HeartbeatPace:
    """The number of members, and of those in rebalancing groups."""

    def __init__(self) -> None:
        self.members = 0
        self.rebalancing = 0

    def replaced(self, before: ConsumerGroup | None, after: ConsumerGroup | None) -> None:
        """Note that a group was replaced by its next value; None is no group."""
        for group, sign in ((before, -1), (after, 1)):
            if group is not None:
                count = sign * len(group.members)
                self.members += count
                self.rebalancing += count if group.is_rebalancing else 0

    def interval_ms(self, group: ConsumerGroup) -> int:
        """Return the heartbeat interval of a group's members."""
        if group.is_rebalancing:
            wanted = _PER_REBALANCING_MEMBER_MS * max(self.rebalancing, len(group.members))
        else:
            wanted = _PER_MEMBER_MS * max(self.members, len(group.members))
        return min(max(wanted, INTERVAL_MIN_MS), INTERVAL_MAX_MS)

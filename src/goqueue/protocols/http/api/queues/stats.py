"""Queue groups in numbers by HTTP."""

from __future__ import annotations

import msgspec

from goqueue.broker.queues.stats import QueueStats, queue_stats
from goqueue.protocols.http.api.groups.shapes import seconds
from goqueue.protocols.http.calls import Context
from goqueue.protocols.http.route import route


class Reliability(msgspec.Struct, kw_only=True):
    """A queue group in a topic: what is in it, and how many messages have gone which way since the broker was started.

    `depth` is how many messages are not done; where there are transactions, or compaction, at most: what is never
    delivered counts until the group comes by. `delivered` counts every delivery, `redelivered` those that were not the
    first of their message. `refused` are receipts that were not good any more, `expired` leases that have ended by
    themselves.
    """

    group: str
    topic: str
    paused: bool
    depth: int
    in_flight: int
    oldest_seconds: float | None
    delivered: int
    redelivered: int
    acked: int
    nacked: int
    rejected: int
    released: int
    extended: int
    refused: int
    expired: int
    dead_lettered: int
    dead_letters: dict[str, int]


class ReliabilityStats(msgspec.Struct):
    """All queue groups, by name and topic."""

    queues: list[Reliability]


@route("GET", "/reliability/stats", "queues.stats")
async def stats(context: Context) -> ReliabilityStats:
    """Tell how many messages of each queue group and topic were delivered, settled, given up."""
    now_ms = context.broker.clock.now_ms()
    found = await queue_stats(context.broker, context.caller)
    return ReliabilityStats([_told(each, now_ms) for each in found])


def _told(stats: QueueStats, now_ms: int) -> Reliability:
    tally = stats.tally
    return Reliability(
        group=stats.group,
        topic=stats.topic,
        paused=bool(stats.paused),
        depth=stats.depth,
        in_flight=stats.in_flight,
        oldest_seconds=None if stats.oldest_ms is None else seconds(max(now_ms - stats.oldest_ms, 0)),
        delivered=tally.delivered,
        redelivered=tally.redelivered,
        acked=tally.acked,
        nacked=tally.nacked,
        rejected=tally.rejected,
        released=tally.released,
        extended=tally.extended,
        refused=tally.refused,
        expired=stats.expired,
        dead_lettered=tally.dead_letters.total(),
        dead_letters=dict(tally.dead_letters),
    )

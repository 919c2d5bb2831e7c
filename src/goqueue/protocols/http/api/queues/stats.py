"""Queue groups in numbers by HTTP."""

from __future__ import annotations

from goqueue.api.queues import Reliability, ReliabilityStats
from goqueue.broker.queues.stats import QueueStats, queue_stats
from goqueue.protocols.http.api.groups.shapes import seconds
from goqueue.protocols.http.calls import Context
from goqueue.protocols.http.route import route


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

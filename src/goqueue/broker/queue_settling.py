"""What consumers of one queue group say of their messages, which is carried out together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from goqueue.errors import UnknownQueue
from goqueue.machines.delivery_commands import Claim, Settle
from goqueue.machines.delivery_steps import Result, all_stale
from goqueue.machines.delivery_values import Verdict
from goqueue.runtime.rounds import Take

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker


class Statement(NamedTuple):
    """What a consumer says about messages: `delay_ms` and `reason` as of `Settle`."""

    verdict: Verdict
    delay_ms: int | None = None
    reason: str = ""


class Saying(NamedTuple):
    """What is said in a group."""

    group: str
    statement: Statement


async def settle_together(broker: Broker, saying: Saying, take: Take[Sequence[Claim]]) -> list[Sequence[Result]]:
    """Do what several consumers say, who say the same; return the results of each, durable."""
    group, (verdict, delay_ms, reason) = saying
    claimed = take()
    claims = [claim for each in claimed for claim in each]
    # Only what is tried again is spread.
    chance = broker.entropy.fraction() if verdict is Verdict.NACK else 0.0
    try:
        results = await broker.queues.submit(group, Settle(group, verdict, claims, delay_ms, reason, chance))
    except UnknownQueue:
        results = all_stale(claims)
    told = []
    start = 0
    for each in claimed:
        end = start + sum([len(claim.offsets) for claim in each])
        told.append(results[start:end])
        start = end
    return told

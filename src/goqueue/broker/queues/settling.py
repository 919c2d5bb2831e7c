"""What consumers of one queue group say of their messages, which is carried out together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from goqueue.errors import TooLarge, UnknownQueue
from goqueue.machines.queues.commands import Claim, Settle
from goqueue.machines.queues.steps import Result, all_stale
from goqueue.machines.queues.values import AckType
from goqueue.runtime.request_batcher import Take

if TYPE_CHECKING:
    from goqueue.broker.queues.service import QueueService


class Settlement(NamedTuple):
    """What a consumer says about messages: `delay_ms` and `reason` as of `Settle`."""

    verdict: AckType
    delay_ms: int | None = None
    reason: str = ""


class GroupSettlement(NamedTuple):
    """What is said in a group."""

    group: str
    statement: Settlement


async def settle_together(
    queues: QueueService,
    saying: GroupSettlement,
    take: Take[Sequence[Claim]],
) -> list[Sequence[Result]]:
    """Do what several consumers say, who say the same; return the results of each, durable."""
    group, (verdict, delay_ms, reason) = saying
    claimed = take()
    claims = [claim for each in claimed for claim in each]
    # Only what is tried again is spread.
    chance = queues.core.entropy.fraction() if verdict is AckType.NACK else 0.0
    try:
        results = await _settle(queues, Settle(group, verdict, claims, delay_ms, reason, chance))
    except UnknownQueue:
        results = all_stale(claims)
    told = []
    start = 0
    for each in claimed:
        end = start + sum([len(claim.offsets) for claim in each])
        told.append(results[start:end])
        start = end
    return told


async def _settle(queues: QueueService, command: Settle) -> Sequence[Result]:
    """Have messages settled at once, or in parts if what is known of those around them is too large for that."""
    try:
        results: Sequence[Result] = await queues.submit(command.group, command)
    except TooLarge:
        parts = _halves(command.claims)
        if len(parts) < 2:
            raise
        return [result for part in parts for result in await _settle(queues, replace(command, claims=part))]
    return results


def _halves(claims: Sequence[Claim]) -> list[Sequence[Claim]]:
    """Part claims in two, in their order; the only one by its offsets, and one of a single offset not at all."""
    if len(claims) > 1:
        return [claims[: len(claims) // 2], claims[len(claims) // 2 :]]
    ((partition, offsets, lease_id),) = claims
    middle = len(offsets) // 2
    return [[Claim(partition, part, lease_id)] for part in (offsets[:middle], offsets[middle:]) if part]

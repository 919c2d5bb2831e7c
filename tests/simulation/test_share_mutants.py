"""Tests of the tests: each mistake that would break share groups is made here on purpose, and must be found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from goqueue.broker.share_groups import acks as share_acks
from goqueue.broker.share_groups import service as share_sessions
from goqueue.broker.share_groups.candidates import ShareSearch
from goqueue.broker.share_groups.service import ShareGroupService
from goqueue.machines.groups.share.members import MemberKey
from goqueue.machines.queues.commands import Receipt
from goqueue.machines.queues.values import FlightState
from goqueue.machines.queues.window import QueueWindow
from tests.simulation.mutants import Mutant, Patch, require_found
from tests.simulation.share_world import ShareWorld, hurry

SEEDS = 300
LIVES = 5


def any_session_may_acknowledge(patch: Patch) -> None:
    """Whatever is leased to anybody counts as held."""
    real = share_acks._understood

    def understood(broker: Any, session: Any, group: Any, place: Any, ranges: Any) -> list[Any]:
        said = real(broker, session, group, place, ranges)
        window = group.windows[said[0][1].partition]
        return [(verdict, each._replace(lease_id=window.find(each.offset).lease.id)) for verdict, each in said]

    def is_held(window: QueueWindow, receipt: Receipt, now_ms: int) -> bool:
        del now_ms
        flight = window.find(receipt.offset)
        return flight is not None and flight.state is FlightState.LEASED

    patch.setattr(share_acks, "_is_held", is_held)
    patch.setattr(share_acks, "_understood", understood)


def a_session_gives_back_what_others_hold(patch: Patch) -> None:
    """Opening a session releases all messages of its group."""

    def held(self: ShareGroupService, key: MemberKey) -> Sequence[Receipt]:
        machine = self.queues.peek(key.group)
        group = None if machine is None else machine.find(key.group)
        return [
            Receipt(where, offset, flight.lease.id)
            for where, window in ({} if group is None else group.windows).items()
            for chunk in window.chunks.values()
            for offset, flight in chunk.flights.items()
            if flight.lease is not None and flight.state is FlightState.LEASED
        ]

    patch.setattr(ShareGroupService, "_held", held)


def a_message_is_passed_over(patch: Patch) -> None:
    """The last message that was found is not offered, and the group goes on behind it."""
    real = ShareSearch._find_fresh

    def find_fresh(self: ShareSearch, end: int, count: int) -> tuple[list[int], int]:
        fresh, end = real(self, end, count)
        return (fresh[:-1] if len(fresh) > 3 else fresh), end

    patch.setattr(ShareSearch, "_find_fresh", find_fresh)


def refused_messages_are_taken_for_settled(patch: Patch) -> None:
    """Whoever acknowledges what it does not hold any more is told that all is well."""
    real = share_acks.settle_shares

    async def settle(broker: Any, session: Any, acks: Any) -> Any:
        return dict.fromkeys(await real(broker, session, acks))

    from goqueue.broker.share_groups import fetch as share_fetch

    patch.setattr(share_fetch, "settle_shares", settle)


def nobody_is_to_blame_for_the_dead(patch: Patch) -> None:
    """Whatever a dead consumer held is delivered as often as it takes."""
    patch.setattr(share_sessions, "_GONE", share_sessions._IN_ORDER)


MUTANTS = [
    any_session_may_acknowledge,
    a_session_gives_back_what_others_hold,
    a_message_is_passed_over,
    refused_messages_are_taken_for_settled,
    nobody_is_to_blame_for_the_dead,
]
LIKELY: dict[Mutant, int] = {any_session_may_acknowledge: 56}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_each_mistake_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)
    require_found(mutant, lambda seed: ShareWorld(seed).run(LIVES), seeds=SEEDS, likely=LIKELY.get(mutant, 0))

"""Interface of every client that joins groups in the tests: one vocabulary for all libraries.

A member is polled, as a program polls it, and does what its library does then: some rebalance in the background, some
only during polls. `Together` polls several in turn, so that none of them waits for another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Protocol

import pytest

from tests.clients.contract import DEADLINE_S, Place, Record

# How long one member is polled before it is the next one's turn.
TURN_S = 0.05
HEARTBEAT_INTERVAL_MS = 200
SESSION_TIMEOUT_MS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """How a member joins: it reads from the beginning what has no offset, and commits only when told to."""

    group: str
    topics: tuple[str, ...]
    instance_id: str | None = None


class Member(Protocol):
    """A consumer in a group."""

    def poll(self, within_s: float) -> list[Record]:
        """Return records as soon as there are some, or none in time."""
        ...

    def assigned(self) -> frozenset[Place]:
        """Return the partitions that the member reads."""
        ...

    def commit(self) -> None:
        """Commit all that was polled; at return the broker has it. (kcat does so by itself, a little later.)"""
        ...

    def leave(self) -> None:
        """Leave the group in the ordinary way, and end everything that the member started; harmless if repeated."""
        ...


class SeekingMember(Member, Protocol):
    """A consumer in a group that can also seek."""

    def seek(self, place: Place, offset: int) -> None:
        """Go on from an offset of a partition that is assigned."""
        ...

    def committed(self, place: Place) -> int | None:
        """Ask how far the group is."""
        ...


Join = Callable[..., Member]


class Together:
    """Members that are polled in turn, and what they have read."""

    def __init__(self, *members: Member) -> None:
        self.members = list(members)
        self.read: list[Record] = []

    def until(self, fact: Callable[[], bool], what: str) -> None:
        """Poll all members until a fact holds."""
        deadline = monotonic() + 2 * DEADLINE_S
        while not fact():
            if monotonic() > deadline:
                shares = [sorted(member.assigned()) for member in self.members]
                pytest.fail(f"not within {2 * DEADLINE_S} s: {what}; {len(self.read)} records were read by {shares}")
            for member in self.members:
                self.read += member.poll(TURN_S)

    def share(self, topic: str, partitions: int) -> None:
        """Wait until each partition is with one member, and each member has its fair share."""
        self.until(lambda: is_shared(self.members, topic, partitions), f"{topic} is shared by {len(self.members)}")

    def take(self, count: int) -> list[Record]:
        """Return the next records of all members, `count` of them."""
        self.until(lambda: len(self.read) >= count, f"{count} records are read")
        taken, self.read = self.read, []
        return taken


def is_shared(members: Sequence[Member], topic: str, partitions: int) -> bool:
    """Tell whether each partition of a topic is with one of the members, as evenly as can be."""
    shares = [member.assigned() for member in members]
    held = [place for share in shares for place in share]
    sizes = [len(share) for share in shares]
    return sorted(held) == [Place(topic, index) for index in range(partitions)] and max(sizes) - min(sizes) <= 1

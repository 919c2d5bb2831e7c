"""confluent-kafka's share consumer, in as few words as the tests need."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import monotonic
from typing import NamedTuple, Self

import pytest
from confluent_kafka import AcknowledgeType, Message, ShareConsumer

from tests.clients.contract import DEADLINE_S

TURN_S = 0.1


class Got(NamedTuple):
    """A message that a consumer has got, and for the how-manieth time it was delivered."""

    value: str
    deliveries: int
    message: Message


class ConfluentShare:
    """A member of a share group; with `is_explicit`, it says of every message what became of it."""

    def __init__(self, bootstrap: str, group: str, *topics: str, is_explicit: bool = False) -> None:
        mode = "explicit" if is_explicit else "implicit"
        self.consumer = ShareConsumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "client.id": "confluent-share",
                "share.acknowledgement.mode": mode,
                "fetch.wait.max.ms": 100,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        self.consumer.subscribe(list(topics))
        self._is_open = True

    def poll(self, within_s: float = TURN_S) -> list[Got]:
        """Return messages as soon as there are some, or none in time."""
        found = []
        for message in self.consumer.poll(within_s):
            assert message.error() is None, message.error()
            value = message.value()
            found.append(Got((value or b"").decode(), message.delivery_count() or 0, message))
        return found

    def say(self, kind: AcknowledgeType, got: Iterable[Got]) -> None:
        """Acknowledge messages; the next poll or commit sends it to the broker."""
        for each in got:
            self.consumer.acknowledge(each.message, kind)

    def commit(self) -> None:
        """Have the broker told what became of messages; durable at return."""
        results = self.consumer.commit_sync(DEADLINE_S)
        assert [error for error in results.values() if error is not None] == []

    def close(self) -> None:
        """Leave the group; harmless if repeated."""
        if self._is_open:
            self._is_open = False
            self.consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def take(
    count: int, *members: ConfluentShare, done: Callable[[ConfluentShare, list[Got]], None] | None = None
) -> list[Got]:
    """Poll members in turn until there are so many messages; `done` gets each poll with messages."""
    found: list[Got] = []
    deadline = monotonic() + 2 * DEADLINE_S
    while len(found) < count:
        for member in members:
            got = member.poll()
            found += got
            if got and done is not None:
                done(member, got)
        if monotonic() > deadline:
            pytest.fail(f"{len(found)} of {count} messages came in {2 * DEADLINE_S} s")
    return found

"""Commits: how many offsets a second a broker takes from groups that commit all the time.

Each connection commits for a group of its own, which has no members, so nothing is measured but the way of an offset
into the log. The frames are made before the clock starts. Every commit has to succeed, and the last one of each group
has to be what the broker tells afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass

from goqueue_bench.broker_process import Broker
from goqueue_bench.cpu import metered
from goqueue_bench.kafka import group_wire as wire
from goqueue_bench.kafka.connection import Connection
from goqueue_bench.kafka.groups import committed_offsets, private_groups
from goqueue_bench.kafka.pipe import Check, drain, pipes
from goqueue_bench.measure import Aim, Goal, Result, require

OFFSETS_PER_SECOND_GOAL = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Commits:
    """How many requests, over how many connections, and how many partitions each of them names."""

    requests: int
    partitions: int = 1
    connections: int = 16

    @property
    def shares(self) -> list[int]:
        """How many requests each connection sends; none sends nothing."""
        count = min(self.connections, self.requests)
        return [self.requests // count + (number < self.requests % count) for number in range(count)]


def measure_commits(broker: Broker, topic: str, commits: Commits) -> Result:
    """Commit as fast as the broker answers, for a topic that has the partitions."""
    shares = commits.shares
    with private_groups(broker, len(shares)) as groups:
        frames = [
            [_commit(group, topic, commits, number) for number in range(share)]
            for group, share in zip(groups, shares, strict=True)
        ]
        with pipes(broker, frames, every_commit_succeeds(commits.partitions)) as opened:
            # The first commit of a group creates it, which is not measured.
            _warm_up(broker, topic, groups, commits)
            with metered(broker.pid) as usage:
                drain(opened)
        _check(broker, topic, dict(zip(groups, shares, strict=True)), commits)
    cpu = usage.server_cpu_seconds
    return Result(
        f"commits_{commits.partitions}",
        f"offsets committed, {commits.partitions} in a request",
        commits.requests * commits.partitions / usage.seconds,
        "offsets/s",
        Goal(Aim.AT_LEAST, OFFSETS_PER_SECOND_GOAL),
        {
            "requests": commits.requests,
            "connections": len(shares),
            "seconds": usage.seconds,
            "requests_per_second": commits.requests / usage.seconds,
            **({} if cpu is None else {"broker_cpu_us_per_request": cpu / commits.requests * 1e6}),
        },
    )


def every_commit_succeeds(partitions: int) -> Check:
    """Return the check of replies to commits of so many partitions."""

    def check(reply: memoryview) -> None:
        errors = wire.parse_offset_commit_reply(reply)
        require(errors == [0] * partitions, f"every commit succeeds (errors {sorted(set(errors))})")

    return check


def _commit(group: str, topic: str, commits: Commits, number: int) -> bytes:
    return wire.offset_commit_request(group, topic, dict.fromkeys(range(commits.partitions), number))


def _warm_up(broker: Broker, topic: str, groups: list[str], commits: Commits) -> None:
    check = every_commit_succeeds(commits.partitions)
    with Connection(broker) as connection:
        for group in groups:
            check(connection.call(_commit(group, topic, commits, 0)))


def _check(broker: Broker, topic: str, shares: dict[str, int], commits: Commits) -> None:
    with Connection(broker) as connection:
        for group, share in shares.items():
            offsets = committed_offsets(connection, group, topic, commits.partitions)
            expected = dict.fromkeys(range(commits.partitions), share - 1)
            require(offsets == expected, "the last commit of every group counts")

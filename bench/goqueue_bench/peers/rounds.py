"""The comparison itself: which workloads, how long, in which order.

In every round the peers run in another order, each with a fresh server in an empty directory, and what one of them left
unwritten is on the disk before the next one starts. How much a peer is given to do depends on its speed: every one of
them works for about the same time, since a fixed number of messages would be over too soon for one and never for
another. Before that it works unmeasured, so that compilers at run time have done what they will do.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from goqueue_bench.cpu import busy_seconds
from goqueue_bench.log.workloads import private_workspace
from goqueue_bench.measure import BenchmarkFailed, require
from goqueue_bench.peers.peer import Durability, Measured, Peer, QueueServer, Server, Workload

_FIRST_MESSAGES = 1_000
_PUBLISH_MESSAGES_MAX = 6_000_000
_FIRST_LATENCIES = 100
_LATENCY_MESSAGES_MAX = 50_000
_QUIET_CORES = 0.25
_QUIET_SECONDS = 3
_DISTURBED_CORES = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How many rounds, and about how long each part of one takes."""

    rounds: int = 3
    warm_up_seconds: float = 2.0
    publish_seconds: float = 4.0
    latency_seconds: float = 2.0
    queue_seconds: float = 2.0
    # How long to wait, before each server, for others to leave the machine alone, and how often to try again if
    # they come back meanwhile.
    patience_seconds: float = 0.0
    attempts: int = 1
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Sample:
    """One workload of one peer in one round."""

    peer: str
    durability: Durability
    workload: Workload
    client: str
    measured: Measured


class Comparison:
    """Runs all rounds; afterwards `samples` has what was measured, and `failed` which peers could not do their work."""

    def __init__(self, peers: Sequence[Peer], plan: Plan, announce: Callable[[str], None]) -> None:
        self.samples: list[Sample] = []
        self.failed: dict[str, str] = {}
        self._peers = peers
        self._plan = plan
        self._announce = announce

    def run(self, parent: Path | None) -> None:
        """Run every round in directories below one; a peer that fails is left out of the rest, and of the result."""
        entries = [(peer, durability) for peer in self._peers for durability in peer.settings]
        chance = random.Random(self._plan.seed)
        for number in range(self._plan.rounds):
            chance.shuffle(entries)
            for peer, durability in entries:
                if peer.name not in self.failed:
                    self._announce(f"round {number + 1} of {self._plan.rounds}: {peer.name}, {durability}")
                    self._run_one(peer, durability, parent)
        self.samples = [sample for sample in self.samples if sample.peer not in self.failed]

    def _run_one(self, peer: Peer, durability: Durability, parent: Path | None) -> None:
        tries: list[list[Sample]] = []
        try:
            for _ in range(self._plan.attempts):
                tries.append(self._attempt(peer, durability, parent))
                if disturbance(tries[-1]) <= _DISTURBED_CORES:
                    break
                self._announce(f"others took {disturbance(tries[-1]):.1f} cores meanwhile")
        except (BenchmarkFailed, OSError) as error:
            self._announce(f"{peer.name} is left out: {error}")
            self.failed[peer.name] = str(error)
        else:
            quietest = min(tries, key=disturbance)
            self.samples += quietest

    def _attempt(self, peer: Peer, durability: Durability, parent: Path | None) -> list[Sample]:
        os.sync()
        wait_for_quiet(self._plan.patience_seconds)
        with private_workspace(parent) as workspace, peer.running(workspace, durability) as server:
            return [
                Sample(peer.name, durability, workload, client, measured)
                for workload, client, measured in _work(server, durability, peer.clients, self._plan)
            ]


def disturbance(samples: Sequence[Sample]) -> float:
    """Return how many cores others took while some work was measured."""
    usages = [sample.measured.usage for sample in samples]
    return sum(usage.other_cores * usage.seconds for usage in usages) / sum(usage.seconds for usage in usages)


def _work(
    server: Server, durability: Durability, clients: Mapping[Workload, str], plan: Plan
) -> Iterator[tuple[Workload, str, Measured]]:
    """Yield each workload of one server as it is measured."""
    rate = warm_up(server.publish, _FIRST_MESSAGES, plan.warm_up_seconds)
    count = min(_PUBLISH_MESSAGES_MAX, max(_FIRST_MESSAGES, int(rate * plan.publish_seconds)))
    yield Workload.PUBLISH, clients[Workload.PUBLISH], server.publish(count)
    rate = warm_up(server.latency, _FIRST_LATENCIES, plan.warm_up_seconds / 2)
    count = min(_LATENCY_MESSAGES_MAX, max(_FIRST_LATENCIES, int(rate * plan.latency_seconds)))
    yield Workload.LATENCY, clients[Workload.LATENCY], server.latency(count)
    # A reader waits for no fsync, so one group is enough; and what always syncs first takes long to fill.
    if durability is Durability.LAZY:
        for client, replay in server.replays().items():
            replay()
            yield Workload.REPLAY, client, replay()
    # Last, since some servers forget what was acked.
    if Workload.QUEUE in clients:
        assert isinstance(server, QueueServer)
        # The first one makes a consumer, which says nothing of the rate.
        server.queue(_FIRST_MESSAGES)
        # Without more of a warm-up: servers that are slow to store would have nothing left to lease.
        second = server.queue(_FIRST_MESSAGES)
        rate = second.messages / second.usage.seconds
        measured = server.queue(max(_FIRST_MESSAGES, int(rate * plan.queue_seconds)))
        require(measured.messages > 0, "there are messages to lease")
        yield Workload.QUEUE, clients[Workload.QUEUE], measured


def warm_up(work: Callable[[int], Measured], first_messages: int, seconds: float) -> float:
    """Let a server work for some time, in growing steps; return how many messages a second it took in the last one."""
    count, spent = first_messages, 0.0
    while True:
        usage = work(count).usage
        spent += usage.seconds
        rate = count / usage.seconds
        if spent >= seconds:
            return rate
        # Not all of the rest at once: the rate of a short first step says little.
        count = max(first_messages, int(rate * max(seconds - spent, seconds / 4) / 2))


def wait_for_quiet(
    patience_seconds: float,
    busy_seconds: Callable[[], float] = busy_seconds,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """Wait until hardly anything has run on this machine for some seconds; tell whether that came in time."""
    quiet = waited = 0
    before = busy_seconds()
    while waited < patience_seconds:
        sleep(1.0)
        waited += 1
        now = busy_seconds()
        quiet = quiet + 1 if now - before < _QUIET_CORES else 0
        before = now
        if quiet == _QUIET_SECONDS:
            return True
    return False

"""The workloads of groups and transactions, each as `goqueue bench` runs it: on topics of their own, at two sizes.

Owns what they are made of and how large they are; how each part is measured is in the module of its name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from goqueue_bench.broker_process import Broker
from goqueue_bench.groups.commits import Commits, measure_commits
from goqueue_bench.groups.joiner import PARTITIONS, GroupProtocol, measure_joiner
from goqueue_bench.groups.load import Load, measure_load
from goqueue_bench.groups.rebalance import Crowd, measure_rebalance
from goqueue_bench.kafka.connection import private_topic
from goqueue_bench.measure import BenchmarkFailed, Result
from goqueue_bench.messages.workloads import FLUSH_SETTING, Target, broker_of
from goqueue_bench.options import GroupPart
from goqueue_bench.transactions.commit import Transactions, measure_transactions
from goqueue_bench.transactions.transform import measure_transform

_MANY_OFFSETS = 10

Announce = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSize:
    """How much is measured of groups: requests, rounds of joining, members, and what is loaded."""

    commits: Commits
    consumer_joins: int
    classic_joins: int
    crowd: Crowd
    load: Load


FULL = GroupSize(
    commits=Commits(requests=20_000),
    consumer_joins=20,
    classic_joins=10,
    crowd=Crowd(members=100, partitions=1000, rounds=5),
    load=Load(groups=10_000, offsets=100),
)
QUICK = GroupSize(
    commits=Commits(requests=500),
    consumer_joins=2,
    classic_joins=1,
    crowd=Crowd(members=20, partitions=100, rounds=1),
    load=Load(groups=200, offsets=20),
)
FULL_TRANSACTIONS = 2_000
QUICK_TRANSACTIONS = 100


def run_groups(
    target: Target, workspace: Path, size: GroupSize, parts: Collection[GroupPart], announce: Announce
) -> Iterator[Result]:
    """Yield the results of some parts one by one; `announce` gets the name of the next one."""
    if GroupPart.LOAD in parts and not target.is_private:
        raise BenchmarkFailed("only a private broker can be restarted to measure how it loads")
    if set(parts) - {GroupPart.LOAD}:
        with broker_of(target, workspace) as broker:
            yield from _run_groups(broker, size, parts, announce)
    if GroupPart.LOAD in parts:
        announce(f"loading {size.load.groups:,} groups")
        directory = workspace / "load"
        directory.mkdir()
        yield measure_load(directory, size.load)


def _run_groups(broker: Broker, size: GroupSize, parts: Collection[GroupPart], announce: Announce) -> Iterator[Result]:
    if GroupPart.COMMITS in parts:
        announce("committing offsets")
        with private_topic(broker, partitions=_MANY_OFFSETS, settings={}) as topic:
            yield measure_commits(broker, topic, size.commits)
            yield measure_commits(broker, topic, replace(size.commits, partitions=_MANY_OFFSETS))
    if GroupPart.JOINER in parts:
        for protocol, rounds in (
            (GroupProtocol.CONSUMER, size.consumer_joins),
            (GroupProtocol.CLASSIC, size.classic_joins),
        ):
            announce(f"joining a {protocol} group")
            with private_topic(broker, partitions=PARTITIONS, settings={}) as topic:
                yield measure_joiner(broker, topic, protocol, rounds)
    if GroupPart.REBALANCE in parts:
        announce("rebalancing a large group")
        with private_topic(broker, partitions=size.crowd.partitions, settings={}) as topic:
            yield measure_rebalance(broker, topic, size.crowd)


def run_transactions(target: Target, workspace: Path, wanted: Transactions, announce: Announce) -> Iterator[Result]:
    """Yield what several producers do at once, what one does alone, and what one does that reads as well."""
    partitions = wanted.producers
    settings = {FLUSH_SETTING: str(target.flush)}
    # As many as each of several producers makes.
    alone = replace(wanted, producers=1, count=max(1, wanted.count // wanted.producers))
    with broker_of(target, workspace) as broker:
        for each in (wanted, alone) if wanted.producers > 1 else (alone,):
            announce(f"transactions, producers: {each.producers}")
            with private_topic(broker, partitions=partitions, settings=settings) as topic:
                yield measure_transactions(broker, topic, partitions, each)
        announce("consume, transform, produce")
        with (
            private_topic(broker, partitions=partitions, settings=settings) as source,
            private_topic(broker, partitions=partitions, settings=settings) as destination,
        ):
            yield measure_transform(broker, source, destination, partitions, alone)

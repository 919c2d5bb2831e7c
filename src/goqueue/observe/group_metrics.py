"""Metrics of groups and transactions: lag, members and counters.

At most 1,000 groups, 1,000 pairs of group and topic, and 1,000 topics that hold records for groups have series of their
own; other groups are only counted. The age of a message needs its batch, which takes a moment to open: the loop yields
in between, and at most 1,000 partitions are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from goqueue.broker.broker import Broker
from goqueue.broker.groups.lag import Lag, lag_of, messages_behind
from goqueue.broker.groups.view import member_count
from goqueue.errors import GoQueueError
from goqueue.machines.groups.machine import GroupMachine
from goqueue.machines.groups.rebalance_kinds import RebalanceKind
from goqueue.machines.transactions.values import EndCause
from goqueue.model.topic import TopicPartition
from goqueue.model.transactions import TransactionState

GROUPS_MAX = 1000
_LAGS_MAX = 1000
_AGES_MAX = 1000
_HOLDS_MAX = 1000


class GroupLag(NamedTuple):
    """The lag of a group in a topic; the age is that of the oldest message, None if it is unknown.

    `lost` is how many unread offsets were deleted. `left_seconds` is the shortest time until retention deletes more;
    None if unknown.
    """

    messages: int
    seconds: float | None
    lost: int = 0
    left_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """Groups and transactions, as they were at about one moment; lags are by group and topic.

    `held_bytes` is by topic: how much is kept beyond retention for groups that have not read it.
    """

    count: int
    members: Mapping[str, int]
    lags: Mapping[tuple[str, str], GroupLag]
    rebalances: Mapping[RebalanceKind, int]
    transactions: Mapping[TransactionState, int]
    ended: Mapping[EndCause, int]
    held_bytes: Mapping[str, int]


async def look_at_groups(broker: Broker) -> GroupSnapshot:
    """Return the snapshot."""
    machines = list(broker.groups.machines)
    names = sorted((name, machine) for machine in machines for name in machine.names()) if machines else []
    rebalances: Counter[RebalanceKind] = Counter(dict.fromkeys(RebalanceKind, 0))
    for machine in machines:
        rebalances.update(machine.rebalances)
    states = Counter(dict.fromkeys(TransactionState, 0))
    ended = Counter(dict.fromkeys(EndCause, 0))
    for each in broker.transactions.machines:
        states.update(transaction.state for transaction in each.all())
        ended.update(each.ended)
    told = names[:GROUPS_MAX]
    return GroupSnapshot(
        count=len(names),
        members={shown(name): member_count(machine.find(name)) for name, machine in told},
        lags=await _lags(broker, told),
        rebalances=rebalances,
        transactions=states,
        ended=ended,
        held_bytes=dict(islice(sorted(broker.topics.retention.held_bytes.items()), _HOLDS_MAX)),
    )


async def _lags(broker: Broker, told: Sequence[tuple[str, GroupMachine]]) -> Mapping[tuple[str, str], GroupLag]:
    found: dict[tuple[str, str], GroupLag] = {}
    behind: list[tuple[tuple[str, str], TopicPartition, int]] = []
    for name, machine in told:
        for each, committed in machine.offsets.of_group(name).items():
            lag = _messages(broker, each, committed.offset)
            key = (shown(name), each.topic)
            if lag is None or (key not in found and len(found) >= _LAGS_MAX):
                continue
            before = found.get(key, GroupLag(0, 0.0))
            lost = max((lag.start_offset or 0) - committed.offset, 0)
            found[key] = GroupLag(before.messages + (lag.messages or 0), 0.0, before.lost + lost)
            if lag.messages:
                behind.append((key, each, committed.offset))
    unknown = {key for key, _, _ in islice(behind, _AGES_MAX, None)}
    for key, each, offset in behind[:_AGES_MAX]:
        found[key] = _worse(found[key], await lag_of(broker.groups, each, offset))
    return {key: lag._replace(seconds=None, left_seconds=None) if key in unknown else lag for key, lag in found.items()}


def _worse(known: GroupLag, lag: Lag) -> GroupLag:
    """Return the lag of a group in a topic, with one more partition."""
    if lag.age_ms is not None:
        known = known._replace(seconds=max(known.seconds or 0.0, lag.age_ms / 1000))
    if lag.risk.left_ms is not None:
        left_s = lag.risk.left_ms / 1000
        known = known._replace(left_seconds=left_s if known.left_seconds is None else min(known.left_seconds, left_s))
    return known


def _messages(broker: Broker, partition: TopicPartition, offset: int) -> Lag | None:
    try:
        found = broker.topics.topic(partition.topic).partition(partition.partition)
    except GoQueueError:
        return None
    return messages_behind(found, offset)


def shown(name: str) -> str:
    """Return a name as text: clients may have chosen bytes that are none."""
    return name.encode("utf-8", "backslashreplace").decode()

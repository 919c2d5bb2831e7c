"""What metrics tell of groups and transactions: how far behind groups are, who is in them, and what has happened.

At most 1,000 groups, and as many pairs of group and topic, are told one by one; the others are only counted. To find
the age of a message its batch is opened, which takes a moment: others have a turn in between, and it is done for no
more than 1,000 partitions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from goqueue.broker.broker import Broker
from goqueue.broker.group_view import member_count
from goqueue.broker.lag import Lag, lag_of, messages_behind
from goqueue.errors import GoQueueError
from goqueue.machines.group_values import TopicPartition
from goqueue.machines.groups import Groups
from goqueue.machines.rebalance_kinds import RebalanceKind
from goqueue.machines.transaction_values import Cause, TransactionState

GROUPS_MAX = 1000
_LAGS_MAX = 1000
_AGES_MAX = 1000


class GroupLag(NamedTuple):
    """How far a group is behind in a topic; the age is that of the oldest message, None if it is not known."""

    messages: int
    seconds: float | None


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """Groups and transactions, as they were at about one moment; lags are by group and topic."""

    count: int
    members: Mapping[str, int]
    lags: Mapping[tuple[str, str], GroupLag]
    rebalances: Mapping[RebalanceKind, int]
    transactions: Mapping[TransactionState, int]
    ended: Mapping[Cause, int]


async def look_at_groups(broker: Broker) -> GroupSnapshot:
    """Return what is to be told."""
    machines = list(broker.groups.machines)
    names = sorted((name, machine) for machine in machines for name in machine.names()) if machines else []
    rebalances: Counter[RebalanceKind] = Counter(dict.fromkeys(RebalanceKind, 0))
    for machine in machines:
        rebalances.update(machine.rebalances)
    states = Counter(dict.fromkeys(TransactionState, 0))
    ended = Counter(dict.fromkeys(Cause, 0))
    for each in broker.transactions.machines:
        states.update(transaction.state for transaction in each.all())
        ended.update(each.ended)
    told = names[:GROUPS_MAX]
    return GroupSnapshot(
        count=len(names),
        members={_shown(name): member_count(machine.find(name)) for name, machine in told},
        lags=await _lags(broker, told),
        rebalances=rebalances,
        transactions=states,
        ended=ended,
    )


async def _lags(broker: Broker, told: Sequence[tuple[str, Groups]]) -> Mapping[tuple[str, str], GroupLag]:
    found: dict[tuple[str, str], GroupLag] = {}
    behind: list[tuple[tuple[str, str], TopicPartition, int]] = []
    for name, machine in told:
        for each, committed in machine.offsets.of_group(name).items():
            lag = _messages(broker, each, committed.offset)
            key = (_shown(name), each.topic)
            if lag is None or (key not in found and len(found) >= _LAGS_MAX):
                continue
            messages = lag + (found[key].messages if key in found else 0)
            found[key] = GroupLag(messages, 0.0)
            if lag:
                behind.append((key, each, committed.offset))
    unknown = {key for key, _, _ in islice(behind, _AGES_MAX, None)}
    for key, each, offset in behind[:_AGES_MAX]:
        lag_found: Lag = await lag_of(broker, each, offset)
        if lag_found.age_ms is not None:
            seconds = max(found[key].seconds or 0.0, lag_found.age_ms / 1000)
            found[key] = found[key]._replace(seconds=seconds)
    return {key: lag._replace(seconds=None) if key in unknown else lag for key, lag in found.items()}


def _messages(broker: Broker, partition: TopicPartition, offset: int) -> int | None:
    try:
        found = broker.topic(partition.topic).partition(partition.partition)
    except GoQueueError:
        return None
    return messages_behind(found, offset).messages


def _shown(name: str) -> str:
    """Return a name as text: clients may have chosen bytes that are none."""
    return name.encode("utf-8", "backslashreplace").decode()

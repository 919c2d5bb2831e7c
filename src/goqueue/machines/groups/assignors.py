"""Assignors decide which member of a group gets which partitions.

An assignor is a function of the subscriptions, the partition counts of topics, and the current assignment. Its result
depends on nothing else, not even on the order of its arguments. Each partition of a topic that exists and has
subscribers goes to exactly one of them; every member is in the result, even if it gets nothing.

| name                | partitions                                                   | uses the current assignment    |
|---------------------|--------------------------------------------------------------|--------------------------------|
| `range`             | of each topic in one piece to each member, in order of ids   | no                             |
| `roundrobin`        | of all topics one after another over all members             | no                             |
| `sticky`, `uniform` | evenly, with no more moves than that takes                   | yes                            |

The sticky assignor is as even as the subscriptions allow. Topics with the same subscribers form a *pool*: any of its
partitions can go to any of them. The *load* of a member is its number of partitions. The steps are:

1. each member keeps the partitions that it has and still may have;
2. free partitions go to the member with the lowest load in their pool, the pools with the fewest subscribers first;
3. in each pool, partitions move from the highest load to the lowest, as long as they are two or more apart;
4. across pools, a chain of members hands on one partition each, if it leads from a member to one with a load that is
   lower by two or more: members in the middle keep their load.

At the end no chain, and so no single move, makes the loads more even: the sum of their squares is the least possible.
With one pool, the number of partitions that stay with their member is the greatest possible, too. An assignment that
is as even as possible does not change.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace

from goqueue.machines.groups.values import Topics
from goqueue.model.topic import TopicPartition

Subscriptions = Mapping[str, frozenset[str]]
"""The topics that each member, by its id, subscribes to."""
Assignment = Mapping[str, frozenset[TopicPartition]]
"""The partitions of each member, by its id."""
Assignor = Callable[[Subscriptions, Topics, Assignment], Assignment]

STICKY = "sticky"


def assign_range(subscriptions: Subscriptions, topics: Topics, current: Assignment) -> Assignment:
    """Give each subscriber of a topic a contiguous range; the first ones get one more if the division leaves a rest."""
    del current
    dealt: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
    for topic, subscribers in subscribers_of(subscriptions, topics).items():
        share, rest = divmod(topics[topic], len(subscribers))
        start = 0
        for position, member in enumerate(subscribers[: topics[topic]]):
            end = start + share + (position < rest)
            dealt[member] += [TopicPartition(topic, partition) for partition in range(start, end)]
            start = end
    return _frozen(dealt)


def assign_round_robin(subscriptions: Subscriptions, topics: Topics, current: Assignment) -> Assignment:
    """Deal all partitions, in order, over the members in order of their ids; skip members that do not subscribe."""
    del current
    members = sorted(subscriptions)
    places = {member: place for place, member in enumerate(members)}
    dealt: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
    turn = 0
    for topic, subscribers in subscribers_of(subscriptions, topics).items():
        for partition in range(topics[topic]):
            member = subscribers[bisect_left(subscribers, members[turn]) % len(subscribers)]
            dealt[member].append(TopicPartition(topic, partition))
            turn = (places[member] + 1) % len(members)
    return _frozen(dealt)


def _frozen(dealt: Mapping[str, list[TopicPartition]]) -> Assignment:
    return {member: frozenset(partitions) for member, partitions in dealt.items()}


def subscribers_of(subscriptions: Subscriptions, topics: Topics) -> dict[str, tuple[str, ...]]:
    """Return the subscribers of each topic that exists and has any, in order of ids; the topics in order of names.

    Large groups are often alike: members with the same subscriptions are processed once, and topics with the same
    subscribers share one tuple of them.
    """
    alike: dict[frozenset[str], list[str]] = {}
    for member in sorted(subscriptions):
        alike.setdefault(subscriptions[member], []).append(member)
    classes = list(alike.values())
    classes_of: dict[str, list[int]] = {}
    for number, names in enumerate(alike):
        for name in names & topics.keys():
            classes_of.setdefault(name, []).append(number)
    shared: dict[tuple[int, ...], tuple[str, ...]] = {}
    found: dict[str, tuple[str, ...]] = {}
    for name in sorted(classes_of):
        numbers = tuple(classes_of[name])
        if numbers not in shared:
            shared[numbers] = tuple(sorted(member for number in numbers for member in classes[number]))
        found[name] = shared[numbers]
    return found


def assign_sticky(subscriptions: Subscriptions, topics: Topics, current: Assignment) -> Assignment:
    """Spread partitions evenly over their subscribers, and keep as many as possible with their current member."""
    members = sorted(subscriptions)
    pools = _pools(subscriptions, members, topics)
    loads = [0] * len(members)
    _keep(pools, members, current, loads)
    for pool in pools:
        _give_out(pool, loads)
    while sum(_level(pool, loads) for pool in pools):
        pass  # moves in one pool may enable moves in others
    _hand_on(pools, loads)
    return _collected(pools, members)


@dataclass(slots=True, eq=False)
class _Pool:
    """Topics with the same subscribers, and which member has which of their partitions; members are numbered."""

    subscribers: list[int]
    partitions: dict[str, int]
    held: dict[int, list[TopicPartition]]
    """For each member, the partitions that it had before come first: the last one is the first to go."""
    free: list[TopicPartition]


def _pools(subscriptions: Subscriptions, members: Sequence[str], topics: Topics) -> list[_Pool]:
    numbers = {member: number for number, member in enumerate(members)}
    found: dict[tuple[str, ...], _Pool] = {}
    for name, subscribers in subscribers_of(subscriptions, topics).items():
        if subscribers not in found:
            found[subscribers] = _Pool([numbers[member] for member in subscribers], {}, {}, [])
        found[subscribers].partitions[name] = topics[name]
    return sorted(found.values(), key=lambda pool: (len(pool.subscribers), pool.subscribers))


def _keep(pools: Sequence[_Pool], members: Sequence[str], current: Assignment, loads: list[int]) -> None:
    """Keep partitions with their members, and note the others as free."""
    pool_of = {name: pool for pool in pools for name in pool.partitions}
    allowed = {pool: frozenset(pool.subscribers) for pool in pools}
    owned: set[TopicPartition] = set()
    for number, member in enumerate(members):
        for partition in sorted(current.get(member, ())):
            pool = pool_of.get(partition.topic)
            if pool is None or number not in allowed[pool] or partition in owned:
                continue
            if 0 <= partition.partition < pool.partitions[partition.topic]:
                owned.add(partition)
                pool.held.setdefault(number, []).append(partition)
                loads[number] += 1
    for pool in pools:
        every = (TopicPartition(name, number) for name, count in pool.partitions.items() for number in range(count))
        pool.free = [partition for partition in every if partition not in owned]


def _give_out(pool: _Pool, loads: list[int]) -> None:
    """Give each free partition to the member with the lowest load."""
    queue = [(loads[member], member) for member in pool.subscribers]
    heapify(queue)
    for partition in pool.free:
        load, member = queue[0]
        pool.held.setdefault(member, []).append(partition)
        loads[member] = load + 1
        heapreplace(queue, (load + 1, member))


def _level(pool: _Pool, loads: list[int]) -> int:
    """Move partitions of a pool from high loads to low ones, and return how many.

    Entries of the heaps with an outdated load are skipped; each change of a load has added a new entry.
    """
    if len(pool.subscribers) == 1:
        return 0
    lowest = [(loads[member], member) for member in pool.subscribers]
    highest = [(-loads[member], member) for member, held in pool.held.items() if held]
    heapify(lowest)
    heapify(highest)
    moves = 0
    while highest:
        load, giver = highest[0]
        if -load != loads[giver] or not pool.held[giver]:
            heappop(highest)
            continue
        load, taker = lowest[0]
        if load != loads[taker]:
            heappop(lowest)
            continue
        if loads[giver] - loads[taker] < 2:
            break
        _move(pool, giver, taker)
        loads[giver] -= 1
        loads[taker] += 1
        for member in (giver, taker):
            heappush(lowest, (loads[member], member))
            heappush(highest, (-loads[member], member))
        moves += 1
    return moves


def _move(pool: _Pool, giver: int, taker: int) -> None:
    pool.held.setdefault(taker, []).append(pool.held[giver].pop())


@dataclass(frozen=True, slots=True)
class _Step:
    """How a search reached a member: which member would hand on to it, in which pool."""

    giver: int
    pool: _Pool


def _hand_on(pools: Sequence[_Pool], loads: list[int]) -> None:
    """Let chains of members hand on partitions until no chain helps.

    From the highest load on, look for a lower one that a chain leads to. If there is none, no member that was reached
    has to be searched again: chains from them lead nowhere else, and chains from others lead no lower.
    """
    pools_of: list[list[_Pool]] = [[] for _ in loads]
    for pool in pools:
        for member in pool.subscribers:
            pools_of[member].append(pool)
    dead_ends: set[int] = set()
    queue = [(-load, member) for member, load in enumerate(loads)]
    heapify(queue)
    while queue:
        load, member = heappop(queue)
        if member in dead_ends or -load != loads[member]:
            continue
        chain = _chain(pools_of, loads, member, dead_ends)
        if not chain:
            continue
        for step, taker in chain:
            _move(step.pool, step.giver, taker)
        taker = chain[0][1]
        loads[member] -= 1
        loads[taker] += 1
        heappush(queue, (-loads[member], member))
        heappush(queue, (-loads[taker], taker))


def _chain(
    pools_of: Sequence[Sequence[_Pool]], loads: Sequence[int], start: int, dead_ends: set[int]
) -> list[tuple[_Step, int]] | None:
    """Return the steps of a shortest chain to a member with a load lower by two, the last step first.

    If there is none, all members that were reached are dead ends.
    """
    reached: dict[int, _Step | None] = {start: None}
    waiting = deque([start])
    tried: set[_Pool] = set()
    while waiting:
        giver = waiting.popleft()
        opened = [pool for pool in pools_of[giver] if pool not in tried and pool.held.get(giver)]
        tried.update(opened)
        for pool in opened:
            for taker in pool.subscribers:
                if taker in reached or taker in dead_ends:
                    continue
                reached[taker] = _Step(giver, pool)
                if loads[start] - loads[taker] >= 2:
                    return _steps(reached, taker)
                waiting.append(taker)
    dead_ends.update(reached)
    return None


def _steps(reached: Mapping[int, _Step | None], taker: int) -> list[tuple[_Step, int]]:
    steps = []
    while (step := reached[taker]) is not None:
        steps.append((step, taker))
        taker = step.giver
    return steps


def _collected(pools: Iterable[_Pool], members: Sequence[str]) -> Assignment:
    dealt: list[list[TopicPartition]] = [[] for _ in members]
    for pool in pools:
        for member, held in pool.held.items():
            dealt[member] += held
    return {member: frozenset(partitions) for member, partitions in zip(members, dealt, strict=True)}


ASSIGNORS: Mapping[str, Assignor] = {
    "range": assign_range,
    "roundrobin": assign_round_robin,
    STICKY: assign_sticky,
    "uniform": assign_sticky,  # what Kafka's clients call it
}

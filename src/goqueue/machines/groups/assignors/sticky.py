"""The sticky assignor: as even as the subscriptions allow, with few moves from what members have.

Topics with the same subscribers form a *pool*: whatever is in it can go to any of them. The *load* of a member is how
many partitions it has. The assignment is made in four steps:

1. each member keeps what it has, if it still may;
2. what nobody has goes to whoever has the lowest load in its pool, the pools with the fewest subscribers first;
3. in each pool, partitions move from the highest load to the lowest, as long as they are two or more apart;
4. across pools, a chain of members hands on one partition each, if it leads from a member to one with a load that is
   lower by two or more: the one in the middle keeps its load.

At the end no chain, and so no single move either, makes the loads more even: the sum of their squares is the least
possible. With one pool, also the number of partitions that stay where they are is the greatest possible. An assignment
that is already as even as can be stays as it is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace

from goqueue.machines.groups.assignors.subscribers import Assignment, Subscriptions, subscribers_of
from goqueue.machines.groups.values import Topics
from goqueue.model.topic import TopicPartition


def assign_sticky(subscriptions: Subscriptions, topics: Topics, current: Assignment) -> Assignment:
    """Spread partitions evenly over their subscribers, and leave as many as possible with whoever has them."""
    members = sorted(subscriptions)
    pools = _pools(subscriptions, members, topics)
    loads = [0] * len(members)
    _keep(pools, members, current, loads)
    for pool in pools:
        _give_out(pool, loads)
    while sum(_level(pool, loads) for pool in pools):
        pass  # what one pool has moved may give others something to do
    _hand_on(pools, loads)
    return _collected(pools, members)


@dataclass(slots=True, eq=False)
class _Pool:
    """Topics with the same subscribers, and who has which of their partitions; members are numbered."""

    subscribers: list[int]
    partitions: dict[str, int]
    held: dict[int, list[TopicPartition]]
    """Of each member, those that it had before first: the last one is the first to go."""
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
    """Leave with members what they have, and note as free what nobody has."""
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
    """Give what nobody has to whoever has the least."""
    queue = [(loads[member], member) for member in pool.subscribers]
    heapify(queue)
    for partition in pool.free:
        load, member = queue[0]
        pool.held.setdefault(member, []).append(partition)
        loads[member] = load + 1
        heapreplace(queue, (load + 1, member))


def _level(pool: _Pool, loads: list[int]) -> int:
    """Move partitions of a pool from high loads to low ones, and tell how many.

    Entries of the heaps whose load is not true any more are passed over; a new one was added when it changed.
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
    """How a search came to a member: who would hand on to it, in which pool."""

    giver: int
    pool: _Pool


def _hand_on(pools: Sequence[_Pool], loads: list[int]) -> None:
    """Let chains of members hand on partitions until none helps.

    From the highest load on, look for a lower one that a chain leads to. Where there is none, none of the members that
    were reached has to be looked at again: chains from them lead nowhere else, and from others no lower.
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

    If there is none, all that was reached is a dead end.
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

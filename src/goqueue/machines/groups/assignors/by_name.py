"""How partitions are dealt out to the members of a group.

An assignor is a function: who subscribes to which topics, how many partitions each topic has, and what each member
has now, give what each member is to have. Its result depends on nothing else, not even on the order of its arguments.
Of every topic that exists and has subscribers, each partition goes to exactly one of them; every member is in the
result, if only with nothing.

| name                | partitions                                                   | looks at what members have     |
|---------------------|--------------------------------------------------------------|--------------------------------|
| `range`             | of each topic in one piece to each member, in order of ids   | no                             |
| `roundrobin`        | of all topics one after another over all members             | no                             |
| `sticky`, `uniform` | evenly, and moves no more than that takes                    | yes                            |
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping

from goqueue.machines.groups.assignors.sticky import assign_sticky
from goqueue.machines.groups.assignors.subscribers import Assignment, Subscriptions, subscribers_of
from goqueue.machines.groups.values import Topics
from goqueue.model.topic import TopicPartition

Assignor = Callable[[Subscriptions, Topics, Assignment], Assignment]

STICKY = "sticky"


def assign_range(subscriptions: Subscriptions, topics: Topics, current: Assignment) -> Assignment:
    """Give each subscriber of a topic a contiguous range; the first ones get one more if it does not come out even."""
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
    """Deal all partitions, in order, over the members in order of their ids, past those that do not subscribe."""
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


ASSIGNORS: Mapping[str, Assignor] = {
    "range": assign_range,
    "roundrobin": assign_round_robin,
    STICKY: assign_sticky,
    "uniform": assign_sticky,  # what Kafka's clients call it
}


def _frozen(dealt: Mapping[str, list[TopicPartition]]) -> Assignment:
    return {member: frozenset(partitions) for member, partitions in dealt.items()}

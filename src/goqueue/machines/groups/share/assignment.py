"""How partitions are dealt out to the members of a share group: a partition may have several of them.

Members of a share group do not own partitions: messages are leased one by one, whoever asks. An assignment only says
where each of them looks, so that every partition is looked at, every member has something to look at, and no partition
has many more members than another. The result depends on nothing but the arguments, not even on their order.
"""

from __future__ import annotations

from goqueue.machines.groups.assignors.subscribers import Assignment, Subscriptions, subscribers_of
from goqueue.machines.groups.values import Topics
from goqueue.model.topic import TopicPartition


def assign_shares(subscriptions: Subscriptions, topics: Topics) -> Assignment:
    """Return where each member looks: partitions go round over the members, or members over the partitions."""
    dealt: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
    turn = 0
    for topic, subscribers in subscribers_of(subscriptions, topics).items():
        partitions, members = topics[topic], len(subscribers)
        for number in range(max(partitions, members) if partitions else 0):
            # The next topic goes on behind the member that came last, so that none gets more of all topics.
            dealt[subscribers[(turn + number) % members]].append(TopicPartition(topic, number % partitions))
        turn += partitions
    return {member: frozenset(partitions) for member, partitions in dealt.items()}

"""Who may be given the partitions of a topic: the words of assignors, and the subscribers of each topic.

Groups are often large and alike: members that subscribe to the same topics are looked at once, and topics with the
same subscribers share one tuple of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from goqueue.machines.groups.values import Topics
from goqueue.model.topic import TopicPartition

Subscriptions = Mapping[str, frozenset[str]]
"""The topics that each member, by its id, subscribes to."""

Assignment = Mapping[str, frozenset[TopicPartition]]
"""The partitions of each member, by its id."""


def subscribers_of(subscriptions: Subscriptions, topics: Topics) -> dict[str, tuple[str, ...]]:
    """Return the subscribers of each topic that exists and has any, in order of ids; the topics in order of names."""
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

"""An index from topics to interested groups, so that a topic that is created or deleted costs other groups nothing.

A group is interested in the names that its members subscribe to, in the names that their patterns match, and in the
topics that it knows. Each pattern is compiled once, for as long as a group has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from goqueue.machines.groups.consumer.values import ConsumerGroup
from goqueue.machines.groups.topic_pattern import TopicPattern, topic_pattern


class _Interest(NamedTuple):
    """The interests of a group at an epoch: subscriptions change only with the epoch."""

    epoch: int
    topic_ids: Mapping[str, UUID]
    names: frozenset[str]
    patterns: frozenset[str]


class _Pattern(NamedTuple):
    compiled: TopicPattern
    groups: set[str]


class GroupInterests:
    """Groups by the names and patterns that they are interested in."""

    def __init__(self) -> None:
        self._interests: dict[str, _Interest] = {}
        self._by_name: dict[str, set[str]] = {}
        self._by_pattern: dict[str, _Pattern] = {}

    def note(self, name: str, group: ConsumerGroup | None) -> None:
        """Update the interests of a group; None if its partitions are not assigned by the broker."""
        before = self._interests.get(name)
        if group is None:
            if before is not None:
                del self._interests[name]
                self._remove(name, before)
            return
        if before is not None and before.epoch == group.epoch and before.topic_ids is group.topic_ids:
            return
        members = group.members.values()
        names = frozenset(group.topic_ids).union(*{member.topics for member in members})
        patterns = frozenset(member.pattern for member in members if member.pattern)
        interest = self._interests[name] = _Interest(group.epoch, group.topic_ids, names, patterns)
        if before is None or (before.names, before.patterns) != (names, patterns):
            self._add(name, interest)
            if before is not None:
                self._remove(name, before._replace(names=before.names - names, patterns=before.patterns - patterns))

    def groups_of(self, topic: str) -> set[str]:
        """Return the groups that are interested in a topic."""
        found = set(self._by_name.get(topic, ()))
        for pattern in self._by_pattern.values():
            if not pattern.groups <= found and pattern.compiled.matches(topic):
                found |= pattern.groups
        return found

    def _add(self, name: str, interest: _Interest) -> None:
        for topic in interest.names:
            self._by_name.setdefault(topic, set()).add(name)
        for text in interest.patterns:
            if text not in self._by_pattern:
                self._by_pattern[text] = _Pattern(topic_pattern(text), set())
            self._by_pattern[text].groups.add(name)

    def _remove(self, name: str, interest: _Interest) -> None:
        for topic in interest.names:
            groups = self._by_name[topic]
            groups.discard(name)
            if not groups:
                del self._by_name[topic]
        for text in interest.patterns:
            groups = self._by_pattern[text].groups
            groups.discard(name)
            if not groups:
                del self._by_pattern[text]

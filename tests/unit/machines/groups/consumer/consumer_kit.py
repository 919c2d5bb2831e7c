"""One group whose broker assigns, and what members say to it, in a form that reads like the protocol."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest

from goqueue.errors import GoQueueError
from goqueue.machines.decision import Now
from goqueue.machines.groups.consumer import group as consumer_group
from goqueue.machines.groups.consumer.heartbeat_pace import HeartbeatPace
from goqueue.machines.groups.consumer.records import changes, fold
from goqueue.machines.groups.consumer.values import ConsumerGroup, ConsumerHeartbeat, ConsumerMember, ConsumerReply
from goqueue.machines.groups.keys import decode_key
from goqueue.machines.groups.values import KnownTopic, KnownTopics
from goqueue.model.topic import TopicPartition


def partitions(text: str) -> frozenset[TopicPartition]:
    """Read `orders-0 audit-1`."""
    return frozenset(TopicPartition(*_parts(each)) for each in text.split())


def _parts(name: str) -> tuple[str, int]:
    topic, _, number = name.rpartition("-")
    return topic, int(number)


def written(found: frozenset[TopicPartition]) -> str:
    """Write what `partitions` reads."""
    return " ".join(f"{topic}-{number}" for topic, number in sorted(found))


@dataclass
class Coordinator:
    """Keeps a group, its topics and the time; every step is checked, stored and folded again."""

    topics: dict[str, int] = field(default_factory=lambda: {"orders": 3})
    group: ConsumerGroup | None = None
    now: Now = field(default_factory=lambda: Now(1_000_000, 1_000))
    epochs: dict[str, int] = field(default_factory=dict)
    ids: dict[str, UUID] = field(default_factory=dict)
    made: int = 0
    pace: HeartbeatPace = field(default_factory=HeartbeatPace)

    def join(self, member_id: str, topics: str | None = "orders", **fields: Any) -> ConsumerReply:
        """Join, or join again."""
        named = None if topics is None else frozenset(topics.split())
        return self.say(member_id, epoch=0, topics=named, owned=frozenset(), is_full=True, **fields)

    def beat(self, member_id: str, owned: str | None = None, **fields: Any) -> ConsumerReply:
        """Send a heartbeat with the epoch that the member was told last, or another one."""
        held = None if owned is None else partitions(owned)
        return self.say(member_id, **{"epoch": self.epochs.get(member_id, 7), "owned": held, **fields})

    def say(self, member_id: str, **fields: Any) -> ConsumerReply:
        """Send what is given, and nothing else."""
        command = ConsumerHeartbeat(group="g", member_id=member_id, **fields)
        group, reply = consumer_group.heartbeat(self.group, command, self.known_topics, self.now, self.pace)
        self.keep(group)
        self.epochs[member_id] = reply.epoch
        return reply

    def refused(self, error: type[GoQueueError], member_id: str, **fields: Any) -> None:
        """Say something that is refused, and changes nothing."""
        before = self.group
        with pytest.raises(error):
            self.say(member_id, **fields)
        assert self.group is before

    def wait(self, milliseconds: int) -> None:
        """Let time pass, and look who is overdue."""
        self.now = Now(self.now.wall_ms + milliseconds, self.now.monotonic_ms + milliseconds)
        if self.group is not None:
            self.keep(consumer_group.tick(self.group, self.known_topics, self.now))

    def change_topics(self, **counts: int) -> None:
        """Let topics be made or grow, or go if they have none."""
        self.topics = {name: count for name, count in {**self.topics, **counts}.items() if count}
        self.ids = {name: topic_id for name, topic_id in self.ids.items() if name in self.topics}
        self.refresh()

    def make_anew(self, **counts: int) -> None:
        """Let topics be deleted and made anew before anybody looks."""
        self.topics = {**self.topics, **counts}
        self.ids = {name: topic_id for name, topic_id in self.ids.items() if name not in counts}
        self.refresh()

    def refresh(self) -> None:
        """Let the group look at the topics as they are."""
        self.keep(consumer_group.refresh(self.known, self.known_topics, self.now))

    @property
    def known_topics(self) -> KnownTopics:
        """The topics with their ids; one that is made, or made anew, gets one that there never was."""
        for name in self.topics:
            if name not in self.ids:
                self.made += 1
                self.ids[name] = UUID(int=self.made)
        return {name: KnownTopic(self.ids[name], count) for name, count in self.topics.items()}

    def keep(self, group: ConsumerGroup) -> None:
        """Take a group as the next one, after a look at whether storage would make the same of it."""
        consumer_group.validate(group)
        folded = self.group
        for record in changes(self.group, group):
            folded = fold(folded, decode_key(record.key), record.value)
        assert folded == group
        self.group = group

    @property
    def known(self) -> ConsumerGroup:
        """The group, once there is one."""
        assert self.group is not None
        return self.group

    def member(self, member_id: str) -> ConsumerMember:
        """Return what is known of a member."""
        return self.known.members[member_id]

    def has(self, member_id: str) -> str:
        """Return what a member may work on."""
        return written(self.member(member_id).assigned)

    @property
    def reasons(self) -> list[str]:
        """Why there were rebalances."""
        return [rebalance.reason for rebalance in self.known.rebalances]

    def settle(self) -> None:
        """Let all members come until everybody has what it is to have, and gives back what it is asked for."""
        for _ in range(4):
            for member_id in list(self.known.members):
                self.beat(member_id, self.has(member_id))
        assert consumer_group.state_of(self.known) == "stable"

    def restart(self) -> None:
        """Lose everything that is not stored, and begin anew."""
        folded: ConsumerGroup | None = None
        for record in changes(None, self.known):
            folded = fold(folded, decode_key(record.key), record.value)
        assert folded is not None
        self.now = self.now._replace(monotonic_ms=5)
        self.keep(consumer_group.revive(folded, self.now))

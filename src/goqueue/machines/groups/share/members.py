"""Members of share groups, and the partitions that each member reads.

Nothing of this is stored. The deliveries of the queue group of the same name outlive the broker; its members join again
after a restart.

| heartbeat            | of a member at that epoch      | at another epoch   | of no member   |
|----------------------|--------------------------------|--------------------|----------------|
| epoch 0: it joins    | joins again                    | joins again        | joins          |
| a later epoch        | stays                          | MemberFenced       | UnknownMember  |
| epoch -1: it leaves  | leaves                         | leaves             | UnknownMember  |

The epoch of a group rises whenever its members, their subscriptions, or their topics change; each member gets there
with its next heartbeat. The previous epoch is valid, too: the reply with the new one may be lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from goqueue.errors import GroupFull, GroupRequestTooLarge, Invalid, MemberFenced, UnknownMember
from goqueue.machines.deadlines import Deadlines
from goqueue.machines.groups.assignors import Assignment, Subscriptions, subscribers_of
from goqueue.machines.groups.limits import NAME_BYTES_MAX
from goqueue.machines.groups.share.values import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    SESSION_TIMEOUT_MS,
    SharedPartition,
    ShareGroup,
    ShareHeartbeat,
    ShareMember,
    ShareReply,
)
from goqueue.machines.groups.values import KnownTopics, Topics
from goqueue.model.topic import TopicPartition, is_internal

MEMBERS_MAX = 1_000
SUBSCRIPTION_BYTES_MAX = 64 * 1024
"""Bytes of topic names that a member may subscribe to."""
INTERVAL_MIN_MS = 1_000
INTERVAL_MAX_MS = 5_000
# The more members all groups have, the longer the interval.
_PER_MEMBER_MS = 3


class MemberKey(NamedTuple):
    """A member by its group and its id."""

    group: str
    member_id: str


class ShareMembers:
    """The members of all share groups; `topics` are the existing topics, and change."""

    def __init__(self, topics: KnownTopics) -> None:
        self.groups: dict[str, ShareGroup] = {}
        self._topics = topics
        # Changes with the topics, so that a group checks them only then, and not at every heartbeat.
        self._revision = 0
        self._count = 0
        self._sessions: Deadlines[MemberKey] = Deadlines()

    def heartbeat(self, command: ShareHeartbeat, now_ms: int) -> ShareReply:
        """Let a member join, stay or leave, and return its reply; raise what forbids it."""
        check_share_heartbeat(command)
        if command.epoch == LEAVE_EPOCH:
            self._require(command)
            self.remove(MemberKey(command.group, command.member_id))
            return ShareReply(LEAVE_EPOCH, 0)
        member = self._joined(command, now_ms) if command.epoch == JOIN_EPOCH else self._stayed(command, now_ms)
        group = self.groups[command.group]
        self._look_at_topics(group)
        target = group.target[member.id]
        # A full request gets a full reply, and so does a member that may have missed the last reply.
        is_told = command.topics is not None or command.epoch != member.epoch or target != member.told
        group.members[member.id] = replace(member, epoch=group.epoch, former_epoch=command.epoch, told=target)
        self._sessions.note(MemberKey(group.name, member.id), now_ms + SESSION_TIMEOUT_MS)
        return ShareReply(group.epoch, self.interval_ms(), target if is_told else None)

    def topics_changed(self) -> None:
        """Note that topics or partition counts have changed; members learn of it with their heartbeats."""
        self._revision += 1

    def remove(self, key: MemberKey) -> None:
        """Remove a member, if it exists."""
        group = self.groups.get(key.group)
        if group is None or group.members.pop(key.member_id, None) is None:
            return
        self._count -= 1
        self._sessions.note(key, None)
        if group.members:
            self._assign(group)
        else:
            del self.groups[key.group]

    def expired(self, now_ms: int) -> Sequence[MemberKey]:
        """Return the members whose session has expired; they are not removed yet."""
        silent = []
        for key in self._sessions.due(now_ms):
            heard_ms = self.groups[key.group].members[key.member_id].heard_ms
            if heard_ms + SESSION_TIMEOUT_MS <= now_ms:
                silent.append(key)
            else:
                self._sessions.note(key, heard_ms + SESSION_TIMEOUT_MS, is_past=True)
        return silent

    def heard_ms(self, key: MemberKey) -> int | None:
        """Return when a member last sent a heartbeat; None if there is no such member."""
        group = self.groups.get(key.group)
        member = None if group is None else group.members.get(key.member_id)
        return None if member is None else member.heard_ms

    def deadline_ms(self) -> int | None:
        """Return the monotonic moment at which the next session may expire."""
        return self._sessions.next_ms()

    def interval_ms(self) -> int:
        """Return how long members are to wait between two heartbeats."""
        return min(max(_PER_MEMBER_MS * self._count, INTERVAL_MIN_MS), INTERVAL_MAX_MS)

    def _require(self, command: ShareHeartbeat) -> ShareMember:
        group = self.groups.get(command.group)
        member = None if group is None else group.members.get(command.member_id)
        if member is None:
            raise UnknownMember(f"group {command.group!r} has no member {command.member_id!r}", hint="join again")
        return member

    def _joined(self, command: ShareHeartbeat, now_ms: int) -> ShareMember:
        assert command.topics is not None
        group = self.groups.get(command.group)
        if group is None:
            group = ShareGroup(command.group)
        is_new = command.member_id not in group.members
        if is_new and len(group.members) >= MEMBERS_MAX:
            raise GroupFull(f"group {command.group!r} has {MEMBERS_MAX} members")
        self.groups[command.group] = group
        self._count += is_new
        known = group.members.get(command.member_id)
        member = ShareMember(
            command.member_id, command.topics, command.rack_id, command.client_id, command.client_host, now_ms
        )
        group.members[member.id] = member
        if known is None or known.topics != member.topics:
            self._assign(group)
        return member

    def _stayed(self, command: ShareHeartbeat, now_ms: int) -> ShareMember:
        known = self._require(command)
        if command.epoch not in (known.epoch, known.former_epoch):
            raise MemberFenced(
                f"member {known.id!r} is in epoch {known.epoch}, not {command.epoch}", hint="join again with epoch 0"
            )
        topics = known.topics if command.topics is None else command.topics
        group = self.groups[command.group]
        member = group.members[known.id] = replace(known, topics=topics, heard_ms=now_ms)
        if topics != known.topics:
            self._assign(group)
        return member

    def _look_at_topics(self, group: ShareGroup) -> None:
        if group.revision != self._revision:
            group.revision = self._revision
            if group.seen != self._known(group):
                self._assign(group)

    def _assign(self, group: ShareGroup) -> None:
        group.epoch += 1
        group.revision = self._revision
        group.seen = seen = self._known(group)
        subscriptions = {member.id: member.topics for member in group.members.values()}
        dealt = assign_shares(subscriptions, {name: topic.partitions for name, topic in seen.items()})
        group.target = {
            member: frozenset(SharedPartition(seen[topic].id, topic, index) for topic, index in partitions)
            for member, partitions in dealt.items()
        }

    def _known(self, group: ShareGroup) -> KnownTopics:
        wanted = sorted(frozenset[str]().union(*(member.topics for member in group.members.values())))
        return {name: self._topics[name] for name in wanted if name in self._topics and not is_internal(name)}

    def validate(self) -> None:
        """Check the invariants; AssertionError if one is broken."""
        assert self._count == sum(len(group.members) for group in self.groups.values())
        for group in self.groups.values():
            assert group.members, "a group without members is forgotten"
            assert group.target.keys() == group.members.keys()
            looked_at = frozenset[SharedPartition]().union(*group.target.values())
            everything = sum(topic.partitions for topic in group.seen.values())
            assert len(looked_at) == everything, "every partition has a member"


def check_share_heartbeat(command: ShareHeartbeat) -> None:
    """Refuse a malformed or too large heartbeat."""
    if not command.member_id:
        raise Invalid("a member of a share group brings an id of its own")
    if command.epoch < LEAVE_EPOCH:
        raise Invalid(f"{command.epoch} is no epoch of a member")
    if command.epoch == JOIN_EPOCH and not command.topics:
        raise Invalid("a member that joins a share group names the topics that it subscribes to")
    if command.rack_id == "":
        raise Invalid("a rack id is missing or has a name, but is not empty")
    for name in (command.member_id, command.rack_id or "", command.client_id):
        if len(name.encode("utf-8", "surrogateescape")) > NAME_BYTES_MAX:
            raise GroupRequestTooLarge(f"{name[:40]!r}... is longer than {NAME_BYTES_MAX} bytes")
    if sum(map(len, command.topics or ())) > SUBSCRIPTION_BYTES_MAX:
        raise GroupRequestTooLarge(
            f"a member subscribes to too many topics: {SUBSCRIPTION_BYTES_MAX} bytes of names are allowed"
        )


def assign_shares(subscriptions: Subscriptions, topics: Topics) -> Assignment:
    """Return the partitions that each member reads: partitions go round over the members, or members over partitions.

    Members of a share group do not own partitions, since messages are leased one by one. The assignment only spreads
    the members, so that every partition is read, every member has one to read, and no partition has many more members
    than another. The result does not depend on the order of the arguments.
    """
    dealt: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
    turn = 0
    for topic, subscribers in subscribers_of(subscriptions, topics).items():
        partitions, members = topics[topic], len(subscribers)
        for number in range(max(partitions, members) if partitions else 0):
            # The next topic continues after the member that came last, so that no member gets more of every topic.
            dealt[subscribers[(turn + number) % members]].append(TopicPartition(topic, number % partitions))
        turn += partitions
    return {member: frozenset(partitions) for member, partitions in dealt.items()}

"""All groups of a shard under random commands of all kinds: what is stored always folds to the state."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from goqueue.errors import MemberIdRequired
from goqueue.machines.groups.classic.values import ClassicGroup, Joined, Leave, Leaver, Sync
from goqueue.machines.groups.commands import DeleteGroup, DeleteOffsets, DropTopicOffsets, EndOffsets, Sweep
from goqueue.machines.groups.consumer import group as consumer_group
from goqueue.machines.groups.consumer.values import ConsumerGroup, ConsumerReply
from goqueue.machines.groups.machine import GroupMachine
from tests.unit.machines.groups.classic.consumer_bytes import assignment
from tests.unit.machines.groups.groups_kit import DAY_MS, ORDERS, GroupsStage, alive, beat, commit, join

NAMES = st.sampled_from(["g", "h"])
MEMBERS = st.sampled_from(["a", "b", "c"])
PARTITIONS = st.integers(0, 2)


class GroupsMachine(RuleBasedStateMachine):
    """Members of both kinds that meet under two names; each remembers its last generation or epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = GroupsStage({"orders": 3, "audit": 1})
        self.ids: dict[tuple[str, str], str] = {}
        self.joins: dict[int, tuple[str, str]] = {}
        self.epochs: dict[tuple[str, str], int] = {}
        self.count = 0

    def listen(self) -> None:
        """Let members read what they were told."""
        for ticket, who in list(self.joins.items()):
            answer = self.stage.answers.get(ticket)
            if answer is not None:
                del self.joins[ticket]
            if isinstance(answer, Joined):
                self.ids[who], self.epochs[who] = answer.member_id, answer.generation
            elif isinstance(answer, MemberIdRequired):
                self.ids[who] = answer.member_id

    # -- classic members

    @rule(group=NAMES, member=MEMBERS, needs_known_id=st.booleans(), is_static=st.booleans())
    def join(self, group: str, member: str, needs_known_id: bool, is_static: bool) -> None:
        self.count += 1
        fields: dict[str, Any] = {"instance_id": member} if is_static else {}
        command = join(
            group, f"{member}{self.count}", self.ids.get((group, member), ""), needs_known_id=needs_known_id, **fields
        )
        ticket = self.stage.submit(command)
        self.joins[ticket] = (group, member)
        if self.stage.word(ticket) in ("unknown_member", "instance_fenced"):
            self.ids.pop((group, member), None)
        self.listen()

    @rule(group=NAMES, member=MEMBERS, share=PARTITIONS)
    def sync(self, group: str, member: str, share: int) -> None:
        who = self.ids.get((group, member), "nobody")
        shares = {who: assignment(ORDERS[share])}
        generation = self.epochs.get((group, member), 1)
        self.stage.submit(Sync(group=group, member_id=who, generation=generation, assignments=shares))

    @rule(group=NAMES, member=MEMBERS)
    def heartbeat(self, group: str, member: str) -> None:
        who = self.ids.get((group, member), "nobody")
        self.stage.submit(alive(group, who, self.epochs.get((group, member), 1)))

    @rule(group=NAMES, member=MEMBERS)
    def leave(self, group: str, member: str) -> None:
        self.stage.submit(Leave(group, (Leaver(self.ids.pop((group, member), member)),)))

    # -- members whose broker assigns

    @rule(group=NAMES, member=MEMBERS, epoch=st.sampled_from([0, 0, None, None, None, -1]), owns=st.booleans())
    def beat(self, group: str, member: str, epoch: int | None, owns: bool) -> None:
        known = self.stage.groups.find(group)
        fields: dict[str, Any] = {}
        if epoch is None:
            epoch = self.epochs.get((group, member), 1)
            if isinstance(known, ConsumerGroup) and member in known.members:
                fields["owned"] = known.members[member].assigned if owns else frozenset()
        reply = self.stage.told(beat(group, member, epoch, **fields))
        if isinstance(reply, ConsumerReply):
            self.epochs[group, member] = reply.epoch

    # -- offsets

    @rule(group=NAMES, member=st.none() | MEMBERS, index=PARTITIONS, producer=st.sampled_from([None, None, 1, 2]))
    def commit(self, group: str, member: str | None, index: int, producer: int | None) -> None:
        fields: dict[str, Any] = {}
        if member is not None:
            known = self.stage.groups.find(group)
            who = member if isinstance(known, ConsumerGroup) else self.ids.get((group, member), "nobody")
            fields = {"member_id": who, "epoch": self.epochs.get((group, member), 1)}
        self.count += 1
        before = self.stage.offsets(group)
        answer = self.stage.told(commit(group, (index, self.count), producer_id=producer, **fields))
        is_set = answer == ["ok"] and producer is None
        assert self.stage.offsets(group) == ({**before, index: self.count} if is_set else before)
        if answer == ["ok"] and member is None and producer is None:
            assert not self.members(group), "only members commit while there are any"

    @rule(producer=st.sampled_from([1, 2]), is_commit=st.booleans())
    def end(self, producer: int, is_commit: bool) -> None:
        self.stage.submit(EndOffsets(producer, is_commit))

    @rule(group=NAMES, index=PARTITIONS)
    def delete_offsets(self, group: str, index: int) -> None:
        self.stage.submit(DeleteOffsets(group, [ORDERS[index]]))

    @rule(group=NAMES)
    def delete(self, group: str) -> None:
        had_members = self.members(group)
        if self.stage.told(DeleteGroup(group)) is None:
            assert not had_members
            assert group not in self.stage.groups.names()

    @rule(topic=st.sampled_from(["orders", "audit"]))
    def drop_topic(self, topic: str) -> None:
        self.stage.submit(DropTopicOffsets(topic))
        assert topic not in {each.topic for name in "gh" for each in self.stage.groups.offsets.of_group(name)}

    # -- time, topics, restarts

    @rule(duration_ms=st.sampled_from([1, 200, 3_000, 12_000, 40_000, DAY_MS, 9 * DAY_MS]))
    def pass_time(self, duration_ms: int) -> None:
        self.stage.pass_ms(duration_ms)
        self.listen()
        if duration_ms > 8 * DAY_MS:
            is_pending = self.stage.groups.offsets.is_pending
            for name in self.stage.groups.names():
                assert any(is_pending(name, each) for each in ORDERS), "all that nobody uses is forgotten"

    @rule(partitions=st.integers(1, 4), is_anew=st.booleans())
    def change_topics(self, partitions: int, is_anew: bool) -> None:
        act = self.stage.make if is_anew else self.stage.grow
        act("orders", partitions)
        self.stage.groups.topics_changed(["orders"])
        self.stage.look()

    @rule()
    def sweep(self) -> None:
        names = self.stage.groups.names()
        self.stage.submit(Sweep())
        assert set(self.stage.groups.names()) <= set(names)

    @rule(is_compacted=st.booleans())
    def restart(self, is_compacted: bool) -> None:
        before = sorted(self.stage.groups.records())
        self.stage.restart(is_compacted=is_compacted)
        assert sorted(self.stage.groups.records()) == before
        self.joins.clear()

    # -- what holds

    def members(self, group: str) -> set[str]:
        known = self.stage.groups.find(group)
        return set(known.members) if known else set()

    @invariant()
    def groups_are_sound(self) -> None:
        for name, group in self.stage.groups.groups.items():
            assert group.name == name
            if isinstance(group, ClassicGroup):
                assert not group.is_void
            else:
                consumer_group.validate(group)

    @invariant()
    def can_be_made_again(self) -> None:
        """What is stored, and what the machine says of itself, both make an equal machine."""
        wanted = sorted(self.stage.groups.records())
        for records in (self.stage.records, self.stage.groups.records()):
            again = GroupMachine(self.stage.topics)
            for record in records:
                again.apply(record)
            assert sorted(again.records()) == wanted


TestGroups = GroupsMachine.TestCase
TestGroups.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)

"""Groups whose broker assigns against simulated clients, which hold what they were given until they give it back.

Answers get lost, clients die, fall behind, leave, come back, and topics change, in any order. After every step no
partition has two holders, nothing that stays has paused, and what is stored makes the same group again. Whenever
everybody has come often enough, all is stable, shared out evenly, and held.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any
from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from goqueue.errors import Fenced, InstanceInUse, UnknownMember
from goqueue.machines.decision import KeyedRecord, Now
from goqueue.machines.groups.consumer import group as consumer_group
from goqueue.machines.groups.consumer.heartbeat_pace import HeartbeatPace
from goqueue.machines.groups.consumer.records import changes, fold
from goqueue.machines.groups.consumer.values import (
    AWAY_EPOCH,
    LEAVE_EPOCH,
    ConsumerGroup,
    ConsumerHeartbeat,
    ConsumerReply,
)
from goqueue.machines.groups.keys import decode_key
from goqueue.machines.groups.values import KnownTopic
from goqueue.model.topic import TopicPartition
from tests.unit.machines.compaction import COMPACTIONS, compactions

Partitions = frozenset[TopicPartition]

SUBSCRIPTIONS = st.sampled_from([("a", ""), ("a b", ""), ("b c", ""), ("", "[ab]"), ("c", "a|b")])
ASSIGNORS = st.sampled_from([None, None, None, "sticky", "range", "roundrobin"])


@dataclass(eq=False)
class Client:
    """A consumer: `holds` is what it works on, `told` what it may work on as far as it knows."""

    id: str
    instance: str | None
    topics: str
    pattern: str
    assignor: str | None
    epoch: int = 0
    holds: Partitions = frozenset()
    told: Partitions = frozenset()
    is_dead: bool = False
    must_ask_in_full: bool = True

    def drop_all(self) -> None:
        self.epoch = 0
        self.holds = self.told = frozenset()
        self.must_ask_in_full = True


class ConsumerGroupMachine(RuleBasedStateMachine):
    """Drives one group."""

    clients = Bundle("clients")

    def __init__(self) -> None:
        super().__init__()
        self.group: ConsumerGroup | None = None
        self.made = 0
        self.topics: dict[str, KnownTopic] = {}
        self.make("a", 3)
        self.make("b", 2)
        self.pace = HeartbeatPace()
        self.now = Now(1_000_000, 1_000)
        self.stored: list[KeyedRecord] = []
        self.everybody: list[Client] = []
        self.names = 0

    @rule(target=clients, subscription=SUBSCRIPTIONS, assignor=ASSIGNORS, is_static=st.booleans())
    def begin(self, subscription: tuple[str, str], assignor: str | None, is_static: bool) -> Client:
        """A new client comes."""
        self.names += 1
        client = Client(f"m{self.names}", f"i{self.names}" if is_static else None, *subscription, assignor)
        self.everybody.append(client)
        self.beat(client)
        return client

    @rule(client=clients, says_what_it_has=st.booleans(), gives_back=st.booleans(), answer_is_lost=st.booleans())
    def heartbeat(self, client: Client, says_what_it_has: bool, gives_back: bool, answer_is_lost: bool) -> None:
        """A client comes, with or without news; it may take its time to give anything back."""
        if client.is_dead:
            return
        if gives_back:
            client.holds &= client.told
        self.beat(client, says_what_it_has=says_what_it_has, answer_is_lost=answer_is_lost)

    @rule(client=clients, subscription=SUBSCRIPTIONS)
    def subscribe(self, client: Client, subscription: tuple[str, str]) -> None:
        """A client wants to read something else, and asks in full."""
        if not client.is_dead:
            client.topics, client.pattern = subscription
            client.must_ask_in_full = True
            self.beat(client)

    @rule(target=clients, client=consumes(clients), is_for_a_while=st.booleans())
    def leave(self, client: Client, is_for_a_while: bool) -> Any:
        """A client leaves; a static one may come back under another id."""
        if client.is_dead or client.epoch == 0:
            return client
        client.drop_all()
        self.everybody.remove(client)
        epoch = AWAY_EPOCH if is_for_a_while and client.instance else LEAVE_EPOCH
        try:
            self.say(client, epoch=epoch)
        except UnknownMember:
            return multiple()
        if epoch == LEAVE_EPOCH:
            return multiple()
        self.names += 1
        back = Client(f"m{self.names}", client.instance, client.topics, client.pattern, client.assignor)
        self.everybody.append(back)
        return back

    @rule(client=clients)
    def die(self, client: Client) -> None:
        """A client is gone without a word."""
        client.drop_all()
        client.is_dead = True

    @rule(client=clients)
    def join_again(self, client: Client) -> None:
        """A client drops everything and joins again, for reasons of its own."""
        if not client.is_dead:
            client.drop_all()
            self.beat(client)

    @rule(client=clients, epoch=st.integers(1, 60))
    def come_with_another_epoch(self, client: Client, epoch: int) -> None:
        """Whoever has an epoch that is neither the last nor the one before is refused, and changes nothing."""
        member = self.group.members.get(client.id) if self.group else None
        if member is not None and epoch in {member.epoch, member.previous_epoch}:
            return
        before = self.group
        with pytest.raises((Fenced, UnknownMember)):
            self.say(client, epoch=epoch, owned=frozenset(), topics=frozenset("c"))
        assert self.group is before
        if member is not None:
            with pytest.raises(Fenced):
                consumer_group.check_commit(self.group, client.id, epoch, [])

    @rule(name=st.sampled_from("abc"), count=st.integers(0, 5), is_anew=st.booleans())
    def change_topic(self, name: str, count: int, is_anew: bool) -> None:
        """A topic is made, grows, or goes, or goes and is made anew before anybody looks."""
        known = self.topics.get(name)
        if count == 0:
            self.topics.pop(name, None)
        elif known is None or is_anew:
            self.make(name, count)
        elif count > known.partitions:
            self.topics[name] = known._replace(partitions=count)
        if self.group is not None:
            self.keep(consumer_group.refresh(self.group, self.topics, self.now))

    def make(self, name: str, count: int) -> None:
        self.made += 1
        self.topics[name] = KnownTopic(UUID(int=self.made), count)

    @rule(seconds=st.sampled_from([1, 7, 20, 31, 61]))
    def wait(self, seconds: int) -> None:
        """Time passes; who was silent for too long, or kept too much, is removed, and knows it when it comes again."""
        self.now = Now(self.now.wall_ms + seconds * 1000, self.now.monotonic_ms + seconds * 1000)
        if self.group is None:
            return
        due = consumer_group.deadline_ms(self.group)
        after = consumer_group.tick(self.group, self.topics, self.now)
        assert (after is self.group) == (due is None or due > self.now.monotonic_ms)
        for client in self.everybody:
            if client.id in self.group.members and client.id not in after.members:
                client.holds = frozenset()
        self.keep(after)

    @rule(left=st.integers(0, COMPACTIONS - 1))
    def restart(self, left: int) -> None:
        """The broker starts anew from what is stored."""
        records = compactions(self.stored)[left]
        folded: ConsumerGroup | None = None
        for record in records:
            folded = fold(folded, decode_key(record.key), record.value)
        assert folded == self.group
        if folded is not None:
            self.now = self.now._replace(monotonic_ms=1)
            self.group = consumer_group.revive(folded, self.now)

    @rule()
    def everybody_comes(self) -> None:
        """All is well once everybody has come often enough, and the dead are forgotten."""
        for _ in range(5):
            self.everybody_beats()
            self.wait(8)
        for _ in range(4):
            self.everybody_beats()
        if self.group is None:
            return
        alive = [client for client in self.everybody if not client.is_dead]
        assert consumer_group.state_of(self.group) == ("stable" if alive else "empty")
        assert {client.id: client.holds for client in alive} == {
            member.id: member.target for member in self.group.members.values()
        }
        assert all(rebalance.ended_ms >= rebalance.began_ms for rebalance in self.group.rebalances)
        if self.group.assignor == "sticky":
            for one, other in combinations(alive, 2):
                if (one.topics, one.pattern) == (other.topics, other.pattern):
                    assert abs(len(one.holds) - len(other.holds)) <= 1

    @invariant()
    def nobody_holds_what_another_holds(self) -> None:
        """The broker knows of each partition that a client holds, and that it is with that client alone."""
        held = [partition for client in self.everybody for partition in client.holds]
        assert len(held) == len(set(held))
        for client in self.everybody:
            if client.holds:
                assert self.group is not None
                member = self.group.members[client.id]
                assert client.holds <= member.assigned | member.revoking

    def everybody_beats(self) -> None:
        for client in self.everybody:
            if not client.is_dead:
                client.holds &= client.told
                self.beat(client)

    def beat(self, client: Client, *, says_what_it_has: bool = True, answer_is_lost: bool = False) -> None:
        """Send a heartbeat and take the answer; whoever is refused drops everything, and joins next time."""
        is_full = client.must_ask_in_full
        fields: dict[str, object] = {"epoch": client.epoch, "is_full": is_full}
        if is_full:
            fields |= {"topics": frozenset(client.topics.split()), "pattern": client.pattern}
            fields |= {"assignor": client.assignor, "rebalance_timeout_ms": 45_000}
        if is_full or says_what_it_has:
            fields["owned"] = client.holds
        try:
            reply = self.say(client, **fields)
        except (Fenced, UnknownMember, InstanceInUse):
            client.drop_all()
            return
        client.must_ask_in_full = answer_is_lost
        if answer_is_lost:
            return
        client.epoch = reply.epoch
        if reply.assignment is not None:
            client.told = reply.assignment
            client.holds |= reply.assignment

    def say(self, client: Client, **fields: Any) -> ConsumerReply:
        command = ConsumerHeartbeat(group="g", member_id=client.id, instance_id=client.instance, **fields)
        group, reply = consumer_group.heartbeat(self.group, command, self.topics, self.now, self.pace)
        self.keep(group)
        return reply

    def keep(self, after: ConsumerGroup) -> None:
        """Store the difference, and look at the step: whether it is sound, and whether anything paused."""
        consumer_group.validate(after)
        before = self.group
        records = changes(before, after)
        folded = before
        for record in records:
            folded = fold(folded, decode_key(record.key), record.value)
        assert folded == after
        self.stored += records
        for member in before.members.values() if before is not None else ():
            now = after.members.get(member.id)
            assert now is None or {each for each in member.assigned & now.target if self.is_same(each)} <= now.assigned
        self.group = after

    def is_same(self, partition: TopicPartition) -> bool:
        """Tell whether the topic is the one that the group knew before."""
        assert self.group is not None
        return self.topics[partition.topic].id == self.group.topic_ids[partition.topic]


TestConsumerGroup = ConsumerGroupMachine.TestCase
TestConsumerGroup.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)

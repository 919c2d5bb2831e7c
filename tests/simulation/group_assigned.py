"""Members of a group whose broker assigns: they heartbeat, hold what they have until they give it back, and commit."""

from __future__ import annotations

from dataclasses import dataclass

from goqueue.errors import GoQueueError, InstanceInUse, MemberFenced, UnknownMember
from goqueue.machines.groups.consumer.values import (
    AWAY_EPOCH,
    JOIN_EPOCH,
    LEAVE_EPOCH,
    ConsumerHeartbeat,
    ConsumerReply,
)
from goqueue.model.topic import TopicPartition
from tests.simulation.group_classic import commit
from tests.simulation.group_history import Call
from tests.simulation.group_life import Life

TOPICS = frozenset({"orders", "tmp"})


@dataclass(slots=True)
class AssignedMember:
    """A member; what it owns is what it was told to have, and what it has not given back yet."""

    name: str
    group: str
    instance_id: str | None = None
    member_id: str = ""
    epoch: int = JOIN_EPOCH
    owned: frozenset[TopicPartition] = frozenset()
    told: frozenset[TopicPartition] = frozenset()
    limit_ms: int = 5_000
    # Whoever does not know whether an answer was lost says all, and wants to be told all.
    is_full: bool = False
    may_go: bool = True
    is_gone: bool | None = None

    async def run(self, life: Life) -> None:
        """Be a member, again and again; some are gone for good in the end, and nobody is told."""
        self.is_full = True
        if life.is_settling and self.is_gone is None:
            self.is_gone = self.may_go and life.entropy.chance(0.3)
        while not life.is_over and not self.is_gone:
            await self._heartbeat(life)
            await life.pause(life.entropy.choice([0.3, 2.0]))
            if self.owned and life.entropy.chance(0.5):
                await self._commit(life)
            if life.is_settling or life.entropy.chance(0.5):
                # The moment at which it gives back: what it says from now on is that it has no more than that.
                self.owned &= self.told
            if not life.is_settling:
                await self._misbehave(life)

    async def _heartbeat(self, life: Life) -> None:
        if not self.member_id:
            self.member_id = f"{self.name}-{life.history.next_value()}"
        is_joining = self.epoch == JOIN_EPOCH
        if is_joining:
            self.owned = self.told = frozenset()
            self.limit_ms = life.entropy.choice([2_000, 5_000])
        request = ConsumerHeartbeat(
            group=self.group,
            member_id=self.member_id,
            epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=self.limit_ms if is_joining else -1,
            topics=TOPICS if is_joining else None,
            owned=self.owned if is_joining or self.is_full or life.entropy.chance(0.8) else None,
            is_full=self.is_full,
        )
        call = await life.ask(self.name, request)
        call.is_unheard = life.entropy.chance(0.05)
        if life.entropy.chance(0.2):
            # Once more, when the member has another epoch.
            life.later(8.0, self.name, request, lambda: self.epoch > request.epoch > JOIN_EPOCH)
        self.is_full = call.is_unheard or not call.is_done
        if call.is_unheard:
            return
        await self._learn(life, call)

    async def _learn(self, life: Life, call: Call) -> None:
        if isinstance(call.answer, ConsumerReply):
            self._take(call.answer)
        elif isinstance(call.answer, UnknownMember | MemberFenced):
            self._start_over()
        elif isinstance(call.answer, InstanceInUse):
            await life.pause(10.0)
        elif isinstance(call.answer, GoQueueError) and not call.answer.retriable:
            self._start_over()
            self.member_id = ""

    async def _commit(self, life: Life) -> None:
        request = commit(life, self.group, self.owned, member_id=self.member_id, epoch=self.epoch)
        if life.entropy.chance(0.2):
            life.later(8.0, self.name, request)
        else:
            await life.ask(self.name, request)

    def _take(self, reply: ConsumerReply) -> None:
        self.epoch = reply.epoch
        if reply.assignment is not None:
            self.told = reply.assignment
            self.owned |= reply.assignment

    def _start_over(self) -> None:
        self.epoch, self.owned, self.told = JOIN_EPOCH, frozenset(), frozenset()

    async def _misbehave(self, life: Life) -> None:
        match life.entropy.below(60):
            case 0 if self.epoch > JOIN_EPOCH:
                is_static = self.instance_id is not None
                await self._leave(life, AWAY_EPOCH if is_static and life.entropy.chance(0.7) else LEAVE_EPOCH)
            case 1 | 2:
                # Perhaps long enough to be given up, and then it goes on as if nothing had happened.
                await life.pause(60.0)
                if self.owned:
                    await self._commit(life)
            case 3:
                # It joins anew under its name, and has nothing then.
                self._start_over()
            case 4 if self.instance_id is None:
                # A new process; the old one is heard of no more.
                self._start_over()
                self.member_id = ""

    async def _leave(self, life: Life, epoch: int) -> None:
        member_id = self.member_id
        self._start_over()
        self.member_id = ""
        request = ConsumerHeartbeat(group=self.group, member_id=member_id, epoch=epoch, instance_id=self.instance_id)
        await life.ask(self.name, request)
        await life.pause(5.0)

"""Members of a classic group: they join, sync, heartbeat, commit, leave, fall silent, come back as who they were."""

from __future__ import annotations

from dataclasses import dataclass

from goqueue.errors import GoQueueError, MemberIdRequired, RebalanceInProgress, StaleGeneration
from goqueue.machines.groups.classic.consumer_protocol import assigned_partitions
from goqueue.machines.groups.classic.values import Heartbeat, Join, Joined, Leave, Leaver, Protocol, Sync, Synced
from goqueue.machines.groups.commands import CommitOffsets
from goqueue.machines.groups.offsets import CommittedOffset, NewOffset
from goqueue.model.topic import TopicPartition
from tests.simulation.group_life import Life
from tests.unit.machines.groups.classic.consumer_bytes import assignment, subscription

TOPIC = "orders"


@dataclass(slots=True)
class ClassicMember:
    """A member that reads one topic; it goes by its id and generation, until it is told that they are nobody's."""

    name: str
    group: str
    instance_id: str | None = None
    member_id: str = ""
    generation: int = -1
    held: frozenset[TopicPartition] = frozenset()
    known_partitions: int = 0
    is_in: bool = False
    may_go: bool = True
    is_gone: bool | None = None

    async def run(self, life: Life) -> None:
        """Be a member, again and again; some are gone for good in the end, and nobody is told."""
        if life.is_settling and self.is_gone is None:
            self.is_gone = self.may_go and life.entropy.chance(0.3)
        while not life.is_over and not self.is_gone:
            if self.is_in or await self._enter(life):
                await self._work(life)
            await life.pause(0.5)

    async def _enter(self, life: Life) -> bool:
        """Join and sync; return whether both went well."""
        self.known_partitions = len(life.partitions(TOPIC))
        answer = await life.call(
            self.name,
            Join(
                group=self.group,
                member_id=self.member_id,
                new_id=f"{self.name}-{life.history.next_value()}",
                instance_id=self.instance_id,
                session_timeout_ms=life.entropy.choice([6_000, 9_000]),
                rebalance_timeout_ms=life.entropy.choice([3_000, 12_000]),
                protocol_type="consumer",
                protocols=(Protocol("range", subscription(TOPIC)),),
                needs_known_id=life.entropy.chance(0.5),
            ),
        )
        if not isinstance(answer, Joined):
            if isinstance(answer, MemberIdRequired):
                self.member_id = answer.member_id
            elif not isinstance(answer, RebalanceInProgress):
                self._forget(answer)
            return False
        self.member_id, self.generation = answer.member_id, answer.generation
        await life.pause(life.entropy.choice([0.1, 1.0]))
        return await self._sync(life, answer)

    async def _sync(self, life: Life, joined: Joined) -> bool:
        members = [each.member_id for each in joined.members]
        partitions = life.partitions(TOPIC)
        self.known_partitions = len(partitions)
        shares = {
            member: assignment(*partitions[number :: len(members)]) for number, member in enumerate(sorted(members))
        }
        request = Sync(
            group=self.group,
            member_id=self.member_id,
            generation=self.generation,
            instance_id=self.instance_id,
            assignments=shares,
        )
        answer = await life.call(self.name, request)
        if not isinstance(answer, Synced):
            self._forget(answer)
            return False
        self.held = assigned_partitions(answer.assignment) or frozenset()
        self.is_in = True
        return True

    def _forget(self, answer: object) -> None:
        """Learn from an error who one no longer is."""
        if isinstance(answer, RebalanceInProgress | StaleGeneration) or not isinstance(answer, GoQueueError):
            return
        if not answer.retriable:
            self.member_id, self.generation, self.held = "", -1, frozenset()

    async def _work(self, life: Life) -> None:
        """Heartbeat and commit, until another round calls or it is time to go."""
        while self.is_in and not life.is_over:
            await life.pause(2.0)
            if await self._must_join_again(life):
                self.is_in = False
                if life.entropy.chance(0.3):
                    await self._commit(life)
                return
            if life.entropy.chance(0.7):
                await self._commit(life)
            if not life.is_settling:
                await self._misbehave(life)

    async def _must_join_again(self, life: Life) -> bool:
        if self.known_partitions != len(life.partitions(TOPIC)) and life.entropy.chance(0.5):
            # It may be somebody else who assigns; to join as another makes that one do it.
            await self._leave(life)
            return True
        answer = await life.call(
            self.name,
            Heartbeat(
                group=self.group, member_id=self.member_id, generation=self.generation, instance_id=self.instance_id
            ),
        )
        self._forget(answer)
        return isinstance(answer, GoQueueError)

    async def _misbehave(self, life: Life) -> None:
        match life.entropy.below(40):
            case 0:
                await self._leave(life)
            case 1 | 2:
                # Long enough to be given up, and then it goes on as if nothing had happened.
                await life.pause(20.0)
                await self._commit(life)
            case 3:
                # A new process under the same name; the old one is still there, and does not know.
                life.spawn(self._haunt(life, self._offsets(life)))
                self.member_id, self.is_in = "", False

    async def _leave(self, life: Life) -> None:
        leaver = Leaver(self.member_id, self.instance_id)
        if self.instance_id is not None and life.entropy.chance(0.5):
            leaver = Leaver("", self.instance_id)
        await life.call(self.name, Leave(self.group, (leaver,)))
        self.member_id, self.generation, self.held, self.is_in = "", -1, frozenset(), False

    async def _haunt(self, life: Life, request: CommitOffsets) -> None:
        for _ in range(3):
            await life.pause(6.0)
            if life.is_over:
                return
            await life.ask(self.name, _with_new_values(life, request))

    async def _commit(self, life: Life) -> None:
        if self.held and life.entropy.chance(0.2):
            life.later(8.0, self.name, self._offsets(life))
        elif self.held:
            await life.ask(self.name, self._offsets(life))

    def _offsets(self, life: Life) -> CommitOffsets:
        return commit(
            life, self.group, self.held, member_id=self.member_id, epoch=self.generation, instance_id=self.instance_id
        )


def commit(
    life: Life,
    group: str,
    held: frozenset[TopicPartition],
    *,
    member_id: str = "",
    epoch: int = -1,
    instance_id: str | None = None,
) -> CommitOffsets:
    """Return a request that sets some of these offsets, to values that nobody has used before."""
    chosen = sorted(held)
    life.entropy.shuffle(chosen)
    offsets = [NewOffset(each, CommittedOffset(life.history.next_value())) for each in chosen[:2]]
    return CommitOffsets(group=group, offsets=offsets, member_id=member_id, epoch=epoch, instance_id=instance_id)


def _with_new_values(life: Life, request: CommitOffsets) -> CommitOffsets:
    offsets = [each._replace(value=CommittedOffset(life.history.next_value())) for each in request.offsets]
    return CommitOffsets(
        group=request.group,
        offsets=offsets,
        member_id=request.member_id,
        epoch=request.epoch,
        instance_id=request.instance_id,
    )

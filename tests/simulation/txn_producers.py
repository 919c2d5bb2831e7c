"""Producers of transactions that outlive their broker: they ask again what has no answer, give up, or take over.

Two of them may share a transactional id: then each is the other's zombie. One that bumps has a new epoch for every
transaction, and whatever it has sent may come once more, much later. One that does not has to care for that itself, as
far as the end of a transaction and its offsets go.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from goqueue.errors import ConcurrentTransactions
from goqueue.machines.transactions.values import ProducerEpoch
from goqueue.model.topic import TopicPartition
from tests.simulation.group_classic import commit
from tests.simulation.group_history import Call
from tests.simulation.group_life import Life
from tests.simulation.group_people import PASSING, STABLE
from tests.simulation.txn_calls import NOBODY, AddGroup, AddPartition, End, InitProducer, Send, SendOffsets

Request = InitProducer | AddPartition | AddGroup | SendOffsets | Send | End
GROUP = "sums"


@dataclass(slots=True)
class TransactionalProducer:
    """One producer; `doubt` is the request that it has no answer to."""

    name: str
    id: str
    bumps: bool
    identity: ProducerEpoch | None = None
    known: ProducerEpoch | None = None
    number: int = 0
    label: str = ""
    is_commit: bool = True
    steps: int = 0
    offsets_at: int = -1
    places: set[TopicPartition] = field(default_factory=set)
    sequences: dict[TopicPartition, int] = field(default_factory=dict)
    has_group: bool = False
    doubt: Request | None = None
    is_gone: bool | None = None

    async def run(self, life: Life) -> None:
        """Do one transaction after the other."""
        if life.is_settling and self.is_gone is None:
            # Some never end what they have begun.
            self.is_gone = life.entropy.chance(0.4)
        if life.entropy.chance(0.5):
            # A new process under the same name, which knows nothing of what was begun.
            self.identity, self.known, self.label, self.doubt = None, None, "", None
        while not life.is_over and not self.is_gone:
            request = self.doubt or self._next(life)
            if request is None:
                await life.pause(0.5)
                continue
            self.doubt = request
            self._take(life, request, await life.ask(self.name, request))
            if life.entropy.chance(0.15) and self._may_come_again(request):
                life.later(life.entropy.choice([0.05, 2.0]), self.name, request)
            await life.pause(life.entropy.choice([0.02, 0.1, 0.3]))
            if life.entropy.chance(0.02):
                # Long enough for a transaction to be given up.
                await life.pause(8.0)

    def _may_come_again(self, request: Request) -> bool:
        if isinstance(request, InitProducer):
            return False
        return self.bumps or isinstance(request, AddPartition | AddGroup | Send)

    # -- what it does next

    def _next(self, life: Life) -> Request | None:
        if self.identity is None:
            return InitProducer(self.id, life.entropy.choice([500, 2_000, 5_000]), self.known)
        if not self.label:
            if life.is_settling:
                return None
            self._begin(life)
        if self.steps:
            return self._step(life)
        return End(self.label, self.id, self.identity, self.is_commit, self.bumps)

    def _begin(self, life: Life) -> None:
        self.number += 1
        self.label = f"{self.name}.{self.number}"
        self.is_commit = life.entropy.chance(0.7)
        self.steps = 1 + life.entropy.below(4)
        self.offsets_at = life.entropy.below(6)
        self.has_group = False
        self.places.clear()

    def _step(self, life: Life) -> Request | None:
        assert self.identity is not None
        if self.steps == self.offsets_at:
            return self._offsets(life, self.identity)
        places = life.partitions(*STABLE, PASSING)
        if not places:
            return None
        place = life.entropy.choice(places)
        if not self.bumps and place not in self.places:
            self.places.add(place)
            return AddPartition(self.label, self.id, self.identity, place)
        self.steps -= 1
        return self._send(life, self.identity, place)

    def _send(self, life: Life, identity: ProducerEpoch, place: TopicPartition) -> Send:
        values = values_of(self.label, life, 1 + life.entropy.below(2))
        sequence = self.sequences.get(place, 0)
        self.sequences[place] = sequence + len(values)
        return Send(self.label, self.id, identity, place, sequence, values, self.bumps)

    def _offsets(self, life: Life, identity: ProducerEpoch) -> Request | None:
        if not self.bumps and not self.has_group:
            self.has_group = True
            return AddGroup(self.label, self.id, identity, GROUP)
        self.offsets_at = -1
        held = frozenset(life.partitions("orders"))
        return SendOffsets(self.label, self.id, identity, commit(life, GROUP, held), self.bumps) if held else None

    # -- what it is told

    def _take(self, life: Life, request: Request, call: Call) -> None:
        if call.is_done:
            self.doubt = None
            self._go_on(request, call)
        elif call.is_in_doubt or isinstance(call.answer, ConcurrentTransactions):
            if life.entropy.chance(0.2):
                self._give_up(life, request)
        else:
            self._give_up(life, request)

    def _go_on(self, request: Request, call: Call) -> None:
        if isinstance(request, InitProducer) or (isinstance(request, End) and self.bumps):
            self.identity = call.answer
            self.sequences.clear()
        if isinstance(request, InitProducer | End):
            self.label, self.known = "", None

    def _give_up(self, life: Life, request: Request) -> None:
        self.doubt = None
        if self.label and not isinstance(request, InitProducer | End) and life.entropy.chance(0.5):
            self.is_commit, self.steps = False, 0
            return
        goes_on = self.bumps and not isinstance(request, InitProducer) and life.entropy.chance(0.5)
        self.known = self.identity if goes_on else None
        self.identity, self.label = None, ""


@dataclass(slots=True)
class PlainProducer:
    """Publishes records that belong to no transaction, each once."""

    name: str
    number: int = 0

    async def run(self, life: Life) -> None:
        """Publish."""
        while not life.is_over:
            await life.pause(0.6)
            places = life.partitions(*STABLE, PASSING)
            if life.is_settling or not places:
                continue
            self.number += 1
            label = f"{self.name}.{self.number}"
            values = values_of(label, life, 1)
            await life.ask(self.name, Send(label, None, NOBODY, life.entropy.choice(places), -1, values))


def values_of(label: str, life: Life, count: int) -> tuple[bytes, ...]:
    """Return values that nobody has used before; later ones have greater numbers."""
    return tuple(f"{label}.{life.history.next_value()}".encode() for _ in range(count))

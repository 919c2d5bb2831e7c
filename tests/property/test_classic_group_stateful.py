"""Classic groups against naive clients: whatever they do, lose and forget, everybody is answered and all ends well.

Clients know what they were told and nothing else. `Stage` checks after every step that answers go to those who wait and
that what is stored folds to the group; here is what holds over many steps, and over restarts.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from typing_extensions import override

from goqueue.errors import GoQueueError, MemberIdRequired
from goqueue.machines.groups.classic import group as classic_group
from goqueue.machines.groups.classic.values import Joined, Leaver, Protocol, Synced
from goqueue.model.topic import TopicPartition
from tests.unit.machines.groups.classic.classic_kit import Stage
from tests.unit.machines.groups.classic.consumer_bytes import assignment, subscription

CLIENTS = st.integers(0, 4)
KNOWN = {
    "both": (Protocol("range", subscription("orders")), Protocol("sticky", b"")),
    "other order": (Protocol("sticky", subscription("orders", "audit")), Protocol("range", b"")),
    "range": (Protocol("range", subscription("audit")),),
    "sticky": (Protocol("sticky", b""),),
}
TIMEOUTS = st.sampled_from([6_000, 10_000, 45_000])
# More than any session or round lasts, one after the other.
ALL_TIME_MS = 300_000


@dataclass
class Client:
    """A consumer: what it was told, and the ticket under which it waits."""

    number: int
    instance_id: str | None
    protocols: str = "both"
    member_id: str = ""
    generation: int = -1
    is_leader: bool = False
    members: list[str] = field(default_factory=list)
    ticket: int | None = None
    given: bytes | None = None
    session_ms: int = 10_000
    rebalance_ms: int = 10_000

    @property
    def gets_on(self) -> bool:
        """Whether it has an assignment, or waits for one."""
        return self.ticket is not None or self.given is not None

    def forget(self) -> None:
        """Begin anew, as a process that was started again."""
        self.member_id, self.generation, self.is_leader, self.ticket, self.given = "", -1, False, None, None


class ClassicGroupMachine(RuleBasedStateMachine):
    """Five clients, two of them with instance ids, and one group."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage()
        self.clients: list[Client] = []
        self.ids = 0
        self.told: dict[int, tuple[object, ...]] = {}
        self.generation = 0

    @initialize(timeouts=st.lists(st.tuples(TIMEOUTS, TIMEOUTS), min_size=5, max_size=5))
    def begin(self, timeouts: list[tuple[int, int]]) -> None:
        for number, (session_ms, rebalance_ms) in enumerate(timeouts):
            instance_id = f"instance-{number}" if number < 2 else None
            client = Client(number, instance_id, session_ms=session_ms, rebalance_ms=rebalance_ms)
            self.clients.append(client)

    # -- what clients do

    @rule(number=CLIENTS, needs_known_id=st.booleans())
    def join(self, number: int, needs_known_id: bool) -> None:
        """Join, as whoever the client believes to be; perhaps it waits for an earlier join, and has lost patience."""
        client = self.clients[number]
        self.ids += 1
        client.ticket = self.stage.join(
            client.member_id,
            new_id=f"m{self.ids}",
            instance_id=client.instance_id,
            needs_known_id=needs_known_id,
            protocols=KNOWN[client.protocols],
            session_timeout_ms=client.session_ms,
            rebalance_timeout_ms=client.rebalance_ms,
        )
        self.listen()

    @rule(number=CLIENTS, protocols=st.sampled_from(sorted(KNOWN)))
    def change_protocols(self, number: int, protocols: str) -> None:
        """Know other protocols from the next join on."""
        self.clients[number].protocols = protocols

    @rule(number=CLIENTS, shares=st.lists(st.integers(0, 5), max_size=5))
    def sync(self, number: int, shares: list[int]) -> None:
        """Ask for an assignment; a leader brings some, perhaps not for all, perhaps for strangers."""
        client = self.clients[number]
        assignments: dict[str, bytes] = {}
        if client.is_leader:
            names = [*client.members, "stranger"]
            assignments = {
                name: assignment(TopicPartition("orders", share)) for name, share in zip(names, shares, strict=False)
            }
        client.ticket = self.stage.sync(
            client.member_id, assignments, generation=client.generation, instance_id=client.instance_id
        )
        self.listen()

    @rule(number=CLIENTS)
    def heartbeat(self, number: int) -> None:
        """Say hello, and believe the answer."""
        client = self.clients[number]
        before = self.stage.group
        ticket = self.stage.heartbeat(client.member_id, generation=client.generation, instance_id=client.instance_id)
        answer = self.stage.answers[ticket]
        if isinstance(answer, GoQueueError) and answer.code != "rebalance_in_progress":
            assert self.stage.group is before
            self.believe(client, answer)

    @rule(number=CLIENTS, is_remembered=st.booleans())
    def leave(self, number: int, is_remembered: bool) -> None:
        """Leave politely; a client that does not remember goes on as if nothing had happened."""
        client = self.clients[number]
        self.stage.leave(Leaver(client.member_id, client.instance_id))
        self.listen()
        if is_remembered:
            client.forget()

    @rule(number=CLIENTS)
    def vanish(self, number: int) -> None:
        """Die, and come back without any memory; whatever it waited for is not read by anybody."""
        self.clients[number].forget()

    @rule(number=CLIENTS)
    def lose_the_reply(self, number: int) -> None:
        """Wait no longer, and ask again with what is known."""
        self.clients[number].ticket = None

    @rule(numbers=st.sets(CLIENTS, min_size=1), seconds=st.integers(1, 8))
    def go_on(self, numbers: set[int], seconds: int) -> None:
        """Let some clients do what they should, for a while."""
        for _ in range(seconds):
            for number in sorted(numbers):
                self.behave(self.clients[number])
            self.pass_time(1_000)

    # -- what happens to all

    @rule(duration_ms=st.sampled_from([1, 150, 200, 3_000, 6_000, 15_000, 60_000]))
    def pass_time(self, duration_ms: int) -> None:
        self.stage.pass_ms(duration_ms)
        self.listen()

    @rule(is_compacted=st.booleans())
    def restart(self, is_compacted: bool) -> None:
        self.stage.restart(is_compacted=is_compacted)
        for client in self.clients:
            client.ticket = None

    @precondition(lambda self: self.stage.group is not None)
    @rule(number=CLIENTS)
    def act_as_a_zombie(self, number: int) -> None:
        """Try whatever is possible with an old generation, or as nobody: it changes nothing."""
        before = self.stage.group
        client = self.clients[number]
        stale = max(client.generation, self.stage.generation) + 1 if number % 2 else self.stage.generation - 1
        for ticket in (
            self.stage.sync(client.member_id, {client.member_id: b"all"}, generation=stale),
            self.stage.heartbeat(client.member_id, generation=stale),
            self.stage.sync("stranger", {"stranger": b"all"}),
            self.stage.heartbeat("stranger"),
            self.stage.join("stranger"),
        ):
            assert isinstance(self.stage.answers[ticket], GoQueueError)
        assert self.stage.results(self.stage.leave("stranger")) == ["unknown_member"]
        assert self.stage.group is before

    # -- what clients believe

    def listen(self) -> None:
        """Let clients read the answers that have come."""
        for client in self.clients:
            if client.ticket is not None and client.ticket not in self.stage.waiting:
                answer = self.stage.answers[client.ticket]
                client.ticket = None
                self.believe(client, answer)

    def believe(self, client: Client, answer: object) -> None:
        match answer:
            case Joined():
                client.member_id, client.generation = answer.member_id, answer.generation
                client.is_leader = answer.leader == answer.member_id
                client.members = [view.member_id for view in answer.members]
                assert bool(client.members) == client.is_leader
                self.note_generation(answer)
            case Synced(_, protocol, given):
                assert protocol in {each.name for each in KNOWN[client.protocols]} | {self.stage.known.protocol}
                client.given = given
            case MemberIdRequired(member_id=given_id):
                client.member_id = given_id
            case GoQueueError(code="unknown_member" | "instance_fenced"):
                client.forget()
            case GoQueueError(code="stale_generation"):
                client.generation = -1
            case GoQueueError(code=code):
                assert code in {"rebalance_in_progress", "inconsistent_group_protocol"}

    def note_generation(self, joined: Joined) -> None:
        """Check that a generation is one thing, whoever is told of it, and whenever."""
        self.generation = max(self.generation, joined.generation)
        assert joined.generation == self.generation, "nobody is told of an old generation"
        assert self.told.setdefault(joined.generation, (joined.protocol, joined.protocol_type)) == (
            joined.protocol,
            joined.protocol_type,
        )
        if joined.members:
            who = frozenset(view.instance_id or view.member_id for view in joined.members)
            assert self.told.setdefault(-joined.generation, (who,)) == (who,), (
                "a generation has the same members always"
            )

    # -- what holds

    @invariant()
    def nothing_due_is_overdue(self) -> None:
        group = self.stage.group
        if group is not None:
            due = classic_group.deadline_ms(group)
            assert due is None or due >= self.stage.now.monotonic_ms

    @override
    def teardown(self) -> None:
        """Let faults end: the clients get into one generation; and when they are silent, they are all forgotten."""
        if not self.clients:
            return
        self.settle()
        self.stage.pass_ms(ALL_TIME_MS)
        assert self.stage.waiting == set()
        assert (self.stage.state, dict(self.stage.known.pending)) == ("Empty", {})

    def settle(self) -> None:
        """Let clients behave, a second at a time, until they all have an assignment of the same generation."""
        for client in self.clients:
            client.protocols, client.given, client.ticket = "both", None, None
        for _ in range(200):
            for client in self.clients:
                self.behave(client)
            self.stage.pass_ms(1_000)
            self.listen()
            if self.is_settled():
                return
        raise AssertionError("they never came together")

    def is_settled(self) -> bool:
        """Tell whether all clients, and nobody else, have what the leader gave them in the generation that it is."""
        group = self.stage.known
        believed = {client.member_id: (client.generation, client.given) for client in self.clients}
        is_so = {member.id: (group.generation, member.assignment) for member in group.members.values()}
        return self.stage.state == "Stable" and believed == is_so

    def behave(self, client: Client) -> None:
        """Do what a sound consumer does next."""
        self.listen()
        if client.ticket is not None:
            return
        if client.generation < 0 or not client.member_id:
            client.given = None
            self.join(client.number, True)
        elif client.given is None:
            self.sync(client.number, list(range(5)))
            if not client.gets_on:
                client.generation = -1
        else:
            ticket = self.stage.heartbeat(
                client.member_id, generation=client.generation, instance_id=client.instance_id
            )
            answer = self.stage.answers[ticket]
            if isinstance(answer, GoQueueError):
                self.believe(client, answer)
                client.generation = -1


TestClassicGroup = ClassicGroupMachine.TestCase
TestClassicGroup.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)

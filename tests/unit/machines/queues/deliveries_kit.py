"""A machine of queue groups to talk to: one group, one partition, and a log from which it can begin anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from goqueue.machines.decision import KeyedRecord, Now
from goqueue.machines.queues.commands import BeginTopic, Claim, Command, Configure, Offer, Receive, Settle, Taker
from goqueue.machines.queues.machine import QueueMachine
from goqueue.machines.queues.values import AckType, FlightState
from goqueue.model.queue_settings import QueueSettings
from goqueue.model.topic import TopicPartition

WALL_MS = 1_700_000_000_000
P0 = TopicPartition("orders", 0)
TOPIC_ID = UUID(int=7)


class Talk:
    """A machine, its log, and a clock that brings nothing by itself: time is passed by `let_pass`."""

    def __init__(self, records: Sequence[KeyedRecord] = (), *, wall_ms: int = WALL_MS) -> None:
        self.machine = QueueMachine()
        self.log = list(records)
        self.now = Now(wall_ms, 0)
        for record in records:
            self.machine.apply(record)
        self.machine.revive(self.now)

    def say(self, command: Command) -> object:
        decision = self.machine.decide(command, 1, self.now)
        self.log += decision.records
        self.machine.adopt(decision)
        for group in self.machine.groups.values():
            group.validate()
        return dict(decision.answers).get(1)

    def let_pass(self, seconds: float) -> None:
        self.now = Now(self.now.wall_ms + int(seconds * 1000), self.now.monotonic_ms + int(seconds * 1000))

    def tick(self) -> None:
        for command in list(self.machine.due(self.now)):
            self.say(command)

    def begin(self, settings: QueueSettings | None = None) -> None:
        self.say(Configure("g", settings or QueueSettings()))
        self.say(BeginTopic("g", TOPIC_ID, {P0: 0}))

    def receive(
        self, *fresh: int, lease: int = 1, again: Sequence[int] = (), keys: Mapping[int, bytes] | None = None
    ) -> list[int]:
        offer = Offer(P0, list(fresh), max(fresh, default=-1) + 1, again, keys=keys)
        leased = self.say(Receive("g", [Taker("ann", 1000, 30_000, lease)], [offer]))
        assert isinstance(leased, list)
        (got,) = leased
        return [offset for each in got.deliveries for offset in each.offsets]

    def settle(self, verdict: AckType, *offsets: int, lease: int = 1, delay_ms: int | None = None) -> list[object]:
        results = self.say(Settle("g", verdict, [Claim(P0, offsets, lease)], delay_ms))
        assert isinstance(results, list)
        return results

    def state(self, offset: int) -> FlightState | None:
        flight = self.machine.require("g").windows[P0].find(offset)
        return None if flight is None else flight.state

"""What members of share groups ask of a broker in a simulation, as receives and settlements of a queue group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from typing_extensions import override

from goqueue.broker.broker import Broker
from goqueue.broker.presence import Presence
from goqueue.broker.share_groups.acks import Acked
from goqueue.broker.share_groups.fetch import ShareRequest, share_acknowledge, share_fetch
from goqueue.broker.share_groups.leases import ShareTerms
from goqueue.broker.share_groups.service import OPENING_EPOCH, SharePartition
from goqueue.errors import GoQueueError, StaleReceipt
from goqueue.machines.groups.share.members import MemberKey
from goqueue.machines.queues.steps import Result, Settled
from goqueue.machines.queues.values import AckType, FlightState
from goqueue.model.topic import TopicPartition
from goqueue.records.layout import headers
from goqueue.records.reader import read_records
from tests.simulation.group_calls import CALLER
from tests.simulation.queue_calls import Given, ReceiveSome, SettleSome

_OUTCOMES = {
    AckType.ACK: Settled(None),
    AckType.RELEASE: Settled(FlightState.READY),
    AckType.REJECT: Settled(FlightState.DEAD),
    AckType.EXTEND: Settled(FlightState.LEASED),
}


@dataclass(frozen=True, slots=True)
class FetchShares(ReceiveSome):
    """Fetch messages by a request of a session."""

    epoch: int = 1
    connection: Presence = field(default_factory=Presence, repr=False)

    @override
    async def perform(self, broker: Broker) -> list[Given]:
        places = _places(broker, self.topics)
        turn = ShareRequest(MemberKey(self.group, self.consumer), self.epoch, {}, list(places))
        terms = ShareTerms(self.limit, 2**20, wait_ms=self.wait_ms)
        fetched = await share_fetch(broker.share_groups, CALLER, turn, terms, self.connection)
        given = []
        for place, (data, deliveries) in fetched.shared.items():
            found = [record for at, _ in headers(data) for record in read_records(memoryview(data)[at:])]
            records = {record.offset: record for record in found}
            for offset, count in deliveries:
                receipt = f"{self.consumer} {self.life} {self.epoch} {place} {offset} {count}"
                value = (records[offset].value or b"").decode()
                given.append(Given(value, records[offset].key, places[place], offset, count, receipt))
        return given


@dataclass(frozen=True, slots=True)
class OpenShares(SettleSome):
    """Open a session; whatever its member still holds is given back by that."""

    consumer: str = ""
    connection: Presence = field(default_factory=Presence, repr=False)

    @override
    async def perform(self, broker: Broker) -> list[Result]:
        turn = ShareRequest(MemberKey(self.group, self.consumer), OPENING_EPOCH, {})
        await share_fetch(broker.share_groups, CALLER, turn, ShareTerms(0, 1), self.connection)
        return [StaleReceipt("nobody says what became of it") for _ in self.given]


@dataclass(frozen=True, slots=True)
class LoseConnection(SettleSome):
    """A member dies: its connection is over, and nobody says what became of its messages."""

    connection: Presence = field(default_factory=Presence, repr=False)

    @override
    async def perform(self, broker: Broker) -> list[Result]:
        self.connection.end()
        return [StaleReceipt("nobody says what became of it") for _ in self.given]


@dataclass(frozen=True, slots=True)
class AcknowledgeShares(SettleSome):
    """Say something about messages by a request of a session."""

    consumer: str = ""
    epoch: int = 1
    connection: Presence = field(default_factory=Presence, repr=False)

    @override
    async def perform(self, broker: Broker) -> list[Result]:
        ids = {name: opened.topic.id for name, opened in broker.topics.by_name.items()}
        said: dict[SharePartition, list[int]] = {}
        for each in self.given:
            said.setdefault(_place(ids, each.place), []).append(each.offset)
        acks = {
            place: [Acked(offset, offset, [self.verdict]) for offset in sorted(set(offsets))]
            for place, offsets in said.items()
        }
        turn = ShareRequest(MemberKey(self.group, self.consumer), self.epoch, acks)
        results, _ = await share_acknowledge(broker.share_groups, CALLER, turn, self.connection)
        return [self._outcome(results[_place(ids, each.place)]) for each in self.given]

    def _outcome(self, error: GoQueueError | None) -> Result:
        return _OUTCOMES[self.verdict] if error is None else error


def _places(broker: Broker, topics: tuple[str, ...]) -> dict[SharePartition, TopicPartition]:
    return {
        SharePartition(broker.topics.by_name[name].topic.id, index): TopicPartition(name, index)
        for name in topics
        if name in broker.topics.by_name
        for index in range(broker.topics.partition_count(name))
    }


def _place(ids: Mapping[str, UUID], partition: TopicPartition) -> SharePartition:
    return SharePartition(ids[partition.topic], partition.partition)

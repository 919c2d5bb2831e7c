"""The catalogue against a model of dicts: same answers, same state, and the same again after any restart."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from goqueue.errors import GoQueueError
from goqueue.machines.catalog import (
    AlterTopic,
    Catalog,
    Command,
    CreateTopic,
    DeleteTopic,
    ForgetTopic,
    GrowTopic,
    NameCluster,
    TakeProducerIds,
)
from goqueue.machines.decision import KeyedRecord, Now
from tests.unit.machines.compaction import COMPACTIONS, compactions

NAMES = st.sampled_from(["a", "b", "c", "..", "no way"])
COUNTS = st.integers(-1, 6)
CONFIGS = st.dictionaries(st.sampled_from(["retention.ms", "segment.ms"]), st.sampled_from(["1", "2"]))


class Known(NamedTuple):
    """What the model has of a topic."""

    id: int
    partitions: int
    config: dict[str, str]
    is_going: bool = False


class CatalogMachine(RuleBasedStateMachine):
    """Gives commands, keeps all records that were stored, and compares."""

    def __init__(self) -> None:
        super().__init__()
        self.catalog = Catalog()
        self.stored: list[KeyedRecord] = []
        self.topics: dict[str, Known] = {}
        self.cluster: int | None = None
        self.next_producer_id = 0
        self.ids = 0

    def carry_out(self, command: Command) -> str:
        """Decide, store and adopt; return the code of the error, or nothing."""
        try:
            decision = self.catalog.decide(command, 1, Now(2, 3))
        except GoQueueError as error:
            return error.code
        self.stored += decision.records
        self.catalog.adopt(decision)
        return ""

    def in_use(self, name: str) -> bool:
        return name in self.topics and not self.topics[name].is_going

    @rule(name=NAMES, count=COUNTS, config=CONFIGS)
    def create(self, name: str, count: int, config: dict[str, str]) -> None:
        self.ids += 1
        outcome = self.carry_out(CreateTopic(name, UUID(int=self.ids), count, config, self.ids))
        if name in {"..", "no way"}:
            assert outcome == "invalid_topic_name"
        elif name in self.topics:
            assert outcome == "topic_exists"
        elif count < 1:
            assert outcome == "invalid_partitions"
        else:
            assert outcome == ""
            self.topics[name] = Known(self.ids, count, config)

    @rule(name=NAMES, count=COUNTS)
    def grow(self, name: str, count: int) -> None:
        outcome = self.carry_out(GrowTopic(name, count))
        if not self.in_use(name):
            assert outcome == "unknown_topic"
        elif count <= self.topics[name].partitions:
            assert outcome == "invalid_partitions"
        else:
            assert outcome == ""
            self.topics[name] = self.topics[name]._replace(partitions=count)

    @rule(name=NAMES, config=CONFIGS)
    def alter(self, name: str, config: dict[str, str]) -> None:
        outcome = self.carry_out(AlterTopic(name, config))
        assert outcome == ("" if self.in_use(name) else "unknown_topic")
        if not outcome:
            self.topics[name] = self.topics[name]._replace(config=config)

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        outcome = self.carry_out(DeleteTopic(name))
        assert outcome == ("" if self.in_use(name) else "unknown_topic")
        if not outcome:
            self.topics[name] = self.topics[name]._replace(is_going=True)

    @rule(name=NAMES)
    def forget(self, name: str) -> None:
        assert self.carry_out(ForgetTopic(name)) == ""
        if name in self.topics and self.topics[name].is_going:
            del self.topics[name]

    @rule(number=st.integers(1, 9))
    def name_cluster(self, number: int) -> None:
        assert self.carry_out(NameCluster(UUID(int=number), bytes([number] * 32))) == ""
        self.cluster = self.cluster or number

    @rule(ids=st.integers(1, 1000))
    def take_producer_ids(self, ids: int) -> None:
        assert self.carry_out(TakeProducerIds(ids)) == ""
        self.next_producer_id += ids

    @rule(left=st.integers(0, COMPACTIONS - 1))
    def restart(self, left: int) -> None:
        """Fold what was stored, all of it or what compaction leaves."""
        records = compactions(self.stored)[left]
        self.catalog = Catalog()
        for record in records:
            self.catalog.apply(record)

    @invariant()
    def agrees(self) -> None:
        """Compare what is known."""
        self.catalog.validate()
        found = {
            topic.name: Known(topic.id.int, topic.partitions, dict(topic.config), topic.is_going)
            for topic in self.catalog.topics
        }
        assert found == self.topics
        assert [topic.name for topic in self.catalog.topics] == sorted(self.topics)
        assert self.catalog.next_producer_id == self.next_producer_id
        assert (self.catalog.cluster_id and self.catalog.cluster_id.int) == self.cluster

    @invariant()
    def can_be_made_again_from_its_records(self) -> None:
        """A new catalogue that is given the records of this one equals it."""
        again = Catalog()
        for record in self.catalog.records():
            again.apply(record)
        assert again.records() == self.catalog.records()


TestCatalog = CatalogMachine.TestCase
TestCatalog.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)

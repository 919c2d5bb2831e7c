"""The catalogue, as a transcript: commands and records, and what they make of it."""

from __future__ import annotations

from uuid import UUID

import pytest

from goqueue.errors import Corrupt, GoQueueError, InvalidPartitions, InvalidTopicName, TopicExists, UnknownTopic
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
from goqueue.machines.decision import Decision, KeyedRecord, Now, TicketReply
from goqueue.model.topic import PARTITIONS_MAX

KEY = bytes(range(32))
NOW = Now(1_700_000_000_000, 5_000)
CLUSTER, FIRST, SECOND = UUID(int=1), UUID(int=2), UUID(int=3)


def create(
    name: str = "orders", topic_id: UUID = FIRST, partitions: int = 3, config: dict[str, str] | None = None
) -> CreateTopic:
    return CreateTopic(name, topic_id, partitions, config or {}, 1000)


def carry_out(catalog: Catalog, command: Command) -> list[KeyedRecord]:
    """Decide and adopt; return the records."""
    decision = catalog.decide(command, 5, NOW)
    assert decision.answers == [TicketReply(5, None)]
    catalog.adopt(decision)
    catalog.validate()
    return list(decision.records)


def refused(catalog: Catalog, command: Command, error: type[GoQueueError]) -> None:
    """Check that a command is refused and leaves no trace."""
    before = catalog.records()
    with pytest.raises(error):
        catalog.decide(command, 5, NOW)
    assert catalog.records() == before


def folded(*records: KeyedRecord) -> Catalog:
    """Return the catalogue that a start would make of stored records."""
    catalog = Catalog()
    for record in records:
        catalog.apply(record)
    return catalog


def test_the_life_of_a_topic() -> None:
    catalog = Catalog()
    carry_out(catalog, NameCluster(CLUSTER, KEY))
    carry_out(catalog, create(config={"retention.ms": "5"}))
    topic = catalog.topic("orders")
    assert (topic.id, topic.partitions, topic.created_ms) == (FIRST, 3, 1000)
    assert topic.config == {"retention.ms": "5"}

    carry_out(catalog, GrowTopic("orders", 5))
    carry_out(catalog, AlterTopic("orders", {"segment.ms": "7"}))
    topic = catalog.topic("orders")
    assert (topic.id, topic.partitions, topic.created_ms) == (FIRST, 5, 1000)
    assert topic.config == {"segment.ms": "7"}

    carry_out(catalog, DeleteTopic("orders"))
    with pytest.raises(UnknownTopic):
        catalog.topic("orders")
    (going,) = catalog.topics
    assert (going.is_going, going.partitions) == (True, 5)
    refused(catalog, create(topic_id=SECOND), TopicExists)
    for command in (GrowTopic("orders", 9), AlterTopic("orders", {}), DeleteTopic("orders")):
        refused(catalog, command, UnknownTopic)

    carry_out(catalog, ForgetTopic("orders"))
    assert list(catalog.topics) == []
    carry_out(catalog, create(topic_id=SECOND, partitions=1))
    assert catalog.topic("orders").id == SECOND


def test_deciding_changes_nothing() -> None:
    catalog = Catalog()
    for command in (NameCluster(CLUSTER, KEY), create(), TakeProducerIds(10)):
        assert catalog.decide(command, 5, NOW) == Decision(catalog.plan(command), [TicketReply(5, None)])
    assert (catalog.cluster_id, list(catalog.topics), catalog.next_producer_id) == (None, [], 0)


def test_time_means_nothing_to_the_catalogue() -> None:
    catalog = Catalog()
    carry_out(catalog, create())
    catalog.revive(NOW)
    assert (catalog.deadline_ms(), list(catalog.due(NOW))) == (None, [])


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "a\n", "ä", "x" * 250, "a:b", "\udc80"])
def test_a_name_that_no_topic_can_have_is_refused(name: str) -> None:
    refused(Catalog(), create(name), InvalidTopicName)


@pytest.mark.parametrize("name", ["a", "x" * 249, "a.b_c-D9", "...", "__internal", "-"])
def test_every_other_name_is_taken(name: str) -> None:
    catalog = Catalog()
    records = carry_out(catalog, create(name))
    assert folded(*records).topic(name) == catalog.topic(name)


@pytest.mark.parametrize("partitions", [0, -1, PARTITIONS_MAX + 1, 2**31])
def test_a_number_of_partitions_out_of_bounds_is_refused(partitions: int) -> None:
    catalog = Catalog()
    refused(catalog, create(partitions=partitions), InvalidPartitions)
    carry_out(catalog, create())
    refused(catalog, GrowTopic("orders", partitions), InvalidPartitions)


def test_partitions_cannot_become_fewer_or_stay_as_many() -> None:
    catalog = Catalog()
    carry_out(catalog, create())
    for partitions in (1, 2, 3):
        refused(catalog, GrowTopic("orders", partitions), InvalidPartitions)


def test_what_changes_nothing_makes_no_record() -> None:
    catalog = Catalog()
    carry_out(catalog, NameCluster(CLUSTER, KEY))
    carry_out(catalog, create(config={"retention.ms": "5"}))
    assert catalog.plan(NameCluster(FIRST, b"other")) == []
    assert catalog.plan(AlterTopic("orders", {"retention.ms": "5"})) == []
    assert catalog.plan(ForgetTopic("orders")) == []
    assert catalog.plan(ForgetTopic("nothing")) == []
    assert (catalog.cluster_id, catalog.receipt_key) == (CLUSTER, KEY)


def test_catalogue_of_a_former_version_gets_a_key_for_receipts_and_keeps_its_id() -> None:
    cluster, _ = Catalog().plan(NameCluster(CLUSTER, b"never stored"))
    former = folded(cluster)
    stored = carry_out(former, NameCluster(FIRST, KEY))
    assert (former.cluster_id, former.receipt_key) == (CLUSTER, KEY)
    assert folded(cluster, *stored).receipt_key == KEY


def test_producer_ids_are_given_once() -> None:
    catalog = Catalog()
    stored = carry_out(catalog, TakeProducerIds(1000)) + carry_out(catalog, TakeProducerIds(500))
    assert catalog.next_producer_id == 1500
    assert folded(*stored).next_producer_id == 1500


def test_its_records_make_an_equal_catalogue() -> None:
    catalog = Catalog()
    carry_out(catalog, NameCluster(CLUSTER, KEY))
    carry_out(catalog, create("a", FIRST))
    carry_out(catalog, create("b", SECOND, 7, {"retention.ms": "5"}))
    carry_out(catalog, DeleteTopic("a"))
    carry_out(catalog, TakeProducerIds(10))
    again = folded(*catalog.records())
    assert again.records() == catalog.records()
    assert list(again.topics) == list(catalog.topics)


@pytest.mark.parametrize(
    "record",
    [
        KeyedRecord(b"unknown", b"{}"),
        KeyedRecord(b"", b"{}"),
        KeyedRecord(b"cluster", None),
        KeyedRecord(b"producer-ids", None),
        KeyedRecord(b"cluster", b"not json"),
        KeyedRecord(b"topic a", b"{}"),
        KeyedRecord(b"topic a", b'{"id": 5, "partitions": "x", "created_ms": 1}'),
        KeyedRecord(b"producer-ids", b'{"next_id": "x"}'),
    ],
)
def test_a_record_of_another_kind_is_damage(record: KeyedRecord) -> None:
    with pytest.raises(Corrupt):
        Catalog().apply(record)


def test_fields_of_a_later_version_do_not_disturb() -> None:
    value = b'{"id": "00000000-0000-0000-0000-000000000002", "partitions": 3, "created_ms": 1, "colour": "red"}'
    assert folded(KeyedRecord(b"topic a", value)).topic("a").partitions == 3

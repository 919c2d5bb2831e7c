"""Groups that retention is about to overtake, or has: their owners hear of it, by every way there is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from goqueue.broker.events import RetentionNear, RetentionOvertook
from goqueue.client import Client, GroupOffset, groups
from goqueue.testing import Broker
from tests.protocols.http.test_retention_hold import DAY_S, HOUR_S, SEGMENT_BYTES, commit, fill, make
from tests.unit.observe.test_metrics import scrape, value


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker of its own, since time passes."""
    with Broker() as running:
        yield running


@pytest.fixture
def client(broker: Broker) -> Iterator[Client]:
    """A client of that broker."""
    with Client(broker.http) as connected:
        yield connected


def offset_of(client: Client, group: str = "g") -> GroupOffset:
    """Return how far a group is in its only partition."""
    (found,) = client.send(groups.describe(group)).offsets
    return found


def test_a_group_is_warned_before_retention_reaches_it_and_once_an_hour(broker: Broker, client: Client) -> None:
    make(client, hold=0, retention_ms=str(100 * HOUR_S * 1000))
    fill(client, 3)
    commit(client, 1)
    broker.advance(98 * HOUR_S)
    assert offset_of(client).retention_risk == "none"
    assert 0 < (offset_of(client).retention_left_seconds or 0) <= 2 * HOUR_S
    assert not broker.sink.of(RetentionNear)
    broker.advance(1.5 * HOUR_S)
    assert offset_of(client).retention_risk == "near"
    broker.advance(60)
    broker.advance(60)
    (told,) = broker.sink.of(RetentionNear)
    assert (told.group, told.topic, told.partition, told.partitions, told.is_held) == ("g", "t", 0, 1, False)
    assert 0 < told.left_s <= HOUR_S / 2
    broker.advance(HOUR_S)
    assert offset_of(client).lost == 2
    # Deletions of this round are reported in the next one.
    broker.advance(60)
    (overtaken,) = broker.sink.of(RetentionOvertook)
    assert (overtaken.group, overtaken.partition, overtaken.lost) == ("g", 0, 2)
    broker.advance(HOUR_S)
    assert len(broker.sink.of(RetentionOvertook)) == 2, "a lasting problem is reported again"
    assert (offset_of(client).retention_risk, offset_of(client).lag) == ("lost", 0)


def test_of_a_short_retention_the_last_tenth_is_near(broker: Broker, client: Client) -> None:
    make(client, hold=0, retention_ms="600000")
    fill(client, 1)
    commit(client, 0)
    broker.advance(500)
    assert offset_of(client).retention_risk == "none"
    broker.advance(60)
    assert offset_of(client).retention_risk == "near"
    assert len(broker.sink.of(RetentionNear)) == 1


def test_group_that_has_read_everything_causes_no_warning(broker: Broker, client: Client) -> None:
    make(client, hold=0)
    fill(client, 2)
    commit(client, 2)
    broker.advance(3000)
    broker.advance(500)
    assert (offset_of(client).retention_risk, offset_of(client).retention_left_seconds) == ("none", None)
    broker.advance(HOUR_S)
    broker.advance(60)
    assert not broker.sink.of(RetentionNear)
    assert not broker.sink.of(RetentionOvertook)


@pytest.mark.parametrize("hold", [0, -1])
def test_a_group_that_is_not_heard_of_any_more_is_warned_though_nothing_is_held_back_for_it(
    broker: Broker, client: Client, hold: int
) -> None:
    make(client, hold=hold, retention_ms=str(3 * DAY_S * 1000))
    fill(client, 2)
    commit(client, 1)
    broker.advance(3 * DAY_S - 600)
    assert offset_of(client).retention_risk == "near"
    (told,) = broker.sink.of(RetentionNear)
    assert (told.group, told.is_held) == ("g", False)
    broker.advance(HOUR_S)
    broker.advance(60)
    (overtaken,) = broker.sink.of(RetentionOvertook)
    assert (overtaken.group, overtaken.lost) == ("g", 1)


def test_a_warning_says_that_messages_are_held_back(broker: Broker, client: Client) -> None:
    make(client)
    fill(client, 3)
    commit(client, 1)
    broker.advance(2 * HOUR_S)
    (told,) = broker.sink.of(RetentionNear)
    assert (told.left_s, told.is_held) == (0, True)
    assert not broker.sink.of(RetentionOvertook)


def test_metrics_tell_how_long_is_left_what_is_held_and_what_is_lost(broker: Broker, client: Client) -> None:
    make(client, "kept")
    make(client, "gone", hold=0)
    for name in ("kept", "gone"):
        fill(client, 3, name)
        commit(client, 1, name=name)
    broker.advance(600)
    found = scrape(broker)
    for name in ("kept", "gone"):
        assert 2900 < value(found, "goqueue_group_retention_left_seconds", group="g", topic=name) <= 3000
        assert value(found, "goqueue_group_lost_messages", group="g", topic=name) == 0
    assert value(found, "goqueue_topic_held_bytes", topic="kept") == 0
    broker.advance(2 * HOUR_S)
    # The segment that took the appends was sealed only then.
    broker.advance(60)
    found = scrape(broker)
    assert value(found, "goqueue_group_retention_left_seconds", group="g", topic="kept") == 0
    assert SEGMENT_BYTES < value(found, "goqueue_topic_held_bytes", topic="kept") <= 2 * SEGMENT_BYTES
    assert value(found, "goqueue_group_lost_messages", group="g", topic="kept") == 0
    assert value(found, "goqueue_group_lost_messages", group="g", topic="gone") == 2
    labels = {dict(labels).get("topic") for name, labels in found if name == "goqueue_topic_held_bytes"}
    assert labels == {"kept"}, "topics that hold nothing back have no series"


def test_a_group_is_not_reported_as_overtaken_when_an_administrator_deleted_the_records(
    broker: Broker, client: Client
) -> None:
    make(client, hold=0)
    fill(client, 3)
    commit(client, 0)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (deleted,) = admin.delete_records([TopicPartition("t", 0, 2)]).values()
    assert deleted.result(10).low_watermark == 2
    broker.advance(60)
    broker.advance(60)
    assert (offset_of(client).retention_risk, offset_of(client).lost) == ("lost", 2)
    assert not broker.sink.of(RetentionOvertook)

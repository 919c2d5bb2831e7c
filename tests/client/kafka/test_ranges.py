"""Reading: single fetches and whole ranges, of whatever librdkafka has written."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing

import pytest
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient

from goqueue.client import Client, topics
from goqueue.client.kafka import FetchedBatches, Isolation, KafkaData, NamedOffset, TopicPartition
from goqueue.client.problems import RequestTimedOut
from goqueue.errors import Invalid, OffsetOutOfRange, UnknownTopic
from goqueue.testing.broker import Broker
from tests.client.kafka.kit import WAIT_S, batch_of, publish, publish_in_transaction, values_of

VALUES = [b"%d" % number + b"v" * 100 for number in range(500)]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_range_holds_what_was_written_with_any_codec(codec: str, broker: Broker, data: KafkaData, topic: str) -> None:
    publish(broker.bootstrap, topic, VALUES, codec=codec)
    place = TopicPartition(topic, 0)
    for bytes_max in (1, 5_000, 1_000_000):
        assert values_of(data.read_range(place, 0, len(VALUES), bytes_max=bytes_max)) == VALUES
    assert values_of([data.fetch(place, 0)]) == VALUES


def test_a_range_begins_and_ends_with_the_batches_that_hold_its_ends(
    broker: Broker, data: KafkaData, topic: str
) -> None:
    publish(broker.bootstrap, topic, VALUES)
    place = TopicPartition(topic, 0)
    fetched = list_of(data.read_range(place, 123, 321, bytes_max=1))
    found = [value for values, _ in fetched for value in values]
    first = VALUES.index(found[0])
    assert 113 < first <= 123
    assert found == VALUES[first : first + len(found)]
    assert 321 <= first + len(found) < 331
    nexts = [next_offset for _, next_offset in fetched]
    assert nexts == sorted(set(nexts))
    assert list(data.read_range(place, 5, 5)) == []


def list_of(batches: Iterable[FetchedBatches]) -> list[tuple[list[bytes], int]]:
    """Return values and next offset of each; a view is looked at before the next one comes."""
    return [(values_of([fetched]), fetched.next_offset) for fetched in batches]


def test_aborted_transactions_are_listed_beside_their_records(broker: Broker, data: KafkaData, topic: str) -> None:
    publish_in_transaction(broker.bootstrap, topic, [b"no"], transactional_id=f"{topic}-1", is_commit=False)
    publish_in_transaction(broker.bootstrap, topic, [b"yes"], transactional_id=f"{topic}-2")
    fetched = data.fetch(TopicPartition(topic, 0), 0)
    assert [aborted.first_offset for aborted in fetched.aborted] == [0]
    assert (fetched.next_offset, fetched.high_watermark, fetched.last_stable_offset) == (4, 4, 4)
    assert data.fetch(TopicPartition(topic, 0), 0, isolation=Isolation.UNCOMMITTED).aborted == ()


def test_a_fetch_at_the_end_brings_nothing(broker: Broker, data: KafkaData, topic: str) -> None:
    publish(broker.bootstrap, topic, VALUES[:5])
    fetched = data.fetch(TopicPartition(topic, 0), 5, wait_ms=1)
    assert (bytes(fetched.records), fetched.next_offset, fetched.high_watermark) == (b"", 5, 5)


def test_an_end_that_is_not_visible_is_waited_for(broker: Broker, data: KafkaData, topic: str) -> None:
    publish(broker.bootstrap, topic, VALUES[:5])
    reading = data.read_range(TopicPartition(topic, 0), 0, 8)
    assert values_of([next(reading)]) == VALUES[:5]
    publish(broker.bootstrap, topic, VALUES[5:8])
    assert values_of(reading) == VALUES[5:8]


def test_an_end_that_does_not_become_visible_is_an_error_that_says_so(
    broker: Broker, data: KafkaData, topic: str
) -> None:
    publish(broker.bootstrap, topic, VALUES[:5])
    place = TopicPartition(topic, 0)
    with KafkaData(broker.bootstrap, timeout_s=3) as hasty:
        with pytest.raises(RequestTimedOut, match=r"offsets 5 to 9 .* high watermark is 5.*the log ends before"):
            values_of(hasty.read_range(place, 0, 9))
        producer = data.init_producer(topic)
        data.add_partitions(producer, [place])
        data.produce(producer, {place: batch_of(producer, [b"open"] * 4, 0)})
        with pytest.raises(RequestTimedOut, match="an open transaction hides them"):
            values_of(hasty.read_range(place, 0, 9))
    assert len(values_of(data.read_range(place, 0, 9, isolation=Isolation.UNCOMMITTED))) == 9
    data.commit(producer)
    assert len(values_of(data.read_range(place, 0, 9))) == 9


def delete_records(bootstrap: str, topic: str, before: int) -> None:
    """Let the log start later."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for done in admin.delete_records([ConfluentPartition(topic, 0, before)]).values():
        done.result(WAIT_S)


def test_records_that_are_gone_are_an_error_that_says_where_the_log_starts(
    broker: Broker, data: KafkaData, topic: str
) -> None:
    publish(broker.bootstrap, topic, VALUES)
    delete_records(broker.bootstrap, topic, 30)
    place = TopicPartition(topic, 0)
    assert data.offsets([place], NamedOffset.EARLIEST)[place].offset == 30
    with pytest.raises(OffsetOutOfRange) as caught:
        list(data.read_range(place, 29, 40))
    assert (caught.value.offset, caught.value.start, caught.value.end) == (29, 30, 500)
    with pytest.raises(OffsetOutOfRange):
        data.fetch(place, 501)
    assert values_of(data.read_range(place, 30, 500))[-1] == VALUES[-1]


def test_records_that_go_while_they_are_read_are_an_error(broker: Broker, data: KafkaData, topic: str) -> None:
    publish(broker.bootstrap, topic, VALUES)
    reading = data.read_range(TopicPartition(topic, 0), 0, 500, bytes_max=1)
    next(reading)
    delete_records(broker.bootstrap, topic, 400)
    # What was asked for before they went may come still.
    with pytest.raises(OffsetOutOfRange) as caught:
        values_of(reading)
    assert caught.value.start == 400


def test_a_marker_at_the_end_of_a_range_is_no_record(broker: Broker, data: KafkaData, topic: str) -> None:
    publish_in_transaction(broker.bootstrap, topic, [b"v"], transactional_id=topic)
    place = TopicPartition(topic, 0)
    # The marker is no record, and yet the last offset of the range.
    assert values_of(data.read_range(place, 0, 2)) == [b"v"]
    assert values_of(data.read_range(place, 1, 2)) == []


@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_topic_that_is_deleted_while_it_is_read_is_an_error(
    is_made_again: bool, broker: Broker, data: KafkaData, topic: str
) -> None:
    publish(broker.bootstrap, topic, VALUES)
    reading = data.read_range(TopicPartition(topic, 0), 0, 500, bytes_max=1)
    next(reading)
    with Client(broker.http) as client:
        client.send(topics.delete(topic))
        if is_made_again:
            client.send(topics.create(topic, partitions=1))
    if is_made_again:
        publish(broker.bootstrap, topic, VALUES)
    with pytest.raises(UnknownTopic, match="made again" if is_made_again else "there is no topic"):
        values_of(reading)


def test_a_topic_that_was_made_again_is_read_anew(broker: Broker, data: KafkaData, topic: str) -> None:
    place = TopicPartition(topic, 0)
    publish(broker.bootstrap, topic, VALUES[:3])
    data.fetch(place, 0)
    with Client(broker.http) as client:
        client.send(topics.delete(topic))
        client.send(topics.create(topic, partitions=1))
    publish(broker.bootstrap, topic, [b"new"])
    assert values_of([data.fetch(place, 0)]) == [b"new"]


def test_ranges_may_be_read_side_by_side_and_be_left(
    broker: Broker, data: KafkaData, new_topic: Callable[..., str]
) -> None:
    name = new_topic(2)
    for partition in (0, 1):
        publish(broker.bootstrap, name, VALUES[partition::2], partition=partition)
    first, second = (data.read_range(TopicPartition(name, number), 0, 250, bytes_max=1) for number in (0, 1))
    found: list[list[bytes]] = [[], []]
    for one, other in zip(first, second, strict=True):
        found[0] += values_of([one])
        found[1] += values_of([other])
    assert found == [VALUES[::2], VALUES[1::2]]
    with closing(data.read_range(TopicPartition(name, 0), 0, 250, bytes_max=1)) as left:
        next(left)
    assert values_of([data.fetch(TopicPartition(name, 0), 0)]) == VALUES[::2]


def test_a_fetch_of_nothing_or_of_too_much_is_refused(data: KafkaData, topic: str) -> None:
    for bytes_max in (0, 2**30):
        with pytest.raises(Invalid, match="cannot be fetched at once"):
            data.fetch(TopicPartition(topic, 0), 0, bytes_max=bytes_max)

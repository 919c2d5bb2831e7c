"""Transactional writing: what librdkafka reads of it, what a zombie may do, and what if replies are lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from goqueue.client.kafka import KafkaData, NamedOffset, ProducerIdentity, TopicPartition
from goqueue.client.kafka.producing import REQUEST_BYTES_MAX
from goqueue.errors import (
    Invalid,
    InvalidTransactionState,
    InvalidTransactionTimeout,
    OutOfOrderSequence,
    ProducerFenced,
    UnknownTopic,
)
from goqueue.testing.broker import Broker
from tests.client.kafka.kit import batch_of, committed_values, values_of
from tests.client.kafka.servers import relayed_broker

PRODUCE, INIT_PRODUCER_ID, ADD_PARTITIONS, END_TXN = 0, 22, 24, 26
VALUES = [b"%d" % number for number in range(60)]


def write_all(data: KafkaData, producer: ProducerIdentity, place: TopicPartition) -> None:
    """Write the values in twelve batches, several of them under way at a time."""
    with data.publishing(producer) as publishing:
        for first in range(0, len(VALUES), 5):
            publishing.send({place: batch_of(producer, VALUES[first : first + 5], first)})


def test_what_is_committed_is_read_by_others_and_what_is_aborted_is_not(
    broker: Broker, data: KafkaData, new_topic: Callable[..., str]
) -> None:
    name = new_topic(2)
    places = [TopicPartition(name, 0), TopicPartition(name, 1)]
    producer = data.init_producer(name)
    data.add_partitions(producer, places)
    data.produce(producer, {place: batch_of(producer, [b"void"], 0) for place in places})
    data.abort(producer)
    data.add_partitions(producer, places)
    data.produce(producer, {place: batch_of(producer, [b"a", b"b"], 1) for place in places})
    data.commit(producer)
    for place in places:
        assert committed_values(broker.bootstrap, name, 2, partition=place.partition) == [b"a", b"b"]


def test_another_process_may_commit_and_twice_is_once(broker: Broker, data: KafkaData, topic: str) -> None:
    place = TopicPartition(topic, 0)
    producer = data.init_producer(topic)
    data.add_partitions(producer, [place])
    write_all(data, producer, place)
    with KafkaData(broker.bootstrap) as driver:
        for _ in range(2):
            driver.commit(ProducerIdentity(*producer))
    end = data.offsets([place], NamedOffset.LATEST)[place].offset
    assert end == len(VALUES) + 1
    assert committed_values(broker.bootstrap, topic, len(VALUES)) == VALUES
    with pytest.raises(InvalidTransactionState):
        data.abort(producer)


def test_whoever_takes_over_fences_and_aborts(broker: Broker, data: KafkaData, topic: str) -> None:
    place = TopicPartition(topic, 0)
    zombie = data.init_producer(topic)
    data.add_partitions(zombie, [place])
    data.produce(zombie, {place: batch_of(zombie, [b"zombie"], 0)})
    heir = data.init_producer(topic)
    assert (heir.producer_id, heir.epoch > zombie.epoch) == (zombie.producer_id, True)
    with pytest.raises(ProducerFenced):
        data.produce(zombie, {place: batch_of(zombie, [b"zombie"], 1)})
    with pytest.raises(ProducerFenced):
        data.commit(zombie)
    data.add_partitions(heir, [place])
    data.produce(heir, {place: batch_of(heir, [b"heir"], 0)})
    data.commit(heir)
    assert committed_values(broker.bootstrap, topic, 1) == [b"heir"]


def test_mistakes_are_told(data: KafkaData, topic: str) -> None:
    place = TopicPartition(topic, 0)
    producer = data.init_producer(topic)
    batch = batch_of(producer, [b"v"], 0)
    with pytest.raises(UnknownTopic):
        data.add_partitions(producer, [place, TopicPartition("none", 0)])
    with pytest.raises(InvalidTransactionState):
        data.produce(producer, {place: batch})
    with pytest.raises(InvalidTransactionTimeout):
        data.init_producer("other", transaction_timeout_ms=10**9)
    for wrong in (b"", batch[:-1], batch + batch):
        with pytest.raises(Invalid, match="not one batch"):
            data.produce(producer, {place: wrong})
    data.add_partitions(producer, [place])
    data.produce(producer, {place: batch})
    with pytest.raises(OutOfOrderSequence):
        data.produce(producer, {place: batch_of(producer, [b"v"], 7)})
    data.abort(producer)
    data.add_partitions(producer, [])


def test_lost_replies_make_no_duplicates() -> None:
    place = TopicPartition("orders", 0)
    with relayed_broker("orders") as relay, KafkaData(relay.bootstrap) as data:
        relay.doomed = [INIT_PRODUCER_ID, ADD_PARTITIONS, PRODUCE, PRODUCE, END_TXN]
        producer = data.init_producer("x")
        data.add_partitions(producer, [place])
        write_all(data, producer, place)
        data.commit(producer)
        assert relay.lost == [INIT_PRODUCER_ID, ADD_PARTITIONS, PRODUCE, PRODUCE, END_TXN]
        # Sixty records and one marker, in order: nothing was stored twice.
        assert data.offsets([place], NamedOffset.LATEST)[place].offset == len(VALUES) + 1
        assert values_of(data.read_range(place, 0, len(VALUES) + 1)) == VALUES


def test_more_than_fits_into_a_request_goes_in_several(data: KafkaData, new_topic: Callable[..., str]) -> None:
    name = new_topic(20)
    places = [TopicPartition(name, number) for number in range(20)]
    large = bytes(REQUEST_BYTES_MAX // 17)
    producer = data.init_producer(name)
    data.add_partitions(producer, places)
    data.produce(producer, {place: batch_of(producer, [large], 0) for place in places})
    data.commit(producer)
    for place in places:
        assert values_of(data.read_range(place, 0, 2)) == [large]

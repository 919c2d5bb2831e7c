"""Transactions of third-party clients: commit, abort, offsets, zombies, timeouts, and what readers see."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from kafka import TopicPartition as PythonPartition  # type: ignore[import-untyped]
from kafka.admin import KafkaAdminClient  # type: ignore[import-untyped]
from kafka.errors import TransactionalIdNotFoundError  # type: ignore[import-untyped]

from tests.clients.adapters.transactional import (
    COMMITTED,
    UNCOMMITTED,
    AiokafkaTransactions,
    ConfluentTransactions,
    Fenced,
    KafkaPythonTransactions,
    TransactionalProducer,
    committed_offset,
    read_with_aiokafka,
    read_with_confluent,
    read_with_kafka_python,
)
from tests.clients.contract import Client, Message, Place
from tests.clients.expect import eventually

PRODUCERS: dict[str, Callable[..., TransactionalProducer]] = {
    "confluent": ConfluentTransactions,
    "aiokafka": AiokafkaTransactions,
    "kafka-python": KafkaPythonTransactions,
}
READERS = {
    "confluent": read_with_confluent,
    "aiokafka": read_with_aiokafka,
    "kafka-python": read_with_kafka_python,
}

NewProducer = Callable[..., TransactionalProducer]


@pytest.fixture(params=PRODUCERS)
def new_producer(request: pytest.FixtureRequest, bootstrap: str) -> Iterator[NewProducer]:
    """Start a producer under a transactional id, with each client in turn."""
    started: list[TransactionalProducer] = []

    def start(transactional_id: str, timeout_ms: int = 60_000) -> TransactionalProducer:
        started.append(PRODUCERS[request.param](bootstrap, transactional_id, timeout_ms))
        return started[-1]

    yield start
    for producer in started:
        # One that was fenced may complain once more.
        with suppress(Fenced):
            producer.close()


def seen(bootstrap: str, place: Place, isolation: str = COMMITTED) -> dict[str, list[bytes]]:
    """Return what each client reads."""
    return {name: read(bootstrap, place, isolation) for name, read in READERS.items()}


def by_all(*values: bytes) -> dict[str, list[bytes]]:
    """Return what it looks like if each client reads the same."""
    return {name: list(values) for name in READERS}


def test_readers_of_what_is_committed_see_nothing_else(
    new_producer: NewProducer, bootstrap: str, new_topic: Callable[..., str]
) -> None:
    place = Place(new_topic(), 0)
    producer = new_producer(place.topic)
    for verb, value in (("commit", b"a"), ("abort", b"lost"), ("commit", b"b"), ("abort", b"lost too")):
        producer.begin()
        producer.send(place, value, value + b"!")
        getattr(producer, verb)()
    producer.begin()
    producer.send(place, b"open")
    assert seen(bootstrap, place) == by_all(b"a", b"a!", b"b", b"b!")
    everything = by_all(b"a", b"a!", b"lost", b"lost!", b"b", b"b!", b"lost too", b"lost too!", b"open")
    assert seen(bootstrap, place, UNCOMMITTED) == everything
    producer.commit()
    assert seen(bootstrap, place) == by_all(b"a", b"a!", b"b", b"b!", b"open")


def test_a_transaction_is_one_over_all_its_topics_and_partitions(
    new_producer: NewProducer, bootstrap: str, new_topic: Callable[..., str]
) -> None:
    places = [Place(topic, partition) for topic in (new_topic(3), new_topic(2)) for partition in (0, 1)]
    producer = new_producer(places[0].topic)
    for verb in ("abort", "commit"):
        producer.begin()
        for number, place in enumerate(places):
            producer.send(place, b"%d of %s" % (number, verb.encode()))
        getattr(producer, verb)()
    for number, place in enumerate(places):
        assert seen(bootstrap, place) == by_all(b"%d of commit" % number)


def test_readers_wait_for_the_oldest_open_transaction(
    new_producer: NewProducer, bootstrap: str, new_topic: Callable[..., str], clients: dict[str, Client]
) -> None:
    place = Place(new_topic(), 0)
    first, second = new_producer(f"{place.topic}-1"), new_producer(f"{place.topic}-2")
    first.begin()
    first.send(place, b"first")
    second.begin()
    second.send(place, b"second")
    clients["confluent"].send(place.topic, [Message(b"plain")])
    second.commit()
    assert seen(bootstrap, place) == by_all()
    first.commit()
    assert seen(bootstrap, place) == by_all(b"first", b"second", b"plain")


def test_an_empty_transaction_can_end_either_way(
    new_producer: NewProducer, bootstrap: str, new_topic: Callable[..., str]
) -> None:
    place = Place(new_topic(), 0)
    producer = new_producer(place.topic)
    for verb in ("commit", "abort"):
        producer.begin()
        getattr(producer, verb)()
    producer.begin()
    producer.send(place, b"x")
    producer.commit()
    assert seen(bootstrap, place) == by_all(b"x")


def test_offsets_are_set_with_the_commit_and_only_then(
    new_producer: NewProducer, bootstrap: str, new_topic: Callable[..., str]
) -> None:
    place = Place(new_topic(), 0)
    producer = new_producer(place.topic)
    for verb, offset, expected in (("abort", 3, None), ("commit", 5, 5), ("abort", 9, 5), ("commit", 7, 7)):
        producer.begin()
        producer.send(place, b"x")
        producer.send_offsets(place.topic, {place: offset})
        getattr(producer, verb)()
        assert committed_offset(bootstrap, place.topic, place) == expected


@pytest.mark.parametrize("act", ["send", "send_offsets", "commit", "abort"])
def test_a_zombie_is_fenced_whatever_it_does_next(
    act: str, new_producer: NewProducer, bootstrap: str, new_topic: Callable[..., str]
) -> None:
    place = Place(new_topic(), 0)
    zombie = new_producer(place.topic)
    zombie.begin()
    zombie.send(place, b"of a zombie")
    second = new_producer(place.topic)
    arguments = {"send": (place, b"late"), "send_offsets": (place.topic, {place: 7})}.get(act, ())
    with pytest.raises(Fenced):
        getattr(zombie, act)(*arguments)
    second.begin()
    second.send(place, b"of the second")
    second.commit()
    assert seen(bootstrap, place) == by_all(b"of the second")
    assert committed_offset(bootstrap, place.topic, place) is None


def test_a_transaction_that_takes_too_long_is_aborted_and_readers_go_on(
    new_producer: NewProducer, bootstrap: str, new_topic: Callable[..., str], clients: dict[str, Client]
) -> None:
    place = Place(new_topic(), 0)
    slow = new_producer(place.topic, timeout_ms=1000)
    slow.begin()
    slow.send(place, b"late")
    clients["confluent"].send(place.topic, [Message(b"behind it")])
    eventually(lambda: read_with_confluent(bootstrap, place, COMMITTED) == [b"behind it"], "readers go on")
    with pytest.raises(Fenced):
        slow.commit()
    assert seen(bootstrap, place) == by_all(b"behind it")


def test_many_transactions_of_many_producers_in_one_partition(
    new_producer: NewProducer, bootstrap: str, new_topic: Callable[..., str]
) -> None:
    place = Place(new_topic(), 0)
    producers = [new_producer(f"{place.topic}-{number}") for number in range(3)]
    kept = []
    for turn in range(4):
        for producer in producers:
            producer.begin()
        for number, producer in enumerate(producers):
            producer.send(place, b"%d-%d" % (turn, number))
        for number, producer in enumerate(producers):
            if (turn + number) % 2:
                producer.abort()
            else:
                producer.commit()
                kept.append(b"%d-%d" % (turn, number))
    assert seen(bootstrap, place) == by_all(*kept)


def test_administrators_see_transactions_and_producers(bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(2)
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    producer = ConfluentTransactions(bootstrap, topic, timeout_ms=30_000)
    try:
        with pytest.raises(TransactionalIdNotFoundError):
            admin.describe_transactions([f"{topic}-unknown"])
        producer.begin()
        producer.send(Place(topic, 1), b"x", b"y")
        described = admin.describe_transactions([topic])[topic]
        assert (described.state, described.transaction_timeout_ms) == ("Ongoing", 30_000)
        assert set(described.topic_partitions) == {PythonPartition(topic, 1)}
        (listed,) = [
            each
            for found in admin.list_transactions(state_filters=["Ongoing"]).values()
            for each in found
            if each.transactional_id == topic
        ]
        assert (listed.producer_id, listed.state) == (described.producer_id, "Ongoing")
        partition = PythonPartition(topic, 1)
        (active,) = admin.describe_producers([partition])[partition].active_producers
        assert (active.producer_id, active.producer_epoch) == (described.producer_id, described.producer_epoch)
        assert active.current_transaction_start_offset == 0
        producer.commit()
        assert admin.describe_transactions([topic])[topic].state == "CompleteCommit"
    finally:
        producer.close()
        admin.close()

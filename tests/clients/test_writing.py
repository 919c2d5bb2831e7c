"""Guarantees for producers: acknowledgements, order, exactly once, sizes, and the partition of a key."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import pytest
from aiokafka.partitioner import murmur2

from tests.clients.contract import Acks, Client, ErrorCode, Message, Place, Reading, Record, Sending
from tests.clients.expect import refused
from tests.clients.samples import content, ordinary
from tests.clients.wire import stored_batches

# The limit of a batch is 1 MiB with us and 12 bytes more with Apache Kafka; header and record take less than this.
_BATCH_BYTES_MAX = 1024 * 1024
_OVERHEAD_BYTES = 150


@pytest.mark.parametrize("acks", Acks)
def test_records_arrive_whatever_the_producer_waits_for(
    acks: Acks, client: Client, new_topic: Callable[..., str]
) -> None:
    place = Place(new_topic(), 0)
    messages = ordinary()
    told = client.send(place.topic, messages, Sending(acks=acks))
    if acks is not Acks.NONE:
        assert told == list(range(len(messages)))
    with client.reader([place]) as reader:
        assert content(reader.take(len(messages))) == content(messages)


def test_an_idempotent_producer_writes_everything_once_and_in_order(
    client: Client, bootstrap: str, new_topic: Callable[..., str]
) -> None:
    partitions, rounds, per_round = 4, 5, 400
    topic = new_topic(partitions)
    sending = Sending(is_idempotent=True)
    for number in range(rounds):
        # In order of partitions, since kcat writes those of one partition at a time.
        messages = [
            Message(b"%d" % (number * per_round + i), partition=partition)
            for partition in range(partitions)
            for i in range(per_round)
        ]
        client.send(topic, messages, sending)
    with client.reader([Place(topic, partition) for partition in range(partitions)]) as reader:
        records = reader.take(partitions * rounds * per_round)
        assert reader.take(1, within_s=0.2) == []
    in_order = [b"%d" % i for i in range(rounds * per_round)]
    assert _values_by_partition(records) == dict.fromkeys(range(partitions), in_order)
    assert all(batch.is_idempotent for batch in stored_batches(bootstrap, Place(topic, 0)))


def test_a_message_just_below_the_limit_arrives(client: Client, new_topic: Callable[..., str]) -> None:
    place = Place(new_topic(), 0)
    large = Message(bytes(_BATCH_BYTES_MAX - _OVERHEAD_BYTES))
    client.send(place.topic, [large, Message(b"after it")])
    # Far less than the batch: a broker that kept to it would never get such a reader past the batch.
    with client.reader([place], Reading(partition_bytes_max=10_000)) as reader:
        assert content(reader.take(2)) == content([large, Message(b"after it")])


def test_a_message_above_the_limit_is_refused_and_others_go_on(client: Client, new_topic: Callable[..., str]) -> None:
    place = Place(new_topic(), 0)
    with refused(ErrorCode.MESSAGE_TOO_LARGE):
        client.send(place.topic, [Message(bytes(_BATCH_BYTES_MAX + 1000))])
    assert client.send(place.topic, [Message(b"small")]) == [0]


def test_a_topic_has_a_limit_of_its_own(client: Client, new_topic: Callable[..., str]) -> None:
    place = Place(new_topic(settings={"max.message.bytes": "5000"}), 0)
    assert client.send(place.topic, [Message(bytes(4000))]) == [0]
    with refused(ErrorCode.MESSAGE_TOO_LARGE):
        client.send(place.topic, [Message(bytes(6000))])


def test_all_clients_agree_on_the_partition_of_a_key(clients: dict[str, Client], new_topic: Callable[..., str]) -> None:
    partitions = 7
    topic = new_topic(partitions)
    keys = [b"k" * size + b"%d" % size for size in range(40)] + ["schlüssel".encode(), bytes(range(256))]
    for name, client in clients.items():
        client.send(topic, [Message(name.encode(), key, partition=None) for key in keys])
    with clients["confluent"].reader([Place(topic, partition) for partition in range(partitions)]) as reader:
        records = reader.take(len(keys) * len(clients))
    found = {(record.value, record.key): record.partition for record in records}
    expected = {key: (murmur2(key) & 0x7FFFFFFF) % partitions for key in keys}
    assert found == {(name.encode(), key): expected[key] for name in clients for key in keys}
    assert set(expected.values()) == set(range(partitions))


def _values_by_partition(records: list[Record]) -> dict[int, list[bytes | None]]:
    values: dict[int, list[bytes | None]] = defaultdict(list)
    for record in records:
        values[record.partition].append(record.value)
    return values

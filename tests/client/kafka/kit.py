"""What the tests of the data client share: messages in and out by librdkafka, and finished batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ConfluentPartition

from goqueue.client.kafka import FetchedBatches, ProducerIdentity
from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.layout import headers, validate
from goqueue.records.reader import read_records
from goqueue.seams.clock import SystemClock

WAIT_S = 120


def publish(bootstrap: str, topic: str, values: Sequence[bytes], *, codec: str = "none", partition: int = 0) -> None:
    """Write values with librdkafka, in batches of ten."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "compression.type": codec, "batch.num.messages": 10, "log_level": 0}
    )
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(WAIT_S) == 0


def publish_in_transaction(
    bootstrap: str, topic: str, values: Sequence[bytes], *, transactional_id: str, is_commit: bool = True
) -> None:
    """Write values in a transaction of librdkafka."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "log_level": 0})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(WAIT_S) == 0
    if is_commit:
        producer.commit_transaction(WAIT_S)
    else:
        producer.abort_transaction(WAIT_S)


def committed_values(bootstrap: str, topic: str, count: int, *, partition: int = 0) -> list[bytes]:
    """Return that many values from the start on, as librdkafka reads what is committed."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "none", "isolation.level": "read_committed"}
    found: list[bytes] = []
    with closing(Consumer({**settings, "enable.auto.commit": False, "log_level": 0})) as consumer:
        consumer.assign([ConfluentPartition(topic, partition, 0)])
        while len(found) < count:
            message = consumer.poll(WAIT_S)
            assert message is not None, f"only {len(found)} of {count} values came"
            assert message.error() is None
            found.append(message.value() or b"")
    return found


def values_of(fetched: Iterable[FetchedBatches]) -> list[bytes]:
    """Return the values of all batches but markers; every checksum is verified."""
    found: list[bytes] = []
    for each in fetched:
        for position, header in headers(each.records):
            validate(each.records, position)
            if not header.is_control:
                batch = each.records[position : position + header.size_bytes]
                found += [record.value or b"" for record in read_records(batch)]
    return found


def batch_of(producer: ProducerIdentity, values: Sequence[bytes], sequence: int) -> bytearray:
    """Return a batch of a transaction; of now, since what is old is deleted as soon as anything follows it."""
    return build_batch(
        [NewRecord(SystemClock().now_ms(), None, value, ()) for value in values],
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=sequence,
        is_transactional=True,
    )

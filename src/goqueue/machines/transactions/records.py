"""Stored transactions: the key is the transactional id in UTF-8, the value a JSON object; a tombstone deletes it.

Equal transactions have equal bytes. Volatile fields (deadlines, tickets) are not stored.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from goqueue.errors import Corrupt
from goqueue.machines.decision import KeyedRecord
from goqueue.machines.transactions.values import ProducerEpoch, Transaction
from goqueue.model.topic import TopicPartition
from goqueue.model.transactions import TransactionState


class _Value(msgspec.Struct, frozen=True, omit_defaults=True):
    producer_id: int
    epoch: int
    timeout_ms: int
    state: TransactionState
    updated_ms: int
    number: int = 0
    started_ms: int = -1
    previous: ProducerEpoch | None = None
    next: ProducerEpoch | None = None
    partitions: dict[str, list[int]] = {}
    groups: list[str] = []


def transaction_record(transaction: Transaction) -> KeyedRecord:
    """Return the record of a transaction."""
    value = _Value(
        transaction.producer_id,
        transaction.epoch,
        transaction.timeout_ms,
        transaction.state,
        transaction.updated_ms,
        transaction.number,
        transaction.started_ms,
        transaction.previous,
        transaction.next,
        _by_topic(transaction.partitions),
        sorted(transaction.groups),
    )
    return KeyedRecord(transaction.id.encode(), msgspec.json.encode(value))


def tombstone(transactional_id: str) -> KeyedRecord:
    """Return the tombstone of a transactional id."""
    return KeyedRecord(transactional_id.encode(), None)


def read_id(record: KeyedRecord) -> str:
    """Return the transactional id of a record; Corrupt if its key is malformed."""
    try:
        return record.key.decode()
    except UnicodeDecodeError as error:
        raise Corrupt(f"a record of transactions has a key {record.key!r} that cannot be read: {error}") from error


def read_transaction(transactional_id: str, data: bytes) -> Transaction:
    """Return the transaction of a value; Corrupt if it is malformed."""
    try:
        value = msgspec.json.decode(data, type=_Value)
    except msgspec.MsgspecError as error:
        raise Corrupt(f"the record of transaction {transactional_id!r} cannot be read: {error}") from error
    return Transaction(
        id=transactional_id,
        producer_id=value.producer_id,
        epoch=value.epoch,
        timeout_ms=value.timeout_ms,
        state=value.state,
        previous=value.previous,
        next=value.next,
        partitions=frozenset(
            TopicPartition(topic, number) for topic, numbers in value.partitions.items() for number in numbers
        ),
        groups=frozenset(value.groups),
        number=value.number,
        started_ms=value.started_ms,
        updated_ms=value.updated_ms,
    )


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        found.setdefault(topic, []).append(number)
    return found

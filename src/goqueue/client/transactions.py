"""Calls about transactions: take a transactional id, publish in a transaction, end it, and look after others'.

Each of these names the identity that the producer was given last, and may be sent again if no reply came. Most
programs use `Client.transaction` instead, which does all of it in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import quote

import msgspec

from goqueue.api.groups import GroupPartition
from goqueue.api.transactions import BatchCommitted, OpenTransaction, Producer, Sink
from goqueue.client.calls import Call, Reply, read_nothing, reading, topic_path
from goqueue.client.durations import Duration, milliseconds, seconds_of
from goqueue.client.group_values import PartitionOffset
from goqueue.client.groups import Known
from goqueue.client.messages import NewMessage, Published, encode_batch, read_fates
from goqueue.client.problems import Problem, error_of
from goqueue.client.transaction_values import ProducerState, TransactionStats, TransactionView
from goqueue.errors import GoQueueError


class _Transactions(msgspec.Struct):
    transactions: list[TransactionView]


class _OpenTransactions(msgspec.Struct):
    transactions: list[OpenTransaction]


class _OffsetResult(msgspec.Struct):
    error: Problem | None = None


class _OffsetResults(msgspec.Struct):
    results: list[_OffsetResult]


_read_producer = reading(Producer)
_read_state = reading(ProducerState)
_read_transaction = reading(TransactionView)
_read_transactions = reading(_Transactions)
_read_open = reading(_OpenTransactions)
_read_stats = reading(TransactionStats)
_read_batch = reading(BatchCommitted)
_read_sink = reading(Sink)
_read_offsets = reading(_OffsetResults)
_encode = msgspec.json.Encoder().encode

# What the broker takes.
_TIMEOUT_S_MIN = 0.001
_TIMEOUT_S_MAX = 900.0


# -- producers


def init(transactional_id: str, *, timeout_s: Duration | None = None) -> Call[Producer]:
    """Take a transactional id; whoever acted under it is fenced, and what was open is aborted.

    Without a timeout, a transaction may take a minute.
    """
    body: dict[str, object] = {"transactional_id": transactional_id}
    if timeout_s is not None:
        body["timeout"] = milliseconds(
            seconds_of(timeout_s, "timeout_s", least_s=_TIMEOUT_S_MIN, most_s=_TIMEOUT_S_MAX)
        )
    return Call("POST", "/v1/producers/init", _read_producer, body=_encode(body), is_repeatable=True)


def heartbeat(producer: Producer) -> Call[ProducerState]:
    """Ask whether the producer's identity is still the present one, and how much time it has left."""
    path = f"/v1/producers/{producer.producer_id}/heartbeat"
    return Call("POST", path, _read_state, body=_encode({"epoch": producer.epoch}), is_repeatable=True)


def begin(producer: Producer) -> Call[ProducerState]:
    """Make sure that a transaction can begin; it begins, and its time, with the first thing that is part of it."""
    return Call("POST", "/v1/transactions/begin", _read_state, body=_encode(producer), is_repeatable=True)


def publish(
    producer: Producer, topic: str, batch: Sequence[NewMessage | bytes], *, sequence: int | None = None
) -> Call[Sequence[Published | GoQueueError]]:
    """Publish a batch in the transaction; the result has the fate of each message, as that of `messages.publish`.

    Without the number of this request in the transaction, from 0 on, it is stored twice if it arrives twice.
    """
    messages = b",".join(encode_batch(batch))
    fields = _encode({**_as_fields(producer), "topic": topic, "sequence": sequence})
    body = b'%b,"messages":[%b]}' % (fields[:-1], messages)
    is_repeatable = sequence is not None
    return Call(
        "POST", "/v1/transactions/publish", read_fates, body=body, tells_failures=True, is_repeatable=is_repeatable
    )


def add_partitions(producer: Producer, partitions: Iterable[GroupPartition]) -> Call[None]:
    """Make partitions part of the transaction before anything is published to them."""
    body = _encode({**_as_fields(producer), "partitions": list(partitions)})
    return Call("POST", "/v1/transactions/add-partition", read_nothing, body=body, is_repeatable=True)


def send_offsets(
    producer: Producer, group: str, offsets: Iterable[PartitionOffset], *, member: Known | None = None
) -> Call[Sequence[GoQueueError | None]]:
    """Set offsets of a group when the transaction commits; the result has an error or None for each.

    A group with members takes them from a member only.
    """
    body: dict[str, object] = {**_as_fields(producer), "group": group, "offsets": list(offsets)}
    if member is not None:
        body |= {"member_id": member.member_id, "generation": member.generation}
    return Call(
        "POST",
        "/v1/transactions/add-offsets",
        _read_offset_fates,
        body=_encode(body),
        tells_failures=True,
        is_repeatable=True,
    )


def commit(producer: Producer) -> Call[Producer]:
    """Commit the transaction: when this returns, it has happened everywhere. The result is who goes on."""
    return Call("POST", "/v1/transactions/commit", _read_producer, body=_encode(producer), is_repeatable=True)


def abort(producer: Producer) -> Call[Producer]:
    """Abort the transaction: when this returns, it has happened everywhere. The result is who goes on."""
    return Call("POST", "/v1/transactions/abort", _read_producer, body=_encode(producer), is_repeatable=True)


def _as_fields(producer: Producer) -> dict[str, object]:
    return {
        "transactional_id": producer.transactional_id,
        "producer_id": producer.producer_id,
        "epoch": producer.epoch,
    }


def _read_offset_fates(reply: Reply) -> Sequence[GoQueueError | None]:
    return [error_of(result.error) if result.error else None for result in _read_offsets(reply).results]


# -- sinks


def commit_batch(sink: str, batch: int, stages: Iterable[Producer]) -> Call[BatchCommitted]:
    """Commit what the tasks of a sink have staged for a batch: all of it or nothing, and once for each batch.

    The transactional id of each stage is what `model.sinks.stage_id` says. When this returns, it has happened
    everywhere.
    """
    body = _encode({"batch": batch, "stages": list(stages)})
    return Call("POST", f"{_sink_path(sink)}/commit", _read_batch, body=body, is_repeatable=True)


def describe_sink(sink: str) -> Call[Sink]:
    """Ask which batch a sink has committed last."""
    return Call("GET", _sink_path(sink), _read_sink)


def forget_sink(sink: str) -> Call[None]:
    """Forget which batches a sink has committed, so that it may begin anew."""
    return Call("DELETE", _sink_path(sink), read_nothing)


def _sink_path(sink: str) -> str:
    return f"/v1/transactions/sinks/{quote(sink, safe='')}"


# -- looking after transactions


def list_all(*, state: str | None = None, producer_id: int | None = None) -> Call[Sequence[TransactionView]]:
    """List transactional ids in their order: all, those in a state, or that of a producer."""
    query = {"state": state, "producer_id": None if producer_id is None else str(producer_id)}

    def read(reply: Reply) -> Sequence[TransactionView]:
        return _read_transactions(reply).transactions

    wanted = {name: value for name, value in query.items() if value is not None}
    return Call("GET", "/v1/transactions", read, query=wanted)


def describe(transactional_id: str) -> Call[TransactionView]:
    """Describe a transactional id with its transaction; UnknownTransaction if nothing is known of it."""
    return Call("GET", _path(transactional_id), _read_transaction)


def stats() -> Call[TransactionStats]:
    """Count transactions, open and ended."""
    return Call("GET", "/v1/transactions/stats", _read_stats)


def force_abort(transactional_id: str) -> Call[TransactionView]:
    """Abort the transaction under way over the head of its producer, who is fenced."""
    path = f"{_path(transactional_id)}/abort"
    return Call("POST", path, _read_transaction, body=b"{}", is_repeatable=True)


def list_open(topic: str, partition: int) -> Call[Sequence[OpenTransaction]]:
    """List the transactions that are open in a partition, the oldest first."""

    def read(reply: Reply) -> Sequence[OpenTransaction]:
        return _read_open(reply).transactions

    return Call("GET", topic_path(topic, "partitions", partition, "transactions"), read)


def abort_hanging(topic: str, partition: int, producer_id: int, *, is_forced: bool = False) -> Call[None]:
    """Abort a transaction of a partition that has no transactional id, so that nothing else will end it.

    If the log of a coordinator is damaged, which may know of it, only if it `is_forced`.
    """
    path = topic_path(topic, "partitions", partition, "transactions", "abort")
    body = {"producer_id": producer_id, **({"force": True} if is_forced else {})}
    return Call("POST", path, read_nothing, body=_encode(body))


def _path(transactional_id: str) -> str:
    return f"/v1/transactions/{quote(transactional_id, safe='')}"

"""Transactional writing: the identity, partitions of the transaction, batches, and commit or abort.

Every request is idempotent. A new identity replaces the former one; partitions are added once; a broker recognises
stored batches by their sequence numbers; and a transaction that has ended as requested stays so. So a request whose
reply was lost is sent again.
"""

from __future__ import annotations

import struct
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from goqueue.client.kafka.addresses import Address
from goqueue.client.kafka.batches import PREFIX_BYTES
from goqueue.client.kafka.cluster import Cluster
from goqueue.client.kafka.connection import Connection
from goqueue.client.kafka.refusals import DUPLICATE_SEQUENCE, NO_ERROR, refusal
from goqueue.client.kafka.values import ProducerIdentity
from goqueue.client.kafka.waiting import Deadline
from goqueue.client.kafka.wire import writing as wire
from goqueue.client.kafka.wire.frame import ApiVersion
from goqueue.client.problems import BadReply
from goqueue.errors import GoQueueError, Invalid
from goqueue.kafka_wire.frames import Buffer
from goqueue.model.topic import TopicPartition

UNANSWERED_MAX = 5
"""Batches of a producer that a broker remembers: so many may be sent again without being stored twice."""

REQUEST_BYTES_MAX = 16 * 1024 * 1024
"""Approximate bytes of one request; a single batch may be larger."""

_NOT_ATTEMPTED = 55
_SIZE = struct.Struct(">i")
_STORED = frozenset({NO_ERROR, DUPLICATE_SEQUENCE})

_Sections = dict[str, dict[int, Buffer]]


def init_producer(
    cluster: Cluster, transactional_id: str, transaction_timeout_ms: int, deadline: Deadline
) -> ProducerIdentity:
    """Take over a transactional id: the former producer is fenced, and its open transaction aborted."""
    request = wire.init_producer_id(transactional_id, transaction_timeout_ms)
    with cluster.connected(cluster.coordinator(transactional_id, deadline), deadline) as connection:
        reply = wire.read_init_producer_id(connection.call(ApiVersion.INIT_PRODUCER_ID, [request], deadline))
    if reply.error:
        raise refusal(reply.error, _named(transactional_id))
    return ProducerIdentity(transactional_id, reply.producer_id, reply.epoch)


def add_partitions(
    cluster: Cluster, producer: ProducerIdentity, places: Iterable[TopicPartition], deadline: Deadline
) -> None:
    """Add partitions to the transaction; all of them, or it is an error."""
    wanted = dict.fromkeys(places)
    by_topic: dict[str, list[int]] = {}
    for place in wanted:
        # The metadata tell better whether the partition exists.
        cluster.leader(place, deadline)
        by_topic.setdefault(place.topic, []).append(place.partition)
    if not wanted:
        return
    request = wire.add_partitions(*producer, by_topic)
    with cluster.connected(cluster.coordinator(producer.transactional_id, deadline), deadline) as connection:
        results = wire.read_add_partitions(connection.call(ApiVersion.ADD_PARTITIONS_TO_TXN, [request], deadline))
    # A refused partition is the reason why the others were not attempted.
    for result in sorted(results, key=lambda each: each.error == _NOT_ATTEMPTED):
        if result.error:
            raise refusal(result.error, f"{TopicPartition(result.topic, result.partition)}", result.message)
    _require_all(wanted, results)


def end_transaction(cluster: Cluster, producer: ProducerIdentity, *, is_commit: bool, deadline: Deadline) -> None:
    """Commit or abort; at return that is done in all partitions, or decided durably."""
    request = wire.end_transaction(*producer, is_commit=is_commit)
    with cluster.connected(cluster.coordinator(producer.transactional_id, deadline), deadline) as connection:
        error = wire.read_end_transaction(connection.call(ApiVersion.END_TXN, [request], deadline))
    if error:
        raise refusal(error, _named(producer.transactional_id))


@dataclass(slots=True, eq=False)
class _Unanswered:
    """Unacknowledged batches, and the connections on which their replies are due."""

    batches: Mapping[TopicPartition, Buffer]
    asked: list[Connection]


class Publishing:
    """Batches on their way, several requests at a time; each partition gets them in the order of the calls.

    A context manager: at its end everything is stored; after an exception, unacknowledged batches are dropped. Buffers
    belong to it until then. After an error nothing more can be sent: abort the transaction.
    """

    def __init__(self, cluster: Cluster, producer: ProducerIdentity, timeout_s: float) -> None:
        self._cluster = cluster
        self._producer = producer
        self._timeout_s = timeout_s
        self._unanswered: deque[_Unanswered] = deque()
        self._connections: dict[Address, Connection] = {}
        self._deadline = cluster.waiting.deadline(timeout_s)
        self._attempt = 1

    def send(self, batches: Mapping[TopicPartition, Buffer]) -> None:
        """Send one batch for each of some partitions; waits only if too many are unacknowledged."""
        for place, batch in batches.items():
            _require_one_batch(place, batch)
        if not batches:
            return
        # The time since the last call was the caller's, not the broker's.
        self._begin_anew()
        while len(self._unanswered) >= UNANSWERED_MAX:
            self._settle_first()
        sending = _Unanswered(batches, [])
        self._unanswered.append(sending)
        try:
            self._dispatch(sending)
        except GoQueueError as error:
            self._send_all_again(error)

    def settle(self) -> None:
        """Wait until everything that was sent is stored."""
        self._begin_anew()
        while self._unanswered:
            self._settle_first()

    def close(self) -> None:
        """Give the connections back; those with replies due are closed."""
        self._unanswered.clear()
        while self._connections:
            self._cluster.give_back(self._connections.popitem()[1])

    def _settle_first(self) -> None:
        first = self._unanswered[0]
        try:
            self._check(first)
        except GoQueueError as error:
            self._send_all_again(error)
            return
        self._unanswered.popleft()
        self._begin_anew()

    def _check(self, sent: _Unanswered) -> None:
        results: list[wire.PartitionResult] = []
        for connection in sent.asked:
            results += wire.read_produce(connection.receive(self._deadline))
        for result in results:
            if result.error not in _STORED:
                place = TopicPartition(result.topic, result.partition)
                raise refusal(result.error, str(place), result.message)
        _require_all(sent.batches, results)

    def _send_all_again(self, error: GoQueueError) -> None:
        """Send unacknowledged batches on new connections, in the same order; raise the error if that cannot help.

        The broker recognises stored batches by their sequence, and has refused all batches after a refused one.
        """
        while True:
            for connection in self._connections.values():
                connection.close()
            self._connections.clear()
            if not self._cluster.may_try_again(error, self._attempt, self._deadline):
                self._unanswered.clear()
                raise error
            self._attempt += 1
            try:
                for sent in self._unanswered:
                    self._dispatch(sent)
                return
            except GoQueueError as another:
                error = another

    def _dispatch(self, sending: _Unanswered) -> None:
        sending.asked = []
        for address, batches in self._requests(sending.batches):
            connection = self._connections.get(address)
            if connection is None:
                connection = self._connections[address] = self._cluster.take(address, self._deadline)
            timeout_ms = max(1, int(self._deadline.left_s * 1000))
            body = wire.produce(self._producer.transactional_id, timeout_ms, batches)
            connection.send(ApiVersion.PRODUCE, body, self._deadline)
            sending.asked.append(connection)

    def _requests(self, batches: Mapping[TopicPartition, Buffer]) -> Iterator[tuple[Address, _Sections]]:
        """Divide batches by the leaders of their partitions, and into requests of a size that every broker accepts."""
        gathered: dict[Address, _Sections] = {}
        sizes: Counter[Address] = Counter()
        for place, batch in batches.items():
            address = self._cluster.leader(place, self._deadline).address
            if sizes[address] and sizes[address] + len(batch) > REQUEST_BYTES_MAX:
                yield address, gathered.pop(address)
                sizes[address] = 0
            gathered.setdefault(address, {}).setdefault(place.topic, {})[place.partition] = batch
            sizes[address] += len(batch)
        yield from gathered.items()

    def _begin_anew(self) -> None:
        self._deadline = self._cluster.waiting.deadline(self._timeout_s)
        self._attempt = 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.settle()
        finally:
            self.close()


def _named(transactional_id: str) -> str:
    return f"transactional id {transactional_id!r}"


def _require_all(wanted: Iterable[TopicPartition], results: Iterable[wire.PartitionResult]) -> None:
    answered = {(result.topic, result.partition) for result in results}
    missing = [str(place) for place in wanted if place not in answered]
    if missing:
        raise BadReply(f"the broker says nothing about {', '.join(missing)}")


def _require_one_batch(place: TopicPartition, batch: Buffer) -> None:
    """Raise Invalid unless it is exactly one batch, by its length; Kafka takes no more of them at once."""
    size = PREFIX_BYTES + _SIZE.unpack_from(batch, 8)[0] if len(batch) >= PREFIX_BYTES else -1
    if size != len(batch):
        raise Invalid(f"{place}: {len(batch)} bytes are not one batch of records")

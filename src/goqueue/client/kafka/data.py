"""`KafkaData`: topics, offsets, raw batches and transactional writing, for code that may block."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Self, TypedDict
from uuid import UUID

from typing_extensions import Unpack

from goqueue import __version__
from goqueue.client.kafka import producing, reading
from goqueue.client.kafka.addresses import Address, parse_bootstrap
from goqueue.client.kafka.cluster import Cluster
from goqueue.client.kafka.producing import Publishing
from goqueue.client.kafka.ranges import Batches, RangeReader
from goqueue.client.kafka.reading import FETCH_BYTES_MAX, FetchTerms
from goqueue.client.kafka.refusals import UNKNOWN_TOPIC_OR_PARTITION, refusal
from goqueue.client.kafka.values import FetchedBatches, FoundOffset, Isolation, NamedOffset, ProducerIdentity, Topic
from goqueue.client.kafka.waiting import Deadline, Waiting
from goqueue.client.kafka.wire import cluster as wire
from goqueue.client.kafka.wire.frame import ApiVersion
from goqueue.errors import Invalid, InvalidPattern, Unavailable
from goqueue.kafka_wire.frames import Buffer
from goqueue.model.topic import TopicPartition
from goqueue.seams.clock import Clock, SystemClock
from goqueue.seams.entropy import Entropy, SystemEntropy

_TIMEOUT_S = 30.0
_CONNECT_TIMEOUT_S = 5.0
_TRANSACTION_TIMEOUT_MS = 60_000
_BYTES_MAX_MAX = 128 * 1024 * 1024


class Options(TypedDict, total=False):
    """Options of a client.

    `timeout_s` (30) bounds every call with all its attempts, and each wait for progress in a range;
    `connect_timeout_s` (5) bounds the first connection.
    """

    timeout_s: float
    connect_timeout_s: float
    client_id: str
    clock: Clock
    entropy: Entropy


class KafkaData:
    """A client of a Kafka broker that moves batches and never opens them; for one thread at a time.

    Calls retry transient errors (a restart, a lost connection, a leader that moves) within their time limit. All other
    errors are raised as those of `goqueue.errors`.
    """

    def __init__(self, bootstrap: str, **options: Unpack[Options]) -> None:
        """Connect to one of the brokers of `host:port,host:port`; ServerUnreachable or BadReply if there is none."""
        self._timeout_s = options.get("timeout_s", _TIMEOUT_S)
        waiting = Waiting(options.get("clock") or SystemClock(), options.get("entropy") or SystemEntropy())
        client_id = options.get("client_id", f"goqueue-{__version__}")
        self._cluster = Cluster(parse_bootstrap(bootstrap), client_id, waiting)
        connect_timeout_s = options.get("connect_timeout_s", _CONNECT_TIMEOUT_S)
        try:
            self._cluster.attempt(lambda deadline: self._cluster.list_topics([], deadline), connect_timeout_s)
        except BaseException:
            self._cluster.close()
            raise

    def brokers(self) -> Mapping[int, Address]:
        """Return the address of each broker of the cluster, by its id."""
        self._cluster.attempt(lambda deadline: self._cluster.list_topics([], deadline), self._timeout_s)
        return dict(self._cluster.nodes())

    def topics(self, names: Iterable[str]) -> list[Topic]:
        """Return topics as the cluster knows them now, in the order of their names; a missing one has an error."""
        wanted = sorted(set(names))
        found = self._cluster.attempt(lambda deadline: self._cluster.list_topics(wanted, deadline), self._timeout_s)
        return sorted(found, key=lambda topic: topic.name)

    def topics_like(self, pattern: str) -> list[Topic]:
        """Return all topics whose whole names match a regular expression, but none of the broker's own."""
        try:
            matches = re.compile(pattern).fullmatch
        except re.error as error:
            raise InvalidPattern(f"{pattern!r} is no regular expression: {error}") from None
        found = self._cluster.attempt(lambda deadline: self._cluster.list_topics(None, deadline), self._timeout_s)
        wanted = [topic for topic in found if not topic.is_internal and matches(topic.name)]
        return sorted(wanted, key=lambda topic: topic.name)

    def offsets(
        self, places: Iterable[TopicPartition], at: NamedOffset | int, isolation: Isolation = Isolation.COMMITTED
    ) -> dict[TopicPartition, FoundOffset]:
        """Return a named offset, or that of the first record at or after a time (in milliseconds)."""
        wanted = list(places)
        if at < NamedOffset.EARLIEST:
            raise Invalid(f"{at} is no time", hint="times are milliseconds since 1970")
        return self._cluster.attempt(
            lambda deadline: reading.find_offsets(self._cluster, wanted, at, isolation, deadline), self._timeout_s
        )

    def fetch(
        self,
        place: TopicPartition,
        offset: int,
        *,
        isolation: Isolation = Isolation.COMMITTED,
        bytes_max: int = FETCH_BYTES_MAX,
        wait_ms: int = 0,
    ) -> FetchedBatches:
        """Return batches from an offset on, or none if no record came within `wait_ms`.

        OffsetOutOfRange, with start and end of the log, if the offset lies outside.
        """
        terms = _terms(isolation, bytes_max)
        return self._cluster.attempt(
            lambda deadline: reading.fetch(self._cluster, place, offset, terms, wait_ms, deadline),
            self._timeout_s + wait_ms / 1000,
        )

    def read_range(
        self,
        place: TopicPartition,
        start: int,
        end: int,
        *,
        topic_id: UUID | None = None,
        isolation: Isolation = Isolation.COMMITTED,
        bytes_max: int = FETCH_BYTES_MAX,
    ) -> Batches:
        """Yield all batches that hold offsets from `start` up to `end` (exclusive); see `ranges`.

        UnknownTopic if there is no such topic, or only another one than that of the id, OffsetOutOfRange if the log
        starts after `start` or ends before it, RequestTimedOut if the end does not become visible in time.
        """
        terms = _terms(isolation, bytes_max)
        return RangeReader(self._cluster, place, start, end, terms, self._timeout_s, topic_id).read()

    def init_producer(
        self, transactional_id: str, *, transaction_timeout_ms: int = _TRANSACTION_TIMEOUT_MS
    ) -> ProducerIdentity:
        """Take over a transactional id: the former producer is fenced, and its open transaction aborted."""
        return self._cluster.attempt(
            lambda deadline: producing.init_producer(self._cluster, transactional_id, transaction_timeout_ms, deadline),
            self._timeout_s,
        )

    def add_partitions(self, producer: ProducerIdentity, places: Iterable[TopicPartition]) -> None:
        """Add partitions to the transaction, which begins with the first of them."""
        wanted = list(places)
        self._cluster.attempt(
            lambda deadline: producing.add_partitions(self._cluster, producer, wanted, deadline), self._timeout_s
        )

    def publishing(self, producer: ProducerIdentity) -> Publishing:
        """Write many batches without waiting for each; their headers carry identity and sequence."""
        return Publishing(self._cluster, producer, self._timeout_s)

    def produce(self, producer: ProducerIdentity, batches: Mapping[TopicPartition, Buffer]) -> None:
        """Write one batch to each of some partitions; they are stored at return."""
        with self.publishing(producer) as publishing:
            publishing.send(batches)

    def commit(self, producer: ProducerIdentity) -> None:
        """Commit the transaction; harmless if it is committed already."""
        self._end(producer, is_commit=True)

    def abort(self, producer: ProducerIdentity) -> None:
        """Abort the transaction; harmless if it is aborted already."""
        self._end(producer, is_commit=False)

    def _end(self, producer: ProducerIdentity, *, is_commit: bool) -> None:
        self._cluster.attempt(
            lambda deadline: producing.end_transaction(self._cluster, producer, is_commit=is_commit, deadline=deadline),
            self._timeout_s,
        )

    def describe_broker(self, node_id: int | None = None) -> Mapping[str, str | None]:
        """Return the settings of a broker, or of any broker."""
        return self._cluster.attempt(lambda deadline: self._settings(node_id, deadline), self._timeout_s)

    def _settings(self, node_id: int | None, deadline: Deadline) -> Mapping[str, str | None]:
        self._cluster.list_topics([], deadline)
        nodes = self._cluster.nodes()
        if node_id is None:
            node_id = min(nodes, default=0)
        if node_id not in nodes:
            raise Unavailable(f"there is no broker {node_id} at the moment")
        with self._cluster.connected(nodes[node_id], deadline) as connection:
            request = wire.describe_broker(node_id)
            reply = wire.read_configs(connection.call(ApiVersion.DESCRIBE_CONFIGS, [request], deadline))
        if reply.error:
            raise refusal(reply.error, f"broker {node_id}", reply.message)
        return reply.settings

    def topic_setting(self, names: Iterable[str], setting: str) -> dict[str, str]:
        """Return one setting of some topics; topics where it is empty, and missing topics, are left out."""
        wanted = sorted(set(names))
        if not wanted:
            return {}
        return self._cluster.attempt(lambda deadline: self._topic_setting(wanted, setting, deadline), self._timeout_s)

    def _topic_setting(self, names: list[str], setting: str, deadline: Deadline) -> dict[str, str]:
        with self._cluster.anybody(deadline) as connection:
            request = wire.describe_topics(names, setting)
            replies = wire.read_configs_by_name(connection.call(ApiVersion.DESCRIBE_CONFIGS, [request], deadline))
        found: dict[str, str] = {}
        for name, reply in replies.items():
            if reply.error == UNKNOWN_TOPIC_OR_PARTITION:
                continue
            if reply.error:
                raise refusal(reply.error, f"topic {name!r}", reply.message)
            if value := reply.settings.get(setting):
                found[name] = value
        return found

    def close(self) -> None:
        """Close all connections, and end a pause between two attempts."""
        self._cluster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _terms(isolation: Isolation, bytes_max: int) -> FetchTerms:
    if not 0 < bytes_max <= _BYTES_MAX_MAX:
        raise Invalid(f"{bytes_max} bytes cannot be fetched at once", hint=f"1 to {_BYTES_MAX_MAX}")
    return FetchTerms(isolation, bytes_max)

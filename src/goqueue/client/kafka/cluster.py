"""The brokers: connections to each of them, leaders and coordinators, and the one retry loop.

A connection belongs to the caller that has taken it, until it is given back with no reply due; otherwise it is closed.
Metadata of topics and coordinators are kept until an error, and then requested again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from goqueue.client.kafka.addresses import Address
from goqueue.client.kafka.connection import Connection, connect
from goqueue.client.kafka.refusals import NO_ERROR, UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, refusal
from goqueue.client.kafka.values import Partition, Topic
from goqueue.client.kafka.waiting import Deadline, Waiting
from goqueue.client.kafka.wire import cluster as wire
from goqueue.client.kafka.wire.frame import ApiVersion
from goqueue.client.problems import BadReply, RequestTimedOut, ServerUnreachable
from goqueue.errors import (
    ConcurrentTransactions,
    GoQueueError,
    NotFound,
    NotOffered,
    Throttled,
    UnknownPartition,
    UnknownTopic,
)
from goqueue.model.topic import TopicPartition

T = TypeVar("T")

_IDLE_MAX = 4


class Leader(NamedTuple):
    """A partition with its topic, and the address of its leader."""

    topic: Topic
    partition: Partition
    address: Address


class Cluster:
    """Brokers that can be reached from some first addresses; for one thread at a time."""

    def __init__(self, bootstrap: Sequence[Address], client_id: str, waiting: Waiting) -> None:
        self.waiting = waiting
        self._bootstrap = bootstrap
        self._client_id = client_id
        self._idle: dict[Address, list[Connection]] = {}
        self._brokers: dict[int, Address] = {}
        self._topics: dict[str, Topic] = {}
        self._coordinators: dict[str, Address] = {}

    def attempt(self, action: Callable[[Deadline], T], timeout_s: float) -> T:
        """Call an action, and retry it after transient errors until the deadline."""
        deadline = self.waiting.deadline(timeout_s)
        number = 1
        while True:
            try:
                return action(deadline)
            except GoQueueError as error:
                if not self.may_try_again(error, number, deadline):
                    raise
            number += 1

    def may_try_again(self, error: GoQueueError, attempt: int, deadline: Deadline) -> bool:
        """Pause before a retry and drop metadata that may be stale; False if a retry cannot help or is too late."""
        if not error.retriable or isinstance(error, NotFound):
            return False
        # These come from the right broker, which only asks to retry later.
        if not isinstance(error, ConcurrentTransactions | Throttled):
            self.forget()
        return self.waiting.pause(attempt, deadline)

    def forget(self) -> None:
        """Close idle connections, and drop the metadata of topics and coordinators."""
        self._topics.clear()
        self._coordinators.clear()
        for connections in self._idle.values():
            while connections:
                connections.pop().close()

    @contextmanager
    def connected(self, address: Address, deadline: Deadline) -> Iterator[Connection]:
        """Lend a connection for the length of a block."""
        connection = self.take(address, deadline)
        try:
            yield connection
        finally:
            self.give_back(connection)

    def take(self, address: Address, deadline: Deadline) -> Connection:
        """Return a connection that has to be given back."""
        idle = self._idle.get(address)
        if idle:
            return idle.pop()
        try:
            return connect(address, self._client_id, deadline)
        except ServerUnreachable as error:
            if address in self._bootstrap:
                raise
            hint = "a broker names that address; its advertised_host and port have to be reachable from here"
            raise ServerUnreachable(error.message, hint=hint) from error

    def give_back(self, connection: Connection) -> None:
        """Keep a connection for the next caller if it is idle and works; close it otherwise."""
        idle = self._idle.setdefault(connection.address, [])
        if connection.is_idle and len(idle) < _IDLE_MAX:
            idle.append(connection)
        else:
            connection.close()

    @contextmanager
    def anybody(self, deadline: Deadline) -> Iterator[Connection]:
        """Lend a connection to any broker; errors name the addresses that were tried."""
        connection = self._take_any(deadline)
        try:
            yield connection
        finally:
            self.give_back(connection)

    def _take_any(self, deadline: Deadline) -> Connection:
        failures: list[GoQueueError] = []
        # The first addresses again, too: all brokers may have moved.
        addresses = list(dict.fromkeys((*self._brokers.values(), *self._bootstrap)))
        for number, address in enumerate(addresses):
            try:
                # A silent broker leaves time for the others.
                return self.take(address, deadline.sooner(deadline.left_s / (len(addresses) - number)))
            except (ServerUnreachable, RequestTimedOut, BadReply, NotOffered) as error:
                failures.append(error)
        raise _nobody(failures)

    def list_topics(self, names: Sequence[str] | None, deadline: Deadline) -> list[Topic]:
        """Request the metadata of some topics, or of all, and keep them."""
        with self.anybody(deadline) as connection:
            reply = wire.read_metadata(connection.call(ApiVersion.METADATA, [wire.metadata(names)], deadline))
        self._brokers = {broker.node_id: Address(broker.host, broker.port) for broker in reply.brokers}
        topics = [self._topic(listed) for listed in reply.topics]
        self._topics.update((topic.name, topic) for topic in topics if topic.error is None)
        return topics

    def nodes(self) -> dict[int, Address]:
        """Return the brokers of the last metadata."""
        return self._brokers

    def leader(self, place: TopicPartition, deadline: Deadline) -> Leader:
        """Return the leader of a partition; UnknownTopic or UnknownPartition if it does not exist."""
        topic = self._topics.get(place.topic) or self._found(place.topic, deadline)
        if not 0 <= place.partition < len(topic.partitions):
            raise UnknownPartition(
                f"topic {place.topic!r} has no partition {place.partition}, it has {len(topic.partitions)}"
            )
        partition = topic.partitions[place.partition]
        if partition.leader is None:
            raise partition.error or refusal(5, str(place))
        return Leader(topic, partition, partition.leader)

    def coordinator(self, transactional_id: str, deadline: Deadline) -> Address:
        """Return the coordinator of a transactional id."""
        known = self._coordinators.get(transactional_id)
        if known is None:
            with self.anybody(deadline) as connection:
                request = wire.find_coordinator(transactional_id)
                reply = wire.read_coordinator(connection.call(ApiVersion.FIND_COORDINATOR, [request], deadline))
            if reply.error:
                raise refusal(reply.error, f"transactional id {transactional_id!r}", reply.message)
            known = self._coordinators[transactional_id] = Address(reply.broker.host, reply.broker.port)
        return known

    def close(self) -> None:
        """Close all idle connections, and end pauses."""
        self.waiting.close()
        self.forget()

    def _found(self, name: str, deadline: Deadline) -> Topic:
        for topic in self.list_topics([name], deadline):
            if topic.error is not None:
                raise topic.error
            if topic.name == name:
                return topic
        raise BadReply(f"the broker was asked for topic {name!r} and spoke of others")

    def _topic(self, listed: wire.TopicListed) -> Topic:
        partitions = sorted(listed.partitions, key=lambda each: each.partition)
        if not listed.error and [each.partition for each in partitions] != list(range(len(partitions))):
            raise BadReply(f"the partitions of {listed.name!r} are not numbered from 0 on")
        return Topic(
            listed.name,
            listed.id,
            listed.is_internal,
            tuple(self._partition(listed.name, each) for each in partitions),
            _topic_error(listed),
        )

    def _partition(self, topic: str, listed: wire.PartitionListed) -> Partition:
        leader = self._brokers.get(listed.leader_id)
        error = None
        if leader is None or listed.error:
            error = refusal(listed.error or 5, str(TopicPartition(topic, listed.partition)))
        return Partition(listed.partition, leader, listed.leader_epoch, error)


def _topic_error(listed: wire.TopicListed) -> GoQueueError | None:
    if listed.error == NO_ERROR:
        return None
    if listed.error in {UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID}:
        return UnknownTopic(f"there is no topic {listed.name!r}", hint="make it first; reading makes none")
    return refusal(listed.error, f"topic {listed.name!r}")


def _nobody(failures: Sequence[GoQueueError]) -> GoQueueError:
    """Return the error for a cluster without a usable address; retriable if one of the errors is."""
    if len(failures) == 1 and not isinstance(failures[0], ServerUnreachable):
        return failures[0]
    tried = "; ".join(str(failure) for failure in failures)
    passing = [failure for failure in failures if failure.retriable]
    if passing:
        return ServerUnreachable(
            f"no broker can be reached: {tried}", hint="start one with `goqueue serve`, or name another HOST:PORT"
        )
    return BadReply(f"no broker can be used: {tried}")

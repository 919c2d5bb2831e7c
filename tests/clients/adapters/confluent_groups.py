"""confluent-kafka in groups: librdkafka with the classic protocol, eager and cooperative, and with the broker's."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.clients.adapters.confluent import broker_refusals, record_of
from tests.clients.contract import DEADLINE_S, Place, Record
from tests.clients.group_contract import HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS, Joining

CLASSIC: Mapping[str, str | int] = {
    "group.protocol": "classic",
    "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
    "session.timeout.ms": SESSION_TIMEOUT_MS,
}
COOPERATIVE: Mapping[str, str | int] = {**CLASSIC, "partition.assignment.strategy": "cooperative-sticky"}
BROKER_ASSIGNS: Mapping[str, str | int] = {"group.protocol": "consumer"}


class ConfluentMember:
    """A consumer of confluent-kafka; it takes note of what it is given and what it has to give back."""

    def __init__(self, bootstrap: str, joining: Joining, settings: Mapping[str, str | int] = CLASSIC) -> None:
        self.revoked: list[Place] = []
        self.commits_at_revocation = False
        static = {} if joining.instance_id is None else {"group.instance.id": joining.instance_id}
        self._consumer: Consumer | None = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": joining.group,
                "client.id": "confluent",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 100,
                **static,
                **settings,
            }
        )
        self._consumer.subscribe(list(joining.topics), on_revoke=self._note_revoked, on_lost=self._note_lost)

    def poll(self, within_s: float) -> list[Record]:
        return [record_of(message) for message in self._open().consume(500, within_s)]

    def assigned(self) -> frozenset[Place]:
        return frozenset(Place(each.topic, each.partition) for each in self._open().assignment())

    def commit(self) -> None:
        with broker_refusals():
            consumer = self._open()
            consumer.commit(offsets=_read(consumer.position(consumer.assignment())), asynchronous=False)

    def seek(self, place: Place, offset: int) -> None:
        self._open().seek(TopicPartition(*place, offset))

    def committed(self, place: Place) -> int | None:
        with broker_refusals():
            (found,) = self._open().committed([TopicPartition(*place)], timeout=DEADLINE_S)
        return None if found.offset < 0 else found.offset

    def leave(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _open(self) -> Consumer:
        assert self._consumer is not None
        return self._consumer

    def _note_revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.revoked += [Place(each.topic, each.partition) for each in partitions]
        if self.commits_at_revocation:
            try:
                consumer.commit(asynchronous=False)
            except KafkaException as error:
                # Nothing was read since the last commit.
                assert error.args[0].code() == KafkaError._NO_OFFSET, error  # noqa: PT017

    def _note_lost(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        raise AssertionError(f"the member has lost {partitions}")


def _read(positions: list[TopicPartition]) -> list[TopicPartition]:
    """Return those of which something was read; without offsets, the library never commits an earlier one again."""
    return [each for each in positions if each.offset >= 0]

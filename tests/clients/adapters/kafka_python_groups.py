"""kafka-python in groups; it rebalances while it is polled."""

from __future__ import annotations

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition  # type: ignore[import-untyped]

from tests.clients.adapters.kafka_python import broker_refusals, record_of
from tests.clients.contract import DEADLINE_S, Place, Record
from tests.clients.group_contract import HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS, Joining


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Takes note of what has to be given back."""

    def __init__(self, revoked: list[Place]) -> None:
        self._revoked = revoked

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self._revoked += [Place(each.topic, each.partition) for each in revoked]

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        pass


class KafkaPythonMember:
    """A consumer of kafka-python."""

    def __init__(self, bootstrap: str, joining: Joining) -> None:
        self.revoked: list[Place] = []
        self._consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=joining.group,
            client_id="kafka-python",
            group_instance_id=joining.instance_id,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            fetch_max_wait_ms=100,
        )
        # A leader that does not know the topics yet assigns nothing, and may not notice when it gets to know them.
        self._consumer.topics()
        self._consumer.subscribe(list(joining.topics), listener=_Listener(self.revoked))

    def poll(self, within_s: float) -> list[Record]:
        with broker_refusals():
            polled = self._consumer.poll(timeout_ms=int(within_s * 1000))
        return [record_of(record) for records in polled.values() for record in records]

    def assigned(self) -> frozenset[Place]:
        return frozenset(Place(each.topic, each.partition) for each in self._consumer.assignment())

    def commit(self) -> None:
        with broker_refusals():
            self._consumer.commit(timeout_ms=DEADLINE_S * 1000)

    def seek(self, place: Place, offset: int) -> None:
        self._consumer.seek(TopicPartition(*place), offset)

    def committed(self, place: Place) -> int | None:
        with broker_refusals():
            found: int | None = self._consumer.committed(TopicPartition(*place), timeout_ms=DEADLINE_S * 1000)
        return found

    def leave(self) -> None:
        self._consumer.close()

"""aiokafka in groups; it rebalances in the background."""

from __future__ import annotations

from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition

from tests.clients.adapters.aio import LoopThread, record_of
from tests.clients.contract import Place, Record
from tests.clients.group_contract import HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS, Joining


class AiokafkaMember:
    """A consumer of aiokafka, with a loop of its own."""

    def __init__(self, bootstrap: str, joining: Joining) -> None:
        self._loop = LoopThread()
        self._is_open = True
        self._consumer = self._loop.run(self._start(bootstrap, joining))

    @staticmethod
    async def _start(bootstrap: str, joining: Joining) -> Any:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=joining.group,
            client_id="aiokafka",
            group_instance_id=joining.instance_id,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            fetch_max_wait_ms=100,
        )
        await consumer.start()
        consumer.subscribe(list(joining.topics))
        return consumer

    def poll(self, within_s: float) -> list[Record]:
        polled = self._loop.run(self._consumer.getmany(timeout_ms=int(within_s * 1000)))
        return [record_of(record) for records in polled.values() for record in records]

    def assigned(self) -> frozenset[Place]:
        return frozenset(Place(each.topic, each.partition) for each in self._consumer.assignment())

    def commit(self) -> None:
        self._loop.run(self._consumer.commit())

    def seek(self, place: Place, offset: int) -> None:
        self._consumer.seek(TopicPartition(*place), offset)

    def committed(self, place: Place) -> int | None:
        found: int | None = self._loop.run(self._consumer.committed(TopicPartition(*place)))
        return found

    def leave(self) -> None:
        if self._is_open:
            self._is_open = False
            self._loop.run(self._consumer.stop())
            self._loop.close()

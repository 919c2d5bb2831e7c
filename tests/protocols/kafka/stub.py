"""What stands for a broker where only names are looked up."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast
from uuid import UUID

from goqueue.errors import UnknownPartition, UnknownTopic, UnknownTopicId
from goqueue.runtime.partition import Partition

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.broker.topics.open_topic import OpenTopic


class _NoTopics:
    """A broker that has no topic; nothing else of it is needed to read a request."""

    def __init__(self) -> None:
        # It is its own service of topics.
        self.topics = self
        self.by_wire_name: dict[bytes, OpenTopic] = {}

    def topic(self, name: str) -> OpenTopic:
        raise UnknownTopic(f"there is no topic {name!r}")

    def topic_by_id(self, topic_id: UUID) -> OpenTopic:
        raise UnknownTopicId(f"there is no topic with id {topic_id}")


NO_TOPICS = cast("Broker", _NoTopics())


class _OneTopic(_NoTopics):
    """A broker that has the topic `orders`, all of whose partitions are one and the same, and good for nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.only = Partition.__new__(Partition)
        self.by_wire_name = {b"orders": cast("OpenTopic", self)}

    def partition(self, index: int) -> Partition:
        if index < 0:
            raise UnknownPartition(f"there is no partition {index}")
        return self.only


ONE_TOPIC = cast("Broker", _OneTopic())

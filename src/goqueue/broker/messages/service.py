"""Messages: what publishing and reading need of a broker."""

from __future__ import annotations

from collections.abc import Callable

from goqueue.broker.core import Core, Service
from goqueue.broker.topics.service import TopicService
from goqueue.machines.transactions.values import ProducerEpoch
from goqueue.model.topic import TopicPartition

WriterCheck = Callable[[str, ProducerEpoch, TopicPartition], None]
"""Raises unless the transaction of an id is under way, belongs to a producer and has a partition."""


class MessageService(Service):
    """Publishes and reads the messages of topics; transactions, which are above, set `check_writer`."""

    check_writer: WriterCheck

    def __init__(self, core: Core, topics: TopicService) -> None:
        super().__init__(core)
        self.topics = topics

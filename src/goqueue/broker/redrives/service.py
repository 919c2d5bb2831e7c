"""RedriveMachine: the coordinator of the jobs, and their driver; there are few, so one machine has all of them."""

from __future__ import annotations

from uuid import UUID

from typing_extensions import override

from goqueue.broker.coordinator import Coordinator
from goqueue.broker.core import Core
from goqueue.broker.dead_letters.service import DeadLetterService
from goqueue.broker.internal_topics import REDRIVES_TOPIC
from goqueue.broker.messages.service import MessageService
from goqueue.broker.redrives.runner import RedriveRunner
from goqueue.broker.topics.service import TopicService
from goqueue.broker.transactions.service import TransactionService
from goqueue.machines.redrives.machine import RedriveMachine
from goqueue.machines.redrives.redriven import Redriven
from goqueue.machines.redrives.values import Command, DropLetters, Redrive
from goqueue.model.topic import Topic


class RedriveService(Coordinator[RedriveMachine, Command]):
    """All redrives of a broker."""

    def __init__(
        self,
        core: Core,
        topics: TopicService,
        messages: MessageService,
        transactions: TransactionService,
        dead_letters: DeadLetterService,
    ) -> None:
        super().__init__(core, topics, REDRIVES_TOPIC, RedriveMachine, partitions=1)
        self.messages = messages
        self.transactions = transactions
        self.dead_letters = dead_letters
        self.driver = RedriveRunner(self)
        dead_letters.redrives = self

    @property
    def redriven(self) -> Redriven:
        """Which dead letters were published again."""
        machine = self.peek("")
        return Redriven() if machine is None else machine.redriven

    def of_topic(self, topic_id: UUID) -> Redrive | None:
        """Return the redrive of a topic that is under way."""
        machine = self.peek("")
        return None if machine is None else machine.of_topic(topic_id)

    @override
    async def resume(self) -> None:
        self.look_around()

    @override
    def look_around(self) -> None:
        self.driver.look_at_all()

    @override
    async def topic_dropped(self, topic: Topic) -> None:
        await self.submit_to_all(DropLetters(topic.id))

    @override
    def pass_time(self) -> None:
        self.driver.pass_time()

    @override
    def close(self) -> None:
        self.driver.close()
        super().close()

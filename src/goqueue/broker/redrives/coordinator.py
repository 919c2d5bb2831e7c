"""The machine of redrives, and who drives them: there are few, so one machine has all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from goqueue.broker.coordinator import Coordinator
from goqueue.broker.redrives.runner import Redriver
from goqueue.machines.redrives.machine import RedriveMachine
from goqueue.machines.redrives.redriven import Redriven
from goqueue.machines.redrives.values import Command, Redrive

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker

REDRIVES_TOPIC = "__redrives"


class RedriveCoordinator(Coordinator[RedriveMachine, Command]):
    """All redrives of a broker."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker, REDRIVES_TOPIC, 1, RedriveMachine)
        self.driver = Redriver(broker)

    @property
    def redriven(self) -> Redriven:
        """Which letters were published again."""
        machine = self.peek("")
        return Redriven() if machine is None else machine.redriven

    def of_topic(self, topic_id: UUID) -> Redrive | None:
        """Return the redrive of a topic that is under way."""
        machine = self.peek("")
        return None if machine is None else machine.of_topic(topic_id)

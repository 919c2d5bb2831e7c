"""The machines of queue groups, and what goes with them: receipts, receives that wait, dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.broker.coordinator import Coordinator
from goqueue.broker.queue_offers import OpenBatches
from goqueue.broker.queue_waits import Waits
from goqueue.broker.receipts import Receipts
from goqueue.broker.undertaker import Undertaker
from goqueue.machines.deliveries import Deliveries
from goqueue.machines.delivery_commands import Command

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker

DELIVERIES_TOPIC = "__deliveries"


class QueueCoordinator(Coordinator[Deliveries, Command]):
    """All queue groups of a broker."""

    def __init__(self, broker: Broker, partitions: int) -> None:
        super().__init__(broker, DELIVERIES_TOPIC, partitions, Deliveries, changed=self._has_changed)
        self.receipts = Receipts()
        self.waits = Waits()
        self.batches = OpenBatches()
        self.undertaker = Undertaker(broker)

    def _has_changed(self, machine: Deliveries) -> None:
        self.waits.changed(machine)
        self.undertaker.look(machine)

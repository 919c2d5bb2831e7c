"""TransactionMachine: the coordinator of transactional ids, the writer of markers, and ids of producers."""

from __future__ import annotations

from functools import partial

from typing_extensions import override

from goqueue.broker.coordinator import Coordinator
from goqueue.broker.core import Core
from goqueue.broker.groups.service import GroupService
from goqueue.broker.internal_topics import TRANSACTIONS_TOPIC
from goqueue.broker.messages.service import MessageService
from goqueue.broker.topics.service import TopicService
from goqueue.broker.transactions.coordination import verify
from goqueue.broker.transactions.hanging import abort_unknown_transactions, forget_offsets_of_unknown_transactions
from goqueue.broker.transactions.marker_writer import TransactionMarkerWriter
from goqueue.broker.transactions.producers import ProducerIds
from goqueue.machines.transactions.machine import TransactionMachine
from goqueue.machines.transactions.values import Command
from goqueue.model.sinks import coordination_key


class TransactionService(Coordinator[TransactionMachine, Command]):
    """All transactions of a broker."""

    def __init__(self, core: Core, topics: TopicService, messages: MessageService, groups: GroupService) -> None:
        self.markers = TransactionMarkerWriter(self)
        super().__init__(core, topics, TRANSACTIONS_TOPIC, TransactionMachine, self.markers.look, coordination_key)
        self.producer_ids = ProducerIds()
        self.messages = messages
        self.groups = groups
        messages.check_writer = partial(verify, self)

    @override
    async def resume(self) -> None:
        abort_unknown_transactions(self)
        await forget_offsets_of_unknown_transactions(self)
        self.look_around()

    @override
    def look_around(self) -> None:
        self.markers.look_at_all()

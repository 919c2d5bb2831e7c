"""The broker: it composes the services, lists them once, and decides nothing itself. Owned by one event loop."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import PurePath

from goqueue.broker.core import Core, Service
from goqueue.broker.dead_letters.service import DeadLetterService
from goqueue.broker.groups.service import GroupService
from goqueue.broker.messages.service import MessageService
from goqueue.broker.queues.service import QueueService
from goqueue.broker.redrives.service import RedriveService
from goqueue.broker.runs import RunService
from goqueue.broker.share_groups.service import ShareGroupService
from goqueue.broker.topics.service import TopicService
from goqueue.broker.transactions.service import TransactionService
from goqueue.model.broker_options import BrokerOptions
from goqueue.seams.clock import Clock
from goqueue.seams.disk import Disk
from goqueue.seams.entropy import Entropy
from goqueue.seams.sink import Sink
from goqueue.seams.syncs import Syncs


class Broker:
    """One broker over one data directory; `start` it before use, `stop` it at the end."""

    _is_started = False

    def __init__(
        self,
        disk: Disk,
        directory: PurePath,
        options: BrokerOptions,
        *,
        clock: Clock,
        entropy: Entropy,
        sink: Sink,
        threads: Executor | None = None,
        syncs: Syncs | None = None,
    ) -> None:
        self.core = core = Core(disk, directory, options, clock, entropy, sink, threads, syncs)
        self.topics = TopicService(core)
        self.messages = MessageService(core, self.topics)
        self.queues = QueueService(core, self.topics, self.messages)
        self.share_groups = ShareGroupService(core, self.topics, self.queues)
        self.groups = GroupService(core, self.topics, self.messages, self.queues, self.share_groups)
        self.transactions = TransactionService(core, self.topics, self.messages, self.groups)
        self.dead_letters = DeadLetterService(core, self.topics, self.messages, self.queues)
        self.redrives = RedriveService(core, self.topics, self.messages, self.transactions, self.dead_letters)
        self.runs = RunService(core)
        self.services: Sequence[Service] = (
            self.topics,
            self.messages,
            self.queues,
            self.share_groups,
            self.groups,
            self.transactions,
            self.dead_letters,
            self.redrives,
            self.runs,
        )
        self.topics.listeners = self.services

    async def start(self) -> None:
        """Read everything that is stored and go on with it; Corrupt or LogOffline if the catalogue cannot be read."""
        for service in self.services:
            await service.load()
        for service in self.services:
            await service.resume()
        self.topics.report_unknown_directories()
        self.core.check_disk()
        self._is_started = True
        self.topics.start_maintenance()

    def release(self) -> None:
        """Answer all who wait for something that may take long; let no more time pass."""
        for service in self.services:
            service.close()

    async def stop(self) -> None:
        """End all work and make every log durable; harmless if the broker was never started."""
        self.topics.stop_maintenance()
        self.release()
        await self.core.tasks.drain()
        await self.topics.close_logs()
        if self._is_started:
            self._is_started = False
            await self.topics.store_closed_states()

    async def maintain(self) -> None:
        """Do now what is due by now, and look after all logs once."""
        for service in self.services:
            service.pass_time()
        await self.topics.maintain()

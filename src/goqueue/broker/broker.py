"""The broker: it composes catalogue, open topics, coordinators and the admission, and decides nothing itself.

Everything durable is a log below the data directory, named `TOPIC-PARTITION`; the catalogue is the topic
`__catalog`. A topic can be used once the catalogue has it durably and its logs are open. Owned by one event loop.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath
from typing import NamedTuple
from uuid import UUID

from goqueue.broker.admission import Admission
from goqueue.broker.coordinator import Coordinator
from goqueue.broker.dead_letters.stats import LetterCounts
from goqueue.broker.events import BatchUnreadable, DiskGuard, PartitionUnavailable, RemovalFailed, UnknownDirectory
from goqueue.broker.queues.coordinator import QueueCoordinator
from goqueue.broker.queues.receipts import RECEIPT_KEY_BYTES, Receipts
from goqueue.broker.queues.start_positions import retreat_all
from goqueue.broker.redrives.coordinator import RedriveCoordinator
from goqueue.broker.share_groups.sessions import Shares
from goqueue.broker.topics.retention_watch import RetentionWatch
from goqueue.broker.transactions.hanging import abort_unknown_transactions, forget_offsets_of_unknown_transactions
from goqueue.broker.transactions.marker_writer import Finisher
from goqueue.broker.transactions.producers import ProducerIds
from goqueue.errors import (
    Corrupt,
    GoQueueError,
    LogOffline,
    Unavailable,
    UnknownFiles,
    UnknownPartition,
    UnknownTopic,
    UnknownTopicId,
    UnreadableBatch,
)
from goqueue.log.closed_state import NEVER_WRITTEN, ClosedState
from goqueue.log.file_cache import FileCache
from goqueue.log.log import Log
from goqueue.machines.catalog import Catalog, Command, ForgetTopic, NameCluster, NoteClock
from goqueue.machines.groups.commands import DropTopicOffsets
from goqueue.machines.groups.consumer.heartbeat_pace import HeartbeatPace
from goqueue.machines.groups.machine import Command as GroupCommand
from goqueue.machines.groups.machine import GroupMachine
from goqueue.machines.groups.values import KnownTopic
from goqueue.machines.queues.commands import DropQueueTopic as QueueDropTopic
from goqueue.machines.redrives.values import DropLetters
from goqueue.machines.runs.table import JOB, PIPELINE, RunTable
from goqueue.machines.runs.values import JobReport, RunReport
from goqueue.machines.transactions.machine import TransactionMachine
from goqueue.machines.transactions.values import Command as TransactionCommand
from goqueue.model.broker_options import BrokerOptions
from goqueue.model.log_settings import Cleanup, LogSettings
from goqueue.model.sinks import coordination_key
from goqueue.model.topic import Topic, TopicPartition, is_internal
from goqueue.model.topic_settings import TopicSettings, parse
from goqueue.runtime.clean_shutdown import CLOSED_STATES_LOG, TopicIdPartition, store_closed_states, take_closed_states
from goqueue.runtime.loading import open_logs
from goqueue.runtime.maintenance import LogMaintenance
from goqueue.runtime.opened_batches import OpenedBatches
from goqueue.runtime.partition import Partition
from goqueue.runtime.shard import Shard
from goqueue.runtime.tasks import Tasks
from goqueue.runtime.waiters import turns
from goqueue.seams.clock import Clock
from goqueue.seams.disk import Disk, remove_tree
from goqueue.seams.entropy import Entropy
from goqueue.seams.sink import Sink
from goqueue.seams.syncs import Syncs

CATALOG_TOPIC = "__catalog"
GROUPS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transactions"
COORDINATOR_PARTITIONS = 50
REPAIR_SUFFIX = ".repair"
"""Behind the name of a log that `goqueue log repair` is writing."""
SET_ASIDE = ".damaged-"
"""Behind the name of a log that was set aside, before a number."""
# After so many others have a turn while topics are put to use.
_PARTITIONS_AT_A_TIME = 200
_CREATIONS_AT_A_TIME = 16
_CATALOG_SETTINGS = TopicSettings(log=LogSettings(cleanup=Cleanup.COMPACT, retention_ms=-1, segment_bytes=1024 * 1024))


@dataclass(slots=True, eq=False)
class OpenTopic:
    """A topic in use; a partition whose log could not be opened is there as the reason why."""

    topic: Topic
    settings: TopicSettings
    partitions: list[Partition | GoQueueError]

    def partition(self, index: int) -> Partition:
        """Return a partition; UnknownPartition if there is none, Unavailable if its log cannot be used."""
        if not 0 <= index < len(self.partitions):
            raise UnknownPartition(
                f"topic {self.topic.name!r} has no partition {index}", hint=f"it has 0 to {len(self.partitions) - 1}"
            )
        found = self.partitions[index]
        error = found if isinstance(found, GoQueueError) else found.log.open_error
        if error is not None:
            # It is raised for as long as the broker runs, and must not keep the frames of earlier callers in memory.
            raise error.with_traceback(None)
        return found  # type: ignore[return-value]


class Broker:
    """One broker over one data directory; `start` it before use, `stop` it at the end.

    Making a topic takes one of `creations`: if thousands are made at once, others have their turns in between.
    """

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
        self.options = options
        self.clock = clock
        self.entropy = entropy
        self.sink = sink
        self.disk = disk
        self.directory = directory
        self.threads = threads
        self._syncs = syncs
        self.opened = OpenedBatches(self._report_unreadable)
        self.admission = Admission(clock)
        self.tasks = Tasks(sink)
        self.catalog = Catalog()
        self.producer_ids = ProducerIds()
        self.topics: dict[str, OpenTopic] = {}
        self.topics_by_id: dict[UUID, OpenTopic] = {}
        self.topics_by_wire_name: dict[bytes, OpenTopic] = {}  # as names travel: publishing decodes none
        # Changes whenever what Metadata says may have changed, so that encoded replies can be kept.
        self.revision = 0
        # By topic, since the start: how many batches could not be read.
        self.unreadable_batches: Counter[str] = Counter()
        self.known_topics: dict[str, KnownTopic] = {}  # which groups look at
        self.heartbeat_pace = HeartbeatPace()
        self.groups: Coordinator[GroupMachine, GroupCommand] = Coordinator(
            self, GROUPS_TOPIC, COORDINATOR_PARTITIONS, lambda: GroupMachine(self.known_topics, self.heartbeat_pace)
        )
        self._finisher = Finisher(self)
        self.transactions: Coordinator[TransactionMachine, TransactionCommand] = Coordinator(
            self, TRANSACTIONS_TOPIC, COORDINATOR_PARTITIONS, TransactionMachine, self._finisher.look, coordination_key
        )
        self.queues = QueueCoordinator(self, COORDINATOR_PARTITIONS)
        self.shares = Shares(self)
        self.redrives = RedriveCoordinator(self)
        self.letter_counts = LetterCounts()
        self.pipeline_runs, self.job_runs = RunTable[RunReport](PIPELINE), RunTable[JobReport](JOB)
        self._file_cache = FileCache(disk)
        self._shard: Shard[Command] | None = None
        self.retention = RetentionWatch(self)
        self.creations, self._maintenance = asyncio.Semaphore(_CREATIONS_AT_A_TIME), self._new_maintenance()

    def _new_maintenance(self) -> LogMaintenance:
        return LogMaintenance(
            lambda: [partition.flusher for partition in self.partitions],
            self.clock,
            self.threads,
            self.retention,
            before_round=self._look_around,
            interval_s=self.options.upkeep_every_s,
            retention_interval_s=self.options.retention_check_interval_ms / 1000,
        )

    @property
    def cluster_id(self) -> UUID:
        """The id that the cluster was given when it was made."""
        if self.catalog.cluster_id is None:
            raise Unavailable("the broker has not been started")
        return self.catalog.cluster_id

    async def start(self) -> None:
        """Read the catalogue and open all logs; Corrupt or LogOffline if the catalogue cannot be read."""
        self._shard = self._load_catalog()
        await self.submit(NameCluster(self.entropy.uuid(), self.entropy.token(RECEIPT_KEY_BYTES)))
        assert self.catalog.receipt_key is not None
        self.queues.receipts = Receipts(self.catalog.receipt_key)
        self.queues.wall_jump_ms = self.catalog.wall_jump_ms(self._clocks())
        await self.submit(self._clocks())
        loop = asyncio.get_running_loop()
        rests = await loop.run_in_executor(self.threads, take_closed_states, self.disk, self.directory, self.sink)
        present = frozenset(self.disk.list_directory(self.directory))
        await self.open_topics([topic for topic in self.catalog.topics if not topic.is_going], _Found(present, rests))
        self.groups.load()
        self.transactions.load()
        self.queues.load()
        await retreat_all(self)
        self.redrives.load()
        for topic in self.catalog.topics:
            if topic.is_going:
                # What cannot be removed now is in nobody's way.
                with suppress(Unavailable):
                    await self.finish_removal(topic)
        abort_unknown_transactions(self)
        await forget_offsets_of_unknown_transactions(self)
        self._finisher.look_at_all()
        self.queues.undertaker.look_at_all()
        self.redrives.driver.look_at_all()
        self._report_unknown_directories(present)
        self.check_disk()
        self._is_started = True
        self.tasks.start(self._maintenance.run(), "maintenance")

    def _load_catalog(self) -> Shard[Command]:
        if self.disk.exists(self.directory):
            for name in self.disk.list_directory(self.directory):
                if is_internal(name) and name.endswith(REPAIR_SUFFIX):
                    raise Corrupt(
                        f"the repair of {name.removesuffix(REPAIR_SUFFIX)} was interrupted", hint=self._hint()
                    )
        try:
            log = Log(
                self.disk, self._log_directory(CATALOG_TOPIC, 0), _CATALOG_SETTINGS.log, self.sink, self._file_cache
            )
            partition = Partition(CATALOG_TOPIC, 0, log, _CATALOG_SETTINGS, self.clock, self.threads, self._syncs)
            return Shard(self.catalog, partition, self.clock)
        except Corrupt as error:
            raise Corrupt(f"the catalogue of topics is damaged: {error.message}", hint=self._hint()) from error

    def _hint(self) -> str:
        return f"run: goqueue log repair {self.directory} (it shows what would be lost, and asks)"

    def _clocks(self) -> NoteClock:
        return NoteClock(self.clock.boot_id(), self.clock.now_ms(), int(self.clock.monotonic() * 1000))

    async def stop(self) -> None:
        """End all work and make every log durable; harmless if the broker was never started."""
        self._maintenance.stop()
        self.release()
        await self.tasks.drain()
        closing = list(self.partitions)
        outcomes = await asyncio.gather(*(partition.close() for partition in closing), return_exceptions=True)
        for partition, outcome in zip(closing, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                self.sink.emit(PartitionUnavailable(partition.topic, partition.index, f"not closed: {outcome!r}"))
        self._file_cache.close()
        if self._is_started:
            self._is_started = False
            loop = asyncio.get_running_loop()
            rests = self._rests()
            await loop.run_in_executor(self.threads, store_closed_states, self.disk, self.directory, self.sink, rests)

    def _rests(self) -> list[tuple[UUID, dict[int, ClosedState]]]:
        """Return what the next start is to know of the logs, which are closed, so that it need not open them.

        The broker's own topics are left out: they are read at the start anyway.
        """
        return [
            (opened.topic.id, rests)
            for opened in self.topics.values()
            if not opened.topic.is_internal and (rests := _rests_of(opened))
        ]

    def release(self) -> None:
        """Answer all who wait for a group to get on, which may take long; let no more time pass."""
        self.queues.waits.close()
        self.shares.close()
        self.redrives.driver.close()
        self.groups.close()
        self.transactions.close()
        self.queues.close()
        self.redrives.close()

    async def submit(self, command: Command) -> None:
        """Change the catalogue; durable at return."""
        if self._shard is None:
            raise Unavailable("the broker has not been started")
        await self._shard.submit(command)

    def topic(self, name: str) -> OpenTopic:
        """Return the topic of that name; UnknownTopic if there is none."""
        found = self.topics.get(name)
        if found is None:
            raise UnknownTopic(f"there is no topic {name!r}").about(name)
        return found

    def topic_by_id(self, topic_id: UUID) -> OpenTopic:
        """Return the topic with that id; UnknownTopicId if there is none."""
        found = self.topics_by_id.get(topic_id)
        if found is None:
            raise UnknownTopicId(f"there is no topic with id {topic_id}")
        return found

    def settings_of(self, topic: Topic) -> TopicSettings:
        """Return a topic's settings, its own on top of the broker's defaults."""
        return parse(topic.config, self.options.topic_defaults)

    async def open_topics(self, topics: Sequence[Topic], found: _Found | None = None) -> None:
        """Put topics that the catalogue has to use, as far as they are not in use.

        What was `found` of their logs decides which are opened now; without it none of them has files. The others
        sleep until they are used.
        """
        entries = [self._entry(topic) for topic in topics]
        found = found or _Found(frozenset(), {})
        wanted = [
            (entry, index, self._log_directory(entry.topic.name, index), found.rest_of(entry.topic, index))
            for entry in entries
            for index in range(len(entry.partitions), entry.topic.partitions)
        ]
        to_open = [(path, entry.settings.log) for entry, _, path, rest in wanted if rest is None]
        loaded = await open_logs(self.disk, to_open, self.sink, self._file_cache, self.threads)
        for number, (entry, index, path, rest) in enumerate(wanted, 1):
            log = loaded.logs.get(path) if rest is None else self._asleep(entry, path, rest)
            entry.partitions.append(
                self._unavailable(entry, index, loaded.faults[path]) if log is None else self._own(entry, index, log)
            )
            if number % _PARTITIONS_AT_A_TIME == 0:
                await turns(1)
        for entry in entries:
            self.topics[entry.topic.name] = self.topics_by_id[entry.topic.id] = entry
            self.topics_by_wire_name[entry.topic.name.encode()] = entry
            self.known_topics[entry.topic.name] = KnownTopic(entry.topic.id, len(entry.partitions))
        self._topics_changed([entry.topic.name for entry in entries])

    def _topics_changed(self, names: Collection[str]) -> None:
        self.revision += 1
        for machine in self.groups.machines:
            machine.topics_changed(names)
        self.groups.pass_time()
        self.shares.members.topics_changed()
        self.queues.waits.topics_changed()

    def partition_count(self, topic: str) -> int:
        """Return how many partitions a topic has; 0 if there is no such topic."""
        known = self.known_topics.get(topic)
        return 0 if known is None else known.partitions

    def _entry(self, topic: Topic) -> OpenTopic:
        """Return a topic as it is open, or as it will be, without the partitions that are not."""
        entry = self.topics.get(topic.name)
        if entry is None:
            return OpenTopic(topic, self.settings_of(topic), [])
        entry.topic = topic
        return entry

    def _asleep(self, entry: OpenTopic, path: PurePath, rest: ClosedState) -> Log:
        return Log(self.disk, path, entry.settings.log, self.sink, self._file_cache, closed_state=rest)

    def _own(self, entry: OpenTopic, index: int, log: Log) -> Partition:
        name, settings = entry.topic.name, entry.settings
        made = Partition(name, index, log, settings, self.clock, self.threads, self._syncs, self.opened)
        self._maintenance.add(made.flusher)
        return made

    def _report_unreadable(self, place: TopicPartition, fault: UnreadableBatch) -> None:
        self.unreadable_batches[place.topic] += 1
        self.sink.emit(BatchUnreadable(place.topic, place.partition, fault.base_offset, fault.reason))

    def _unavailable(self, entry: OpenTopic, index: int, fault: GoQueueError | OSError) -> GoQueueError:
        self.sink.emit(PartitionUnavailable(entry.topic.name, index, str(fault)))
        return fault if isinstance(fault, GoQueueError) else LogOffline(str(fault))

    async def close_topic(self, name: str) -> None:
        """Take a topic out of use at once; at return nobody touches its files any more."""
        entry = self.topics.pop(name)
        del self.topics_by_id[entry.topic.id], self.topics_by_wire_name[name.encode()], self.known_topics[name]
        self._topics_changed([name])
        partitions = [partition for partition in entry.partitions if isinstance(partition, Partition)]
        for partition in partitions:
            partition.gone = UnknownTopic(f"topic {name!r} was deleted")
            # No fault to be reported: it just takes no more.
            partition.log.fault = "the topic was deleted"
            self.queues.stretches.forget(partition)
            self.queues.timestamps.forget(partition)
            self.opened.forget(partition.place)
        self.unreadable_batches.pop(name, None)
        for partition in partitions:
            await self._maintenance.leave(partition.flusher)
            await partition.close()

    async def finish_removal(self, topic: Topic) -> None:
        """Remove the files of a topic that is going, and free its name; Unavailable if that must be tried again."""
        directories = self.directories_of(topic)

        def remove() -> None:
            for directory in directories:
                remove_tree(self.disk, directory)

        try:
            await asyncio.get_running_loop().run_in_executor(self.threads, remove)
        except OSError as error:
            self.sink.emit(RemovalFailed(topic.name, str(error)))
            raise Unavailable(
                f"topic {topic.name!r} is deleted, but not all its files are: {error}",
                hint="the next start tries again",
            ) from error
        # A topic of this name that is made later is another one: nobody has read anything of it.
        await self.groups.submit_to_all(DropTopicOffsets(topic.name))
        await self.queues.submit_to_all(QueueDropTopic(topic.name))
        await self.redrives.submit_to_all(DropLetters(topic.id))
        await self.submit(ForgetTopic(topic.name))

    def require_no_files(self, topic: str, indexes: Iterable[int]) -> None:
        """Raise UnknownFiles if there is a directory where a new partition would have its log.

        The catalogue does not know whose they are, so they must not be taken for the partition's own, nor go with it.
        """
        for index in indexes:
            path = self._log_directory(topic, index)
            if self.disk.exists(path):
                raise UnknownFiles(f"{path} is there already, and no topic knows it", hint="move it away, or remove it")

    def directories_of(self, topic: Topic) -> Sequence[PurePath]:
        """Return where the logs of a topic are."""
        return [self._log_directory(topic.name, index) for index in range(topic.partitions)]

    def _log_directory(self, topic: str, index: int) -> PurePath:
        return self.directory / f"{topic}-{index}"

    @property
    def catalog_partition(self) -> Partition:
        """The partition that holds the catalogue."""
        if self._shard is None:
            raise Unavailable("the broker has not been started")
        return self._shard.partition

    @property
    def partitions(self) -> Iterable[Partition]:
        """All partitions that can be used, the catalogue's included."""
        if self._shard is not None:
            yield self._shard.partition
        for opened in self.topics.values():
            yield from (partition for partition in opened.partitions if isinstance(partition, Partition))

    def _look_around(self) -> None:
        # A disk that cannot even say how full it is must not keep anybody from looking after the logs.
        with suppress(OSError):
            self.check_disk()
        self._finisher.look_at_all()
        self.queues.undertaker.look_at_all()
        self.redrives.driver.look_at_all()

    def obstacle_of(self, transactional_id: str) -> str | None:
        """Return what keeps a transaction whose end is decided from ending; None if nothing has failed."""
        return self._finisher.obstacle_of(transactional_id)

    async def maintain(self) -> None:
        """Look after all logs once, now: retention, compaction, checkpoints; and do what is due in groups."""
        self.groups.pass_time()
        self.transactions.pass_time()
        self.shares.pass_time()
        self.queues.pass_time()
        self.redrives.driver.pass_time()
        await self._maintenance.run_once()

    def check_disk(self) -> None:
        """Look how full the disk is, and refuse or take writes accordingly."""
        free = self.disk.free_fraction(self.directory)
        is_refusing = free < self.options.disk_guard_free_fraction
        if is_refusing != self.admission.is_disk_guarded:
            self.admission.is_disk_guarded = is_refusing
            self.sink.emit(DiskGuard(is_refusing, round(free * 100)))

    def _report_unknown_directories(self, present: Collection[str]) -> None:
        known = {f"{topic.name}-{index}" for topic in self.catalog.topics for index in range(topic.partitions)}
        known |= {f"{CATALOG_TOPIC}-0", CLOSED_STATES_LOG}
        for name in sorted(set(present) - known):
            if is_internal(name) and SET_ASIDE in name:
                continue
            path = self.directory / name
            if self.disk.exists(path) and self.disk.is_directory(path):
                self.sink.emit(UnknownDirectory(str(path)))


class _Found(NamedTuple):
    """What a start finds: the names in the data directory, and what the last stop said of logs."""

    names: Collection[str]
    closed_states: Mapping[TopicIdPartition, ClosedState]

    def rest_of(self, topic: Topic, index: int) -> ClosedState | None:
        """Return what is known of a log; None if it has to be opened to know it."""
        rest = self.closed_states.get(TopicIdPartition(topic.id, index))
        if rest is None and f"{topic.name}-{index}" not in self.names:
            return NEVER_WRITTEN
        return rest


def _rests_of(opened: OpenTopic) -> dict[int, ClosedState]:
    return {
        partition.index: rest
        for partition in opened.partitions
        if isinstance(partition, Partition) and (rest := partition.log.closed_state()) is not None
    }

"""Topics: the catalogue, the topics in use, and their logs.

Everything durable is a log below the data directory, named `TOPIC-PARTITION`; the catalogue is the topic
`__catalog`. A topic can be used once the catalogue has it durably and its logs are open.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import PurePath
from typing import NamedTuple
from uuid import UUID

from typing_extensions import override

from goqueue.broker.core import Core, Service
from goqueue.broker.events import BatchUnreadable, PartitionUnavailable, RemovalFailed, UnknownDirectory
from goqueue.broker.internal_topics import CATALOG_TOPIC, REPAIR_SUFFIX, SET_ASIDE
from goqueue.broker.topics.open_topic import OpenTopic
from goqueue.broker.topics.retention_watch import ReaderSource, RetentionWatch
from goqueue.errors import (
    Corrupt,
    GoQueueError,
    LogOffline,
    Unavailable,
    UnknownFiles,
    UnknownTopic,
    UnknownTopicId,
    UnreadableBatch,
)
from goqueue.log.closed_state import NEVER_WRITTEN, ClosedState
from goqueue.log.file_cache import FileCache
from goqueue.log.log import Log
from goqueue.machines.catalog import Catalog, Command, ForgetTopic, NameCluster, NoteClock
from goqueue.machines.groups.values import KnownTopic
from goqueue.model.log_settings import Cleanup, LogSettings
from goqueue.model.topic import Topic, TopicPartition, is_internal
from goqueue.model.topic_settings import TopicSettings, parse
from goqueue.runtime.clean_shutdown import CLOSED_STATES_LOG, TopicIdPartition, store_closed_states, take_closed_states
from goqueue.runtime.loading import open_logs
from goqueue.runtime.maintenance import LogMaintenance
from goqueue.runtime.opened_batches import OpenedBatches
from goqueue.runtime.partition import Partition
from goqueue.runtime.shard import Shard
from goqueue.runtime.waiters import turns
from goqueue.seams.disk import remove_tree

RECEIPT_KEY_BYTES = 32
# Others have a turn after so many partitions are opened.
_PARTITIONS_AT_A_TIME = 200
_CREATIONS_AT_A_TIME = 16
_CATALOG_SETTINGS = TopicSettings(log=LogSettings(cleanup=Cleanup.COMPACT, retention_ms=-1, segment_bytes=1024 * 1024))


class TopicService(Service):
    """The topics of a broker; `listeners` are the services that hear of their changes.

    Groups, which are above, set `readers`.

    Creating a topic takes one of `creations`: if thousands are created at once, others have their turns in between.
    """

    readers: ReaderSource

    def __init__(self, core: Core) -> None:
        super().__init__(core)
        self.catalog = Catalog()
        self.by_name: dict[str, OpenTopic] = {}
        self.by_id: dict[UUID, OpenTopic] = {}
        self.by_wire_name: dict[bytes, OpenTopic] = {}  # as names travel: publishing decodes none
        self.known: dict[str, KnownTopic] = {}  # as the machines of groups see them
        # Changes whenever what Metadata says may have changed, so that encoded replies can be kept.
        self.revision = 0
        # By topic, since the start: how many batches could not be read.
        self.unreadable_batches: Counter[str] = Counter()
        self.opened_batches = OpenedBatches(self._report_unreadable)
        self.creations = asyncio.Semaphore(_CREATIONS_AT_A_TIME)
        self.listeners: Sequence[Service] = ()
        self.retention = RetentionWatch(self)
        # By how much the wall clock was set while the broker was not running, as far as that is known.
        self.wall_jump_ms = 0
        self._file_cache = FileCache(core.disk)
        self._shard: Shard[Command] | None = None
        self._present: Collection[str] = ()
        self._maintenance = LogMaintenance(
            lambda: [partition.flusher for partition in self.partitions],
            core.clock,
            core.threads,
            self.retention,
            before_round=self._before_round,
            interval_s=core.options.upkeep_every_s,
            retention_interval_s=core.options.retention_check_interval_ms / 1000,
        )

    # -- the catalogue

    @property
    def cluster_id(self) -> UUID:
        """The id that the cluster got when it was created."""
        if self.catalog.cluster_id is None:
            raise Unavailable("the broker has not been started")
        return self.catalog.cluster_id

    @property
    def catalog_partition(self) -> Partition:
        """The partition that holds the catalogue."""
        return self._catalog_shard.partition

    @property
    def _catalog_shard(self) -> Shard[Command]:
        if self._shard is None:
            raise Unavailable("the broker has not been started")
        return self._shard

    async def submit(self, command: Command) -> None:
        """Change the catalogue; durable at return."""
        await self._catalog_shard.submit(command)

    @override
    async def load(self) -> None:
        """Read the catalogue and open all logs; Corrupt or LogOffline if the catalogue cannot be read."""
        self._shard = self._load_catalog()
        await self.submit(NameCluster(self.core.entropy.uuid(), self.core.entropy.token(RECEIPT_KEY_BYTES)))
        self.wall_jump_ms = self.catalog.wall_jump_ms(self._clocks())
        await self.submit(self._clocks())
        core, loop = self.core, asyncio.get_running_loop()
        states = await loop.run_in_executor(core.threads, take_closed_states, core.disk, core.directory, core.sink)
        self._present = frozenset(core.disk.list_directory(core.directory))
        await self.open([topic for topic in self.catalog.topics if not topic.is_going], _Found(self._present, states))

    def _load_catalog(self) -> Shard[Command]:
        core = self.core
        if core.disk.exists(core.directory):
            for name in core.disk.list_directory(core.directory):
                if is_internal(name) and name.endswith(REPAIR_SUFFIX):
                    raise Corrupt(
                        f"the repair of {name.removesuffix(REPAIR_SUFFIX)} was interrupted", hint=self._repair_hint()
                    )
        try:
            log = Log(
                core.disk, self._log_directory(CATALOG_TOPIC, 0), _CATALOG_SETTINGS.log, core.sink, self._file_cache
            )
            partition = Partition(CATALOG_TOPIC, 0, log, _CATALOG_SETTINGS, core.clock, core.threads, core.syncs)
            return Shard(self.catalog, partition, core.clock)
        except Corrupt as error:
            raise Corrupt(f"the catalogue of topics is damaged: {error.message}", hint=self._repair_hint()) from error

    def _repair_hint(self) -> str:
        return f"run: goqueue log repair {self.core.directory} (it shows what would be lost, and asks)"

    def _clocks(self) -> NoteClock:
        clock = self.core.clock
        return NoteClock(clock.boot_id(), clock.now_ms(), int(clock.monotonic() * 1000))

    # -- topics in use

    def topic(self, name: str) -> OpenTopic:
        """Return the topic of that name; UnknownTopic if there is none."""
        found = self.by_name.get(name)
        if found is None:
            raise UnknownTopic(f"there is no topic {name!r}").about(name)
        return found

    def topic_by_id(self, topic_id: UUID) -> OpenTopic:
        """Return the topic with that id; UnknownTopicId if there is none."""
        found = self.by_id.get(topic_id)
        if found is None:
            raise UnknownTopicId(f"there is no topic with id {topic_id}")
        return found

    def partition_count(self, topic: str) -> int:
        """Return how many partitions a topic has; 0 if there is no such topic."""
        known = self.known.get(topic)
        return 0 if known is None else known.partitions

    @property
    def partitions(self) -> Iterable[Partition]:
        """All partitions that can be used, the catalogue's included."""
        if self._shard is not None:
            yield self._shard.partition
        for opened in self.by_name.values():
            yield from (partition for partition in opened.partitions if isinstance(partition, Partition))

    def settings_of(self, topic: Topic) -> TopicSettings:
        """Return a topic's settings, its own on top of the broker's defaults."""
        return parse(topic.config, self.core.options.topic_defaults)

    def _topics_changed(self, names: Collection[str]) -> None:
        self.revision += 1
        for service in self.listeners:
            service.topics_changed(names)

    # -- opening

    async def open(self, topics: Sequence[Topic], found: _Found | None = None) -> None:
        """Put topics of the catalogue to use, unless they are in use.

        Logs that `found` knows nothing of are opened now; without `found` none of them has files. The others
        sleep until they are used.
        """
        entries = [self._entry(topic) for topic in topics]
        found = found or _Found(frozenset(), {})
        wanted = [
            (entry, index, self._log_directory(entry.topic.name, index), found.closed_state_of(entry.topic, index))
            for entry in entries
            for index in range(len(entry.partitions), entry.topic.partitions)
        ]
        to_open = [(path, entry.settings.log) for entry, _, path, closed_state in wanted if closed_state is None]
        loaded = await open_logs(self.core.disk, to_open, self.core.sink, self._file_cache, self.core.threads)
        for number, (entry, index, path, closed_state) in enumerate(wanted, 1):
            log = loaded.logs.get(path) if closed_state is None else self._asleep(entry, path, closed_state)
            entry.partitions.append(
                self._unavailable(entry, index, loaded.faults[path]) if log is None else self._own(entry, index, log)
            )
            if number % _PARTITIONS_AT_A_TIME == 0:
                await turns(1)
        for entry in entries:
            self.by_name[entry.topic.name] = self.by_id[entry.topic.id] = entry
            self.by_wire_name[entry.topic.name.encode()] = entry
            self.known[entry.topic.name] = KnownTopic(entry.topic.id, len(entry.partitions))
        self._topics_changed([entry.topic.name for entry in entries])

    def _entry(self, topic: Topic) -> OpenTopic:
        """Return a topic as it is open, or as it will be, without the partitions that are not."""
        entry = self.by_name.get(topic.name)
        if entry is None:
            return OpenTopic(topic, self.settings_of(topic), [])
        entry.topic = topic
        return entry

    def _asleep(self, entry: OpenTopic, path: PurePath, closed_state: ClosedState) -> Log:
        core = self.core
        return Log(core.disk, path, entry.settings.log, core.sink, self._file_cache, closed_state=closed_state)

    def _own(self, entry: OpenTopic, index: int, log: Log) -> Partition:
        name, settings, core = entry.topic.name, entry.settings, self.core
        made = Partition(name, index, log, settings, core.clock, core.threads, core.syncs, self.opened_batches)
        self._maintenance.add(made.flusher)
        return made

    def _report_unreadable(self, place: TopicPartition, fault: UnreadableBatch) -> None:
        self.unreadable_batches[place.topic] += 1
        self.core.sink.emit(BatchUnreadable(place.topic, place.partition, fault.base_offset, fault.reason))

    def _unavailable(self, entry: OpenTopic, index: int, fault: GoQueueError | OSError) -> GoQueueError:
        self.core.sink.emit(PartitionUnavailable(entry.topic.name, index, str(fault)))
        return fault if isinstance(fault, GoQueueError) else LogOffline(str(fault))

    # -- removal

    async def close_topic(self, name: str) -> None:
        """Take a topic out of use at once; at return nothing touches its files any more."""
        entry = self.by_name.pop(name)
        del self.by_id[entry.topic.id], self.by_wire_name[name.encode()], self.known[name]
        self._topics_changed([name])
        partitions = [partition for partition in entry.partitions if isinstance(partition, Partition)]
        for partition in partitions:
            partition.gone = UnknownTopic(f"topic {name!r} was deleted")
            # No fault to be reported: it just takes no more.
            partition.log.fault = "the topic was deleted"
            for service in self.listeners:
                service.partition_closing(partition)
            self.opened_batches.forget(partition.place)
        self.unreadable_batches.pop(name, None)
        for partition in partitions:
            await self._maintenance.leave(partition.flusher)
            await partition.close()

    async def finish_removal(self, topic: Topic) -> None:
        """Remove the files of a topic that is going, and free its name; Unavailable if that must be tried again."""
        directories = self.directories_of(topic)

        def remove() -> None:
            for directory in directories:
                remove_tree(self.core.disk, directory)

        try:
            await asyncio.get_running_loop().run_in_executor(self.core.threads, remove)
        except OSError as error:
            self.core.sink.emit(RemovalFailed(topic.name, str(error)))
            raise Unavailable(
                f"topic {topic.name!r} is deleted, but not all its files are: {error}",
                hint="the next start tries again",
            ) from error
        # A topic that gets this name later is another one: no group has read anything of it.
        for service in self.listeners:
            await service.topic_dropped(topic)
        await self.submit(ForgetTopic(topic.name))

    @override
    async def resume(self) -> None:
        for topic in self.catalog.topics:
            if topic.is_going:
                # A topic directory that cannot be removed now is harmless; the next start retries.
                with suppress(Unavailable):
                    await self.finish_removal(topic)

    def require_no_files(self, topic: str, indexes: Iterable[int]) -> None:
        """Raise UnknownFiles if there is a directory where a new partition would have its log.

        The catalogue does not know its topic, so it must not be taken for the partition's own, nor go with it.
        """
        for index in indexes:
            path = self._log_directory(topic, index)
            if self.core.disk.exists(path):
                raise UnknownFiles(f"{path} is there already, and no topic knows it", hint="move it away, or remove it")

    def directories_of(self, topic: Topic) -> Sequence[PurePath]:
        """Return where the logs of a topic are."""
        return [self._log_directory(topic.name, index) for index in range(topic.partitions)]

    def _log_directory(self, topic: str, index: int) -> PurePath:
        return self.core.directory / f"{topic}-{index}"

    def report_unknown_directories(self) -> None:
        """Report the directories that were present at the start and belong to no topic."""
        known = {f"{topic.name}-{index}" for topic in self.catalog.topics for index in range(topic.partitions)}
        known |= {f"{CATALOG_TOPIC}-0", CLOSED_STATES_LOG}
        for name in sorted(set(self._present) - known):
            if is_internal(name) and SET_ASIDE in name:
                continue
            path = self.core.directory / name
            if self.core.disk.exists(path) and self.core.disk.is_directory(path):
                self.core.sink.emit(UnknownDirectory(str(path)))

    # -- upkeep, and the end

    def start_maintenance(self) -> None:
        """Begin to look after the logs."""
        self.core.tasks.start(self._maintenance.run(), "maintenance")

    async def maintain(self) -> None:
        """Look after all logs once, now: retention, compaction, checkpoints."""
        await self._maintenance.run_once()

    def stop_maintenance(self) -> None:
        """End the upkeep of logs; a round under way ends soon."""
        self._maintenance.stop()

    def _before_round(self) -> None:
        # The logs get their upkeep even if the disk cannot say how full it is.
        with suppress(OSError):
            self.core.check_disk()
        for service in self.listeners:
            service.look_around()

    async def close_logs(self) -> None:
        """Make every log durable and close it."""
        closing = list(self.partitions)
        outcomes = await asyncio.gather(*(partition.close() for partition in closing), return_exceptions=True)
        for partition, outcome in zip(closing, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                self.core.sink.emit(PartitionUnavailable(partition.topic, partition.index, f"not closed: {outcome!r}"))
        self._file_cache.close()

    async def store_closed_states(self) -> None:
        """Store what the next start is to know of the logs, which are closed, so that it need not open them.

        The broker's own topics are left out: they are read at the start anyway.
        """
        found = [
            (opened.topic.id, states)
            for opened in self.by_name.values()
            if not opened.topic.is_internal and (states := _closed_states_of(opened))
        ]
        core, loop = self.core, asyncio.get_running_loop()
        await loop.run_in_executor(core.threads, store_closed_states, core.disk, core.directory, core.sink, found)


class _Found(NamedTuple):
    """The findings of a start: the names in the data directory, and the states of logs from the last stop."""

    names: Collection[str]
    closed_states: Mapping[TopicIdPartition, ClosedState]

    def closed_state_of(self, topic: Topic, index: int) -> ClosedState | None:
        """Return what is known of a log; None if it has to be opened to know it."""
        closed_state = self.closed_states.get(TopicIdPartition(topic.id, index))
        if closed_state is None and f"{topic.name}-{index}" not in self.names:
            return NEVER_WRITTEN
        return closed_state


def _closed_states_of(opened: OpenTopic) -> dict[int, ClosedState]:
    return {
        partition.index: closed_state
        for partition in opened.partitions
        if isinstance(partition, Partition) and (closed_state := partition.log.closed_state()) is not None
    }

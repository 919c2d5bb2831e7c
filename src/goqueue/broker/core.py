"""The base of all services of a broker: what they share, and how they take part in its life.

A service owns the state of one subject; the operations of the subject are functions whose first parameter is the
service. A service gets the services below it when it is made. It knows none of those above it: they register callbacks,
or hear of changes as a `Service`. The broker lists all services once, from the lowest to the highest.
"""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import PurePath

from goqueue.broker.admission import Admission
from goqueue.broker.events import DiskGuard
from goqueue.model.broker_options import BrokerOptions
from goqueue.model.topic import Topic
from goqueue.runtime.partition import Partition
from goqueue.runtime.tasks import Tasks
from goqueue.seams.clock import Clock
from goqueue.seams.disk import Disk
from goqueue.seams.entropy import Entropy
from goqueue.seams.sink import Sink
from goqueue.seams.syncs import Syncs


@dataclass(frozen=True, slots=True, eq=False)
class Core:
    """The seams and settings of one broker, its tasks, and admission to its operations."""

    disk: Disk
    directory: PurePath
    options: BrokerOptions
    clock: Clock
    entropy: Entropy
    sink: Sink
    threads: Executor | None = None
    syncs: Syncs | None = None
    tasks: Tasks = field(init=False)
    admission: Admission = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tasks", Tasks(self.sink))
        object.__setattr__(self, "admission", Admission(self.clock))

    def check_disk(self) -> None:
        """Look how full the disk is, and refuse or admit writes accordingly."""
        free = self.disk.free_fraction(self.directory)
        is_refusing = free < self.options.disk_guard_free_fraction
        if is_refusing != self.admission.is_disk_guarded:
            self.admission.is_disk_guarded = is_refusing
            self.sink.emit(DiskGuard(is_refusing, round(free * 100)))


class Service:
    """The state of one subject, and its part in the life of the broker; a service overrides what concerns it."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.admission = core.admission

    async def load(self) -> None:
        """Read what is stored; the services below are loaded, and nothing else runs yet."""

    async def resume(self) -> None:
        """Go on with what the last stop or a crash interrupted; all services are loaded."""

    def topics_changed(self, names: Collection[str]) -> None:
        """Take note that these topics are new, have more partitions, or cannot be used any more."""

    def partition_closing(self, partition: Partition) -> None:
        """Forget a partition whose topic is being deleted."""

    async def topic_dropped(self, topic: Topic) -> None:
        """Forget a topic whose files are removed, before its name is free; raises what must be tried again."""

    def pass_time(self) -> None:
        """Carry out what is due by now."""

    def look_around(self) -> None:
        """Try again what has failed; called about once a second."""

    def close(self) -> None:
        """Answer all that wait, and let no more time pass: the broker is about to stop."""

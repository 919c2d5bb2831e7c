"""Events that the broker reports about itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from goqueue.seams.sink import Event, Severity


@dataclass(frozen=True, slots=True)
class TopicCreated(Event):
    """A topic can be used."""

    topic: str
    partitions: int


@dataclass(frozen=True, slots=True)
class TopicDeleted(Event):
    """A topic and its files are gone."""

    topic: str


@dataclass(frozen=True, slots=True)
class RemovalFailed(Event):
    """The files of a deleted topic could not all be removed; its name stays taken until a later start has done it."""

    severity: ClassVar[Severity] = Severity.ERROR
    topic: str
    reason: str


@dataclass(frozen=True, slots=True)
class TopicChanged(Event):
    """A topic has other settings, or more partitions."""

    topic: str
    what: str


@dataclass(frozen=True, slots=True)
class PartitionUnavailable(Event):
    """The log of a partition cannot be opened; the others go on without it."""

    severity: ClassVar[Severity] = Severity.ERROR
    topic: str
    partition: int
    reason: str


@dataclass(frozen=True, slots=True)
class BatchUnreadable(Event):
    """A stored batch is damaged, or its records are malformed. The first reader that meets it reports it, once."""

    severity: ClassVar[Severity] = Severity.ERROR
    topic: str
    partition: int
    offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class UnreadableSkipped(Event):
    """A queue group goes on after a batch or a message that cannot be read, which becomes a dead letter."""

    severity: ClassVar[Severity] = Severity.WARNING
    group: str
    topic: str
    partition: int
    offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class UnknownDirectory(Event):
    """There is a log that the catalogue does not know. It is left alone: data is never removed for want of metadata."""

    severity: ClassVar[Severity] = Severity.WARNING
    path: str


@dataclass(frozen=True, slots=True)
class HangingTransaction(Event):
    """A partition held a transaction open that no coordinator knew of; it was aborted."""

    severity: ClassVar[Severity] = Severity.WARNING
    topic: str
    partition: int
    producer_id: int


@dataclass(frozen=True, slots=True)
class DoubtfulTransaction(Event):
    """A partition holds a transaction open that no coordinator knows of, and has lost records after its start.

    Its marker may be among them, so it is left as it is: it may have been committed. Readers of committed records wait
    at `first_offset` until `goqueue txn abort --partition` ends it, or its producer ends another one there.
    """

    severity: ClassVar[Severity] = Severity.ERROR
    topic: str
    partition: int
    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class DiskGuard(Event):
    """Writes are refused because the disk is nearly full, or are taken again."""

    severity: ClassVar[Severity] = Severity.WARNING
    is_refusing: bool
    free_percent: int


@dataclass(frozen=True, slots=True)
class RetentionNear(Event):
    """Retention will soon delete what a group has not read, or would have done so if it was not held back.

    `partition` is the one where least time is left, of `partitions` in which little is.
    """

    severity: ClassVar[Severity] = Severity.WARNING
    group: str
    topic: str
    partition: int
    partitions: int
    left_s: int
    is_held: bool


@dataclass(frozen=True, slots=True)
class RetentionOvertook(Event):
    """Messages that a group has not read are gone: retention removed them, or a user deleted them.

    `partition` is the one where most are gone (`lost` offsets of it), of `partitions` in which it has lost some or is
    about to.
    """

    severity: ClassVar[Severity] = Severity.WARNING
    group: str
    topic: str
    partition: int
    partitions: int
    lost: int


@dataclass(frozen=True, slots=True)
class ExpiryHeld(Event):
    """A topic keeps more than retention would, because groups have not read it; `groups` are the slowest ones."""

    topic: str
    groups: str
    held_bytes: int
    budget_bytes: int


@dataclass(frozen=True, slots=True)
class HoldExceeded(Event):
    """Unread messages exceed what a topic may hold back: the oldest are deleted unread."""

    severity: ClassVar[Severity] = Severity.WARNING
    topic: str
    groups: str
    unread_bytes: int
    budget_bytes: int


@dataclass(frozen=True, slots=True)
class QueuePaused(Event):
    """A queue group has paused itself, since too many of its messages became dead letters; it has to be resumed."""

    severity: ClassVar[Severity] = Severity.WARNING
    group: str
    reason: str


@dataclass(frozen=True, slots=True)
class DeadLettersFailed(Event):
    """Dead letters cannot be written; their messages stay in flight, and are tried again."""

    severity: ClassVar[Severity] = Severity.ERROR
    group: str
    topic: str
    partition: int
    error: str


@dataclass(frozen=True, slots=True)
class RedriveStalled(Event):
    """Dead letters cannot be published again now; the redrive stays where it is, and tries again."""

    severity: ClassVar[Severity] = Severity.WARNING
    redrive: str
    topic: str
    error: str


@dataclass(frozen=True, slots=True)
class RedriveEnded(Event):
    """A redrive has come to its end, whichever it is."""

    redrive: str
    topic: str
    state: str
    moved: int

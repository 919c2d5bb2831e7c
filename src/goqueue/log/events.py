"""Events of a log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from goqueue.seams.sink import Event, Severity


@dataclass(frozen=True, slots=True)
class LogEvent(Event):
    """Something that happened to the log in `directory`."""

    directory: str


@dataclass(frozen=True, slots=True)
class SegmentRolled(LogEvent):
    """A new segment takes the appends from now on."""

    severity: ClassVar[Severity] = Severity.DEBUG
    base_offset: int


@dataclass(frozen=True, slots=True)
class TailCut(LogEvent):
    """Recovery removed bytes that a crash had left unfinished; none of them was known to be durable."""

    severity: ClassVar[Severity] = Severity.WARNING
    path: str
    position: int
    end_offset: int
    bytes_cut: int
    reason: str


@dataclass(frozen=True, slots=True)
class DamageFound(LogEvent):
    """Stored records are unreadable. Their bytes stay where they are and their offsets are never given again."""

    severity: ClassVar[Severity] = Severity.ERROR
    path: str
    position: int
    first_offset: int
    end_offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class IndexRebuilt(LogEvent):
    """An index was missing or unusable and was made again from its segment."""

    severity: ClassVar[Severity] = Severity.WARNING
    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class ClosedStatesLost(LogEvent):
    """The closed states of the last clean stop cannot be used, so the start opens every log and takes longer."""

    severity: ClassVar[Severity] = Severity.WARNING
    reason: str


@dataclass(frozen=True, slots=True)
class CheckpointLost(LogEvent):
    """The checkpoint was missing or unreadable: the whole log was checked, and deleted records may be back."""

    severity: ClassVar[Severity] = Severity.WARNING
    reason: str


@dataclass(frozen=True, slots=True)
class ForeignFile(LogEvent):
    """A foreign file is in the log's directory; it is left alone."""

    severity: ClassVar[Severity] = Severity.WARNING
    name: str


@dataclass(frozen=True, slots=True)
class Recovered(LogEvent):
    """The log is open; `bytes_checked` of it had to be read because the last stop was not clean."""

    severity: ClassVar[Severity] = Severity.DEBUG
    start_offset: int
    end_offset: int
    bytes_checked: int


@dataclass(frozen=True, slots=True)
class WentOffline(LogEvent):
    """A fault of the disk stopped appends; reads of durable records go on."""

    severity: ClassVar[Severity] = Severity.ERROR
    reason: str


@dataclass(frozen=True, slots=True)
class OpenFailed(LogEvent):
    """A log that was not needed since the start cannot be opened now; that is tried again when it is used."""

    severity: ClassVar[Severity] = Severity.ERROR
    reason: str


@dataclass(frozen=True, slots=True)
class UpkeepFailed(LogEvent):
    """Work that can wait (indexes, removals, compaction) failed; it is tried again, unless damage stopped it."""

    severity: ClassVar[Severity] = Severity.WARNING
    reason: str


@dataclass(frozen=True, slots=True)
class SegmentsExpired(LogEvent):
    """Segments left the log by retention or because their records were deleted."""

    segments: int
    bytes_removed: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class Truncated(LogEvent):
    """The log was cut back to an offset."""

    severity: ClassVar[Severity] = Severity.WARNING
    end_offset: int


@dataclass(frozen=True, slots=True)
class Compacted(LogEvent):
    """Segments were replaced by compacted ones."""

    segments_before: int
    segments_after: int
    bytes_before: int
    bytes_after: int

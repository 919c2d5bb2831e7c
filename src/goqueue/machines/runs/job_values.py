"""Jobs as they report: what a run of a job says of itself, and how it is seen from here.

A run is one life of a job, from its start to its end, and has an id of its own: a job that goes on where it was is
another run. All that it says is bounded, since anybody may say it.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

JOB_ID = "[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
"""What the id of a run may be, as a pattern."""

NAME_MAX = 200
TEXT_MAX = 4000
_INT64_MAX = 2**63 - 1

Moment = Annotated[datetime, Meta(tz=True)]
Count = Annotated[int, Meta(ge=0, le=_INT64_MAX)]
Name = Annotated[str, Meta(min_length=1, max_length=NAME_MAX)]
Text = Annotated[str, Meta(max_length=TEXT_MAX)]
Speed = Annotated[float, Meta(ge=0, le=1e15)]


class JobRunState(StrEnum):
    """How a run says it is; the last three are its end."""

    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    STOPPING = "stopping"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"

    @property
    def is_end(self) -> bool:
        """Whether nothing more is to be expected of the run."""
        return self in {JobRunState.DONE, JobRunState.STOPPED, JobRunState.FAILED}


class JobState(StrEnum):
    """How a run is: as it says, or `lost` if it has been silent for too long."""

    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    STOPPING = "stopping"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"
    LOST = "lost"


class JobReport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a run of a job says of itself, every second or two.

    `verb` is what it does, `archive` or `replay`; `offsets_done` of `offsets` are behind it, null if that is not known.
    `read` and `written` are messages of this run. `error` is the last thing that went wrong, in a sentence.
    """

    verb: Name
    name: Name
    state: JobRunState
    started_at: Moment
    description: Text = ""
    master: Text = ""
    offsets_done: Count = 0
    offsets: Count | None = None
    read: Count = 0
    written: Count = 0
    rows_per_second: Speed = 0.0
    error: Text | None = None


class JobView(NamedTuple):
    """A run as it is seen at a moment: what it has said, `silent_ms` ago at `heard_ms` on the wall."""

    id: str
    report: JobReport
    state: JobState
    heard_ms: int
    silent_ms: int

    @property
    def is_running(self) -> bool:
        """Whether it has not ended, as far as is known."""
        return not self.report.state.is_end and self.state is not JobState.LOST

"""Runs as they report: what a run of a pipeline or job says of itself.

A run is one life of a pipeline or job, from its start to its end: a job that resumes is another run. Every field is
bounded, since any client may report.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

PIPELINE_NAME = "[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
"""The pattern of names of pipelines."""
JOB_ID = "[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
"""The pattern of ids of runs of jobs."""

PLAN_BYTES_MAX = 256 * 1024
QUERIES_MAX = 100
RULES_MAX = 100
NAME_MAX = 200
TEXT_MAX = 4000
_INT64_MAX = 2**63 - 1

Moment = Annotated[datetime, Meta(tz=True)]
Count = Annotated[int, Meta(ge=0, le=_INT64_MAX)]
Name = Annotated[str, Meta(min_length=1, max_length=NAME_MAX)]
Text = Annotated[str, Meta(max_length=TEXT_MAX)]
# Bounded, so that sums are finite.
_Amount = Annotated[float, Meta(ge=0, le=1e15)]


class DesiredState(StrEnum):
    """Whether a run should go on."""

    RUN = "run"
    STOP = "stop"


class RunState(StrEnum):
    """State that a run of a pipeline reports; the last two are final."""

    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    STOPPING = "stopping"
    ENDED = "ended"
    FAILED = "failed"

    @property
    def is_end(self) -> bool:
        """Whether the state is final."""
        return self in {RunState.ENDED, RunState.FAILED}


class PipelineState(StrEnum):
    """State of a pipeline: the one that its last run reported, or `lost` after too long a silence."""

    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    STOPPING = "stopping"
    ENDED = "ended"
    FAILED = "failed"
    LOST = "lost"


class JobRunState(StrEnum):
    """State that a run of a job reports; the last three are final."""

    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    STOPPING = "stopping"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"

    @property
    def is_end(self) -> bool:
        """Whether the state is final."""
        return self in {JobRunState.DONE, JobRunState.STOPPED, JobRunState.FAILED}


class JobState(StrEnum):
    """State of a run of a job: the one that it reported, or `lost` after too long a silence."""

    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    STOPPING = "stopping"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"
    LOST = "lost"


class QueryProgress(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Progress of a query of a run; unknown values are null.

    `batch` is the number of the last batch, which took `batch_seconds`; `rows` counts all batches of the run. `lag` is
    in messages. `state_rows` and `state_bytes` are what the query keeps between batches. `bad_rows` are by rule, and so
    are `warned_rows`, which break a rule and are processed all the same.
    """

    name: Name
    query_id: Annotated[str, Meta(max_length=NAME_MAX)] = ""
    batch: Annotated[int, Meta(ge=-1, le=_INT64_MAX)] | None = None
    rows: Count = 0
    rows_per_second: _Amount = 0.0
    batch_seconds: _Amount | None = None
    lag: Count | None = None
    state_rows: Count = 0
    state_bytes: Count = 0
    watermark: Annotated[str, Meta(max_length=NAME_MAX)] | None = None
    bad_rows: Annotated[dict[Name, Count], Meta(max_length=RULES_MAX)] = {}
    warned_rows: Annotated[dict[Name, Count], Meta(max_length=RULES_MAX)] = {}
    updated_at: Moment | None = None


class RunReport(msgspec.Struct, frozen=True, kw_only=True):
    """Report of a run of a pipeline, sent every second or two; `error` is the last failure, in a sentence."""

    run_id: str
    state: RunState
    started_at: datetime
    master: str = ""
    trigger: str = ""
    description: str = ""
    restarts: int = 0
    error: str | None = None
    queries: tuple[QueryProgress, ...] = ()


class JobReport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Report of a run of a job, sent every second or two.

    `verb` is `archive` or `replay`. `offsets_done` of `offsets` are processed, null if the total is not known. `read`
    and `written` count messages of this run. `error` is the last failure, in a sentence.
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
    rows_per_second: _Amount = 0.0
    error: Text | None = None

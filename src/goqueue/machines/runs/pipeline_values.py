"""Pipelines as they report: what a run says of itself and of its queries, and how it is seen from here.

A run is one life of a pipeline, from its start to its end. All that it says is bounded, since anybody may say it.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

PIPELINE_NAME = "[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
"""What a pipeline may be called, as a pattern."""

PLAN_BYTES_MAX = 256 * 1024
QUERIES_MAX = 100
RULES_MAX = 100
NAME_MAX = 200
TEXT_MAX = 4000
_INT64_MAX = 2**63 - 1

Moment = Annotated[datetime, Meta(tz=True)]
Count = Annotated[int, Meta(ge=0, le=_INT64_MAX)]
Name = Annotated[str, Meta(min_length=1, max_length=NAME_MAX)]
# Bounded, so that sums are numbers, too.
_Amount = Annotated[float, Meta(ge=0, le=1e15)]


class RunState(StrEnum):
    """How a run says it is; the last two are its end."""

    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    STOPPING = "stopping"
    ENDED = "ended"
    FAILED = "failed"

    @property
    def is_end(self) -> bool:
        """Whether nothing more is to be expected of the run."""
        return self in {RunState.ENDED, RunState.FAILED}


class PipelineState(StrEnum):
    """How a pipeline is: as its last run says, or `lost` if that has been silent for too long."""

    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    STOPPING = "stopping"
    ENDED = "ended"
    FAILED = "failed"
    LOST = "lost"


class DesiredState(StrEnum):
    """What is wished of a run."""

    RUN = "run"
    STOP = "stop"


class QueryProgress(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far a query of a run is; what is not known is null.

    `batch` is the number of the last one, which took `batch_seconds`; `rows` are those of all batches of the run. `lag`
    is in messages. `state_rows` and `state_bytes` are what it keeps between batches, `bad_rows` are by rule. So
    are `warned_rows`, which break a rule and go on all the same.
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
    """What a run says every second or two; `error` is the last that went wrong, in a sentence."""

    run_id: str
    state: RunState
    started_at: datetime
    master: str = ""
    trigger: str = ""
    description: str = ""
    restarts: int = 0
    error: str | None = None
    queries: tuple[QueryProgress, ...] = ()


class PipelineView(NamedTuple):
    """A pipeline as it is seen at a moment: what its last run has said, `silent_ms` ago at `heard_ms` on the wall.

    The plan is JSON, as the run has sent it.
    """

    name: str
    report: RunReport
    plan: bytes | None
    state: PipelineState
    wish: DesiredState
    heard_ms: int
    silent_ms: int

    @property
    def is_running(self) -> bool:
        """Whether there is a run that has not ended, as far as is known."""
        return not self.report.state.is_end and self.state is not PipelineState.LOST

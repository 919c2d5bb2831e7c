"""What calls about pipelines take and return; moments are text, as `2026-01-31T10:00:00Z`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class QueryProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a query is; what is not known is None.

    `batch` is the number of the last one, which took `batch_seconds`; `rows` are those of all batches of the run. `lag`
    is in messages. `state_rows` and `state_bytes` are what it keeps between batches, `bad_rows` are by rule. So
    are `warned_rows`, which break a rule and go on all the same.
    """

    name: str
    query_id: str = ""
    batch: int | None = None
    rows: int = 0
    rows_per_second: float = 0.0
    batch_seconds: float | None = None
    lag: int | None = None
    state_rows: int = 0
    state_bytes: int = 0
    watermark: str | None = None
    bad_rows: Mapping[str, int] = {}
    warned_rows: Mapping[str, int] = {}
    updated_at: str | None = None


class PipelineReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a run of a pipeline says of itself; `run_id` is its own, chosen by chance.

    `state` is starting, running, restarting, stopping, ended or failed; of the last two, nothing more is expected. The
    plan is any JSON, and need not be sent every time: the broker keeps the last one of the run.
    """

    run_id: str
    state: str
    started_at: str
    master: str = ""
    trigger: str = ""
    description: str = ""
    restarts: int = 0
    error: str | None = None
    plan: Any = None
    queries: tuple[QueryProgress, ...] = ()


class PipelineWish(msgspec.Struct, frozen=True):
    """What is wished of a run: `run` or `stop`."""

    wish: str

    @property
    def is_stop(self) -> bool:
        """Whether the run is to come to its end."""
        return self.wish == "stop"


class _Seen(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    state: str
    is_running: bool
    wish: str
    run_id: str
    started_at: str
    reported_at: str
    silent_seconds: float = 0.0
    master: str = ""
    trigger: str = ""
    description: str = ""
    restarts: int = 0
    error: str | None = None


class PipelineSummary(_Seen, frozen=True, kw_only=True):
    """A pipeline, with the sums over its queries; one that is silent, though it has not ended, is `lost`."""

    queries: int = 0
    rows: int = 0
    rows_per_second: float = 0.0
    lag: int | None = None
    bad_rows: int = 0
    warned_rows: int = 0


class Pipeline(_Seen, frozen=True, kw_only=True):
    """A pipeline with its queries, and the plan that it follows, if it has sent one."""

    queries: tuple[QueryProgress, ...] = ()
    plan: Any = None


class PipelineStop(msgspec.Struct, frozen=True, kw_only=True):
    """The run that is to stop, and how it was when that was wished; it hears of it if it `is_running`."""

    name: str
    run_id: str
    state: str
    is_running: bool

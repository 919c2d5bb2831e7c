"""Calls about jobs: their runs report how they are, and everybody else looks.

A run is one life of a job, under an id that it has chosen by chance. It reports every second or two; silent for ten
seconds before its end, it counts as lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

import msgspec

from goqueue.client.calls import Call, Reply, read_nothing, reading

# What the broker takes.
_TEXT_MAX = 4000
_NAME_MAX = 200


class JobReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a run of a job says of itself; moments are text, as `2026-01-31T10:00:00Z`.

    `state` is starting, running, restarting, stopping, done, stopped or failed; of the last three, nothing more is
    expected. `offsets_done` of `offsets` are behind it, `read` and `written` are messages of this run.
    """

    verb: str
    name: str
    state: str
    started_at: str
    description: str = ""
    master: str = ""
    offsets_done: int = 0
    offsets: int | None = None
    read: int = 0
    written: int = 0
    rows_per_second: float = 0.0
    error: str | None = None


class Job(JobReport, frozen=True, kw_only=True):
    """A run of a job as the broker sees it: one that is silent, though it has not ended, is `lost`."""

    id: str
    is_running: bool
    reported_at: str
    silent_seconds: float = 0.0


class _Jobs(msgspec.Struct):
    jobs: list[Job]


_read_jobs = reading(_Jobs)
_read_job = reading(Job)
_encode = msgspec.json.Encoder().encode


def report(run_id: str, state: JobReport) -> Call[None]:
    """Say how a run is; what is too long is cut."""
    bounded = msgspec.structs.replace(
        state,
        name=state.name[:_NAME_MAX],
        description=state.description[:_TEXT_MAX],
        master=state.master[:_TEXT_MAX],
        error=None if state.error is None else state.error[:_TEXT_MAX],
    )
    return Call("POST", f"{_path(run_id)}/report", read_nothing, body=_encode(bounded), is_repeatable=True)


def list_all() -> Call[Sequence[Job]]:
    """List the runs of jobs that were heard of within the last week, those that began last first."""

    def read(reply: Reply) -> Sequence[Job]:
        return _read_jobs(reply).jobs

    return Call("GET", "/v1/jobs", read)


def describe(run_id: str) -> Call[Job]:
    """Describe a run of a job; UnknownJob if nothing was heard of it lately."""
    return Call("GET", _path(run_id), _read_job)


def _path(run_id: str) -> str:
    return f"/v1/jobs/{quote(run_id, safe='')}"

"""Jobs and their runs."""

from __future__ import annotations

from goqueue.errors.kinds import NotFound


class UnknownJob(NotFound):
    """No run of a job has reported under that id, or it is forgotten."""

    code = "unknown_job"

"""Runs: what pipelines and jobs, which run elsewhere, report to the broker; nothing of it is stored."""

from __future__ import annotations

from goqueue.broker.core import Core, Service
from goqueue.machines.runs.table import JOB, PIPELINE, RunTable
from goqueue.machines.runs.values import JobReport, RunReport


class RunService(Service):
    """The runs that the broker knows of."""

    def __init__(self, core: Core) -> None:
        super().__init__(core)
        self.pipelines = RunTable[RunReport](PIPELINE)
        self.jobs = RunTable[JobReport](JOB)

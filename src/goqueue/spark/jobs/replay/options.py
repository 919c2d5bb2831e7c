"""What a replay is asked to do. The caller parses it once; empty texts mean the default of the broker or of the job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from goqueue.model.start_position import Start

PartitionChoice = Literal["auto", "keep", "key"]
"""The target partition of a message: the same number, that of its key, or the same if both topics have as many."""


@dataclass(frozen=True, slots=True)
class RunEnvironment:
    """The addresses of Spark and the broker, and how Spark is run."""

    master: str
    broker: str
    server: str
    stop_seconds: float
    has_spark_logs: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """The options of a replay; `written_start` and `written_end` are as the user wrote them."""

    source: str
    target: str
    start: Start
    end: Start
    written_start: str
    written_end: str
    where: str
    partitions: PartitionChoice
    has_origin: bool
    rate: int | None
    batch: int
    skips_lost: bool
    archive: str
    name: str
    checkpoint: str
    is_restart: bool
    is_dry_run: bool
    environment: RunEnvironment

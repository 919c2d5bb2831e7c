"""Where the offsets of a group are to go, as people write it on the command line."""

from __future__ import annotations

import time as clock
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import typer

from goqueue.cli.consume.start import AtTime, parse_start

if TYPE_CHECKING:
    from goqueue.client import Call, OffsetMove


class SeekTo(StrEnum):
    """Where a group goes on."""

    START = "start"
    END = "end"
    OFFSET = "offset"
    TIME = "time"
    GROUP = "group"


_WIRE = {SeekTo.START: "earliest", SeekTo.END: "latest"}


@dataclass(frozen=True, slots=True)
class Seek:
    """A move of offsets; without topics it is about all that the group has offsets for."""

    to: SeekTo
    offset: int | None
    timestamp_ms: int | None
    from_group: str | None
    topics: Sequence[str]
    partitions: Sequence[int]

    def call(self, group: str, *, is_dry_run: bool) -> Call[Sequence[OffsetMove]]:
        """Return the call that makes the move, or tells what it would do."""
        from goqueue.client import GroupPartition, groups

        named = [GroupPartition(topic, index) for topic in self.topics for index in self.partitions]
        return groups.reset(
            group,
            _WIRE.get(self.to, self.to.value),
            offset=self.offset,
            timestamp_ms=self.timestamp_ms,
            other_group=self.from_group,
            topics=self.topics if self.topics and not named else None,
            partitions=named or None,
            is_dry_run=is_dry_run,
        )


def parse_seek(
    to: SeekTo,
    *,
    offset: int | None,
    time: str | None,
    from_group: str | None,
    topics: Sequence[str] | None,
    partitions: Sequence[int] | None,
) -> Seek:
    """Return what was asked for; a mistake in the call if its parts do not fit together."""
    for needed, option, value in (
        (SeekTo.OFFSET, "--offset", offset),
        (SeekTo.TIME, "--time", time),
        (SeekTo.GROUP, "--from-group", from_group),
    ):
        if to is needed and value is None:
            raise typer.BadParameter(f"--to {needed} needs {option}", param_hint="--to")
        if to is not needed and value is not None:
            raise typer.BadParameter(f"is for --to {needed} only", param_hint=option)
    if partitions and len(topics or ()) != 1:
        raise typer.BadParameter("name the one topic whose partition it is, with --topic", param_hint="--partition")
    timestamp_ms = None if time is None else _timestamp_ms(time)
    return Seek(to, offset, timestamp_ms, from_group, topics or (), partitions or ())


def _timestamp_ms(written: str) -> int:
    try:
        start = parse_start(written, now_ms=clock.time_ns() // 1_000_000)
    except ValueError:
        start = None
    if not isinstance(start, AtTime):
        raise typer.BadParameter(
            f"{written!r} is no time such as 2026-01-31T10:00:00Z, and not '10m ago'", param_hint="--time"
        )
    return start.timestamp_ms

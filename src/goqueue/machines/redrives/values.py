"""Redrives: jobs that publish dead letters again, as they are stored, and the commands about them.

    running --cancel--> cancelling --finish--> cancelled
       |                                          |
       +------------------finish----------> done, failed

A job handles the dead letters that were there when it began, partition by partition, in batches. A batch is stored
before it runs (`PlanBatch`), and becomes the position of the job afterwards (`Advance`). After a restart, the number of
the batch finds out whether it ran.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

import msgspec

from goqueue.model.dead_letter_selection import Selection
from goqueue.model.redrives import REDRIVES_MAX, RedriveState


class Moves(msgspec.Struct, frozen=True, omit_defaults=True):
    """Results of the selected dead letters.

    `moved` were published again. `redriven` were skipped because a redrive has moved them before, `looping` because
    their message was published again too often. `failed` can never be published to their target.
    """

    moved: int = 0
    redriven: int = 0
    looping: int = 0
    failed: int = 0

    def __add__(self, other: Moves) -> Moves:
        return Moves(
            self.moved + other.moved,
            self.redriven + other.redriven,
            self.looping + other.looping,
            self.failed + other.failed,
        )

    def __sub__(self, other: Moves) -> Moves:
        return Moves(
            self.moved - other.moved,
            self.redriven - other.redriven,
            self.looping - other.looping,
            self.failed - other.failed,
        )


class RedriveTerms(msgspec.Struct, frozen=True, omit_defaults=True):
    """The settings of a redrive: which dead letters, where to, how fast, and how many.

    Without a `target`, each dead letter goes to the topic and partition that it came from. `redrives_max` bounds how
    often a message is published again, None for no bound. Dead letters that a redrive has moved before are left out,
    unless `repeats`.
    """

    selection: Selection = Selection()
    target: str | None = None
    rate: float | None = None
    limit: int | None = None
    redrives_max: int | None = REDRIVES_MAX
    repeats: bool = False


class RedriveBatch(msgspec.Struct, frozen=True, omit_defaults=True):
    """One batch: dead letters of one partition up to an offset; those in `moved` are published again."""

    number: int
    partition: int
    end: int
    moved: tuple[int, ...] = ()
    moves: Moves = Moves()
    error: str = ""


class RedriveSpan(msgspec.Struct, frozen=True):
    """Dead letters of a partition for a redrive: from `start` to `end` (exclusive), done up to `position`."""

    start: int
    position: int
    end: int


class Redrive(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The present state of a redrive; `batch` is the planned one, `number` that of the last finished one.

    `error` is why the last `failed` dead letter cannot be published. `reason` is why the redrive ended. If the topic of
    its dead letters is deleted meanwhile, it `is_orphan`.
    """

    id: str
    topic: str
    topic_id: UUID
    terms: RedriveTerms
    spans: dict[int, RedriveSpan]
    started_ms: int
    state: RedriveState = RedriveState.RUNNING
    moves: Moves = Moves()
    number: int = 0
    batch: RedriveBatch | None = None
    error: str = ""
    reason: str = ""
    ended_ms: int | None = None
    is_orphan: bool = False

    @property
    def left(self) -> int | None:
        """How many dead letters may still be published; None if there is no limit."""
        return None if self.terms.limit is None else max(self.terms.limit - self.moves.moved, 0)

    @property
    def open_partitions(self) -> list[int]:
        """The partitions with dead letters that were not handled yet."""
        return [index for index, span in sorted(self.spans.items()) if span.position < span.end]


class Start(NamedTuple):
    """Begin a redrive; RedriveRunning if there is one of the same dead letters."""

    id: str
    topic: str
    topic_id: UUID
    terms: RedriveTerms
    spans: Mapping[int, tuple[int, int]]


class PlanBatch(NamedTuple):
    """Store the next batch; replaces a planned batch that never ran."""

    id: str
    batch: RedriveBatch


class Advance(NamedTuple):
    """Mark a batch as done; the log of its partition begins at `start` now."""

    id: str
    number: int
    start: int


class Cancel(NamedTuple):
    """Ask a redrive to end."""

    id: str


class Finish(NamedTuple):
    """End a redrive whose batches are done. A redrive that is being cancelled is cancelled then."""

    id: str
    state: RedriveState
    reason: str


class DropLetters(NamedTuple):
    """Forget which dead letters of a deleted topic were redriven."""

    topic_id: UUID


Command = Start | PlanBatch | Advance | Cancel | Finish | DropLetters

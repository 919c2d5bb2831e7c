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
    """What became of letters that were meant.

    `moved` were published again. `redriven` were skipped since a redrive has moved them before, `looping` since their
    message was published again too often. `failed` can never be published where they should be.
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
    """What a redrive is to do: with which letters, where to, how fast, and how many.

    Without a `target` each letter goes to the topic and partition that it came from. Without `redrives_max` it does not
    matter how often a message was published again. What other redrives have moved is left out, unless `repeats`.
    """

    selection: Selection = Selection()
    target: str | None = None
    rate: float | None = None
    limit: int | None = None
    redrives_max: int | None = REDRIVES_MAX
    repeats: bool = False


class RedriveBatch(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is done at once: letters of one partition up to an offset, of which those in `moved` are published again."""

    number: int
    partition: int
    end: int
    moved: tuple[int, ...] = ()
    moves: Moves = Moves()
    error: str = ""


class RedriveSpan(msgspec.Struct, frozen=True):
    """The letters of a partition that a redrive is about: from `start` to `end` (exclusive), done up to `position`."""

    start: int
    position: int
    end: int


class Redrive(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A redrive as it is now; `batch` is what it is about to do, `number` is that of the last one that was done.

    `error` is why the last letter of those failed that can never be published. `reason` is why it ended.
    If the topic of its letters is deleted meanwhile, it `is_orphan`.
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
        """How many letters may still be published; None if there is no limit."""
        return None if self.terms.limit is None else max(self.terms.limit - self.moves.moved, 0)

    @property
    def open_partitions(self) -> list[int]:
        """The partitions of which not all letters were looked at."""
        return [index for index, span in sorted(self.spans.items()) if span.position < span.end]


class Start(NamedTuple):
    """Begin a redrive; RedriveRunning if there is one of the same letters."""

    id: str
    topic: str
    topic_id: UUID
    terms: RedriveTerms
    spans: Mapping[int, tuple[int, int]]


class PlanBatch(NamedTuple):
    """Say what a redrive is about to do; takes the place of a batch that was not done."""

    id: str
    batch: RedriveBatch


class Advance(NamedTuple):
    """Say that a batch was done; the log of its partition begins at `start` by now."""

    id: str
    number: int
    start: int


class Cancel(NamedTuple):
    """Wish that a redrive ends."""

    id: str


class Finish(NamedTuple):
    """End a redrive: nothing is under way. One that is to be cancelled is cancelled."""

    id: str
    state: RedriveState
    reason: str


class DropLetters(NamedTuple):
    """Forget which letters of a topic were redriven: it was deleted."""

    topic_id: UUID


Command = Start | PlanBatch | Advance | Cancel | Finish | DropLetters

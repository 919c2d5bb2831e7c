"""The plan on a terminal: one line per part, each below what it reads, with lines between them on the left.

    ○ orders      topic orders
    │             from earliest
    ● valid       expect_or_dlq positive_amount: amount > 0
    ├─╮
    │ ✕ orders.dlq
    ◆ lake        parquet out/orders

A lane carries the rows of one part to all of its readers: it begins at the part and ends at the last of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from goqueue.spark.pipelines.render.picture import Box, BoxKind, Picture

_MARKS = {BoxKind.SOURCE: "○", BoxKind.STEP: "●", BoxKind.SINK: "◆", BoxKind.DEAD: "✕"}
# Characters by where lines leave them: up, down, left, right.
_LINES = {
    (1, 1, 0, 0): "│", (0, 0, 1, 1): "─", (1, 1, 1, 1): "┼", (1, 1, 0, 1): "├", (1, 1, 1, 0): "┤",
    (0, 1, 1, 0): "╮", (0, 1, 0, 1): "╭", (1, 0, 1, 0): "╯", (1, 0, 0, 1): "╰", (1, 0, 1, 1): "┴",
    (0, 1, 1, 1): "┬", (1, 0, 0, 0): "│", (0, 1, 0, 0): "│",
}  # fmt: skip


class Part(StrEnum):
    """The kind of a piece of a line, for its colour."""

    LANE = "lane"
    NAME = "name"
    WORDS = "words"
    TITLE = "title"
    SOURCE = "source"
    STEP = "step"
    SINK = "sink"
    DEAD = "dead letters"


Piece = tuple[Part, str]
Line = list[Piece]


@dataclass(slots=True)
class _Lanes:
    """The holder of each lane, None if free; `waiting` has the readers still to come."""

    holders: list[str | None] = field(default_factory=list)
    waiting: dict[str, set[str]] = field(default_factory=dict)

    def take(self, name: str, among: Sequence[int]) -> int:
        """Give a part the first of some lanes that end with it, or else a free one."""
        free = [lane for lane, holder in enumerate(self.holders) if holder is None]
        lane = min([*among, *([] if among else free)], default=len(self.holders))
        if lane == len(self.holders):
            self.holders.append(None)
        self.holders[lane] = name
        return lane

    def trim(self) -> None:
        """Give up the free lanes on the right."""
        while self.holders and self.holders[-1] is None:
            self.holders.pop()


def draw_text(picture: Picture) -> list[Line]:
    """Return the lines of the plan."""
    readers: dict[str, set[str]] = {box.id: set() for box in picture.boxes}
    for box in picture.boxes:
        for read in box.reads:
            readers[read].add(box.id)
    lanes = _Lanes(waiting=readers)
    rows: list[tuple[Line, Box | None, str]] = []
    for box in picture.boxes:
        rows += _rows_of(box, lanes)
    margin = max((_width(line) for line, _, _ in rows), default=0)
    name_width = max((len(box.name) for box in picture.boxes), default=0)
    lines: list[Line] = [[(Part.TITLE, picture.title), (Part.WORDS, f"  {picture.subtitle}")], []]
    for line, named, words in rows:
        name = named.name if named else ""
        gap = " " * (margin - _width(line) + 1)
        padded = f"{name:<{name_width}}  " if words else name
        lines.append([*line, (Part.LANE, gap), (Part.NAME, padded), (Part.WORDS, words)] if padded.strip() or words
                     else line)  # fmt: skip
    return lines


def plain(lines: Sequence[Line]) -> str:
    """Return the lines without what is for colours."""
    return "\n".join("".join(text for _, text in line).rstrip() for line in lines) + "\n"


def _rows_of(box: Box, lanes: _Lanes) -> list[tuple[Line, Box | None, str]]:
    """Return the rows of one part: how its inputs come together, the part, and what else there is to say of it."""
    inputs = [lane for lane, holder in enumerate(lanes.holders) if holder in box.reads]
    before = list(lanes.holders)
    for read in box.reads:
        lanes.waiting[read].discard(box.id)
    ending = [lane for lane in inputs if not lanes.waiting[before[lane] or ""]]
    for lane in ending:
        lanes.holders[lane] = None
    lane = lanes.take(box.id, ending)
    rows: list[tuple[Line, Box | None, str]] = []
    if set(inputs) - {lane}:
        rows.append((_joint(before, lanes.holders, inputs, lane), None, ""))
    mark = (Part(box.kind.value), _MARKS[box.kind])
    first, *others = box.words or ("",)
    rows.append((_lane_line(lanes.holders, {lane: mark}), box, first))
    if not lanes.waiting[box.id]:
        lanes.holders[lane] = None
    rows += [(_lane_line(lanes.holders, {}), None, words) for words in others]
    lanes.trim()
    return rows


def _lane_line(holders: Sequence[str | None], marks: dict[int, Piece]) -> Line:
    line: Line = []
    for lane, holder in enumerate(holders):
        piece = marks.get(lane) or (Part.LANE, " " if holder is None else "│")
        line += [piece, (Part.LANE, " ")]
    return line


def _joint(before: Sequence[str | None], after: Sequence[str | None], inputs: Sequence[int], lane: int) -> Line:
    """Return the line on which some lanes turn to the lane of a part."""
    left, right = min([*inputs, lane]), max([*inputs, lane])
    line: Line = []
    for column in range(max(len(before), len(after))):
        up = column < len(before) and before[column] is not None
        down = column < len(after) and after[column] is not None
        is_turning = column in inputs or column == lane
        is_between = left < column < right
        # A lane that only crosses has the horizontal line on both of its sides.
        to_left = left < column <= right if is_turning else is_between
        to_right = left <= column < right if is_turning else is_between
        line += [(Part.LANE, _LINES.get((up, down, to_left, to_right), " ")), (Part.LANE, "─" if to_right else " ")]
    return line


def _width(line: Line) -> int:
    return sum(len(text) for _, text in line)

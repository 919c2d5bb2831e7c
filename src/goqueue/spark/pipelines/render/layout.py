"""Where boxes and arrows go: columns from left to right, so that few arrows cross and none runs through a box.

An arrow that passes a column takes a place in it, as if there was a flat box; so the same rules keep both apart.
Pure geometry in pixels; knows nothing of what is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from goqueue.spark.pipelines.checks.graph import Reads, layers

COLUMN_GAP = 76.0
ROW_GAP = 26.0
_PASS_HEIGHT = 10.0
_SWEEPS = 8


@dataclass(frozen=True, slots=True)
class Size:
    """How much room a box needs."""

    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a box stands."""

    left: float
    top: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        """The height of its middle."""
        return self.top + self.height / 2


@dataclass(frozen=True, slots=True)
class Route:
    """An arrow: the points that it goes through, in pairs; it is straight inside of a pair and bent between pairs."""

    start: str
    end: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """The places of all boxes and arrows, from the origin on."""

    spots: Mapping[str, Spot]
    routes: tuple[Route, ...]
    width: float
    height: float


def lay_out(reads: Reads, sizes: Mapping[str, Size]) -> Layout:
    """Return where everything goes."""
    columns = _columns(reads)
    column_of = {name: number for number, column in enumerate(columns) for name in column}
    chains = {
        (read, name): _chain(read, name, column_of[read], column_of[name], columns)
        for name, inputs in reads.items()
        for read in inputs
    }
    links = [pair for chain in chains.values() for pair in pairwise(chain)]
    neighbours: dict[str, tuple[list[str], list[str]]] = {name: ([], []) for column in columns for name in column}
    for start, end in links:
        neighbours[end][0].append(start)
        neighbours[start][1].append(end)
    _untangle(columns, neighbours)
    heights = {name: sizes[name].height if name in sizes else _PASS_HEIGHT for column in columns for name in column}
    tops = _tops(columns, neighbours, heights)
    spots = _spots(columns, tops, heights, sizes)
    return Layout(
        spots={name: spots[name] for name in sizes},
        routes=tuple(_routes(chains, spots, links)),
        width=max((spot.left + spot.width for spot in spots.values()), default=0),
        height=max((spot.top + spot.height for spot in spots.values()), default=0),
    )


def _columns(reads: Reads) -> list[list[str]]:
    """Return the layers, with each that reads nothing moved right before its first reader."""
    columns = layers(reads)
    number_of = {name: number for number, column in enumerate(columns) for name in column}
    for name in list(columns[0]) if columns else []:
        readers = [number_of[other] for other, inputs in reads.items() if name in inputs]
        if readers and min(readers) > 1:
            columns[0].remove(name)
            columns[min(readers) - 1].append(name)
    return columns


def _chain(start: str, end: str, first: int, last: int, columns: list[list[str]]) -> list[str]:
    """Return who an arrow visits, with a new place in each column between its ends."""
    chain = [start]
    for number in range(first + 1, last):
        # No box has a blank in its id.
        place = f"{start} {end} {number}"
        columns[number].append(place)
        chain.append(place)
    return [*chain, end]


def _untangle(columns: list[list[str]], neighbours: Mapping[str, tuple[list[str], list[str]]]) -> None:
    """Sort each column by the mean place of the neighbours, back and forth: few crossings are left."""
    for sweep in range(_SWEEPS):
        side = sweep % 2
        for column in columns if side == 0 else reversed(columns):
            rank = {name: place for other in columns for place, name in enumerate(other)}
            means = {
                name: _mean([float(rank[other]) for other in neighbours[name][side]], float(rank[name]))
                for name in column
            }
            column.sort(key=lambda name, means=means: means[name])  # type: ignore[misc]


def _tops(
    columns: Sequence[Sequence[str]],
    neighbours: Mapping[str, tuple[list[str], list[str]]],
    heights: Mapping[str, float],
) -> dict[str, float]:
    """Return the upper edges: as level with the neighbours as the order and the gaps allow."""
    tops: dict[str, float] = {}
    for column in columns:
        top = 0.0
        for name in column:
            tops[name] = top
            top += heights[name] + ROW_GAP
    for sweep in range(_SWEEPS * 2):
        for column in columns if sweep % 2 == 0 else reversed(columns):
            wished = []
            for name in column:
                middles = [tops[other] + heights[other] / 2 for side in neighbours[name] for other in side]
                wished.append(_mean(middles, tops[name] + heights[name] / 2) - heights[name] / 2)
            tops.update(zip(column, _apart(wished, [heights[name] for name in column]), strict=True))
    least = min(tops.values(), default=0.0)
    return {name: top - least for name, top in tops.items()}


def _apart(wished: Sequence[float], heights: Sequence[float]) -> list[float]:
    """Return the places nearest to those that are wished for, in order and with a gap between them."""
    stacked = [0.0]
    for height in heights:
        stacked.append(stacked[-1] + height + ROW_GAP)
    # Each group stands close together: the sum of what its members wish for, and their number.
    groups: list[tuple[float, int]] = []
    for wish, base in zip(wished, stacked, strict=False):
        total, count = wish - base, 1
        while groups and groups[-1][0] / groups[-1][1] >= total / count:
            above, members = groups.pop()
            total, count = total + above, count + members
        groups.append((total, count))
    means = [total / count for total, count in groups for _ in range(count)]
    return [mean + base for mean, base in zip(means, stacked, strict=False)]


def _spots(
    columns: Sequence[Sequence[str]],
    tops: Mapping[str, float],
    heights: Mapping[str, float],
    sizes: Mapping[str, Size],
) -> dict[str, Spot]:
    spots: dict[str, Spot] = {}
    left = 0.0
    for column in columns:
        width = max((sizes[name].width for name in column if name in sizes), default=0.0)
        for name in column:
            spots[name] = Spot(left, tops[name], width, heights[name])
        left += width + COLUMN_GAP
    return spots


def _routes(
    chains: Mapping[tuple[str, str], list[str]], spots: Mapping[str, Spot], links: Sequence[tuple[str, str]]
) -> list[Route]:
    leaving = _ports(spots, links, own=0)
    arriving = _ports(spots, links, own=1)
    routes = []
    for (start, end), chain in chains.items():
        points: list[tuple[float, float]] = []
        for here, there in pairwise(chain):
            right = spots[here].left + spots[here].width
            points += [(right, leaving[here, there]), (spots[there].left, arriving[here, there])]
        routes.append(Route(start, end, tuple(points)))
    return routes


def _ports(spots: Mapping[str, Spot], links: Sequence[tuple[str, str]], *, own: int) -> dict[tuple[str, str], float]:
    """Return at which height each arrow touches a box: spread over its side, in the order of the other ends."""
    by_box: dict[str, list[tuple[str, str]]] = {}
    for link in links:
        by_box.setdefault(link[own], []).append(link)
    heights: dict[tuple[str, str], float] = {}
    for name, touching in by_box.items():
        touching.sort(key=lambda link: spots[link[1 - own]].middle)
        step = min(18.0, spots[name].height / (len(touching) + 1))
        for number, link in enumerate(touching):
            heights[link] = spots[name].middle + (number - (len(touching) - 1) / 2) * step
    return heights


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default

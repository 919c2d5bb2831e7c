"""`python -m goqueue_bench.peers.chart RESULTS IMAGE...`: draw bulk publishing of all peers, from a stored comparison.

Two rows for the two durability groups, two columns: how fast, and what it costs the server. Rates are bars from zero.
Costs are a factor of hundreds apart, which takes a logarithmic scale; there a length would mean nothing, so they are
points. Every mark carries its number.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure

from goqueue_bench.peers.goqueue_broker import GoQueue
from goqueue_bench.peers.peer import Durability, Workload
from goqueue_bench.peers.report import Facts

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_OURS, _OTHERS, _TEXT, _FAINT = "#d9480f", "#9aa5b1", "#1f2933", "#616e7c"
_GROUPS = {
    Durability.LAZY: ("Answered from the page cache", "a loss of power may take the last messages with it"),
    Durability.FSYNC: ("Answered after fsync", "what is confirmed survives a loss of power"),
}
_RATE, _COST = "msgs_per_s", "server_cpu_us_per_msg"
_COST_WORDS = "server CPU per message in µs, logarithmic, less is better"
_ROW_INCHES = 0.4
_LABELS_AT, _MEANING_AT = -0.46, 0.26


def draw(document: Facts, paths: Sequence[Path]) -> None:
    """Draw a comparison into files, each in the format that its name ends in."""
    # The same result makes the same file: no random identifiers, no date.
    mpl.rcParams.update({"svg.hashsalt": "goqueue", "font.family": "DejaVu Sans", "svg.fonttype": "path"})
    rows = {group: _rows(document, group) for group in _GROUPS}
    heights = [len(each) for each in rows.values()]
    figure = Figure(figsize=(10.5, 2.4 + sum(heights) * _ROW_INCHES), facecolor="white")
    grid = figure.subplots(
        len(_GROUPS), 2, sharex="col", gridspec_kw={"height_ratios": heights, "hspace": 0.62, "wspace": 0.08}
    )
    for (left, right), (group, found) in zip(grid, rows.items(), strict=True):
        _bars(left, found)
        _points(right, found)
        _head_row(left, group)
        for axes, words in ((left, "messages per second, more is better"), (right, _COST_WORDS)):
            axes.annotate(words, (0, 1), (0, 6), **_beside(axes), fontsize=9, color=_FAINT)
    _head(grid[0][0], grid[-1][0], document)
    for path in paths:
        metadata = {"Date": None} if path.suffix == ".svg" else None
        figure.savefig(path, dpi=160, bbox_inches="tight", pad_inches=0.25, metadata=metadata)


def _rows(document: Facts, group: Durability) -> list[Facts]:
    """Return the rows of bulk publishing in a group, the fastest last, since bars are drawn from below."""
    rows = [row for row in document["results"] if (row["workload"], row["durability"]) == (Workload.PUBLISH, group)]
    return sorted(rows, key=lambda row: float(row["msgs_per_s"]["median"]))


def _bars(axes: Axes, rows: list[Facts]) -> None:
    values = [row[_RATE]["median"] for row in rows]
    bars = axes.barh(range(len(rows)), values, height=0.66, color=[_color(row) for row in rows])
    axes.bar_label(bars, [_number(value) for value in values], padding=5, fontsize=9.5, color=_TEXT)
    axes.set_xlim(0, 1.16 * max([*values, axes.get_xlim()[1] / 1.16]))
    axes.set_yticks(range(len(rows)), [row["peer"] for row in rows], fontsize=10)
    for label, row in zip(axes.get_yticklabels(), rows, strict=True):
        label.set(color=_OURS if _is_ours(row) else _TEXT, fontweight="bold" if _is_ours(row) else "normal")
    _dress(axes)


def _points(axes: Axes, rows: list[Facts]) -> None:
    values = [row[_COST]["median"] for row in rows]
    places = range(len(rows))
    axes.set_xscale("log")
    axes.hlines(places, 0.01, values, color="#cbd2d9", linewidth=1.2)
    axes.scatter(values, places, s=70, color=[_color(row) for row in rows], zorder=3)
    for place, value in zip(places, values, strict=True):
        axes.annotate(
            _number(value), (value, place), (9, 0), textcoords="offset points", va="center", fontsize=9.5, color=_TEXT
        )
    axes.set_xlim(0.05, 1000)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_yticks(places, [""] * len(rows))
    _dress(axes)


def _dress(axes: Axes) -> None:
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", which="both", length=0, colors=_FAINT, labelsize=8, labelbottom=True)
    axes.xaxis.set_major_formatter(lambda value, _: _number(value))
    axes.grid(axis="x", color="#e4e7eb", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left", "bottom"]].set_visible(False)


def _head_row(axes: Axes, group: Durability) -> None:
    title, meaning = _GROUPS[group]
    axes.annotate(title, (_LABELS_AT, 1), (0, 24), **_beside(axes), fontsize=11, fontweight="bold", color=_TEXT)
    axes.annotate(meaning, (_MEANING_AT, 1), (0, 24), **_beside(axes), fontsize=9.5, color=_FAINT)


def _head(first: Axes, last: Axes, document: Facts) -> None:
    machine = document["machine"]
    title = f"Bulk publish of {document['message_bytes']}-byte messages, one producer, one partition"
    first.annotate(title, (_LABELS_AT, 1), (0, 54), **_beside(first), fontsize=14, fontweight="bold", color=_TEXT)
    versions = ", ".join(f"{name} {facts['version']}" for name, facts in document["peers"].items())
    facts = (
        f"All in one run on {machine['cores']} cores ({machine['cpu']}, {machine['file_system']}), clients included; "
        f"medians of {document['rounds']} rounds in shuffled order.\n{versions}"
    )
    below = _beside(last) | {"va": "top"}
    last.annotate(facts, (_LABELS_AT, 0), (0, -30), **below, fontsize=8, color=_FAINT, linespacing=1.5)


def _is_ours(row: Facts) -> bool:
    return bool(row["peer"] == GoQueue.name)


def _color(row: Facts) -> str:
    return _OURS if _is_ours(row) else _OTHERS


def _beside(axes: Axes) -> dict[str, Any]:
    return {"xycoords": axes.transAxes, "textcoords": "offset points", "ha": "left", "va": "bottom"}


def _number(value: float) -> str:
    if value >= 1e6:
        return f"{value / 1e6:.3g} M"
    if value >= 1e4:
        return f"{value / 1e3:.0f} k"
    return f"{value / 1e3:.3g} k" if value >= 1e3 else f"{value:.3g}"


if __name__ == "__main__":
    results, *images = map(Path, sys.argv[1:])
    draw(json.loads(results.read_text("utf-8")), images)

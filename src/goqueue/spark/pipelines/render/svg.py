"""The plan as SVG: boxes in columns from left to right, in the colours of whoever looks at it, light or dark.

Everything that comes from a pipeline is escaped, and what XML cannot hold is replaced, so the result is well-formed
whatever a file says. Text that has no room is cut; the whole of it is shown when the pointer rests on the box.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from unicodedata import east_asian_width
from xml.sax.saxutils import escape, quoteattr

from goqueue.spark.pipelines.render.layout import Layout, Route, Size, Spot, lay_out
from goqueue.spark.pipelines.render.picture import Box, BoxKind, Picture

_MARGIN = 28.0
_HEADER = 66.0
_PADDING = 16.0
_LINE_HEIGHT = 17.0
_NAME_Y = 40.0
_WORDS_Y = 60.0
_WORDS_MAX = 5
_LINE_CHARACTERS_MAX = 38
_NAME_CHARACTERS_MAX = 30
_BOX_WIDTH_MIN = 150.0
# Widths of characters as most fonts have them; a little more than the mean, so that text stays inside.
_NAME_CHARACTER = 8.6
_WORDS_CHARACTER = 6.9
_CSS_CLASS = {BoxKind.SOURCE: "source", BoxKind.STEP: "step", BoxKind.SINK: "sink", BoxKind.DEAD: "dead"}
_ICONS = {
    BoxKind.SOURCE: "M1 1 L10 5.5 L1 10 Z",
    BoxKind.STEP: "M5.5 0 L11 5.5 L5.5 11 L0 5.5 Z",
    BoxKind.SINK: "M4 0 H7 V4.5 H10.5 L5.5 9 L0.5 4.5 H4 Z M0 9.6 H11 V11 H0 Z",
    BoxKind.DEAD: "M1.5 0 L5.5 4 L9.5 0 L11 1.5 L7 5.5 L11 9.5 L9.5 11 L5.5 7 L1.5 11 L0 9.5 L4 5.5 L0 1.5 Z",
}
_STYLE = """
text { font-family: ui-sans-serif, system-ui, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif }
.paper { fill: #f6f8fa } .box { fill: #ffffff; stroke: #d0d7de; stroke-width: 1 }
.title { font-size: 18px; font-weight: 600; fill: #1f2328 } .name { font-size: 14.5px; font-weight: 600; fill: #1f2328 }
.subtitle { font-size: 13px; fill: #59636e } .words { font-size: 12px; fill: #59636e }
.kind { font-size: 10px; font-weight: 600; letter-spacing: 0.8px }
.edge { fill: none; stroke: #8c959f; stroke-width: 1.6 } .tip { fill: #8c959f }
.edge.dead { fill: none; stroke: #cf222e; stroke-dasharray: 5 4 } .tip.dead { fill: #cf222e }
.source { fill: #0969da } .step { fill: #8250df } .sink { fill: #1a7f37 } .dead { fill: #cf222e }
@media (prefers-color-scheme: dark) {
.paper { fill: #0d1117 } .box { fill: #161b22; stroke: #3d444d }
.title, .name { fill: #f0f6fc } .subtitle, .words { fill: #9198a1 }
.edge { stroke: #6e7681 } .tip { fill: #6e7681 } .edge.dead { stroke: #f85149 } .tip.dead { fill: #f85149 }
.source { fill: #58a6ff } .step { fill: #bc8cff } .sink { fill: #3fb950 } .dead { fill: #f85149 }
}
"""
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def draw_svg(picture: Picture) -> str:
    """Return a picture as an SVG document."""
    boxes = {box.id: box for box in picture.boxes}
    layout = lay_out({box.id: box.reads for box in picture.boxes}, {name: _size(box) for name, box in boxes.items()})
    return "\n".join(_document(picture, boxes, layout)) + "\n"


def _document(picture: Picture, boxes: dict[str, Box], layout: Layout) -> Iterator[str]:
    title, subtitle = _cut(picture.title, 60), _cut(picture.subtitle, 100)
    text_width = max(_wide(title) * 10.5, _wide(subtitle) * 7.4)
    width = round(max(layout.width, text_width) + 2 * _MARGIN)
    height = round(layout.height + _HEADER + 2 * _MARGIN)
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label={quoteattr(_clean(picture.title))}>'
    )
    yield f"<title>{_text(picture.title)}</title>"
    yield f"<style>{_STYLE}</style>"
    yield f'<rect class="paper" width="{width}" height="{height}" rx="12"/>'
    yield f'<text class="title" x="{_MARGIN:.0f}" y="{_MARGIN + 14:.0f}">{_text(title)}</text>'
    yield f'<text class="subtitle" x="{_MARGIN:.0f}" y="{_MARGIN + 36:.0f}">{_text(subtitle)}</text>'
    yield f'<g transform="translate({_MARGIN:.0f} {_MARGIN + _HEADER:.0f})">'
    for route in layout.routes:
        yield from _arrow(route, is_dead=boxes[route.end].kind is BoxKind.DEAD)
    for name, spot in layout.spots.items():
        yield from _box(boxes[name], spot)
    yield "</g>"
    yield "</svg>"


def _size(box: Box) -> Size:
    words = _shown(box)
    width = max(
        _wide(_cut(box.name, _NAME_CHARACTERS_MAX)) * _NAME_CHARACTER,
        *(_wide(line) * _WORDS_CHARACTER for line in words),
        _BOX_WIDTH_MIN - 2 * _PADDING,
    )
    return Size(width + 2 * _PADDING, _WORDS_Y + len(words) * _LINE_HEIGHT - 2)


def _shown(box: Box) -> list[str]:
    """Return the lines that a box has room for."""
    shown = [_cut(line, _LINE_CHARACTERS_MAX) for line in box.words[:_WORDS_MAX]]
    if len(box.words) > _WORDS_MAX:
        shown[-1] = f"and {len(box.words) - _WORDS_MAX + 1} more"
    return shown or [""]


def _box(box: Box, spot: Spot) -> Iterator[str]:
    kind = _CSS_CLASS[box.kind]
    flow = {BoxKind.SOURCE: " · STREAM" if box.is_stream else " · TABLE"}.get(box.kind, "")
    yield f'<g transform="translate({spot.left:.1f} {spot.top:.1f})">'
    yield f"<title>{_text(chr(10).join([box.name, *box.words]))}</title>"
    yield f'<rect class="box" width="{spot.width:.1f}" height="{spot.height:.1f}" rx="9"/>'
    yield f'<rect class="{kind}" y="12" width="3.5" height="{spot.height - 24:.1f}" rx="1.75"/>'
    yield f'<path class="{kind}" transform="translate({_PADDING:.0f} 11)" d="{_ICONS[box.kind]}"/>'
    yield f'<text class="kind {kind}" x="{_PADDING + 17:.0f}" y="20">{box.kind.value.upper()}{flow}</text>'
    yield (
        f'<text class="name" x="{_PADDING:.0f}" y="{_NAME_Y:.0f}">{_text(_cut(box.name, _NAME_CHARACTERS_MAX))}</text>'
    )
    for number, line in enumerate(_shown(box)):
        y = _WORDS_Y + number * _LINE_HEIGHT
        yield f'<text class="words" x="{_PADDING:.0f}" y="{y:.0f}">{_text(line)}</text>'
    yield "</g>"


def _arrow(route: Route, *, is_dead: bool) -> Iterator[str]:
    """Yield a curve that is level where it touches a box, and its tip."""
    suffix = " dead" if is_dead else ""
    (x, y), *others = route.points
    path = [f"M{x:.1f} {y:.1f}"]
    *between, (end_x, end_y) = others
    for number, (next_x, next_y) in enumerate([*between, (end_x - 7, end_y)]):
        if number % 2:
            path.append(f"L{next_x:.1f} {next_y:.1f}")
        else:
            half = (next_x - x) / 2
            path.append(f"C{x + half:.1f} {y:.1f} {next_x - half:.1f} {next_y:.1f} {next_x:.1f} {next_y:.1f}")
        x, y = next_x, next_y
    yield f'<path class="edge{suffix}" d="{" ".join(path)}"/>'
    yield f'<path class="tip{suffix}" d="M{end_x - 1:.1f} {end_y:.1f} l-8 -4 v8 Z"/>'


def _cut(text: str, characters_max: int) -> str:
    """Return a text on one line that is not too wide."""
    text = " ".join(text.split())
    if _wide(text) <= characters_max:
        return text
    while _wide(text) >= characters_max:
        text = text[:-1]
    return text.rstrip() + "…"


def _wide(text: str) -> int:
    """Return how many common characters are as wide as a text."""
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)


def _text(text: str) -> str:
    return escape(_clean(text))


def _clean(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)

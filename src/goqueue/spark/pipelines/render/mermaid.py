"""The plan as Mermaid text, which Markdown on GitHub, GitLab and in many editors shows as a diagram.

Everything that comes from a pipeline is escaped, so a name or a query stays text whatever characters it has.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from goqueue.spark.pipelines.render.picture import Box, BoxKind, Picture

_WORDS_MAX: Final = 5
_LINE_CHARACTERS_MAX: Final = 60
_SHAPES: Final = {
    BoxKind.SOURCE: ("([", "])"),
    BoxKind.STEP: ("[", "]"),
    BoxKind.SINK: ("[(", ")]"),
    BoxKind.DEAD: ("{{", "}}"),
}
_SPECIAL: Final = frozenset("\"#&'<>`\\*_~$%")


def draw_mermaid(picture: Picture) -> str:
    """Return a picture as a Mermaid flowchart, from left to right."""
    return "\n".join(_lines(picture)) + "\n"


def _lines(picture: Picture) -> Iterator[str]:
    yield "---"
    title = "".join(map(_printable, f"{picture.title} · {picture.subtitle}"))
    yield f"title: {json.dumps(title, ensure_ascii=False)}"
    yield "---"
    yield "flowchart LR"
    # Ids of boxes have characters that Mermaid's ids cannot have.
    ids = {box.id: f"n{number}" for number, box in enumerate(picture.boxes)}
    for box in picture.boxes:
        start, end = _SHAPES[box.kind]
        yield f'    {ids[box.id]}{start}"{_label(box)}"{end}'
    for box in picture.boxes:
        arrow = "-.->" if box.kind is BoxKind.DEAD else "-->"
        for read in box.reads:
            yield f"    {ids[read]} {arrow} {ids[box.id]}"


def _label(box: Box) -> str:
    shown = [_escaped(line) for line in box.words[:_WORDS_MAX]]
    if len(box.words) > _WORDS_MAX:
        shown[-1] = f"and {len(box.words) - _WORDS_MAX + 1} more"
    return "<br/>".join([f"<b>{_escaped(box.name)}</b>", *shown])


def _escaped(text: str) -> str:
    """Return a text on one line, cut if it is long, with the codes that Mermaid has for its own characters."""
    line = " ".join(text.split())
    if len(line) > _LINE_CHARACTERS_MAX:
        line = line[: _LINE_CHARACTERS_MAX - 1].rstrip() + "…"
    return "".join(_code(character) for character in line)


def _code(character: str) -> str:
    return f"#{ord(character)};" if character in _SPECIAL else _printable(character)


def _printable(character: str) -> str:
    return character if character.isprintable() else "\ufffd"

"""Rows as YAML: one list with an entry per row, in blocks that people can read.

Written by hand, since no reader of YAML comes with the command line, and rows are plain. Texts and numbers are written
as JSON, which YAML includes, so nothing depends on which words a reader of YAML takes for truth or a date.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

_INDENT = "  "
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Names that some readers of YAML take for something else.
_TRUTHS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
# JSON writes characters beyond the first 65,536 as two halves, of which YAML knows nothing.
_HALVES = re.compile(r"(?<!\\)((?:\\\\)*)\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})")


def yaml_entry(row: Mapping[str, object]) -> str:
    """Return a row as an entry of a list, with a line feed at its end."""
    first, *rest = _lines(row)
    return "".join(f"{line}\n" for line in [f"- {first}", *(_INDENT + line for line in rest)])


def _lines(value: object) -> Iterator[str]:
    """Yield the lines of a value that is not empty, without indentation."""
    if isinstance(value, Mapping):
        for name, below in value.items():
            if _has_block(below):
                yield f"{_name(str(name))}:"
                yield from (_INDENT + line for line in _lines(below))
            else:
                yield f"{_name(str(name))}: {_scalar(below)}"
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for below in value:
            first, *rest = _lines(below) if _has_block(below) else [_scalar(below)]
            yield f"- {first}"
            yield from (_INDENT + line for line in rest)


def _has_block(value: object) -> bool:
    return isinstance(value, Mapping | Sequence) and not isinstance(value, str) and bool(value)


def _name(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) and name.lower() not in _TRUTHS else _scalar(name)


def _scalar(value: object) -> str:
    written = json.dumps(value)
    if isinstance(value, str):
        # The one control character that JSON leaves as it is, and YAML does not take.
        return _HALVES.sub(_whole, written).replace("\x7f", "\\x7f")
    # Without a point, a number with an exponent is a text to many readers.
    return written.replace("e", ".0e") if isinstance(value, float) and "." not in written else written


def _whole(halves: re.Match[str]) -> str:
    high, low = int(halves[2], 16), int(halves[3], 16)
    return f"{halves[1]}\\U{0x10000 + ((high & 0x3FF) << 10) + (low & 0x3FF):08x}"

"""Text that clients chose, as it can be shown: control characters are written out, and control nothing.

Names of groups and consumers, transactional ids, keys and values may hold any character. Raw, some of them move the
cursor of a terminal, forge lines of a table or a log, or turn the direction of what is written:

| characters                                        | shown as             |
|---------------------------------------------------|----------------------|
| C0 (ESC, BEL, CR, LF, TAB, ...), DEL and C1       | `\\x1b`               |
| marks, embeddings and isolates of direction       | `\\u202e`             |
| separators of lines and paragraphs                | `\\u2028`             |
| halves of surrogate pairs                         | `\\ud800`             |
"""

from __future__ import annotations

import re

_RANGES = "\\x00-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028\\u2029\\u202a-\\u202e\\u2066-\\u2069\\ud800-\\udfff"
_CONTROL = re.compile(f"[{_RANGES}]")
_CONTROL_BUT_LINE_FEED = re.compile(f"(?!\n)[{_RANGES}]")
_BEYOND_ASCII = re.compile(f"(?![\\x00-\\x1f])[{_RANGES}]")


def visible(text: str) -> str:
    """Return text with all its control characters written out; twice is the same as once."""
    return _CONTROL.sub(_escape, text)


def visible_lines(text: str, *, backslash: str = "\\") -> str:
    """Return lines of text, with line feeds as they are and all other control characters written out."""
    return _CONTROL_BUT_LINE_FEED.sub(lambda found: backslash + _escape(found)[1:], text)


def visible_json(text: str) -> str:
    """Return JSON with the same meaning that has no control characters but the line feeds between its values."""
    return _BEYOND_ASCII.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"

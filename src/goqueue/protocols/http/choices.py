"""Which words a field of a request takes, for whoever has written another one there.

The reader of requests tells what it has found and where, and not what it looked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from msgspec import inspect

_UNKNOWN_WORD = re.compile(r"Invalid enum value .* - at `\$\.(\w+)`", re.DOTALL)


def choices_hint(error: msgspec.ValidationError, shape: object) -> str:
    """Return which words would have been taken; empty if something else is wrong with a request of this shape."""
    found = _UNKNOWN_WORD.fullmatch(str(error))
    request = None if found is None else inspect.type_info(shape)
    if found is None or not isinstance(request, inspect.StructType):
        return ""
    types = [field.type for field in request.fields if field.encode_name == found[1]]
    *words, last = [word for each in types for word in _words(each)] or [""]
    return f"it has to be {', '.join(words)} or {last}" if words else last


def _words(taken: inspect.Type) -> Iterator[str]:
    match taken:
        case inspect.Metadata(type=described):
            yield from _words(described)
        case inspect.UnionType(types=types):
            for each in types:
                yield from _words(each)
        case inspect.EnumType(cls=kind):
            yield from (str(each.value) for each in kind)
        case inspect.LiteralType(values=values):
            yield from map(str, values)

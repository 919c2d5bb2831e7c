"""What a request may have had in mind: the words that a field takes, the field whose name is similar.

The reader of requests tells what it has found and where, and not what it looked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from msgspec import inspect

from goqueue.model.near_names import did_you_mean

_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `([^`]*)`(?: - at `([^`]*)`)?")
_STEP = re.compile(r"\.\w+|\[[^\]]*\]")
_UNKNOWN_WORD = re.compile(r"Invalid enum value .* - at `\$\.(\w+)`", re.DOTALL)


def shape_hint(error: msgspec.ValidationError, shape: object) -> str:
    """Return what a request of this shape takes in place of what is wrong with it; empty if nothing can be said."""
    unknown = _UNKNOWN_FIELD.fullmatch(str(error))
    if unknown is None:
        return _choices_hint(error, shape)
    names = [name for each in _shapes_at(inspect.type_info(shape), unknown[2] or "$") for name in each]
    return did_you_mean(unknown[1], names)


def _shapes_at(shape: inspect.Type, path: str) -> Iterator[list[str]]:
    """Yield the names of fields that an object at a path such as `$.messages[1]` may have."""
    found = [shape]
    for step in _STEP.findall(path):
        found = [below for each in found for plain in _plain(each) for below in _below(plain, step)]
    for each in found:
        for plain in _plain(each):
            if isinstance(plain, inspect.StructType):
                yield [field.encode_name for field in plain.fields]


def _plain(taken: inspect.Type) -> Iterator[inspect.Type]:
    match taken:
        case inspect.Metadata(type=described):
            yield from _plain(described)
        case inspect.UnionType(types=types):
            for each in types:
                yield from _plain(each)
        case _:
            yield taken


def _below(taken: inspect.Type, step: str) -> Iterator[inspect.Type]:
    match taken:
        case inspect.StructType(fields=fields):
            yield from (field.type for field in fields if f".{field.encode_name}" == step)
        case inspect.ListType(item_type=item):
            yield item


def _choices_hint(error: msgspec.ValidationError, shape: object) -> str:
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

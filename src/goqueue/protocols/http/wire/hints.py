"""Hints for errors: field names and values that a request may have meant, and names of topics and groups.

Names are compared here, once for a reply, and not where the error is raised: a Kafka request may ask for thousands of
unknown names, whose messages are not sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain

import msgspec
from msgspec import inspect

from goqueue.broker.broker import Broker
from goqueue.errors import GoQueueError, MalformedRequest, UnknownGroup, UnknownQueue, UnknownTopic
from goqueue.model.near_names import did_you_mean
from goqueue.model.topic import is_internal
from goqueue.model.units import quoted

_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `([^`]*)`(?: - at `([^`]*)`)?")
_STEP = re.compile(r"\.\w+|\[[^\]]*\]")
_UNKNOWN_WORD = re.compile(r"Invalid enum value .* - at `\$\.(\w+)`", re.DOTALL)


def malformed_request(part: str, error: msgspec.ValidationError, shape: object) -> MalformedRequest:
    """Return the error of a request whose body or query, the `part`, does not fit its shape."""
    unknown = _UNKNOWN_FIELD.fullmatch(str(error))
    if unknown is None:
        return MalformedRequest(f"invalid {part}: {error}", hint=_choices_hint(error, shape))
    name, path = unknown[1], unknown[2] or "$"
    known = [field for fields in _shapes_at(inspect.type_info(shape), path) for field in fields]
    where = "" if path == "$" else f" in `{path}`"
    kind = "parameter" if part == "query" else "field"
    return MalformedRequest(f"unknown {kind} {quoted(name)}{where}", hint=did_you_mean(name, known))


def suggested_hint(broker: Broker, error: GoQueueError) -> str:
    """Return the hint of an error, after the name that may have been meant."""
    if not error.subject:
        return error.hint
    question = did_you_mean(error.subject, _known(broker, error))
    if not question or not error.hint:
        return question or error.hint
    return f"{question} {error.hint[:1].upper()}{error.hint[1:]}"


def _known(broker: Broker, error: GoQueueError) -> Iterable[str]:
    if isinstance(error, UnknownTopic):
        return (name for name in broker.topics.by_name if not is_internal(name))
    if isinstance(error, UnknownQueue):
        return (name for machine in broker.queues.machines for name in machine.groups)
    if isinstance(error, UnknownGroup):
        streams = (chain(machine.groups, machine.offsets.groups()) for machine in broker.groups.machines)
        return chain(chain.from_iterable(streams), *(machine.groups for machine in broker.queues.machines))
    return ()


def _shapes_at(shape: inspect.Type, path: str) -> Iterator[list[str]]:
    """Yield the field names of an object at a path such as `$.messages[1]`."""
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
    """Return the allowed values; empty if something else is wrong."""
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

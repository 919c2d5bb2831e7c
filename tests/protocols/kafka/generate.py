"""Random messages of Kafka, as plain values, from the definitions that kio ships; a seed decides them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from goqueue.protocols.kafka.apis import APIS
from tests.protocols.kafka.messages import Member, Plain, members

_ERROR_CODES = [code.value for code in ErrorCode]
_LETTERS = "abcXYZ019._- \0\x7f\xe9\u20ac\U0001f600"
_TIME_END = 4_000_000_000_000

OFFERED = [(api.key, version) for api in APIS.values() for version in range(api.first, api.last + 1)]
"""Every API and version that the broker offers."""


def message(random: Random, entity: Any) -> Plain:
    """Return a message of a class of kio's, all fields given."""
    return {member.name: _value(random, member) for member in members(entity)}


def _value(random: Random, member: Member) -> Any:
    # The zero id stands for none, and times have a number that does.
    if member.is_nullable and member.kind not in {"uuid", "datetime_i64"} and random.random() < 0.2:
        return None
    if member.is_array:
        return [_one(random, member) for _ in range(random.choice([0, 1, 1, 2, 3]))]
    return _one(random, member)


def _one(random: Random, member: Member) -> Any:
    if member.kind == "datetime_i64" and not member.is_nullable:
        # There is none only where kio knows of it.
        return abs(_time(random))
    return message(random, member.entity) if member.entity else _KINDS[member.kind](random)


def _whole(bits: int) -> Callable[[Random], int]:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return lambda random: random.choice([random.randint(low, high), random.randint(-2, 3) % 128, 0, -1, low, high])


def _text(random: Random) -> str:
    return "".join(random.choices(_LETTERS, k=random.choice([0, 1, 5, 12, 130])))


def _bytes(random: Random) -> bytes:
    return random.randbytes(random.choice([0, 1, 7, 40, 130]))


def _time(random: Random) -> int:
    return random.choice([-1, 0, random.randrange(_TIME_END)])


_KINDS: dict[str, Callable[[Random], Any]] = {
    "bool": lambda random: random.random() < 0.5,
    "int8": _whole(8),
    "int16": _whole(16),
    "uint16": lambda random: random.randrange(2**16),
    "int32": _whole(32),
    "int64": _whole(64),
    "string": _text,
    "bytes": _bytes,
    "records": _bytes,
    "uuid": lambda random: UUID(int=random.getrandbits(128)),
    "error_code": lambda random: random.choice(_ERROR_CODES),
    "timedelta_i32": _whole(32),
    "timedelta_i64": _time,
    "datetime_i64": _time,
}

"""Messages that go through every client: ordinary ones, and those that show a careless encoding."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from tests.clients.contract import Headers, Message, Record


def ordinary(count: int = 40) -> list[Message]:
    """Messages that every codec makes smaller."""
    return [Message(b"the same words again " * 50 + b"%d" % i, b"key-%d" % (i % 5)) for i in range(count)]


def unusual(base_ms: int) -> list[Message]:
    """Null, empty and binary keys and values; headers repeated, empty, null and not in ASCII; given timestamps.

    Headers of one name stand together, since a client may keep them by name; their values are text without commas,
    since kcat prints them so.
    """
    return [
        Message(b"neither key nor header"),
        Message(b"", b""),
        Message(None, b"a tombstone"),
        Message(None, None),
        Message(bytes(range(256)), bytes(range(255, -1, -1))),
        Message(_noise(100_000), b"much that no codec makes smaller"),
        Message("grüß dich, 世界".encode(), "schlüssel".encode()),
        Message(b"headers", b"k", (("a", b"1"), ("a", b"2"), ("b", b""), ("schlüssel", "wörter".encode()))),
        Message(b"null header", b"k", (("null", None), ("after", b"it"))),
        Message(b"stamped", b"k", timestamp_ms=base_ms + 123),
        Message(b"stamped earlier than the one before", b"k", timestamp_ms=base_ms - 60_000),
        Message(b"stamped with headers", None, (("h", b"v"),), base_ms + 5),
    ]


def content(parts: Iterable[Message | Record]) -> list[tuple[bytes | None, bytes | None, Headers]]:
    """Return key, value and headers: what a message and the record made of it have in common."""
    return [(part.key, part.value, part.headers) for part in parts]


def numbered(begin: int, end: int, partitions: int) -> list[Message]:
    """Messages with a number each, evenly for the partitions of a topic."""
    return [Message(b"%d" % number, partition=number % partitions) for number in range(begin, end)]


def values(parts: Iterable[Message | Record]) -> list[bytes]:
    """Return the values in an order that does not depend on who was faster."""
    return sorted(part.value or b"" for part in parts)


def _noise(size_bytes: int) -> bytes:
    blocks = (hashlib.sha256(b"%d" % i).digest() for i in range(size_bytes // 32 + 1))
    return b"".join(blocks)[:size_bytes]

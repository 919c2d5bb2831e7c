"""Removes the path of the data directory from replies to other machines.

Errors of the disk and of logs contain full paths. A user on the same machine needs them; to others they only reveal
the layout of the machine. The path is cut off in texts that the broker wrote; messages, keys and names from clients
stay unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from ipaddress import ip_address
from pathlib import PurePath

import msgspec
from msgspec.structs import force_setattr

from goqueue.api.dead_letters import Redrive
from goqueue.api.problems import MessageError, Problem
from goqueue.api.queues import QueuePartition
from goqueue.protocols.http.api.status import CheckReply

_TEXTS: Mapping[type[msgspec.Struct], Sequence[str]] = {
    Problem: ("detail", "hint"),
    MessageError: ("message", "hint"),
    CheckReply: ("detail",),
    QueuePartition: ("dead_letter_trouble",),
    Redrive: ("reason", "error", "trouble"),
}


@lru_cache(1024)
def is_loopback(host: str) -> bool:
    """Return whether a peer is on this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def without_directory(value: object, directory: PurePath) -> None:
    """Cut the path of a directory off in the texts of a reply, in place; relative paths reveal nothing."""
    if directory.is_absolute():
        _cut(value, f"{directory}/", str(directory))


def _cut(value: object, *prefixes: str) -> None:
    if isinstance(value, msgspec.Struct):
        named = _TEXTS.get(type(value), ())
        for field in value.__struct_fields__:
            inner = getattr(value, field)
            if field in named and isinstance(inner, str):
                for prefix in prefixes:
                    inner = inner.replace(prefix, "")
                force_setattr(value, field, inner)
            else:
                _cut(inner, *prefixes)
    elif isinstance(value, list):
        for each in value:
            _cut(each, *prefixes)

"""Which topics only the broker reads: those that hold its own state, whose names begin with `__`.

Clients may see in lists and descriptions that they exist. Their content is private: leases and their ids,
members of groups, transactions. Operations show the parts that clients may know.
"""

from __future__ import annotations

from collections.abc import Iterable

from goqueue.errors import TopicPrivate
from goqueue.model.topic import is_internal


def private_topic(name: str) -> TopicPrivate:
    """Return the error that refuses to read one of the broker's own topics."""
    return TopicPrivate(
        f"topic {name!r} holds the broker's own state, which clients cannot read",
        hint="describe groups, queues or transactions instead",
    )


def require_public(names: Iterable[str]) -> None:
    """Raise TopicPrivate if one of these names belongs to the broker's own topics."""
    for name in names:
        if is_internal(name):
            raise private_topic(name)

"""Topics as everybody names them: the rules of names, and what is known of one topic."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from typing_extensions import override

from goqueue.errors import InvalidTopicName

NAME_MAX = 249
PARTITIONS_MAX = 10_000
_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic as the catalogue knows it; `config` has only what was set for this topic."""

    name: str
    id: UUID
    partitions: int
    created_ms: int
    config: Mapping[str, str] = field(default_factory=dict)
    is_going: bool = False

    @property
    def is_internal(self) -> bool:
        """Whether the broker keeps its own state there."""
        return is_internal(self.name)


class TopicPartition(NamedTuple):
    """A partition by the name of its topic."""

    topic: str
    partition: int

    @override
    def __str__(self) -> str:
        return f"partition {self.partition} of {self.topic!r}"


def is_internal(name: str) -> bool:
    """Tell whether a topic of that name belongs to the broker itself."""
    return name.startswith("__")


def is_name(name: str) -> bool:
    """Tell whether a topic may have that name."""
    return name not in {".", ".."} and _NAME.fullmatch(name) is not None


def check_name(name: str) -> None:
    """Raise InvalidTopicName unless a topic may have that name."""
    if is_name(name):
        return
    if name in {".", ".."}:
        raise InvalidTopicName(f"{name!r} cannot be the name of a topic")
    shown = name if len(name) <= NAME_MAX else name[:40] + "..."
    raise InvalidTopicName(
        f"{shown!r} cannot be the name of a topic", hint="1 to 249 letters, digits, dots, underscores and hyphens"
    )

"""What is known of the topics of a broker: of each name the states that it can be in, as far as its owner can tell.

An operation whose reply is lost may have happened or not; the next look at the broker decides it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID


class Present(NamedTuple):
    """A topic that exists; its id is None if nobody has been told it yet."""

    id: UUID | None
    partitions: int
    config: tuple[tuple[str, str], ...]

    def with_config(self, config: Mapping[str, str]) -> Present:
        """Return the topic with some settings changed."""
        return self._replace(config=tuple(sorted({**dict(self.config), **config}.items())))

    def matches(self, actual: Present) -> bool:
        """Tell whether this may be that topic."""
        return self.id in {None, actual.id} and (self.partitions, self.config) == (actual.partitions, actual.config)


State = Present | None


@dataclass(slots=True)
class Topics:
    """The states that each name can be in; None is no topic."""

    states: dict[str, list[State]] = field(default_factory=dict)
    ids: dict[UUID, str] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)

    def of(self, name: str) -> list[State]:
        """Return the states that a name can be in."""
        return self.states.get(name, [None])

    def note_intent(self, name: str, changed: list[State]) -> None:
        """Take note that an operation is under way that leads to other states."""
        self.states[name] = [*self.of(name), *changed]

    def note_done(self, name: str, states: list[State]) -> None:
        """Take note that an operation has succeeded."""
        self.states[name] = states

    def note_id(self, name: str, topic_id: UUID) -> None:
        """Take note of the id of a topic that was made just now; no id is used twice."""
        if topic_id in self.ids:
            self.violations.append(f"topic {name} got the id of an earlier {self.ids[topic_id]}")
        self.ids[topic_id] = name

    def compare(self, actual: Mapping[str, Present]) -> None:
        """Compare with all topics that a broker has; from now on they are known."""
        for name in self.states.keys() | actual.keys():
            found = actual.get(name)
            possible = self.of(name)
            if found is None:
                is_possible = None in possible
            else:
                is_possible = any(state is not None and state.matches(found) for state in possible)
            if not is_possible:
                self.violations.append(f"topic {name} is {found}, possible were {possible}")
            self.states[name] = [found]

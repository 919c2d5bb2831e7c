"""A sink that records events, so that tests can compare them."""

from __future__ import annotations

from typing import TypeVar

from goqueue.seams.sink import Event

EventT = TypeVar("EventT", bound=Event)


class RecordingSink:
    """Keeps every event, in the order of emission."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)

    def of(self, event_type: type[EventT]) -> list[EventT]:
        """Return the events of that type (or a subclass of it), in the order of emission."""
        return [event for event in self.events if isinstance(event, event_type)]

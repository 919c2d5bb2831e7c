"""All that was asked of a broker over its lives, and what it answered: the only thing that checkers look at.

Every event has a place in one order, and a moment in virtual time, which goes on from life to life. A call that has no
answer was under way when its life ended; it may have happened, but not later than that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

from goqueue.errors import Draining, GoQueueError, Unavailable

R = TypeVar("R")

NEVER = 1 << 60
"""Behind everything in the order of events."""


@dataclass(slots=True, eq=False)
class Call:
    """A request and its answer; `until` is behind the last moment at which it can have had any effect.

    `is_unheard` says that the answer did not reach whoever asked, `is_late` that the request came long after
    it was sent.
    """

    who: str
    request: Any
    began: int
    began_s: float
    until: int = NEVER
    ended: int = NEVER
    ended_s: float = 0.0
    answer: Any = None
    is_unheard: bool = False
    is_late: bool = False

    @property
    def is_answered(self) -> bool:
        """Whether there was an answer, whatever it was."""
        return self.ended != NEVER

    @property
    def is_done(self) -> bool:
        """Whether it happened, and the caller was told so."""
        return self.is_answered and not isinstance(self.answer, GoQueueError)

    @property
    def is_in_doubt(self) -> bool:
        """Whether nobody knows if it happened: a disk that fails may have taken it all the same."""
        return not self.is_answered or (isinstance(self.answer, Unavailable) and not isinstance(self.answer, Draining))

    @property
    def is_refused(self) -> bool:
        """Whether it surely did not happen."""
        return not self.is_done and not self.is_in_doubt


class History:
    """The calls of all lives, in the order in which they began."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.lives = 0
        self._order = count(1)
        self._values = count(1)
        self._unsettled: dict[Call, None] = {}
        self._by_kind: dict[type, list[Call]] = {}
        self._watched: tuple[type, int, Callable[[], None]] | None = None

    def next_value(self) -> int:
        """Return a number that nobody has had before."""
        return next(self._values)

    def begin(self, who: str, request: object, seconds: float, *, is_late: bool = False) -> Call:
        """Take note of a request."""
        call = Call(who, request, next(self._order), seconds, is_late=is_late, is_unheard=is_late)
        self.calls.append(call)
        self._by_kind.setdefault(type(request), []).append(call)
        self._unsettled[call] = None
        if self._watched is not None and len(self._by_kind[type(request)]) == self._watched[1]:
            kind, _, act = self._watched
            if type(request) is kind:
                self._watched = None
                act()
        return call

    def watch(self, kind: type, calls: int, act: Callable[[], None]) -> None:
        """Call `act` when there have been so many more calls of one kind, unless the life ends before."""
        self._watched = (kind, len(self._by_kind.get(kind, ())) + calls, act)

    def end(self, call: Call, answer: object, seconds: float) -> None:
        """Take note of an answer."""
        call.answer, call.ended, call.ended_s = answer, next(self._order), seconds
        if not call.is_in_doubt:
            call.until = call.ended
            del self._unsettled[call]

    def life_ended(self) -> None:
        """Take note that nothing which was under way goes on."""
        self._watched = None
        self.lives += 1
        end = next(self._order)
        for call in self._unsettled:
            call.until = end
        self._unsettled.clear()

    def unanswered(self) -> list[Call]:
        """Return the calls that are under way."""
        return [call for call in self._unsettled if not call.is_answered]

    def of(self, kind: type[R]) -> Iterator[tuple[Call, R]]:
        """Yield the calls with a request of that type, and the request."""
        for call in self._by_kind.get(kind, ()):
            yield call, call.request

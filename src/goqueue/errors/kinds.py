"""The root of all errors and the seven kinds; a kind fixes what the caller can do about it."""

from __future__ import annotations

from typing import ClassVar, Self


class GoQueueError(Exception):
    """Base of all errors; `code` is stable across releases, `retriable` says whether the call may succeed later."""

    code: ClassVar[str] = "error"
    retriable: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(f"{message} ({hint})" if hint else message)
        self.message = message
        self.hint = hint
        self.subject = ""

    def about(self, subject: str) -> Self:
        """Note which name the error is about, so that similar names can be suggested."""
        self.subject = subject
        return self

    def without_frames(self) -> Self:
        """Return the error without its traceback, and without the errors that led to it.

        Whoever keeps an error, or passes it on, calls this: frames keep their variables alive, and with them all that
        was read and decompressed when it was raised.
        """
        self.__traceback__ = self.__context__ = self.__cause__ = None
        return self


class Invalid(GoQueueError):
    """The request itself is wrong; sending it again cannot help."""

    code = "invalid"


class NotFound(GoQueueError):
    """What the request names does not exist."""

    code = "not_found"


class Conflict(GoQueueError):
    """The request contradicts the current state."""

    code = "conflict"


class Fenced(GoQueueError):
    """The caller acts with an epoch that a newer one has replaced."""

    code = "fenced"


class Throttled(GoQueueError):
    """A limit on rate or amount is reached; try again later."""

    code = "throttled"
    retriable = True


class Unavailable(GoQueueError):
    """The system cannot serve the request now."""

    code = "unavailable"
    retriable = True


class Corrupt(GoQueueError):
    """Stored or received bytes are not what was written."""

    code = "corrupt"

"""Standard input and output: closed streams, readers that leave early, and control characters.

Every command prints through `console` or `write_line`, so that no text of a client controls a terminal.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TextIO

from typing_extensions import override

from goqueue.errors import Invalid
from goqueue.model.visible_text import visible_lines

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment


def require_input() -> TextIO:
    """Return standard input; Invalid if it is closed (`<&-`)."""
    if sys.stdin is None:
        raise Invalid("standard input is closed", hint="name files, or redirect it from a file or a pipe")
    return sys.stdin


def require_output() -> TextIO:
    """Return standard output; Invalid if it is closed (`>&-`)."""
    if sys.stdout is None:
        raise Invalid("standard output is closed", hint="redirect it to a file, a pipe or /dev/null")
    return sys.stdout


def console(**options: Any) -> Console:
    """Return a rich console that escapes control characters, and raises BrokenPipeError instead of exiting with 1."""
    from rich.console import Console

    class _Console(Console):
        @override
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            return map(_cleaned, super().render(renderable, options))

        @override
        def on_broken_pipe(self) -> None:
            self.quiet = True
            raise BrokenPipeError(errno.EPIPE, "the reader of the output has left")

    return _Console(**options)


def write_line(line: str) -> None:
    """Write a line to standard output and flush it, with control characters escaped."""
    sys.stdout.write(f"{visible_lines(line)}\n")
    sys.stdout.flush()


def _cleaned(segment: Segment) -> Segment:
    # Control segments are rich's own cursor movements.
    return segment if segment.control else segment._replace(text=visible_lines(segment.text))


def forget_output() -> None:
    """Redirect standard output to /dev/null, so that the exit writes nothing to a broken pipe."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)


def flush_output() -> None:
    """Flush standard output, so that a failure is reported by the command and not at exit."""
    if sys.stdout is not None:
        sys.stdout.flush()

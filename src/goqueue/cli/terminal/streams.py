"""Standard input and output: closed ones, those that nobody reads any more, and what may be written to a terminal."""

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
    """Return a console of rich that writes out control characters and raises BrokenPipeError.

    All commands print through it, so that no text of a client controls a terminal. Rich's own way with a broken pipe is
    to exit with 1.
    """
    from rich.console import Console

    class _Console(Console):
        @override
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            return map(_cleaned, super().render(renderable, options))

        @override
        def on_broken_pipe(self) -> None:
            self.quiet = True
            raise BrokenPipeError(errno.EPIPE, "nobody reads the output")

    return _Console(**options)


def write_line(line: str) -> None:
    """Write a line to standard output at once, with control characters written out."""
    sys.stdout.write(f"{visible_lines(line)}\n")
    sys.stdout.flush()


def _cleaned(segment: Segment) -> Segment:
    # What moves the cursor for rich itself is no text.
    return segment if segment.control else segment._replace(text=visible_lines(segment.text))


def forget_output() -> None:
    """Leave nothing that would be written at exit to a pipe that nobody reads any more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def flush_output() -> None:
    """Write what is still in the buffer of standard output, so that its failure is not one of the exit."""
    if sys.stdout is not None:
        sys.stdout.flush()

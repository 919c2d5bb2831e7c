"""Standard input and output that are closed, or that nobody reads any more."""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING, Any, TextIO

from typing_extensions import override

from goqueue.errors import Invalid

if TYPE_CHECKING:
    from rich.console import Console


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
    """Return a console of rich that raises BrokenPipeError; its own way is to exit with 1."""
    from rich.console import Console

    class _Console(Console):
        @override
        def on_broken_pipe(self) -> None:
            self.quiet = True
            raise BrokenPipeError(errno.EPIPE, "nobody reads the output")

    return _Console(**options)


def forget_output() -> None:
    """Leave nothing that would be written at exit to a pipe that nobody reads any more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def flush_output() -> None:
    """Write what is still in the buffer of standard output, so that its failure is not one of the exit."""
    if sys.stdout is not None:
        sys.stdout.flush()

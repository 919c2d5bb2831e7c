"""Asks before something is gone for good."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from goqueue.cli.terminal.tables import clean
from goqueue.errors import Conflict

DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only show what would happen.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def require_typed(expected: str, what: str, otherwise: str) -> None:
    """Have the user type something, such as a name; Conflict if it is anything else, which says what did not happen."""
    # Not typer's prompt, which writes a space to standard output, where a program may read what was done.
    typer.echo(f"Type {clean(what)} to go on: ", nl=False, err=True)
    if sys.stdin.readline().strip() != expected:
        raise Conflict(f"that is not {what}; {otherwise}", hint="--yes does not ask")

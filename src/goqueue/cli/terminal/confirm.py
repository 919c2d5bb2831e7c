"""Confirmation before something is deleted or skipped for good."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from goqueue.cli.terminal.tables import clean
from goqueue.errors import Conflict

DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would happen, and change nothing.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


def require_typed(expected: str, what: str, otherwise: str) -> None:
    """Ask the user to type `what`, such as a name; raise Conflict, which says what did not happen, on a mismatch."""
    # Not typer's prompt, which writes a space to standard output, where programs read the result.
    typer.echo(f"Type {clean(what)} to continue: ", nl=False, err=True)
    if sys.stdin.readline().strip() != expected:
        raise Conflict(f"that is not {what}; {otherwise}", hint="--yes skips this question")

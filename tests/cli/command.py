"""Calls of the `goqueue` command inside of the test process, against a broker of the test."""

from __future__ import annotations

import json
import os
import sysconfig
from pathlib import Path

from typer.testing import CliRunner, Result

from goqueue.cli.main import app

INSTALLED = str(Path(sysconfig.get_path("scripts")) / "goqueue")

Row = dict[str, object]


class Command:
    """The command, told where the broker is by the environment."""

    def __init__(self, server: str) -> None:
        self.environ = {"GOQUEUE_SERVER": server, "COLUMNS": "200"}

    def __call__(self, *arguments: object, stdin: bytes = b"", columns: int = 200) -> Result:
        """Run the command, whatever its exit code."""
        environ = {**self.environ, "COLUMNS": str(columns)}
        return CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin, env=environ)

    def done(self, *arguments: object, stdin: bytes = b"") -> str:
        """Run the command, which succeeds; return what it prints."""
        result = self(*arguments, stdin=stdin)
        assert result.exit_code == 0, result.output
        return result.stdout

    def rows(self, *arguments: object, kind: str, stdin: bytes = b"", exit_code: int = 0) -> list[Row]:
        """Run the command with JSON as its format; return the rows of one kind, without saying so."""
        result = self(*arguments, "--format", "json", stdin=stdin)
        assert result.exit_code == exit_code, result.output
        parsed = [json.loads(line) for line in result.stdout.splitlines()]
        return [row for row in parsed if row.pop("kind") == kind]

    def refused(self, *arguments: object, exit_code: int = 1, stdin: bytes = b"") -> str:
        """Run the command, which fails and prints nothing but its reason; return that."""
        result = self(*arguments, stdin=stdin)
        assert result.exit_code == exit_code, result.output
        assert result.stdout == ""
        return result.stderr


def installed_environ(server: str) -> dict[str, str]:
    """Return the environment for the installed command, in a process of its own; as containers have it."""
    return {**os.environ, "GOQUEUE_SERVER": server, "COLUMNS": "200", "PYTHONUNBUFFERED": "1"}

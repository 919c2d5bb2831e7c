"""The examples in README.md and docs/ do what they say.

The blocks of one document are one session, in a directory of its own and in the order of the text:

- a `python` block is a program of its own; a `text` block right behind it is what it prints;
- a `console` block holds calls of `goqueue` behind a `$`, each followed by what it prints.

In what is printed, `...` stands for anything, and the width of gaps does not matter. A program may end by killing
itself if its text says so.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, OutputChecker
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

_BLOCK = re.compile(
    r"^```(?P<language>python|console)\n(?P<body>.*?)^```\n(?:\n?```text\n(?P<output>.*?)^```\n)?",
    re.DOTALL | re.MULTILINE,
)
_SECONDS_MAX = 60


class Step(NamedTuple):
    """One thing that a reader would type, and what they are told to expect; None if the text does not say."""

    command: list[str]
    shown: str
    output: str | None


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_example_of_a_document_prints_what_the_document_says(document: Path, tmp_path: Path) -> None:
    steps = list(steps_of(document.read_text("utf-8")))
    for step in steps:
        run(step, tmp_path)


def test_an_example_that_prints_something_else_is_found(tmp_path: Path) -> None:
    steps = list(steps_of('```python\nprint("one")\n```\n\n```text\ntwo\n```\n'))
    assert [step.output for step in steps] == ["two\n"]
    with pytest.raises(pytest.fail.Exception, match="prints something else"):
        run(steps[0], tmp_path)


def test_an_example_that_fails_is_found(tmp_path: Path) -> None:
    steps = list(steps_of("```python\nraise SystemExit(3)\n```\n"))
    with pytest.raises(pytest.fail.Exception, match="ends with 3"):
        run(steps[0], tmp_path)


def steps_of(text: str) -> Iterator[Step]:
    """Yield what the examples of a document do, in order."""
    for block in _BLOCK.finditer(text):
        if block["language"] == "python":
            yield Step([sys.executable, "-W", "error", "-c", block["body"]], block["body"], block["output"])
            continue
        for call in re.split(r"^\$ ", block["body"], flags=re.MULTILINE)[1:]:
            line, _, output = call.partition("\n")
            name, *arguments = shlex.split(line)
            assert name == "goqueue", f"{line!r} is no call of goqueue"
            yield Step([str(Path(sysconfig.get_path("scripts")) / name), *arguments], line, output)


def run(step: Step, directory: Path) -> None:
    """Do one step; a command of `goqueue` may exit with 1, which is how it says that it found something."""
    ended = subprocess.run(
        step.command,
        cwd=directory,
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=_SECONDS_MAX,
        check=False,
    )
    printed = ended.stdout + ended.stderr
    expected = {0}
    if step.command[0] != sys.executable:
        expected = {0, 1}
    elif "SIGKILL" in step.shown:
        expected = {-signal.SIGKILL}
    if ended.returncode not in expected:
        pytest.fail(f"{step.shown}\nends with {ended.returncode}:\n{printed}", pytrace=False)
    if step.output is not None and not is_as_told(step.output, printed):
        pytest.fail(f"{step.shown}\nprints something else:\n{printed}", pytrace=False)


def is_as_told(told: str, printed: str) -> bool:
    """Tell whether a program printed what a document says."""
    return OutputChecker().check_output(told, printed, ELLIPSIS | NORMALIZE_WHITESPACE)

"""The calls in docs/http.md return what the page shows.

They are `shell` blocks: a call of curl after a `$`, with `>` before its further lines, followed by its output, in which
`...` stands for anything and white space does not count. The address of a broker replaces `localhost:8080`, and the
receipt that was printed last `RECEIPT`.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from doctest import ELLIPSIS, OutputChecker
from pathlib import Path
from typing import NamedTuple

import pytest

from goqueue.protocols.faults import TABLE
from goqueue.testing import Broker
from tests.clients.installed import CURL, is_installed, without

DOCUMENT = Path(__file__).parents[3] / "docs" / "http.md"
ADDRESS = "localhost:8080"
SECONDS_MAX = 180


class Call(NamedTuple):
    """A call of curl, and its output."""

    command: str
    output: str


def calls(text: str) -> Iterator[Call]:
    """Yield all calls of a document, in order."""
    for block in re.findall(r"^```shell\n(.*?)^```\n", text, re.DOTALL | re.MULTILINE):
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            first, *rest = step.splitlines()
            more = [line[2:] for line in rest if line.startswith("> ")]
            yield Call("\n".join([first, *more]), "\n".join(line for line in rest if not line.startswith("> ")))


def squeezed(text: str) -> str:
    """Return a text without white space."""
    return re.sub(r"\s+", "", text)


def is_expected(told: str, printed: str) -> bool:
    """Return whether a call printed what the page shows."""
    return OutputChecker().check_output(squeezed(told) + "\n", squeezed(printed) + "\n", ELLIPSIS)


def test_every_call_returns_what_the_page_shows() -> None:
    if not is_installed(CURL):
        without(CURL)
    found = list(calls(DOCUMENT.read_text("utf-8")))
    assert len(found) > 10
    receipt = ""
    with Broker() as broker:
        for call in found:
            command = shlex.split(call.command.replace(ADDRESS, broker.http).replace("RECEIPT", receipt))
            assert command[0] == "curl"
            ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=True)
            if not is_expected(call.output, ended.stdout):
                pytest.fail(f"{call.command}\nprints something else:\n{ended.stdout}", pytrace=False)
            for printed in re.findall(r'"receipt_handle": ?"([^"]+)"', ended.stdout):
                receipt = printed


def test_another_reply_fails() -> None:
    assert is_expected('{"a": ..., "b": 2}', '{"a":[1],"b":2}\n')
    assert not is_expected('{"a": ..., "b": 2}', '{"a":[1],"b":3}\n')


def test_error_codes_of_the_page_exist_with_their_status() -> None:
    rows = re.findall(r"^\| (\d{3}) +\| (.*) \|$", DOCUMENT.read_text("utf-8"), re.MULTILINE)
    told = {code: int(status) for status, text in rows for code in re.findall(r"`([a-z_]+)`", text)}
    assert told.pop("internal_error") == 500
    assert told == {code: TABLE[code].http for code in told}

"""The examples in README.md and docs/ print what the page shows.

The blocks of one document are one session, in a directory of its own and in the order of the text:

- a `python` block is a program; a `text` block right after it is its output;
- a `console` block has commands after a `$`, each followed by its output. A command that ends with `&` runs until the
  end of the session; the next one starts when it has printed its first line;
- a `yaml` block that begins with `# NAME.yaml` is that file.

In outputs, `...` stands for anything, and the width of gaps does not matter. A program may kill itself if its text
says so (SIGKILL). Pages use the default ports; here each session gets its own ports.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, OutputChecker
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.clients.installed import CURL, is_installed, without
from tests.spark.quick_java import QUICK_DRIVERS

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
KAFKA_PORT, HTTP_PORT, GRPC_PORT = 9092, 8080, 9000

_BLOCK = re.compile(
    r"^```(?P<language>python|console|yaml)\n(?P<body>.*?)^```\n(?:\n?```text\n(?P<output>.*?)^```\n)?",
    re.DOTALL | re.MULTILINE,
)
_FILE = re.compile(r"# (?P<name>[\w.-]+\.yaml)\n")
# A job on Spark takes a quarter of a minute to start, and machines may be busy.
_SECONDS_MAX = 900


class Step(NamedTuple):
    """One command of a reader, and its expected output; None if the page does not show it."""

    command: list[str]
    shown: str
    output: str | None


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_examples_of_a_page_print_what_it_shows(document: Path, tmp_path: Path) -> None:
    text = document.read_text("utf-8")
    if any(step.shown.startswith("curl ") for step in steps_of(text)) and not is_installed(CURL):
        without(CURL)
    play(text, tmp_path)


def test_example_with_another_output_fails(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match="prints something else"):
        play('```python\nprint("one")\n```\n\n```text\ntwo\n```\n', tmp_path)


def test_example_that_exits_with_an_error_fails(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match="ends with 3"):
        play("```python\nraise SystemExit(3)\n```\n", tmp_path)
    with pytest.raises(pytest.fail.Exception, match="ends with 3"):
        play("```console\n$ exit 3\n```\n", tmp_path)


def test_background_command_runs_until_the_end_of_its_page(tmp_path: Path) -> None:
    told = f"ready kafka=127.0.0.1:{KAFKA_PORT} http=127.0.0.1:{HTTP_PORT}"
    play(f"```console\n$ goqueue serve &\n{told}\n$ goqueue topic list\n...\n```\n", tmp_path)


def play(text: str, directory: Path) -> None:
    """Run all examples of a page."""
    with ExitStack() as stack:
        session = Session(directory, stack)
        for step in steps_of(text):
            session.run(step)


def steps_of(text: str) -> Iterator[Step]:
    """Yield the commands of a page, in order."""
    for block in _BLOCK.finditer(text):
        if block["language"] == "python":
            yield Step([sys.executable, "-W", "error", "-c", block["body"]], block["body"], block["output"])
            continue
        if block["language"] == "yaml":
            if named := _FILE.match(block["body"]):
                written = ["bash", "-c", 'printf %s "$1" > "$2"', "bash", block["body"], named["name"]]
                yield Step(written, block["body"], "")
            continue
        for call in re.split(r"^\$ ", block["body"], flags=re.MULTILINE)[1:]:
            line, _, output = call.partition("\n")
            yield Step(["bash", "-c", line], line, output)


class Session:
    """A terminal session: a directory, an environment, ports, and background processes."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        ports = free_ports(3)
        self._ports = dict(zip((KAFKA_PORT, HTTP_PORT, GRPC_PORT), ports, strict=True))
        self._directory = directory
        self._stack = stack
        self._environment = {
            **os.environ,
            **QUICK_DRIVERS,
            "PATH": f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}",
            "COLUMNS": "200",
            "GOQUEUE_KAFKA_PORT": str(ports[0]),
            "GOQUEUE_HTTP_PORT": str(ports[1]),
            "GOQUEUE_GRPC_PORT": str(ports[2]),
            "GOQUEUE_SERVER": f"http://127.0.0.1:{ports[1]}",
            "GOQUEUE_BOOTSTRAP": f"127.0.0.1:{ports[0]}",
            "GOQUEUE_DISK_GUARD_FREE_FRACTION": "0",
        }

    def run(self, step: Step) -> None:
        """Run one step; a command of `goqueue` may exit with 1, as checks do that find something."""
        if step.shown.endswith(" &"):
            self._check(step, self._stack.enter_context(self._in_background(step)))
            return
        ended = subprocess.run(
            self._with_ports(step.command),
            cwd=self._directory,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=_SECONDS_MAX,
            check=False,
        )
        printed = ended.stdout + ended.stderr
        expected = {0, 1} if "goqueue" in step.shown and step.command[0] == "bash" else {0}
        if "SIGKILL" in step.shown:
            expected = {-signal.SIGKILL}
        if ended.returncode not in expected:
            pytest.fail(f"{step.shown}\nends with {ended.returncode}:\n{printed}", pytrace=False)
        # Third-party libraries of programs may write to stderr; the pages show stderr of commands only.
        self._check(step, printed if step.command[0] == "bash" else ended.stdout)

    @contextmanager
    def _in_background(self, step: Step) -> Iterator[str]:
        command = self._with_ports(["bash", "-c", "exec " + step.shown.removesuffix(" &")])
        log = self._directory / "background.log"
        with log.open("a") as errors:
            process = subprocess.Popen(
                command, cwd=self._directory, env=self._environment, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                pytest.fail(f"{step.shown}\nprints nothing:\n{log.read_text()}", pytrace=False)
            yield line
        finally:
            process.terminate()
            process.communicate(timeout=_SECONDS_MAX)

    def _with_ports(self, command: Sequence[str]) -> list[str]:
        command = list(command)
        for usual, own in self._ports.items():
            command = [part.replace(f":{usual}", f":{own}") for part in command]
        return command

    def _check(self, step: Step, printed: str) -> None:
        for usual, own in self._ports.items():
            printed = printed.replace(f":{own}", f":{usual}")
        if step.output is not None and not is_expected(step.output, printed):
            pytest.fail(f"{step.shown}\nprints something else:\n{printed}", pytrace=False)


def free_ports(count: int) -> list[int]:
    """Return ports that are free at the moment."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def is_expected(told: str, printed: str) -> bool:
    """Return whether a program printed what the page shows."""
    return OutputChecker().check_output(told, printed, ELLIPSIS | NORMALIZE_WHITESPACE)

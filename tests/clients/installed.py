"""Which clients this machine has, and what a test does without the one it needs.

Clients that come from PyPI are always there. kcat, kafkajs and curl are programs of other ecosystems: without them a
test is skipped, and the end of the run says in one line how many were (see `tests/conftest.py`). With CI=true in the
environment, as `.ci/run` and CI services set it, the test fails instead.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NoReturn, TypeVar

import pytest

KAFKAJS: Final = "kafkajs"
KCAT: Final = "kcat"
CURL: Final = "curl"
# The last file that npm writes when it installs.
_KAFKAJS_INSTALLED: Final = Path(__file__).parent / "kafkajs" / "node_modules" / ".package-lock.json"

Started = TypeVar("Started")


class Clients(dict[str, Started]):
    """The clients that are installed, started, by name; a test that asks for another one is skipped or fails."""

    def __missing__(self, name: str) -> NoReturn:
        without(name)


def start_installed(
    starters: Mapping[str, Callable[[str], Started]], bootstrap: str, environ: Mapping[str, str] = os.environ
) -> Clients[Started]:
    """Start those clients that this machine has."""
    return Clients((name, start(bootstrap)) for name, start in starters.items() if is_installed(name, environ))


def is_installed(client: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Tell whether the program of a client is there, without starting it."""
    path = environ.get("PATH", "")
    if client in (KCAT, CURL):
        return shutil.which(client, path=path) is not None
    if client == KAFKAJS:
        return shutil.which("node", path=path) is not None and _KAFKAJS_INSTALLED.exists()
    return True


def without(client: str, environ: Mapping[str, str] = os.environ) -> NoReturn:
    """Skip the test that needs a client which is not installed; fail it in CI."""
    reason = f"{client} is not installed; .ci/install-clients installs it"
    if environ.get("CI", "").lower() in {"true", "1"}:
        pytest.fail(f"{reason}, and CI has to", pytrace=False)
    pytest.skip(reason)

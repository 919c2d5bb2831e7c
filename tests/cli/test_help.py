"""Help of every command: quick, with an example, and the same options everywhere."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from goqueue.cli.main import app
from tests.cli.command import Command

NOBODY = Command("http://127.0.0.1:1")
WITH_BROKER = [
    ("topic", "create"),
    ("topic", "list"),
    ("topic", "describe"),
    ("topic", "alter"),
    ("topic", "delete"),
    ("produce",),
    ("consume",),
    ("txn", "list"),
    ("txn", "describe"),
    ("txn", "abort"),
    ("pipeline", "list"),
    ("pipeline", "describe"),
    ("pipeline", "stop"),
    ("doctor",),
]


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    below = getattr(command, "commands", None)
    if below is None:
        yield path
        return
    for name in below:
        yield from commands(below[name], (*path, name))


ALL = list(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_help_of_every_command_has_an_example(path: tuple[str, ...]) -> None:
    text = NOBODY.done(*path, "--help")
    assert "Example: goqueue " + " ".join(path) in text


def test_every_command_that_talks_to_a_broker_is_known_here() -> None:
    assert set(WITH_BROKER) <= set(ALL)


@pytest.mark.parametrize("path", WITH_BROKER, ids=" ".join)
def test_every_command_that_talks_to_a_broker_takes_its_address_and_a_format(path: tuple[str, ...]) -> None:
    text = NOBODY.done(*path, "--help")
    assert "--server" in text
    assert "GOQUEUE_SERVER" in text
    assert "http://127.0.0.1:8080" in text or "http://127.0.0.1:1" in text
    assert "--format" in text
    assert "json" in text
    assert "yaml" in text
    assert "table" in text


def test_completion_can_be_installed() -> None:
    assert "--install-completion" in NOBODY.done("--help")


def test_help_imports_neither_client_nor_broker() -> None:
    heavy = ["httpx", "msgspec", "goqueue.broker", "goqueue.client", "goqueue.log"]
    code = f"import sys, goqueue.cli.main; print([name for name in {heavy} if name in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"

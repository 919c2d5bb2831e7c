"""`goqueue dlq`: dead letters are looked at, published again and deleted from the command line."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

from goqueue.testing.broker import Broker
from tests.cli.command import INSTALLED, Command, installed_environ

_WAIT_S = 120


@pytest.fixture
def letters(goqueue: Command, topic: str) -> str:
    """A topic of which three messages have died."""
    topic = topic[:60]
    goqueue.done("topic", "create", topic, "--partitions", 1)
    goqueue.done("produce", topic, stdin=b"order0\norder1\norder2\n")
    received = goqueue.rows("queue", "receive", topic, topic, kind="message")
    receipts = [str(each["receipt_handle"]) for each in received]
    goqueue.done("queue", "reject", *receipts, "--reason", "no such customer")
    _wait_for(lambda: _letters(goqueue, topic, count=3))
    return topic


def _letters(goqueue: Command, topic: str, count: int) -> bool:
    return len(goqueue.rows("dlq", "show", topic, kind="dead_letter")) == count


def _wait_for(fact: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not fact():
        assert time.monotonic() < deadline


def redrive(goqueue: Command, topic: str, *options: object) -> Any:
    (told,) = goqueue.rows("dlq", "redrive", topic, *options, kind="redrive")
    return told


def test_letters_are_listed_and_shown_with_their_causes(goqueue: Command, letters: str) -> None:
    (listed,) = [each for each in goqueue.rows("dlq", "list", kind="dead_letters") if each["sources"] == [letters]]
    assert (listed["topic"], listed["by_reason"]) == (f"{letters}.dlq", {"rejected": 3})
    (line,) = [line for line in goqueue.done("dlq", "list").splitlines() if line.startswith(f"{letters}.dlq ")]
    assert line.split()[1:3] == ["3", "0"]
    assert line.endswith("rejected: 3")
    shown = goqueue.done("dlq", "show", letters, "--since", "1h ago", "--reason", "rejected")
    for part in ("no such customer", "order2", f"{letters}-0:2"):
        assert part in shown
    (letter,) = goqueue.rows("dlq", "show", letters, "--oldest", "--limit", 1, kind="dead_letter")
    assert (letter["value"], letter["headers"], letter["redriven"]) == ("order0", {}, False)
    first = goqueue("dlq", "show", letters, "--limit", 2, "--format", "json")
    cursor = first.stderr.split("--cursor ")[1].strip()
    (rest,) = goqueue.rows("dlq", "show", letters, "--limit", 2, "--cursor", cursor, kind="dead_letter")
    assert rest["value"] == "order0"
    assert "no dead letters match" in goqueue("dlq", "show", letters, "--key", "k").stderr
    assert "is not a time" in goqueue.refused("dlq", "show", letters, "--since", "soon", exit_code=2)


def test_letters_are_chosen_by_keys_that_are_no_text(goqueue: Command, topic: str) -> None:
    name = f"{topic[:60]}.dlq"
    goqueue.done("topic", "create", name, "--partitions", 1)
    lines = b'{"value": "a", "key_base64": "++8="}\n{"value": "b", "key": "k"}\n'
    goqueue.done("produce", name, "--json-lines", stdin=lines)
    for chosen, value in (("--key-base64", "++8="), "a"), (("--key-base64", "aw=="), "b"), (("--key", "k"), "b"):
        (letter,) = goqueue.rows("dlq", "show", name, *chosen, kind="dead_letter")
        assert letter["value"] == value
        told: list[Any] = goqueue.rows("dlq", "redrive", name, *chosen, "--dry-run", kind="preview")
        assert told[0]["moves"]["failed"] == 1
    for command in ("show", "redrive"):
        assert "not base64" in goqueue.refused("dlq", command, name, "--key-base64", "YQ", exit_code=2)
        both = ("--key", "k", "--key-base64", "aw==")
        assert "--key-base64" in goqueue.refused("dlq", command, name, *both, exit_code=2)


def test_control_characters_of_dead_letters_are_escaped(goqueue: Command, topic: str) -> None:
    name = f"{topic[:60]}.dlq"
    goqueue.done("topic", "create", name, "--partitions", 1)
    said = ["goqueue-dlq-reason", "goqueue-dlq-group", "goqueue-dlq-topic", "goqueue-dlq-error"]
    headers = [part for each in said for part in ("--header", f"{each}=\x1b[2J\u202ex")]
    goqueue.done("produce", name, *headers, stdin=b"v\n")
    for shown in (goqueue.done("dlq", "show", name), goqueue.done("dlq", "list")):
        assert "\x1b" not in shown
        assert "\u202e" not in shown
        assert r"\x1b[2J\u202ex" in shown


def test_redrive_republishes_dead_letters(goqueue: Command, letters: str) -> None:
    told = goqueue.done("dlq", "redrive", letters, "--first-offset", 1, "--dry-run")
    assert told == f"would republish 2 dead letters of {letters}.dlq\n"
    done = redrive(goqueue, letters, "--first-offset", 1, "--wait")
    assert (done["state"], done["moves"]["moved"], done["progress"]) == ("done", 2, 1.0)
    told = goqueue.done("dlq", "redrive", letters, "--wait")
    for part in ("done: all letters were looked at", "2 that an earlier redrive republished"):
        assert part in told
    status = goqueue.done("dlq", "status", done["id"])
    assert f"redrive {done['id']}" in status
    assert done["id"] in goqueue.done("dlq", "redrives")
    listed = goqueue.done("dlq", "list").splitlines()
    assert listed[0].endswith("not redriven, by reason")
    (line,) = [line for line in listed if line.startswith(f"{letters}.dlq ")]
    assert (line.split()[1:3], line.split()[-1]) == (["3", "3"], "-")
    values = goqueue.done("consume", letters, "--from", "beginning", "--count", 6).splitlines()
    assert values == ["order0", "order1", "order2", "order1", "order2", "order0"]
    assert "there is no redrive" in goqueue.refused("dlq", "status", "0" * 32)


def test_waiting_for_a_redrive_exits_with_1_after_failures(goqueue: Command, letters: str) -> None:
    goqueue.done("produce", f"{letters}.dlq", stdin=b"by hand\n")
    told = goqueue.done("dlq", "redrive", letters, "--dry-run").splitlines()
    assert told == [
        f"would republish 3 dead letters of {letters}.dlq",
        "1 cannot be republished; last error: a letter does not say which topic it comes from",
    ]
    waited: list[Any] = goqueue.rows("dlq", "redrive", letters, "--wait", kind="redrive", exit_code=1)
    (done,) = waited
    assert (done["state"], done["moves"]["moved"], done["moves"]["failed"]) == ("done", 3, 1)
    assert goqueue("dlq", "status", done["id"], "--wait").exit_code == 1
    goqueue.done("dlq", "status", done["id"])
    goqueue.done("dlq", "cancel", done["id"])


def test_a_redrive_is_cancelled(goqueue: Command, letters: str) -> None:
    job = redrive(goqueue, letters, "--rate", 0.001)
    assert "is running" in goqueue.refused("dlq", "redrive", letters)
    (done,) = goqueue.rows("dlq", "cancel", job["id"], kind="redrive")
    assert (done["state"], done["reason"]) == ("cancelled", "cancelled")
    assert "state        cancelled\n" in goqueue.done("dlq", "status", job["id"])


def test_redrive_continues_after_ctrl_c(goqueue: Command, goqueue_session_broker: Broker, letters: str) -> None:
    environ = installed_environ(goqueue_session_broker.http)
    arguments = [INSTALLED, "dlq", "redrive", letters, "--rate", "0.001", "--wait"]
    with subprocess.Popen(arguments, env=environ, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as waiting:

        def is_moving() -> bool:
            jobs: list[Any] = goqueue.rows("dlq", "redrives", kind="redrive")
            return any(job["topic"] == f"{letters}.dlq" and job["moves"]["moved"] for job in jobs)

        _wait_for(is_moving)
        waiting.send_signal(signal.SIGINT)
        _, told = waiting.communicate(timeout=_WAIT_S)
    assert waiting.returncode == 130
    redrive_id = told.split()[1]
    assert f"redrive {redrive_id} continues; cancel it with `goqueue dlq cancel {redrive_id}`" in told
    (job,) = goqueue.rows("dlq", "status", redrive_id, kind="redrive")
    assert job["state"] == "running"
    goqueue.done("dlq", "cancel", redrive_id)


def test_purge_asks_for_the_name_of_the_topic(goqueue: Command, letters: str) -> None:
    assert goqueue.done("dlq", "purge", letters, "--dry-run") == f"would delete 3 dead letters in {letters}.dlq\n"
    refusal = goqueue.refused("dlq", "purge", letters, stdin=b"orders\n")
    assert "nothing was deleted" in refusal
    told = goqueue.done("dlq", "purge", letters, stdin=f"{letters}.dlq\n".encode())
    assert told == f"deleted 3 dead letters in {letters}.dlq\n"
    assert goqueue.done("dlq", "purge", letters, "--yes") == f"deleted 0 dead letters in {letters}.dlq\n"
    assert _letters(goqueue, letters, count=0)


def test_a_purge_that_would_be_refused_asks_for_no_name(goqueue: Command, letters: str) -> None:
    chosen = f"{letters}-chosen"
    goqueue.done("topic", "create", chosen, "--partitions", 1)
    goqueue.done("queue", "alter", f"{letters}-other", "--set", f"dead_letters={chosen}")
    goqueue.done("produce", chosen, stdin=b"alive\n")
    for option in ("--dry-run", "--yes"):
        assert "does not say why it died" in goqueue.refused("dlq", "purge", chosen, option)
    assert goqueue.done("consume", chosen, "--from", "beginning", "--count", 1) == "alive\n"

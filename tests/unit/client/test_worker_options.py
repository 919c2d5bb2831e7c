"""Options of workers: what can never be right is refused when the worker is made, before anybody is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from goqueue.client import AsyncClient, Client
from goqueue.client.worker_options import WorkerLimits, WorkerOptions
from goqueue.errors import Invalid, InvalidTopicName

NAN = float("nan")
DOCUMENT = Path(__file__).parents[3] / "docs" / "queues.md"


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"concurrency": 0}, "concurrency is 0, and may be 1 to 1,000"),
        ({"concurrency": 1_001}, "concurrency is 1001, and may be 1 to 1,000"),
        ({"concurrency": 2.5}, "concurrency is 2.5, and has to be a whole number"),
        ({"ahead_max": -1}, "ahead_max is -1, and cannot be negative"),
        ({"ahead_max": 0.5}, "ahead_max is 0.5, and has to be a whole number"),
        ({"visibility_s": 0}, "visibility_s is 0 seconds, and may be 100ms to 12h"),
        ({"visibility_s": 43_201, "lease_max_s": 50_000}, "visibility_s is 43201 seconds, and may be 100ms to 12h"),
        ({"visibility_s": NAN}, "visibility_s is nan"),
        ({"lease_max_s": NAN}, "lease_max_s is nan"),
        ({"visibility_s": 60, "lease_max_s": 30}, "lease_max_s is 30, and visibility_s is 60: a lease lasts that long"),
        ({"wait_s": 0}, "wait_s is 0 seconds, and may be 100ms to 1m"),
        ({"wait_s": 60.1}, "wait_s is 60.1 seconds, and may be 100ms to 1m"),
        ({"drain_s": -1}, "drain_s is -1 seconds, and may be 0s or more"),
        ({"drain_s": NAN}, "drain_s is nan"),
        ({"ordering": "none"}, "ordering is 'none', and may be 'key'"),
        ({"ordering": "fifo"}, "ordering is 'fifo', and may be 'key'"),
        ({"consumer": "x" * 251}, "consumer has 251 characters, and may have 250"),
        (
            {"concurrency": 0, "wait_s": 0},
            "wait_s is 0 seconds, and may be 100ms to 1m; concurrency is 0, and may be 1 to 1,000",
        ),
    ],
    ids=str,
)
def test_what_no_worker_could_keep_is_refused_at_once(wrong: dict[str, Any], told: str) -> None:
    for client in (Client(), AsyncClient()):
        with pytest.raises(Invalid) as refused:
            client.worker("billing", "orders", print, **wrong)  # type: ignore[arg-type]
        assert str(refused.value).startswith(told)


@pytest.mark.parametrize(
    "right",
    [
        {"concurrency": 1_000, "ahead_max": 0, "ordering": None, "consumer": ""},
        {"visibility_s": 43_200, "lease_max_s": 43_200, "ahead_max": 5_000, "ordering": "key", "consumer": "x" * 250},
        {"visibility_s": 0.1, "lease_max_s": float("inf"), "drain_s": float("inf")},
    ],
    ids=str,
)
def test_what_lies_at_a_limit_is_taken(right: dict[str, Any]) -> None:
    for client in (Client(), AsyncClient()):
        client.worker("billing", ["orders", "returns"], print, **right)  # type: ignore[arg-type]


@pytest.mark.parametrize("topics", ["", "no spaces", "..", ["orders", "a/b"], "x" * 250])
def test_what_can_be_the_name_of_no_topic_is_refused_at_once(topics: str | list[str]) -> None:
    for client in (Client(), AsyncClient()):
        with pytest.raises(InvalidTopicName):
            client.worker("billing", topics, print)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("count", "told"), [(0, "a worker needs a topic"), (101, "101 topics are too many: a worker has at most 100")]
)
def test_a_worker_has_one_topic_or_some(count: int, told: str) -> None:
    for client in (Client(), AsyncClient()):
        with pytest.raises(Invalid, match=told):
            client.worker("billing", [f"orders-{number}" for number in range(count)], print)  # type: ignore[arg-type]


def test_the_document_has_every_option_with_its_default() -> None:
    section = DOCUMENT.read_text("utf-8").partition("\n## Workers\n")[2].partition("\n## ")[0]
    table = section.partition("| option ")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    defaults = {name.strip("`"): default for name, default, *_ in rows}
    assert list(defaults) == list(WorkerOptions.__annotations__)
    limits = WorkerLimits()
    for name in WorkerLimits.__dataclass_fields__:
        assert defaults[name] == f"{getattr(limits, name):,g}"

"""Suggestions for names that do not exist."""

from __future__ import annotations

import time

import pytest

from goqueue.model.near_names import did_you_mean, near_name

KNOWN = ["orders", "orders.revenue", "retries", "Payments", "x"]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("order", "orders"),
        ("ordres", "orders"),
        ("ORDERS", "orders"),
        ("retrys", "retries"),
        ("payment", "Payments"),
        ("order.revenue", "orders.revenue"),
        ("orders", ""),
        ("something", ""),
        ("", ""),
        ("y", ""),
        ("o" * 1_000_000, ""),
    ],
)
def test_most_similar_name_is_suggested(name: str, near: str) -> None:
    assert near_name(name, KNOWN) == near


def test_suggestion_is_a_question() -> None:
    assert did_you_mean("retrys", KNOWN) == "did you mean 'retries'?"
    assert did_you_mean("zzz", KNOWN) == ""


def test_only_so_many_names_are_looked_at() -> None:
    looked_at = 0

    def names() -> object:
        nonlocal looked_at
        for number in range(1_000_000):
            looked_at += 1
            yield f"topic-{number:07}"

    assert near_name("topik-0000003", names()).startswith("topic-000")  # type: ignore[arg-type]
    assert looked_at <= 10_001


@pytest.mark.parametrize("length", [40, 48, 199, 250])
def test_names_that_repeat_themselves_cost_little(length: int) -> None:
    """The longest-match search is slow for such names, and clients may choose them."""
    known = ["ab" * (length // 2 - 4) + f"{number:08}" for number in range(300)]
    before = time.thread_time()
    near_name("ba" * (length // 2), known)
    assert time.thread_time() - before < 0.2

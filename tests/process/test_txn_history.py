"""The checker of transactions sees what must not happen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.process.txn_history import History, check

FINE = History(
    inputs={"0-0", "0-1"},
    seen=["0-1/b/0", "0-0/a/1"],
    committed={"0-0/a/1"},
    aborted={"0-0/a/0"},
    offsets=[{}, {0: 1}, {0: 1}, {0: 2, 1: 5}],
    stable={0: 4},
    ends={0: 4},
)


def test_correct_history_passes() -> None:
    check(FINE)


@pytest.mark.parametrize(
    ("bad", "finding"),
    [
        (replace(FINE, seen=[*FINE.seen, "0-1/a/2"]), "more than once"),
        (replace(FINE, seen=["0-0/a/1"], committed=set()), "not handled"),
        (replace(FINE, seen=[*FINE.seen, "7-7/a/2"]), "outputs of nothing"),
        (replace(FINE, seen=["0-1/b/0", "0-0/a/0"], committed=set()), "what was aborted"),
        (replace(FINE, committed={"0-0/a/9"}), "is lost"),
        (replace(FINE, offsets=[{0: 2}, {0: 1}]), "went back"),
        (replace(FINE, offsets=[{0: 2}, {}]), "went back"),
        (replace(FINE, stable={0: 3}), "stuck"),
    ],
)
def test_violations_are_found(bad: History, finding: str) -> None:
    with pytest.raises(AssertionError, match=finding):
        check(bad)

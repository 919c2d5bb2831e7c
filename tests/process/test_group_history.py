"""The checker of groups sees what must not happen."""

from __future__ import annotations

from typing import Any

import pytest

from tests.process.group_history import History, check


def event(at: float, kind: str, **facts: Any) -> dict[str, Any]:
    return {"at": at, "event": kind, **facts}


def history(**events: list[dict[str, Any]]) -> History:
    return History(events=events)


HANDED_OVER = {
    "a": [
        event(1, "assigned", partitions=[0]),
        event(2, "committed", began=1.5, offsets={"0": 5}),
        event(3, "revoked", partitions=[0]),
    ],
    "b": [event(4, "assigned", partitions=[0]), event(5, "committed", began=4.5, offsets={"0": 7})],
}


def test_a_partition_that_is_handed_over_is_fine() -> None:
    check(history(**HANDED_OVER))


def test_two_owners_are_seen() -> None:
    with pytest.raises(AssertionError, match="Owned"):
        check(history(a=[event(1, "assigned", partitions=[0])], b=[event(2, "assigned", partitions=[0])]))


def test_a_member_that_was_silenced_owns_nothing_any_more() -> None:
    found = history(a=[event(1, "assigned", partitions=[0])], b=[event(3, "assigned", partitions=[0])])
    found.silenced["a"] = [2.0]
    check(found)


def test_a_commit_of_a_zombie_is_seen() -> None:
    found = history(**HANDED_OVER)
    found.events["a"].append(event(7, "committed", began=6, offsets={"0": 8}))
    with pytest.raises(AssertionError, match="Commit"):
        check(found)


def test_an_offset_that_goes_back_is_seen() -> None:
    found = history(**HANDED_OVER)
    found.events["b"].append(event(7, "committed", began=6, offsets={"0": 6}))
    with pytest.raises(AssertionError, match="Commit"):
        check(found)

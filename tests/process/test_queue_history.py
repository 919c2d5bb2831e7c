"""The checker of queue histories finds what must never happen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.process.queue_history import QueueHistory, check


def handled(at: float, receipt: str, delivery: int = 1) -> dict[str, object]:
    return {"at": at, "event": "handled", "place": [0, 7], "delivery": delivery, "receipt": receipt}


def acked(at: float, receipt: str) -> dict[str, object]:
    return {"at": at, "event": "acked", "receipts": [receipt]}


def history(directory: Path, *events: dict[str, object]) -> QueueHistory:
    path = directory / "worker.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in events) + '{"cut', "utf-8")
    found = QueueHistory()
    found.read("worker", path)
    return found


def test_a_message_that_was_begun_again_before_its_ack_is_fine(tmp_path: Path) -> None:
    found = history(tmp_path, handled(1.0, "a"), handled(2.0, "b", 2), acked(3.0, "a"))
    check(found)
    assert found.done == {(0, 7): 3.0}


def test_a_message_that_is_handled_after_its_ack_is_found(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="handled after"):
        check(history(tmp_path, handled(1.0, "a"), acked(2.0, "a"), handled(3.0, "b", 2)))


def test_two_handlers_under_one_lease_are_found(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="under one lease"):
        check(history(tmp_path, handled(1.0, "a"), handled(2.0, "a", 2)))


def test_two_first_deliveries_are_found(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="same number"):
        check(history(tmp_path, handled(1.0, "a"), handled(2.0, "b")))

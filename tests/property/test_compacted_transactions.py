"""What Kafka clients read of a compacted log with transactions: of each key the last committed value, none aborted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from goqueue.log.log import Log
from goqueue.model.log_settings import Cleanup
from goqueue.testing import SimDisk
from tests.unit.log.log_kit import (
    DAY_MS,
    NOW_MS,
    SETTINGS,
    abort,
    append,
    batch,
    commit,
    compact,
    in_transaction,
    open_log,
    read_committed,
    settle,
    stored_batches,
)

COMPACTING = replace(SETTINGS, cleanup=Cleanup.COMPACT, min_cleanable_dirty_ratio=0, delete_retention_ms=DAY_MS)
PRODUCERS = 3
KEYS = 4
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, PRODUCERS - 1), st.integers(0, KEYS - 1)),
        st.tuples(st.sampled_from(["commit", "abort"]), st.integers(0, PRODUCERS - 1), st.just(0)),
        st.tuples(st.sampled_from(["plain", "roll", "compact", "later", "restart"]), st.just(0), st.just(0)),
    ),
    max_size=60,
)
Step = tuple[str, int, int]


class History:
    """A log, and what was written to it, transaction by transaction."""

    def __init__(self) -> None:
        self.disk = SimDisk(0)
        self.log = open_log(self.disk, COMPACTING)
        self.now_ms = NOW_MS
        self.sequences = [0] * PRODUCERS
        self.opened: dict[int, list[tuple[bytes, bytes]]] = {}
        self.aborted: set[bytes] = set()
        self.count = 0

    def take(self, step: Step) -> None:
        kind, producer, key = step
        self.count += 1
        match kind:
            case "write":
                self.write(producer, b"key %d" % key)
            case "commit" | "abort":
                self.end(producer, is_commit=kind == "commit")
            case "plain":
                append(self.log, batch(b"%d" % self.count, key=b"plain", timestamp=self.now_ms))
            case "roll":
                self.log.roll()
            case "compact":
                settle(self.log)
                compact(self.log, self.now_ms)
            case "later":
                self.now_ms += DAY_MS
            case "restart":
                self.log.close()
                self.log = open_log(self.disk, COMPACTING)

    def write(self, producer: int, key: bytes) -> None:
        value = b"%d" % self.count
        sequence = self.sequences[producer]
        append(self.log, in_transaction(value, key=key, producer=producer, sequence=sequence, timestamp=self.now_ms))
        self.sequences[producer] += 1
        self.opened.setdefault(producer, []).append((key, value))

    def end(self, producer: int, *, is_commit: bool) -> None:
        append(self.log, (commit if is_commit else abort)(producer, timestamp=self.now_ms))
        written = self.opened.pop(producer, [])
        if not is_commit:
            self.aborted.update(value for _, value in written)


def committed_by_key(steps: Sequence[Step]) -> dict[bytes, bytes]:
    """Return the last value of each key in the log, by the order of the records and not of the markers."""
    values: list[tuple[bytes, bytes, int] | None] = []
    opened: dict[int, list[int]] = {}
    for count, (kind, producer, key) in enumerate(steps, 1):
        if kind == "write":
            opened.setdefault(producer, []).append(len(values))
            values.append((b"key %d" % key, b"%d" % count, producer))
        elif kind == "abort":
            for at in opened.pop(producer, []):
                values[at] = None
        elif kind == "commit":
            opened.pop(producer, None)
    return {each[0]: each[1] for each in values if each is not None}


AFTER_AN_ABORT: list[Step] = [
    *[("write", 0, 0), ("abort", 0, 0), ("write", 0, 1), ("commit", 0, 0), ("write", 0, 2), ("commit", 0, 0)],
    *[("roll", 0, 0), ("compact", 0, 0), ("later", 0, 0), ("plain", 0, 0), ("roll", 0, 0), ("compact", 0, 0)],
]


@settings(max_examples=150, deadline=None)
@given(STEPS)
@example(AFTER_AN_ABORT)
def test_the_last_committed_value_of_each_key_is_read_and_no_aborted_one(steps: list[Step]) -> None:
    history = History()
    for step in steps:
        history.take(step)
        assert not history.aborted.intersection(read_committed(history.log))
    still_open = list(history.opened)
    for producer in still_open:
        history.take(("commit", producer, 0))
    read = read_committed(history.log)
    expected = committed_by_key([*steps, *(("commit", producer, 0) for producer in still_open)])
    assert set(expected.values()) <= set(read)
    assert not history.aborted.intersection(read)
    history.log.close()


def test_the_example_loses_its_marker() -> None:
    history = History()
    for step in AFTER_AN_ABORT:
        history.take(step)
    assert first_markers(history.log) == [3, 5]


def first_markers(log: Log) -> list[int]:
    """Return the offsets of the markers that are left."""
    return [header.base_offset for header, _ in stored_batches(log) if header.is_control]

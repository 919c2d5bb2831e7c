"""What is held back beyond retention, against a naive model and by its laws."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from goqueue.log.retention import DuePartition, DueSegment, RetentionLimit, limit_retention
from goqueue.model.topic_settings import UNLIMITED


@st.composite
def due_partitions(draw: st.DrawFn) -> DuePartition:
    """Draw what retention would delete of a partition; timestamps may be out of order, and the same."""
    steps = draw(st.lists(st.integers(1, 5), max_size=6))
    segments = [
        DueSegment(end, draw(st.integers(1, 20)), draw(st.integers(-1, 10))) for end in accumulate(steps, initial=0)
    ][1:]
    return DuePartition(segments, draw(st.integers(0, sum(steps) + 5)))


PARTITIONS = st.lists(due_partitions(), max_size=4)
BUDGETS = st.integers(UNLIMITED, 120)


def naive(partitions: list[DuePartition], budget_bytes: int) -> list[RetentionLimit]:
    """Let one segment after the other leave, and look at everything again each time."""
    held = [
        [each for each in partition.segments if each.next_offset > partition.first_unread] for partition in partitions
    ]
    gone: list[list[DueSegment]] = [[] for _ in partitions]
    while budget_bytes >= 0 and sum(each.size_bytes for segments in held for each in segments) > budget_bytes:
        number = min((number for number in range(len(held)) if held[number]), key=lambda n: held[n][0].max_timestamp)
        gone[number].append(held[number].pop(0))
    return [
        RetentionLimit(
            gone[number][-1].next_offset if gone[number] else partition.first_unread,
            sum(each.size_bytes for each in held[number]),
            sum(each.size_bytes for each in gone[number]),
        )
        for number, partition in enumerate(partitions)
    ]


@given(PARTITIONS, BUDGETS)
def test_what_is_held_is_what_a_naive_model_holds(partitions: list[DuePartition], budget_bytes: int) -> None:
    assert limit_retention(partitions, budget_bytes) == naive(partitions, budget_bytes)


@given(PARTITIONS, st.integers(0, 120))
def test_what_is_held_fits_into_the_budget(partitions: list[DuePartition], budget_bytes: int) -> None:
    assert sum(verdict.held_bytes for verdict in limit_retention(partitions, budget_bytes)) <= budget_bytes


@given(PARTITIONS, BUDGETS)
def test_what_everybody_has_read_may_leave_and_nothing_else_unless_the_budget_is_exceeded(
    partitions: list[DuePartition], budget_bytes: int
) -> None:
    verdicts = limit_retention(partitions, budget_bytes)
    for partition, verdict in zip(partitions, verdicts, strict=True):
        assert verdict.expires_before >= partition.first_unread
        assert (verdict.expires_before > partition.first_unread) == (verdict.unread_bytes > 0)
    unread = sum(verdict.held_bytes + verdict.unread_bytes for verdict in verdicts)
    if budget_bytes == UNLIMITED or unread <= budget_bytes:
        assert not any(verdict.unread_bytes for verdict in verdicts)


@given(PARTITIONS, st.integers(0, 120), st.integers(0, 120))
def test_a_larger_budget_never_lets_more_leave(partitions: list[DuePartition], one: int, more: int) -> None:
    small, large = limit_retention(partitions, one), limit_retention(partitions, one + more)
    assert all(a.expires_before >= b.expires_before for a, b in zip(small, large, strict=True))

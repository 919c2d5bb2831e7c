"""Ranges become slices, and a limit is shared: whatever the offsets are."""

from __future__ import annotations

from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.client.kafka import TopicPartition
from goqueue.errors import Invalid
from goqueue.spark.source.plan import Range, share, slices_of

_ID = UUID(int=1)

offsets = st.integers(0, 10**12)


@st.composite
def ranges(draw: st.DrawFn) -> list[Range]:
    """Draw ranges of different partitions, some of them empty."""
    places = draw(st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 5)), max_size=6, unique=True))
    found = []
    for topic, partition in places:
        start = draw(offsets)
        found.append(Range(topic, _ID, partition, start, start + draw(st.integers(0, 2000))))
    return found


limits = st.none() | st.integers(1, 300)


def test_more_slices_than_spark_can_run_are_refused_before_they_are_made() -> None:
    whole = Range("a", _ID, 0, 0, 10**15)

    with pytest.raises(Invalid, match="maxRecordsPerPartition") as caught:
        slices_of([whole], slice_records_max=1)

    assert "1000000000000000 tasks, more than 100000" in str(caught.value)
    assert len(slices_of([whole], slice_records_max=10**10)) == 100_000


@given(ranges(), limits, limits)
def test_slices_hold_every_offset_once_and_no_other(
    wanted: list[Range], slices_min: int | None, records_max: int | None
) -> None:
    slices = slices_of(wanted, slices_min=slices_min, slice_records_max=records_max)

    assert all(each.size > 0 for each in slices)
    for each in wanted:
        pieces = [piece for piece in slices if piece[:3] == each[:3]]
        assert sum(piece.size for piece in pieces) == each.size
        if pieces:
            assert (pieces[0].start, pieces[-1].end) == (each.start, each.end)
        assert all(left.end == right.start for left, right in pairwise(pieces))


@given(ranges(), limits, limits)
def test_there_are_as_many_slices_as_asked_for_and_none_is_too_long(
    wanted: list[Range], slices_min: int | None, records_max: int | None
) -> None:
    slices = slices_of(wanted, slices_min=slices_min, slice_records_max=records_max)

    assert len(slices) >= min(slices_min or 0, sum(each.size for each in wanted))
    assert all(each.size <= (records_max or each.size) for each in slices)


@given(ranges(), limits)
def test_slices_of_one_partition_are_equal_and_those_of_others_not_half_as_long(
    wanted: list[Range], slices_min: int | None
) -> None:
    slices = slices_of(wanted, slices_min=slices_min)

    for each in wanted:
        sizes = [piece.size for piece in slices if piece[:3] == each[:3]]
        assert not sizes or max(sizes) - min(sizes) <= 1
        if len(sizes) > 1:
            # It was cut because its slices were the longest, so nobody else's are more than twice as long.
            assert max(piece.size for piece in slices) <= 2 * max(sizes) + 1


@given(ranges(), limits)
def test_slices_do_not_depend_on_the_order_of_ranges(wanted: list[Range], slices_min: int | None) -> None:
    assert slices_of(wanted, slices_min=slices_min) == slices_of(wanted[::-1], slices_min=slices_min)


def test_a_partition_is_one_slice_unless_more_are_wanted() -> None:
    wanted = [Range("a", _ID, 0, 0, 100), Range("a", _ID, 1, 0, 10)]

    assert slices_of(wanted) == wanted
    assert [(each.partition, each.start, each.end) for each in slices_of(wanted, slices_min=3)] == [
        (0, 0, 50),
        (0, 50, 100),
        (1, 0, 10),
    ]


backlogs = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(["a", "b"]), st.integers(0, 9)), st.integers(0, 10**9), max_size=12
)


@given(backlogs, st.integers(1, 10**9))
def test_a_limit_is_used_up_and_kept(backlog: dict[TopicPartition, int], limit: int) -> None:
    shares = share(backlog, limit)

    waiting = [place for place, size in backlog.items() if size]
    assert sum(shares.values()) == max(min(limit, sum(backlog.values())), len(waiting))


@given(backlogs, st.integers(1, 10**9))
def test_nobody_who_waits_is_starved_and_nobody_gets_more_than_waits(
    backlog: dict[TopicPartition, int], limit: int
) -> None:
    shares = share(backlog, limit)

    assert set(shares) == {place for place, size in backlog.items() if size}
    assert all(1 <= count <= backlog[place] for place, count in shares.items())


@given(backlogs, st.integers(1, 10**9))
def test_a_larger_backlog_never_has_the_smaller_share(backlog: dict[TopicPartition, int], limit: int) -> None:
    shares = share(backlog, limit)

    ordered = sorted(shares, key=lambda place: backlog[place])
    assert all(shares[less] <= shares[more] + 1 for less, more in pairwise(ordered))


def test_a_limit_is_shared_in_proportion_once_everybody_has_one() -> None:
    backlog = {TopicPartition("a", 0): 9001, TopicPartition("a", 1): 1001, TopicPartition("a", 2): 0}

    assert share(backlog, 1002) == {TopicPartition("a", 0): 901, TopicPartition("a", 1): 101}

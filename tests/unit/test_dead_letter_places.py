"""Where letters of a partition lie: in one place, and in few others if their topic has got partitions since."""

from __future__ import annotations

from itertools import product

import pytest

from goqueue.model.dead_letters import letter_places

COUNTS = range(1, 70)


def test_letters_of_a_partition_are_looked_for_wherever_they_went_before() -> None:
    for partition, count in product(range(140), COUNTS):
        places = letter_places(partition, count)
        assert len(set(places)) == len(places) <= count.bit_length() + 1
        assert all(place < count for place in places)
        assert {letter_places(partition, before)[0] for before in range(1, count + 1)} <= set(places)


@pytest.mark.parametrize(
    ("partition", "count", "places"),
    [(0, 1, [0]), (0, 8, [0]), (3, 4, [3, 1, 0]), (3, 8, [3, 1, 0]), (5, 1, [0]), (5, 4, [1, 0]), (6, 5, [2, 0])],
)
def test_a_partition_has_its_counterpart_if_there_is_one(partition: int, count: int, places: list[int]) -> None:
    assert letter_places(partition, count) == places

"""Deadlines by name: each is due once, at its time, and again if what was due was not done."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from goqueue.machines.deadlines import Deadlines


def test_what_is_due_comes_in_order_of_time() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for name, moment in (("c", 30), ("a", 10), ("b", 20)):
        deadlines.note(name, moment)
    assert deadlines.next_ms() == 10
    assert list(deadlines.due(9)) == []
    assert list(deadlines.due(20)) == ["a", "b"]


def test_nothing_is_due_if_nothing_is_known() -> None:
    deadlines: Deadlines[str] = Deadlines()
    assert deadlines.next_ms() is None
    assert list(deadlines.due(1_000_000)) == []
    deadlines.note("a", None)
    assert deadlines.next_ms() is None


def test_a_deadline_that_was_taken_back_is_not_due() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.note("a", 10)
    deadlines.note("a", None)
    assert deadlines.next_ms() is None
    assert list(deadlines.due(100)) == []
    deadlines.note("a", 50)
    assert list(deadlines.due(49)) == []
    assert list(deadlines.due(50)) == ["a"]


def test_an_earlier_deadline_counts() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.note("a", 50)
    deadlines.note("a", 20)
    assert list(deadlines.due(20)) == ["a"]
    deadlines.note("a", None)
    assert list(deadlines.due(100)) == []


def test_what_was_not_done_is_due_again_a_second_later() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.note("a", 10)
    assert list(deadlines.due(15)) == ["a"]
    assert deadlines.next_ms() == 1_015
    assert list(deadlines.due(1_014)) == []
    assert list(deadlines.due(1_015)) == ["a"]


def test_what_was_done_is_due_when_it_says() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.note("a", 10)
    assert list(deadlines.due(10)) == ["a"]
    deadlines.note("a", 5_000, is_past=True)
    assert deadlines.next_ms() == 5_000
    assert list(deadlines.due(4_999)) == []
    assert list(deadlines.due(5_000)) == ["a"]
    deadlines.note("a", None, is_past=True)
    assert deadlines.next_ms() is None


def test_names_that_nobody_asked_for_in_the_end_come_again() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for name in "abc":
        deadlines.note(name, 10)
    taken = next(iter(deadlines.due(10)))
    deadlines.note(taken, None, is_past=True)
    assert sorted(deadlines.due(1_010)) == sorted({"a", "b", "c"} - {taken})


MOMENTS = st.integers(0, 5_000)
STEPS = st.lists(st.tuples(st.sampled_from("abcd"), st.none() | MOMENTS, st.integers(0, 700)), max_size=40)


@given(STEPS)
def test_nothing_is_missed_and_an_early_call_does_no_harm(steps: list[tuple[str, int | None, int]]) -> None:
    """Whoever is called too early says when it is really due, as groups do."""
    deadlines: Deadlines[str] = Deadlines()
    wanted: dict[str, int] = {}
    now = 0
    for name, moment, passed in steps:
        later = None if moment is None else now + moment
        if later is None:
            wanted.pop(name, None)
        else:
            wanted[name] = later
        deadlines.note(name, later)
        now += passed
        for due in deadlines.due(now):
            if wanted.get(due, now + 1) <= now:
                del wanted[due]
            deadlines.note(due, wanted.get(due), is_past=True)
        assert all(moment > now for moment in wanted.values()), "what is due has come"
        following = deadlines.next_ms()
        assert (following is None) == (not wanted)
        assert following is None or now < following <= min(wanted.values())

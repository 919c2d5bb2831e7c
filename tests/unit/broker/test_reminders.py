"""Trouble that lasts is reported now and then, and not at every look."""

from __future__ import annotations

from goqueue.broker.reminders import Reminders


def test_a_thing_is_reported_again_after_a_while_and_others_by_themselves() -> None:
    reminders = Reminders(every_s=10)
    assert reminders.is_due("one", 0)
    assert not reminders.is_due("one", 9.9)
    assert reminders.is_due("two", 9.9)
    assert reminders.is_due("one", 10)
    assert not reminders.is_due("one", 19.9)


def test_what_is_due_anyway_is_forgotten() -> None:
    reminders = Reminders(every_s=10)
    for number in range(100):
        assert reminders.is_due(number, number)
    assert not reminders.is_due(0, 5)
    reminders.prune(99)
    assert len(reminders) == 10
    assert not reminders.is_due(99, 100)
    reminders.prune(1000)
    assert len(reminders) == 0

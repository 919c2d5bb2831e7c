"""What a clean stop leaves for the next start: whole or not at all, and for one start only."""

from __future__ import annotations

from pathlib import PurePath
from uuid import UUID

from goqueue.log.closed_state import ClosedState
from goqueue.log.events import ClosedStatesLost
from goqueue.runtime.clean_shutdown import CLOSED_STATES_LOG, TopicIdPartition, store_closed_states, take_closed_states
from goqueue.testing import Fate, PowerLoss, RecordingSink, SimDisk

DIRECTORY = PurePath("data")
TOPICS = [UUID(int=number) for number in range(501)]
RESTS = [
    (topic, {index: ClosedState(1, number + 1, 2, 3, 4, 5, 6, 7) for index in (0, 2)})
    for number, topic in enumerate(TOPICS)
]
FOUND = {TopicIdPartition(topic, index): rest for topic, rests in RESTS for index, rest in rests.items()}


def _disk() -> SimDisk:
    disk = SimDisk(0)
    disk.make_directory(DIRECTORY)
    disk.sync_directory(PurePath())
    return disk


def test_the_next_start_finds_what_a_stop_left_and_the_one_after_it_nothing() -> None:
    disk = _disk()
    for _ in range(3):
        store_closed_states(disk, DIRECTORY, RecordingSink(), RESTS)
        disk.crash(Fate.NONE)
        assert take_closed_states(disk, DIRECTORY, RecordingSink()) == FOUND
        disk.crash(Fate.NONE)
        assert take_closed_states(disk, DIRECTORY, RecordingSink()) == {}


def test_without_a_stop_there_is_nothing() -> None:
    disk = _disk()
    assert take_closed_states(disk, DIRECTORY, RecordingSink()) == {}
    assert not disk.exists(DIRECTORY / CLOSED_STATES_LOG)


def test_a_power_loss_at_any_moment_of_a_stop_leaves_all_or_nothing() -> None:
    for fate in (Fate.NONE, Fate.ALL):
        disk = _disk()
        for operations in range(1, 200):
            crashing = disk.clone(operations)
            crashing.crash_after(operations)
            try:
                store_closed_states(crashing, DIRECTORY, RecordingSink(), RESTS)
            except PowerLoss:
                crashing.crash(fate)
                assert take_closed_states(crashing, DIRECTORY, RecordingSink()) in ({}, FOUND)
                crashing.crash(Fate.NONE)
                assert take_closed_states(crashing, DIRECTORY, RecordingSink()) == {}
            else:
                assert operations > 10
                break
        else:
            raise AssertionError("the stop never ended")


def test_a_power_loss_at_any_moment_of_a_start_leaves_it_for_the_next_one_or_has_used_it_up() -> None:
    disk = _disk()
    store_closed_states(disk, DIRECTORY, RecordingSink(), RESTS)
    for operations in range(1, 200):
        crashing = disk.clone(operations)
        crashing.crash_after(operations)
        try:
            take_closed_states(crashing, DIRECTORY, RecordingSink())
        except PowerLoss:
            crashing.crash(Fate.NONE)
            assert take_closed_states(crashing, DIRECTORY, RecordingSink()) in ({}, FOUND)
        else:
            assert operations > 10
            break
    else:
        raise AssertionError("the start never ended")


def test_a_damaged_one_is_reported_and_removed() -> None:
    disk = _disk()
    store_closed_states(disk, DIRECTORY, RecordingSink(), RESTS)
    name = next(name for name in disk.list_directory(DIRECTORY / CLOSED_STATES_LOG) if name.endswith(".log"))
    file = disk.open(DIRECTORY / CLOSED_STATES_LOG / name)
    file.write_at(200, b"\xff\xff\xff\xff")
    file.close()
    sink = RecordingSink()
    assert take_closed_states(disk, DIRECTORY, sink) == {}
    assert sink.of(ClosedStatesLost)
    assert not disk.exists(DIRECTORY / CLOSED_STATES_LOG)

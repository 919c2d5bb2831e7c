"""The clocks, the entropy and the sink that a test holds in its hand."""

from __future__ import annotations

import asyncio
import doctest
import sys
from dataclasses import dataclass

import pytest

from goqueue.seams.clock import Clock
from goqueue.seams.entropy import Entropy
from goqueue.seams.sink import Event, Sink
from goqueue.testing.clock import START_MS, ManualClock
from goqueue.testing.entropy import SeededEntropy
from goqueue.testing.simulation import Simulation, simulate
from goqueue.testing.sink import RecordingSink


@dataclass(frozen=True, slots=True)
class Opened(Event):
    name: str


@dataclass(frozen=True, slots=True)
class Closed(Event):
    name: str


def test_a_manual_clock_stands_still_until_it_is_advanced() -> None:
    clock = ManualClock(now_ms=1_000, monotonic=5.0)
    seen: Clock = clock
    assert (seen.now_ms(), seen.monotonic()) == (1_000, 5.0)
    clock.advance(1.5)
    assert (seen.now_ms(), seen.monotonic()) == (2_500, 6.5)


def test_many_small_advances_add_up_on_the_wall_clock() -> None:
    clock = ManualClock(now_ms=0)
    for _ in range(10_000):
        clock.advance(0.0001)
    assert clock.now_ms() == 1_000


def test_a_jump_of_the_wall_clock_leaves_durations_alone() -> None:
    clock = ManualClock(now_ms=1_000)
    clock.jump_ms(-400)
    assert (clock.now_ms(), clock.monotonic()) == (600, 0.0)


def test_a_manual_clock_refuses_to_let_time_run_backwards() -> None:
    with pytest.raises(ValueError, match="forwards"):
        ManualClock().advance(-0.1)


def test_a_simulated_clock_follows_the_loop_and_jumps_only_on_the_wall() -> None:
    async def main(simulation: Simulation) -> list[tuple[int, float]]:
        clock = simulation.clock
        seen = [(clock.now_ms(), clock.monotonic())]
        await asyncio.sleep(0.25)
        seen.append((clock.now_ms(), clock.monotonic()))
        clock.jump_ms(-60_000)
        seen.append((clock.now_ms(), clock.monotonic()))
        return seen

    assert simulate(main, 1) == [(START_MS, 0.0), (START_MS + 250, 0.25), (START_MS - 59_750, 0.25)]


def _draws(entropy: Entropy) -> list[object]:
    return [entropy.fraction(), entropy.below(1_000_000), entropy.token(16), entropy.uuid()]


def test_the_same_seed_draws_the_same() -> None:
    assert _draws(SeededEntropy(7)) == _draws(SeededEntropy(7))
    assert _draws(SeededEntropy(7)) != _draws(SeededEntropy(8))


def test_a_fork_depends_on_its_name_and_not_on_earlier_draws() -> None:
    fresh, used = SeededEntropy(7), SeededEntropy(7)
    used.fraction()
    assert _draws(fresh.fork("disk")) == _draws(used.fork("disk"))
    assert _draws(fresh.fork("disk")) != _draws(fresh.fork("network"))


def test_seeded_draws_stay_in_their_ranges() -> None:
    entropy = SeededEntropy(1)
    assert {entropy.below(3) for _ in range(100)} == {0, 1, 2}
    assert all(0 <= entropy.fraction() < 1 for _ in range(100))
    assert not any(entropy.chance(0) for _ in range(100))
    assert all(entropy.chance(1) for _ in range(100))
    assert {entropy.choice("ab") for _ in range(100)} == {"a", "b"}
    assert entropy.uuid().version == 4


def test_a_shuffle_keeps_every_item() -> None:
    items = list(range(50))
    SeededEntropy(3).shuffle(items)
    assert items != list(range(50))
    assert sorted(items) == list(range(50))


def test_a_recording_sink_keeps_events_in_order_and_sorts_them_by_type() -> None:
    recording = RecordingSink()
    sink: Sink = recording
    for event in (Opened("a"), Closed("a"), Opened("b")):
        sink.emit(event)
    assert recording.events == [Opened("a"), Closed("a"), Opened("b")]
    assert recording.of(Opened) == [Opened("a"), Opened("b")]


@pytest.mark.parametrize("module", ["goqueue.testing", "goqueue.testing.clock"])
def test_the_documented_examples_of_the_kit_hold(module: str) -> None:
    failed, attempted = doctest.testmod(sys.modules[module])
    assert attempted > 0
    assert failed == 0

"""A world of dead letters: some are written, redrives move them, and are cancelled, and what must have held.

- Each letter is in its target once, or in nobody's if it was never promised; after the last redrive, all are.
- A copy is in the partition that its message was in, unless a target was named, and says what the message said.
- What redrives count as moved is what was moved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from goqueue.errors import GoQueueError
from goqueue.machines.redrives.values import Redrive, RedriveTerms
from goqueue.model.dead_letter_selection import Selection
from goqueue.model.dead_letters import REDRIVES_HEADER
from tests.simulation.group_calls import MakeTopic
from tests.simulation.group_history import History
from tests.simulation.group_life import Client, Life
from tests.simulation.group_lives import World
from tests.simulation.redrive_calls import (
    CancelRedrive,
    CountLeft,
    LookAtRedrives,
    ReadCopies,
    StartRedrive,
    WriteLetter,
)

LETTERS = "orders.dlq"
SOURCES = ("orders", "events")
TARGET = "triage"
REASONS = ("rejected", "lease_expired")
THREATS = (StartRedrive, StartRedrive, WriteLetter, CancelRedrive, LookAtRedrives)


@dataclass(slots=True)
class Writer:
    """Makes the topics, and writes dead letters until there is peace."""

    name: str = "writer"

    async def run(self, life: Life) -> None:
        """Write one letter after the other."""
        while not life.is_over:
            for topic in (*SOURCES, TARGET, LETTERS):
                if topic not in life.broker.topics.by_name:
                    await life.ask(self.name, MakeTopic(topic, 2))
            await life.pause(0.1)
            if not life.is_settling:
                value = f"v{life.history.next_value()}"
                source, reason = life.entropy.choice(SOURCES), life.entropy.choice(REASONS)
                await life.ask(self.name, WriteLetter(LETTERS, value, reason, source, life.entropy.below(2)))


@dataclass(slots=True)
class Keeper:
    """Begins redrives of all kinds, and cancels some; in peace, of all that is left."""

    name: str = "keeper"

    async def run(self, life: Life) -> None:
        """Look after dead letters."""
        while not life.is_over:
            await life.pause(1.0)
            jobs = await life.call(self.name, LookAtRedrives())
            if isinstance(jobs, GoQueueError) or LETTERS not in life.broker.topics.by_name:
                continue
            running = [job for job in jobs if not job.state.is_end]
            # In peace nobody waits for one that takes its time.
            is_slow = life.is_settling and any(job.terms.rate for job in running)
            if running and (is_slow or (not life.is_settling and life.entropy.chance(0.2))):
                await life.ask(self.name, CancelRedrive(running[0].id))
            elif not running:
                terms = RedriveTerms() if life.is_settling else self._terms(life)
                await life.ask(self.name, StartRedrive(LETTERS, terms))

    def _terms(self, life: Life) -> RedriveTerms:
        choice = life.entropy.choice
        return RedriveTerms(
            Selection(reasons=choice([(), (), ("rejected",)]), source=choice([None, None, "orders"])),
            target=choice([None, None, TARGET]),
            rate=choice([None, 1.5, 20.0]),
            limit=choice([None, None, 3]),
        )


class RedriveWorld:
    """One topic of dead letters, of two others."""

    def __init__(self, seed: int, **options: Any) -> None:
        clients: list[Client] = [Writer(), Keeper()]
        options = {"seconds": 8.0, "rest_seconds": 60.0, **options}
        self.world = World(seed, clients, self._look, threats=THREATS, **options)

    def run(self, lives: int) -> list[str]:
        """Live, and return all that is wrong."""
        violations = self.world.run(lives)
        return violations or check_redrives(self.world.history)

    async def _look(self, life: Life) -> None:
        await life.ask("end", CountLeft(LETTERS))
        await life.ask("end", LookAtRedrives())
        for topic in (*SOURCES, TARGET):
            await life.ask("end", ReadCopies(topic))


def check_redrives(history: History) -> list[str]:
    """Return all that is wrong with redrives."""
    written = {request.value: (call, request) for call, request in history.of(WriteLetter)}
    looks = [call for call, _ in history.of(ReadCopies) if call.is_done]
    last = {call.request.topic: call.answer for call in looks}
    copies = [copy for topic in last.values() for copy in topic]
    counts = Counter(copy.value for copy in copies)
    violations = [f"{value} was published {count} times" for value, count in counts.items() if count > 1]
    violations += [
        f"{value} was never published again"
        for value, (call, _) in written.items()
        if call.is_done and value not in counts
    ]
    for copy in copies:
        violations += _wrong_copy(copy, written[copy.value][1])
    return [*violations, *_wrong_counts(history, len(copies))]


def _wrong_copy(copy: Any, letter: WriteLetter) -> Iterator[str]:
    if copy.topic != TARGET and (copy.topic, copy.partition) != (letter.topic, letter.partition):
        yield f"{letter} was published to {copy.topic}-{copy.partition}"
    said = (f"key {letter.value}".encode(), (("h", letter.value.encode()), (REDRIVES_HEADER, b"1")))
    if (copy.key, copy.headers) != said:
        yield f"{letter} became {copy}"


def _wrong_counts(history: History, copies: int) -> Iterator[str]:
    for call, _ in history.of(CountLeft):
        if call.is_done and call.answer.moved:
            yield f"{call.answer.moved} letters are left in the end"
    jobs: list[Redrive] = [call.answer for call, _ in history.of(LookAtRedrives) if call.is_done][-1]
    moved = sum(job.moves.moved for job in jobs)
    if moved != copies:
        yield f"redrives have moved {moved} letters, of which there are {copies}"

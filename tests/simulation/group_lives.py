"""Lives of a broker whose groups and transactions go on from one to the next, on a disk that fails; one seed decides.

A life starts a broker on what the one before has left and lets clients use its operations until the power fails, the
process is killed, or it is stopped. The last lives are peaceful: what was begun comes to its end, time passes, and all
that there is to see is read twice, before and after a restart. What must hold is for the checkers to say.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine, Sequence
from enum import Enum
from pathlib import PurePath
from typing import Any

from goqueue.broker.broker import Broker
from goqueue.broker.events import PartitionUnavailable, UnknownDirectory
from goqueue.errors import GoQueueError
from goqueue.log.events import DamageFound
from goqueue.machines.decision import KeyedRecord
from goqueue.model.broker_options import BrokerOptions
from goqueue.model.log_settings import FlushPolicy, LogSettings
from goqueue.model.topic_settings import TopicSettings
from goqueue.runtime.tasks import TaskFailed
from goqueue.testing import Fate, PowerLoss, RecordingSink, SeededEntropy, SimClock, SimDisk, Simulation, simulate
from goqueue.testing.clock import START_MS
from goqueue.testing.disk_faults import Fault
from goqueue.testing.loop import Unhandled
from tests.simulation.group_history import History
from tests.simulation.group_life import Client, Life

_UNEXPECTED = (DamageFound, UnknownDirectory, PartitionUnavailable, TaskFailed)
_LIFE_SECONDS_MAX = 2_000
_ALWAYS = 1_000_000
_ANSWER_SECONDS_MAX = 100.0
"""No call takes longer: clients ask for no longer rounds, and no broker keeps them waiting beyond that."""

LOOKED_AT = ("orders-0", "events-0", "__consumer_offsets-0", "__transactions-0", "__deliveries-0", "__catalog-0")
"""Whose logs a disk may refuse to write or sync."""


class Ending(Enum):
    """How a life ends."""

    POWER_LOSS = "power loss"
    KILL = "kill"
    STOP = "stop"


class Course(Enum):
    """What happens in a life: quiet work, disturbances, everything comes to its end, or nothing."""

    BEGINNING = "beginning"
    DISTURBED = "disturbed"
    PEACE = "peace"
    LOOK = "look"


USUAL_ENDINGS = (Ending.POWER_LOSS, Ending.POWER_LOSS, Ending.KILL, Ending.STOP)
Finale = Callable[[Life], Coroutine[Any, Any, None]]


class World:
    """A disk, the brokers that live on it one after the other, clients, and all that was said between them."""

    def __init__(
        self,
        seed: int,
        clients: Sequence[Client],
        finale: Finale,
        *,
        flush: FlushPolicy = FlushPolicy.GROUP,
        endings: Sequence[Ending] = USUAL_ENDINGS,
        threats: Sequence[type],
        crash_at: int | None = None,
        is_lossy: bool = False,
        seconds: float = 20.0,
        rest_seconds: float = 80.0,
    ) -> None:
        self.seed = seed
        self.clients = clients
        self.finale = finale
        self.flush = flush
        # What is not synced yet is at the mercy of the power, and nobody was promised otherwise: few look at it.
        # For these, logs of queue groups may be unreadable for a whole life, too.
        self.is_lossy = is_lossy
        self._is_blind = False
        is_safe = flush is FlushPolicy.GROUP or is_lossy
        self.endings = [each for each in endings if is_safe or each is not Ending.POWER_LOSS]
        # Kinds of requests that the power likes to fail upon.
        self.threats = threats
        # The operation of the disk, counted from a start, during which every life ends.
        self.crash_at = crash_at
        self.seconds = seconds
        self.rest_seconds = rest_seconds
        self.entropy = SeededEntropy(f"{seed}/world")
        self.disk = SimDisk(seed)
        self.history = History()
        self.violations: list[str] = []
        self._faults: list[Fault] = []
        self._sink = RecordingSink()
        self._wall_ms = START_MS
        self._seconds = 0.0
        self._stored: dict[str, list[KeyedRecord]] | None = None

    def run(self, lives: int) -> list[str]:
        """Live so many times, and twice more in peace; return what went wrong that is no matter of history."""
        if self.entropy.chance(0.8):
            # Otherwise, the first thing to be disturbed is how everything begins.
            self._live(Course.BEGINNING, Ending.STOP, "beginning")
        for number in range(lives):
            self._live(Course.DISTURBED, self.entropy.choice(self.endings), str(number))
            if self.violations:
                return self.violations
        self._live(Course.PEACE, Ending.STOP, "peace")
        self._live(Course.LOOK, Ending.STOP, "last look")
        return self.violations

    # -- a life

    def _live(self, course: Course, ending: Ending, name: str) -> None:
        chance = self.entropy.fork(name)

        async def main(simulation: Simulation) -> None:
            life = asyncio.create_task(self._main(simulation, chance, course, ending), name="life")
            # A task that meets the end of the power ends alone; here it is everybody's.
            while not life.done() and self.disk._gate.is_powered:
                await asyncio.wait([life], timeout=0.1)
            if life.done():
                await life

        try:
            simulate(main, f"{self.seed}/{name}", may_leak=True, seconds_max=_LIFE_SECONDS_MAX)
        except PowerLoss:
            pass
        except Unhandled as end:
            if not isinstance(end.__cause__, PowerLoss):
                raise
        self._end(chance, ending)

    def _threaten(self, chance: SeededEntropy, ending: Ending) -> None:
        """Decide at which operation of the disk a life ends: from now on, or since a call of some kind."""
        if self.crash_at is not None:
            self.disk.crash_after(self.crash_at)
            return
        if ending is Ending.STOP or (ending is Ending.KILL and chance.chance(0.3)):
            return
        if self.is_lossy and chance.chance(0.6):
            # When the life is over, much is there to be lost.
            return
        if chance.chance(0.7):
            operations = 1 + chance.below(chance.choice([6, 20]))
            self.history.watch(
                chance.choice(self.threats), 1 + chance.below(4), lambda: self.disk.crash_after(operations)
            )
        else:
            self.disk.crash_after(1 + chance.below(chance.choice([10, 40, 150, 500])))

    def _end(self, chance: SeededEntropy, ending: Ending) -> None:
        for event in self._sink.events:
            is_explained = isinstance(event, PartitionUnavailable) and self._faults
            if isinstance(event, _UNEXPECTED) and not is_explained and "PowerLoss" not in str(event):
                self.violations.append(f"reported: {event}")
        self._sink.events.clear()
        self._faults.clear()
        self.disk.heal()
        if ending is Ending.POWER_LOSS:
            self.disk.crash(chance.choice([Fate.NONE, None]) if self.is_lossy else None)
        else:
            self.disk.kill()
        self.history.life_ended()
        self._seconds += 1.0
        self._wall_ms += chance.choice([1, 1_000, 60_000])

    async def _main(self, simulation: Simulation, chance: SeededEntropy, course: Course, ending: Ending) -> None:
        clock = SimClock(simulation.loop, start_ms=self._wall_ms)
        broker = Broker(
            self.disk,
            PurePath("data"),
            self._options(chance),
            clock=clock,
            entropy=simulation.entropy.fork("broker"),
            sink=self._sink,
        )
        is_disturbed = course is Course.DISTURBED
        threatens_start = is_disturbed and chance.chance(0.2)
        if threatens_start:
            self._threaten(chance, ending)
        if is_disturbed and chance.chance(0.1):
            operation = chance.choice(["open", "read", "write", "list", "rename", "sync_directory"])
            self._fail(errno.EIO, operation, "*", 1, after=chance.below(30))
        self._is_blind = self.is_lossy and is_disturbed and not self._is_blind and chance.chance(0.7)
        if self._is_blind:
            self._fail(errno.EIO, "open", "__deliveries-*/*", _ALWAYS)
        try:
            await broker.start()
        except (GoQueueError, OSError):
            if not self._faults:
                raise
            return
        if is_disturbed and not threatens_start:
            self._threaten(chance, ending)
        self._compare_with_stored(broker)
        tasks: list[asyncio.Task[None]] = []
        life = Life(
            broker,
            self.history,
            simulation.entropy.fork("clients"),
            asyncio.sleep,
            lambda work: tasks.append(asyncio.create_task(work)),
            self._watch(clock),
        )
        tasks += [asyncio.create_task(client.run(life), name=client.name) for client in self.clients]
        await self._pass(course, life, clock, chance)
        self._look_for_the_forgotten(life)
        if ending is Ending.STOP:
            await self._stop(life, tasks)

    def _watch(self, clock: SimClock) -> Callable[[], float]:
        """Return a look at the time that has passed in all lives."""
        before = self._seconds

        def look() -> float:
            self._seconds, self._wall_ms = before + clock.monotonic(), clock.now_ms()
            return self._seconds

        return look

    def _options(self, chance: SeededEntropy) -> BrokerOptions:
        interval_ms = 60_000 if self.is_lossy else 500
        log = LogSettings(
            flush=self.flush, flush_interval_ms=interval_ms, segment_bytes=chance.choice([1024, 4096]), retention_ms=-1
        )
        return BrokerOptions(
            auto_create_topics=False,
            topic_defaults=TopicSettings(log=log),
            upkeep_interval_ms=chance.choice([500, 2000, 5000]),
        )

    # -- what happens in it

    async def _pass(self, course: Course, life: Life, clock: SimClock, chance: SeededEntropy) -> None:
        """Let time pass, as the course of this life demands."""
        if course is Course.BEGINNING:
            await asyncio.sleep(self.seconds / 4)
        elif course is Course.DISTURBED:
            await self._disturb(clock, chance)
        else:
            life.is_settling = True
            await asyncio.sleep(self.rest_seconds if course is Course.PEACE else 1.0)
            await self.finale(life)

    async def _disturb(self, clock: SimClock, chance: SeededEntropy) -> None:
        """Hurt the disk and the wall clock for a while."""
        end = clock.monotonic() + chance.choice([0.3, 1.0, 1.0, 3.0]) * chance.fraction() * self.seconds
        while clock.monotonic() < end:
            await asyncio.sleep(chance.fraction() * self.seconds / 5)
            match chance.below(12):
                case 0 | 1:
                    self._fail(errno.ENOSPC, "write", "*.log", 1 + chance.below(3))
                case 2 if chance.chance(0.4):
                    # A sync that fails takes with it what was written, and that is more than an interval promises.
                    operations = ["write", "sync"] if self.flush is FlushPolicy.GROUP else ["write"]
                    self._fail(errno.EIO, chance.choice(operations), f"{chance.choice(LOOKED_AT)}/*.log", 1)
                case 3:
                    clock.jump_ms(chance.choice([-120_000, -1_000, 1_000, 120_000]))

    def _fail(self, number: int, operation: str, path: str, times: int, after: int = 0) -> None:
        fault = self.disk.fail(number, operation=operation, path=path, times=times, after=after)  # type: ignore[arg-type]
        self._faults.append(fault)

    async def _stop(self, life: Life, tasks: Sequence[asyncio.Task[None]]) -> None:
        """Stop the broker in order: everybody who waits is told, and what it knew is remembered."""
        life.is_over = True
        broker = life.broker
        broker.core.admission.is_draining = True
        broker.release()
        _, waiting = await asyncio.wait(tasks, timeout=_ANSWER_SECONDS_MAX)
        if waiting:
            self.violations.append(f"not answered at the end: {[call.request for call in self.history.unanswered()]}")
            return
        await broker.stop()
        is_whole = not self._faults and not any(topic.is_going for topic in broker.topics.catalog.topics)
        self._stored = _records(broker) if is_whole else None

    def _look_for_the_forgotten(self, life: Life) -> None:
        now = life.seconds()
        for call in self.history.unanswered():
            if now - call.began_s > _ANSWER_SECONDS_MAX:
                self.violations.append(f"not answered for {now - call.began_s:.0f} s: {call.request}")

    def _compare_with_stored(self, broker: Broker) -> None:
        """After a stop in order, the machines that come from the logs are those that were stopped."""
        stored, self._stored = self._stored, None
        if stored is not None and not self._faults:
            found = _records(broker)
            for topic, records in stored.items():
                if records != found[topic]:
                    self.violations.append(f"{topic} had {records} before the stop, and has {found[topic]} after it")


def _records(broker: Broker) -> dict[str, list[KeyedRecord]]:
    return {
        coordinator.topic: sorted(record for machine in coordinator.machines for record in machine.records())
        for coordinator in (broker.groups, broker.transactions)
    }

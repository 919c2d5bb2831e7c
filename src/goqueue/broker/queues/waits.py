"""Who waits for messages of queue groups, and when they may have something to look at.

Receives of one group that wait for the same partitions stand in a line. News are for the first of them: most often it
takes all that there is, and to wake the others would cost each message as much as there are consumers. Whoever leaves
and has left something wakes the next, whatever became of it (`Waits.pass_on`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from goqueue.broker.queues.candidates import is_worth_a_look
from goqueue.machines.queues.group import QueueGroup
from goqueue.machines.queues.machine import QueueMachine
from goqueue.runtime.partition import Partition
from goqueue.runtime.waiters import Wake, hand_over

Place = frozenset[Partition]
Condition = Callable[[QueueGroup], bool]
"""Tells whether a group may have something for somebody."""


class Line:
    """Receives that wait for news of the same partitions, in the order in which they came."""

    def __init__(self, partitions: Sequence[Partition]) -> None:
        self._waiting: dict[Wake, None] = {}
        self._watches = {partition: partial(self._news, partition) for partition in partitions}
        for partition, watch in self._watches.items():
            partition.waiters.watch(watch)

    def __len__(self) -> int:
        return len(self._waiting)

    def join(self, wake: Wake) -> None:
        """Have a receive wait for its turn."""
        self._waiting[wake] = None

    def leave(self, wake: Wake) -> None:
        """Forget a receive; harmless if its turn has come."""
        self._waiting.pop(wake, None)

    def wake_next(self) -> None:
        """Let the first look: it is not in the line any more."""
        first = next(iter(self._waiting), None)
        if first is not None:
            del self._waiting[first]
            first()

    def wake_all(self) -> None:
        """Let all look."""
        for wake in list(self._waiting):
            wake()

    def is_worth_a_look(self, group: QueueGroup) -> bool:
        """Tell whether a group may have something for those who wait here."""
        return any(is_worth_a_look(each, group.windows.get(each.place)) for each in self._watches)

    def close(self) -> None:
        """Wait for no news any more."""
        for partition, watch in self._watches.items():
            partition.waiters.forget(watch)
        # They know the line, and nobody else would part the two.
        self._watches.clear()

    def _news(self, partition: Partition) -> None:
        # Others wait still.
        partition.waiters.watch(self._watches[partition])
        self.wake_next()


class Waits:
    """The receives that wait for a message, by group; those in `_waiting` wait until a condition holds of it."""

    def __init__(self) -> None:
        self.is_closed = False
        self._lines: dict[str, dict[Place, Line]] = {}
        self._waiting: dict[str, dict[Wake, Condition]] = {}
        # How many receives are under way, whether they wait or not.
        self._receives: dict[str, int] = {}
        # Those whose topic is not there yet.
        self._early: dict[Wake, None] = {}

    def begin(self, group: str, condition: Condition, wake: Wake) -> None:
        """Have somebody woken when a condition holds of a group; news of partitions are their own affair."""
        self._waiting.setdefault(group, {})[wake] = condition

    def end(self, group: str, wake: Wake) -> None:
        """Forget somebody who waits no longer."""
        if group in self._waiting:
            self._waiting[group].pop(wake, None)
            if not self._waiting[group]:
                del self._waiting[group]

    async def turn(self, group: str, partitions: Sequence[Partition], deadline: float) -> None:
        """Wait in line until there may be a message for a group, or the time is up."""
        place = frozenset(partitions)
        line = self._lines.setdefault(group, {}).get(place)
        if line is None:
            line = self._lines[group][place] = Line(partitions)
        try:
            await _woken(deadline, line.join, line.leave)
        finally:
            self._leave(group, place, line)

    def _leave(self, group: str, place: Place, line: Line) -> None:
        lines = self._lines.get(group, {})
        if not line and lines.get(place) is line:
            line.close()
            del lines[place]
            if not lines:
                del self._lines[group]

    def enter(self, group: str) -> None:
        """Take note that a receive of a group begins, which may wait for anything."""
        self._receives[group] = self._receives.get(group, 0) + 1

    def leave(self, group: str) -> None:
        """Take note that a receive of a group has ended."""
        self._receives[group] -= 1
        if not self._receives[group]:
            del self._receives[group]

    def is_received(self, group: str) -> bool:
        """Tell whether a receive of a group is under way."""
        return group in self._receives

    def has_line(self, group: str) -> bool:
        """Tell whether somebody waits in line for a group."""
        return group in self._lines

    def pass_on(self, group: QueueGroup) -> None:
        """Let the next of each line of a group look, if there may be something left for it."""
        for line in list(self._lines.get(group.name, {}).values()):
            if line.is_worth_a_look(group):
                line.wake_next()

    async def resumed(self, group: str, condition: Condition, deadline: float) -> None:
        """Wait until a condition holds of a group that could deliver nothing, or the time is up."""
        await _woken(deadline, partial(self.begin, group, condition), partial(self.end, group))

    async def topic(self, deadline: float) -> None:
        """Wait until there is another topic, or the time is up."""
        await _woken(deadline, self._early.setdefault, self._early.pop)

    def topics_changed(self) -> None:
        """Let all look again: a topic is there that was not, or has more partitions, or is gone."""
        self.wake(*{**self._lines, **self._waiting})
        for wake in list(self._early):
            wake()

    def wake(self, *groups: str) -> None:
        """Let all who wait for groups look again, which have changed."""
        for name in groups:
            for line in list(self._lines.get(name, {}).values()):
                line.wake_all()
            for wake in list(self._waiting.get(name, ())):
                wake()

    def changed(self, machine: QueueMachine) -> None:
        """Wake the receives of groups that may have something for them now."""
        for name in {**self._lines, **self._waiting}:
            group = machine.find(name)
            if group is None:
                continue
            self.pass_on(group)
            for wake, condition in list(self._waiting.get(name, {}).items()):
                if condition(group):
                    wake()

    def close(self) -> None:
        """Wake all; from now on nobody waits."""
        self.is_closed = True
        self.topics_changed()


async def _woken(deadline: float, begin: Callable[[Wake], object], end: Callable[[Wake], object]) -> None:
    """Wait until a callback is called, which is known to others from `begin` to `end`, or the time is up."""
    loop = asyncio.get_running_loop()
    woken: asyncio.Future[None] = loop.create_future()
    wake: Wake = partial(hand_over, woken, None)
    timer = loop.call_at(deadline, wake)
    begin(wake)
    try:
        await woken
    finally:
        timer.cancel()
        end(wake)

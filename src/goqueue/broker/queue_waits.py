"""Who waits for messages of queue groups, and when they may have something to look at."""

from __future__ import annotations

import asyncio
from functools import partial

from goqueue.machines.deliveries import Deliveries
from goqueue.runtime.waiters import Wake, hand_over


class Waits:
    """The receives that wait for a message, by group; those in `_short` wait for the group itself, paused or full."""

    def __init__(self) -> None:
        self.is_closed = False
        self._waiting: dict[str, dict[Wake, None]] = {}
        self._short: dict[str, dict[Wake, None]] = {}
        # Those whose topic is not there yet.
        self._early: dict[Wake, None] = {}

    def begin(self, group: str, wake: Wake, *, is_short: bool) -> None:
        """Have a receive woken when its group may have something for it."""
        waiting = self._short if is_short else self._waiting
        waiting.setdefault(group, {})[wake] = None

    def end(self, group: str, wake: Wake) -> None:
        """Forget a receive that waits no longer."""
        for waiting in (self._waiting, self._short):
            if group in waiting:
                waiting[group].pop(wake, None)
                if not waiting[group]:
                    del waiting[group]

    async def topic(self, deadline: float) -> None:
        """Wait until there is another topic, or the time is up."""
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()
        wake: Wake = partial(hand_over, woken, None)
        timer = loop.call_at(deadline, wake)
        self._early[wake] = None
        try:
            await woken
        finally:
            timer.cancel()
            self._early.pop(wake, None)

    def topics_changed(self) -> None:
        """Let all look again: a topic is there that was not, or has more partitions, or is gone."""
        self.wake(*self._waiting, *self._short)
        for wake in list(self._early):
            wake()

    def wake(self, *groups: str) -> None:
        """Let the receives of groups look again, which have changed."""
        for name in groups:
            for wake in [*self._waiting.get(name, ()), *self._short.get(name, ())]:
                wake()

    def changed(self, machine: Deliveries) -> None:
        """Wake the receives of groups that may have something for them now."""
        for name in [*self._waiting, *self._short]:
            group = machine.find(name)
            if group is not None:
                is_ready = any(window.ready for window in group.windows.values())
                for wake in [*(self._waiting.get(name, ()) if is_ready else ()), *self._short.get(name, ())]:
                    wake()

    def close(self) -> None:
        """Wake all; from now on nobody waits."""
        self.is_closed = True
        self.topics_changed()

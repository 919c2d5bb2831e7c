"""Large classic groups: what a rebalance costs grows with the members, not with their square."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import count
from types import FrameType
from typing import Any

import pytest

from goqueue.machines.decision import Now
from goqueue.machines.groups.classic import group as classic_group
from goqueue.machines.groups.classic.joining import join
from goqueue.machines.groups.classic.records import changes
from goqueue.machines.groups.classic.values import (
    ClassicGroup,
    ClassicStep,
    Heartbeat,
    Join,
    Leave,
    Leaver,
    Protocol,
    Sync,
)

MEMBERS = 60
NAME = "many"


class Crowd:
    """A group and its members, who do everything one after the other; answers are not looked at."""

    def __init__(self, size: int, *, is_static: bool) -> None:
        self.ids = [f"member {number}" for number in range(size)]
        self.is_static = is_static
        self.group: ClassicGroup | None = None
        self.now = Now(1_700_000_000_000, 50_000)
        self._tickets = count()

    def _take(self, step: ClassicStep) -> None:
        changes(self.group, step.group)
        self.group = step.group
        classic_group.deadline_ms(step.group)

    def _instance(self, member_id: str) -> str | None:
        return f"instance of {member_id}" if self.is_static else None

    def join(self, metadata: bytes, *, is_new: bool) -> None:
        for each in self.ids:
            command = Join(
                group=NAME,
                member_id="" if is_new else each,
                new_id=each,
                instance_id=self._instance(each),
                protocol_type="consumer",
                protocols=(Protocol("range", metadata),),
            )
            self._take(join(self.group, command, next(self._tickets), self.now))
        self.now = self.now._replace(monotonic_ms=self.now.monotonic_ms + 200)
        assert self.group is not None
        self._take(classic_group.tick(self.group, self.now))
        assert self.group.state == "CompletingRebalance"

    def sync(self) -> None:
        assert self.group is not None
        for each in [*self.ids[1:], self.group.leader]:
            command = Sync(
                group=NAME,
                member_id=each,
                generation=self.group.generation,
                instance_id=self._instance(each),
                assignments=dict.fromkeys(self.ids, b"") if each == self.group.leader else {},
            )
            self._take(classic_group.sync(self.group, command, next(self._tickets), self.now))
        assert self.group.state == "Stable"

    def heartbeat(self) -> None:
        assert self.group is not None
        for each in self.ids:
            command = Heartbeat(
                group=NAME, member_id=each, generation=self.group.generation, instance_id=self._instance(each)
            )
            self._take(classic_group.heartbeat(self.group, command, next(self._tickets), self.now))

    def leave(self) -> None:
        leavers = tuple(Leaver("" if self.is_static else each, self._instance(each)) for each in self.ids)
        self._take(classic_group.leave(self.group, Leave(NAME, leavers), next(self._tickets), self.now))
        assert self.group is not None
        assert not self.group.members


@contextmanager
def counted_steps(steps: list[int]) -> Iterator[None]:
    """Count the instructions of Python that a block takes; copying a dict is one of them."""

    def look(frame: FrameType, event: str, _: Any) -> Callable[..., Any]:
        frame.f_trace_opcodes = True
        if event == "opcode":
            steps[0] += 1
        return look

    before = sys.gettrace()
    sys.settrace(look)
    try:
        yield
    finally:
        sys.settrace(before)


def steps_of_a_life(size: int, *, is_static: bool) -> int:
    steps = [0]
    crowd = Crowd(size, is_static=is_static)
    # A new static member is looked for among the others: that is the one act that takes longer in a larger group.
    with nullcontext() if is_static else counted_steps(steps):
        crowd.join(b"first", is_new=True)
    with counted_steps(steps):
        crowd.sync()
        crowd.join(b"second", is_new=False)
        crowd.sync()
        crowd.heartbeat()
        crowd.leave()
    return steps[0]


@pytest.mark.parametrize("is_static", [False, True])
def test_twice_as_many_members_take_twice_as_many_steps(is_static: bool) -> None:
    few, many = (steps_of_a_life(size, is_static=is_static) for size in (MEMBERS, 2 * MEMBERS))
    assert many < 2.2 * few

"""Whether offsets behave like registers: whoever looks finds what was set last, also behind a crash.

No value is used twice. So each value that is looked at, and each that was surely set, has a stretch of time around it:
from the first moment at which it must have been there (the first of its calls has ended) to the last one at which it
is needed (the last of its calls begins), or, if these are the other way round, some moment in between. Values do not
come back, so such stretches neither overlap nor contain each other. A call that nobody knows the outcome of counts only
if its value was seen. Offsets that are removed are values that nobody sees.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from goqueue.errors import GoQueueError
from goqueue.machines.groups.commands import CommitOffsets, DeleteGroup, DeleteOffsets
from goqueue.machines.groups.offsets import CommittedOffset
from goqueue.model.topic import TopicPartition
from tests.simulation.group_calls import DeleteTopic, FetchOffsets
from tests.simulation.group_history import NEVER, Call, History


class Key(NamedTuple):
    """One offset of a group."""

    group: str
    partition: TopicPartition


class Write(NamedTuple):
    """An offset that was set, or removed (None): at some moment between two, surely or perhaps."""

    value: int | None
    began: int
    until: int
    is_sure: bool


class Read(NamedTuple):
    """A value that was found."""

    value: int | None
    began: int
    ended: int


class Stretch(NamedTuple):
    """The calls around one value: `known` is when the first of them had ended, `needed` when the last began."""

    value: int | None
    known: int
    needed: int


class Removal(NamedTuple):
    """Offsets that were removed: None stands for any group, and for any partition."""

    group: str | None
    topic: str | None
    number: int | None
    write: Write

    def covers(self, key: Key) -> bool:
        """Tell whether an offset is one of them."""
        wanted = (self.group, self.topic, self.number)
        return all(each in {None, has} for each, has in zip(wanted, (key.group, *key.partition), strict=True))


@dataclass(slots=True)
class Register:
    """All that was done to one offset."""

    writes: list[Write] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)


def check_offsets(history: History, others: Iterable[tuple[Key, Write]] = ()) -> list[str]:
    """Return what is wrong with offsets; `others` are writes that are no commits of their own."""
    registers: dict[Key, Register] = {}
    for key, write in (*_commits(history), *others):
        registers.setdefault(key, Register()).writes.append(write)
    for key, read in _reads(history):
        registers.setdefault(key, Register()).reads.append(read)
    removals = list(_removals(history))
    for key, register in registers.items():
        register.writes += [removal.write for removal in removals if removal.covers(key)]
    return [f"{key}: {fault}" for key, register in registers.items() for fault in _faults(register)]


def _commits(history: History) -> Iterator[tuple[Key, Write]]:
    for call, request in history.of(CommitOffsets):
        for number, each in enumerate(request.offsets):
            if _may_have_happened(call, number):
                key = Key(request.group, each.partition)
                yield key, Write(each.value.offset, call.began, call.until, is_sure=call.is_done)


def _may_have_happened(call: Call, number: int) -> bool:
    """Tell whether one part of a call was done, or perhaps was."""
    return call.is_in_doubt or (call.is_done and call.answer[number] is None)


def _reads(history: History) -> Iterator[tuple[Key, Read]]:
    for call, request in history.of(FetchOffsets):
        for partition, found in call.answer.items() if call.is_done else ():
            if not isinstance(found, GoQueueError):
                value = found.offset if isinstance(found, CommittedOffset) else None
                yield Key(request.group, partition), Read(value, call.began, call.ended)


def _removals(history: History) -> Iterator[Removal]:
    for call, request in history.of(DeleteOffsets):
        for number, partition in enumerate(request.partitions):
            if _may_have_happened(call, number):
                yield Removal(request.group, *partition, _removed(call, call.until))
    for call, deleted in history.of(DeleteGroup):
        if not call.is_refused:
            yield Removal(deleted.group, None, None, _removed(call, call.until))
    for call, topic in history.of(DeleteTopic):
        if not call.is_refused:
            # What is left of it when the broker ends is finished by a later one.
            yield Removal(None, topic.name, None, _removed(call, call.until if call.is_done else NEVER))


def _removed(call: Call, until: int) -> Write:
    return Write(None, call.began, until, is_sure=call.is_done)


def _faults(register: Register) -> Iterator[str]:
    writes = {write.value: write for write in register.writes if write.value is not None}
    removals = [write for write in register.writes if write.value is None]
    for read in register.reads:
        if read.value is None:
            yield from _faults_of_nothing(read, writes.values(), removals)
        elif read.value not in writes or writes[read.value].began > read.ended:
            yield f"{read} was never set"
    stretches = [Stretch(None, each.until, each.began) for each in removals if each.is_sure]
    for value, write in writes.items():
        seen = [read for read in register.reads if read.value == value]
        if write.is_sure or seen:
            known = min([write.until, *(read.ended for read in seen)])
            needed = max([write.began, *(read.began for read in seen)])
            stretches.append(Stretch(value, known, needed))
    yield from _faults_of_stretches(stretches)


def _faults_of_nothing(read: Read, writes: Iterable[Write], removals: Iterable[Write]) -> Iterator[str]:
    """Nothing is found only if nothing was surely there, or may have been removed since."""
    for write in writes:
        is_removed = any(each.until > write.began and each.began < read.ended for each in removals)
        if write.is_sure and write.until < read.began and not is_removed:
            yield f"{write} is lost at {read}"


def _faults_of_stretches(stretches: list[Stretch]) -> Iterator[str]:
    stretches.sort(key=lambda each: min(each.known, each.needed))
    held = [each for each in stretches if each.known < each.needed]
    for number, each in enumerate(held[1:]):
        if each.known < held[number].needed:
            yield f"{held[number]} and {each} cannot both have been there"
    for each in stretches:
        for other in held if each.known >= each.needed else ():
            if other.known < each.needed and each.known < other.needed:
                yield f"{other} was there before and after {each}"

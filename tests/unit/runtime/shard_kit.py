"""What the tests of shards share: a machine that counts words, and a shard to run it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import NamedTuple

import msgspec

from goqueue.errors import Invalid
from goqueue.log.log import Log
from goqueue.machines.decision import Decision, KeyedRecord, Now, TicketReply
from goqueue.model.log_settings import Cleanup, LogSettings
from goqueue.model.topic_settings import TopicSettings
from goqueue.runtime.partition import Partition
from goqueue.runtime.shard import Shard
from goqueue.testing import SimDisk, Simulation

SETTINGS = TopicSettings(
    log=LogSettings(cleanup=Cleanup.COMPACT, segment_bytes=1024, min_cleanable_dirty_ratio=0.0, delete_retention_ms=0)
)
AGAIN_MS = 300


class _Outcome(NamedTuple):
    """Who waits for a word, or when one is due."""

    word: str
    ticket: int | None = None
    due_ms: int = 0


class Words:
    """A machine that counts words.

    | command      | what it does                                                    | answer                  |
    |--------------|-----------------------------------------------------------------|-------------------------|
    | `a b`        | counts words                                                    | the new counts          |
    | `-a`         | forgets a word                                                  | None                    |
    | `same`       | changes nothing                                                 | None                    |
    | `bad`        | is refused                                                      |                         |
    | `tell no`    | changes nothing                                                 | an error                |
    | `set a 3`    | counts a word anew from there; independent of what it was       | None                    |
    | `quick a b`  | counts words, and is told at once                               | the new counts          |
    | `mistake`    | fails unexpectedly, before anything is decided                  |                         |
    | `broken`     | fails unexpectedly, when it is in the log                       |                         |
    | `wait a`     | waits until somebody counts the word                            | its count then          |
    | `at 500 a`   | counts the word in 500 ms; again a little later if that fails   | None                    |
    """

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.waiting: dict[str, list[int]] = defaultdict(list)
        self.timers: dict[str, int] = {}
        self.revived_with: dict[str, int] | None = None
        self.due_calls = 0

    def is_independent(self, command: str) -> bool:
        """Tell whether a command sets a word, whatever its count was."""
        return command.startswith("set ")

    def decide(self, command: str, ticket: int, now: Now) -> Decision:
        """Carry out a command; see the table."""
        done = [TicketReply(ticket, None)]
        match command.split():
            case ["bad"]:
                raise Invalid("no")
            case ["same"]:
                return Decision(answers=done)
            case ["tell", "no"]:
                return Decision(answers=[TicketReply(ticket, Invalid("told no"))])
            case ["set", word, count]:
                return Decision([KeyedRecord(word.encode(), count.encode())], done)
            case ["mistake"]:
                raise RuntimeError("a mistake in the machine")
            case ["wait", word]:
                return Decision(outcome=_Outcome(word, ticket))
            case ["at", delay_ms, word]:
                return Decision(answers=done, outcome=_Outcome(word, due_ms=now.monotonic_ms + int(delay_ms)))
            case [word] if word.startswith("-"):
                return Decision([KeyedRecord(word[1:].encode(), None)], done)
            case ["quick", *words]:
                return msgspec.structs.replace(self.decide(" ".join(words), ticket, now), is_told_at_once=True)
            case words:
                counts = {word: self.counts.get(word, 0) + 1 for word in words}
                told = [TicketReply(each, counts[word]) for word in words for each in self.waiting.get(word, ())]
                records = [KeyedRecord(word.encode(), b"%d" % count) for word, count in counts.items()]
                return Decision(records, [*told, TicketReply(ticket, counts)])

    def adopt(self, decision: Decision) -> None:
        """Make what was decided the state."""
        if any(record.key == b"broken" for record in decision.records):
            raise RuntimeError("a mistake in the machine")
        for record in decision.records:
            self.apply(record)
            self.waiting.pop(record.key.decode(), None)
            self.timers.pop(record.key.decode(), None)
        match decision.outcome:
            case _Outcome(word, ticket, due_ms):
                if ticket is not None:
                    self.waiting[word].append(ticket)
                else:
                    self.timers[word] = due_ms

    def apply(self, record: KeyedRecord) -> None:
        """Take note of a count."""
        word = record.key.decode()
        if record.value is None:
            self.counts.pop(word, None)
        else:
            self.counts[word] = int(record.value)

    def revive(self, now: Now) -> None:
        """Take note of what was known at the beginning."""
        assert self.revived_with is None
        assert now.wall_ms > now.monotonic_ms >= 0
        self.revived_with = dict(self.counts)

    def deadline_ms(self) -> int | None:
        """Return when the next word is due."""
        return min(self.timers.values(), default=None)

    def due(self, now: Now) -> Sequence[str]:
        """Return the words that are due; they stay so until they are counted."""
        self.due_calls += 1
        words = [word for word, moment in self.timers.items() if moment <= now.monotonic_ms]
        self.timers.update(dict.fromkeys(words, now.monotonic_ms + AGAIN_MS))
        return words


def open_shard(
    disk: SimDisk, simulation: Simulation, changed: Callable[[], None] | None = None
) -> tuple[Shard[str], Words]:
    """Open the shard of these tests."""
    machine = Words()
    log = Log(disk, PurePath("data/__words-0"), SETTINGS.log)
    partition = Partition("__words", 0, log, SETTINGS, simulation.clock)
    return Shard(machine, partition, simulation.clock, changed), machine

"""Single values of options, from how they are written to what they mean; Invalid says what is wrong and what to write.

Offsets per partition are written as Spark's Kafka source has it: `{"orders": {"0": 23, "1": -2}}`, where -2 is the
earliest offset and -1 the latest.

`OptionsForm` reads options, whose names have any case. A mistake is noted and not raised, so that all mistakes are
reported at once. Reads and writes use the same form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from typing import TypeVar

import msgspec

from goqueue.client.kafka import NamedOffset, TopicPartition
from goqueue.errors import Invalid, SettingMistake
from goqueue.model.units import quoted
from goqueue.spark.archive.paths import normal_path

PARTITION_MAX = 2**31 - 1
OFFSET_MAX = 2**63 - 1
SLICES_MAX = 100_000
"""The most tasks of a read: Spark's driver keeps each of them in memory."""

_OFFSETS_HINT = 'write earliest, latest, or JSON such as {"orders": {"0": 23, "1": -2}}'
_TIMES_HINT = 'write JSON such as {"orders": {"0": 1767225600000}}, with milliseconds since 1970'
_ASSIGN_HINT = 'write JSON such as {"orders": [0, 1]}'

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """The first record of a time, or later, in every partition."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """An offset in each partition; those below zero are a `NamedOffset`."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTimestamps:
    """The first record of a time, or later, in each partition."""

    times_ms: Mapping[TopicPartition, int]


Boundary = NamedOffset | AtTimestamp | AtOffsets | AtTimestamps
"""Where a read begins or ends."""


@dataclass(frozen=True, slots=True)
class Named:
    """Topics by their names, with all of their partitions."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Matching:
    """All topics whose whole names match a regular expression, but none of the broker's own."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Assigned:
    """Some partitions of some topics, and no others."""

    partitions: Mapping[str, tuple[int, ...]]


Subscription = Named | Matching | Assigned


class ArchiveUse(Enum):
    """Whether records that the log no longer has are read from the archive of their topic."""

    AUTO = "auto"
    NEVER = "never"


def parse_flag(written: str) -> bool:
    """Parse true or false."""
    folded = written.strip().lower()
    if folded not in {"true", "false"}:
        raise Invalid(f"{quoted(written)} is neither true nor false")
    return folded == "true"


def parse_count(written: str) -> int:
    """Return a whole number of at least one."""
    text = written.strip()
    if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) == 0:
        raise Invalid(f"{quoted(written)} is no number from 1 on")
    return int(text)


def parse_timestamp_ms(written: str) -> int:
    """Return a time in milliseconds since 1970."""
    text = written.strip()
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise Invalid(f"{quoted(written)} is no time", hint="write milliseconds since 1970")
    return int(text)


def parse_text(written: str) -> str:
    """Return a text that is not empty."""
    text = written.strip()
    if not text:
        raise Invalid("nothing is written there")
    return text


def parse_archive(written: str) -> ArchiveUse | str:
    """Return whether to read archives, or the path of the one to read."""
    text = parse_text(written)
    # Executors have directories of their own, so a path is made absolute here.
    return next((use for use in ArchiveUse if use.value == text.lower()), None) or normal_path(text)


def parse_topic(written: str) -> Named:
    """Return one topic."""
    if "," in written:
        raise Invalid(f"{quoted(written)} is more than one topic", hint="several belong into subscribe")
    return Named((parse_text(written),))


def parse_topics(written: str) -> Named:
    """Return the topics of a list with commas, each once."""
    names = [part.strip() for part in written.split(",")]
    if not all(names):
        raise Invalid(f"{quoted(written)} names no topic somewhere", hint="write orders or orders,returns")
    return Named(tuple(sorted(set(names))))


def parse_pattern(written: str) -> Matching:
    """Return topics by a regular expression."""
    try:
        re.compile(parse_text(written))
    except re.error as error:
        raise Invalid(f"{quoted(written)} is no regular expression: {error}") from None
    return Matching(written.strip())


def parse_assign(written: str) -> Assigned:
    """Return the partitions of a JSON object."""
    found = _json(written, dict[str, list[int]], _ASSIGN_HINT)
    for topic, numbers in found.items():
        if not numbers or not all(0 <= number <= PARTITION_MAX for number in numbers):
            raise Invalid(f"topic {quoted(topic)} needs partitions, numbered from 0 on", hint=_ASSIGN_HINT)
    if not found:
        raise Invalid("no topic is named", hint=_ASSIGN_HINT)
    return Assigned({topic: tuple(sorted(set(found[topic]))) for topic in sorted(found)})


def parse_offsets(written: str) -> Boundary:
    """Return a place by its name, or an offset per partition."""
    name = written.strip().lower()
    if name in {"earliest", "latest"}:
        return NamedOffset.EARLIEST if name == "earliest" else NamedOffset.LATEST
    return AtOffsets(_per_partition(written, NamedOffset.EARLIEST, _OFFSETS_HINT))


def parse_times(written: str) -> AtTimestamps:
    """Return a time per partition."""
    return AtTimestamps(_per_partition(written, 0, _TIMES_HINT))


def _per_partition(written: str, smallest: int, hint: str) -> Mapping[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for topic, numbers in _json(written, dict[str, dict[str, int]], hint).items():
        for partition, number in numbers.items():
            if not re.fullmatch(r"[0-9]{1,10}", partition) or int(partition) > PARTITION_MAX:
                raise Invalid(f"{quoted(partition)} is no partition of topic {quoted(topic)}", hint=hint)
            if not smallest <= number <= OFFSET_MAX:
                raise Invalid(f"{number} cannot stand for partition {partition} of topic {quoted(topic)}", hint=hint)
            found[TopicPartition(topic, int(partition))] = number
    if not found:
        raise Invalid("no partition is named", hint=hint)
    return dict(sorted(found.items()))


def _json(written: str, kind: type[T], hint: str) -> T:
    try:
        return msgspec.json.decode(written, type=kind)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise Invalid(f"{quoted(written)} cannot be read: {error}", hint=hint) from None


class OptionsForm:
    """Options as written, and their mistakes."""

    def __init__(self, written: Mapping[str, str]) -> None:
        self._written = {name.lower(): (name, text) for name, text in written.items()}
        self.mistakes: list[SettingMistake] = []

    def has(self, name: str) -> bool:
        """Return whether an option is set."""
        return name.lower() in self._written

    def read(self, name: str, parse: Callable[[str], T], *, default: T) -> T:
        """Return the value of an option, or the default if it is not set or malformed, which is noted."""
        if not self.has(name):
            return default
        try:
            return parse(self._written[name.lower()][1])
        except Invalid as error:
            self.note(name, str(error))
            return default

    def one_of(self, names: tuple[str, ...]) -> str | None:
        """Return the option that is set; more than one is a mistake."""
        present = [name for name in names if self.has(name)]
        if len(present) > 1:
            line = f"{' and '.join(present)} contradict each other: keep one of them"
            self.mistakes.append(SettingMistake(tuple(present), line))
        return present[0] if present else None

    def note(self, name: str, what: str) -> None:
        """Note a mistake: a predicate that begins with is, belongs or has, or a whole sentence."""
        separator = " " if what.startswith(("is ", "belongs ", "has ")) else ": "
        self.mistakes.append(SettingMistake((name,), f"{name}{separator}{what}"))

    def check_names(
        self, names: Sequence[str], *, of: str, path_fix: Callable[[str], str], others: frozenset[str] = frozenset()
    ) -> None:
        """Note unknown options `of` a read or a write; `others`, in lower case, are options of Spark.

        `path_fix` returns the hint for a path, which Spark's `load` and `save` take as an argument.
        """
        known = {name.lower(): name for name in names}
        for folded, (name, text) in self._written.items():
            if folded in known or folded in others:
                continue
            near = get_close_matches(folded, known, n=1)
            if folded == "path":
                fix = path_fix(text)
            else:
                fix = f"did you mean {known[near[0]]}?" if near else f"there are {', '.join(names)}"
            self.note(name, f"is no option of {of}: {fix}")

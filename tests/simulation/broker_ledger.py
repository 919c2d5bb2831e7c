"""What a broker has promised its clients, and whether what it holds now agrees; knows nothing of who did what, or why.

Every record has a value of its own, `CLIENT:NUMBER`. Each has one of these promises:

| promise | given when                                                           | holds                            |
|---------|----------------------------------------------------------------------|----------------------------------|
| ALWAYS  | acks=all on a topic with flush=group; a reader has seen it there; it | for ever                         |
|         | was there after a restart                                            |                                  |
| KILL    | any other acknowledgement, or sight                                  | until the power fails            |

Besides, whatever was promised: offsets follow each other; a value is in a log once at most, where it was sent to, and
behind the earlier ones of its client; a topic holds nothing that an earlier one of its name has held.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple
from uuid import UUID


class Promise(Enum):
    """What may happen without a record being lost."""

    ALWAYS = "always"
    KILL = "kill"


class Place(NamedTuple):
    """A partition by the name of its topic."""

    topic: str
    partition: int


class Stored(NamedTuple):
    """What was read of a partition: all records from its start to its high watermark."""

    topic_id: UUID
    start: int
    end: int
    records: Sequence[tuple[int, bytes]]


@dataclass(slots=True)
class Sent:
    """A record: where to, when it was sent for the last time, and when it was first known to be stored."""

    place: Place
    last_sent: int
    known_at: int | None = None


@dataclass(slots=True)
class Ledger:
    """All that was sent, promised and seen; moments are numbers that only grow."""

    moment: int = 0
    sent: dict[bytes, Sent] = field(default_factory=dict)
    promised: dict[Place, dict[int, tuple[bytes, Promise]]] = field(default_factory=dict)
    made_at: dict[UUID, int] = field(default_factory=dict)
    start_asked: dict[Place, int] = field(default_factory=dict)
    start_promised: dict[Place, int] = field(default_factory=dict)
    gone_at: dict[str, int] = field(default_factory=dict)
    in_doubt: set[str] = field(default_factory=set)
    producer_ids: list[int] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    def tick(self) -> int:
        """Return a new moment."""
        self.moment += 1
        return self.moment

    def note_sent(self, value: bytes, place: Place) -> None:
        """Take note that a record is being sent, or sent again."""
        known = self.sent.setdefault(value, Sent(place, 0))
        known.last_sent = self.tick()

    def note_promise(self, place: Place, offset: int, value: bytes, promise: Promise) -> None:
        """Take note that a record was acknowledged or seen at an offset; another one there is a violation."""
        sent = self.sent.get(value)
        if sent is None:
            self.violations.append(f"{place} has {value!r} at {offset}, which nobody sent")
            return
        sent.known_at = sent.known_at or self.tick()
        if place.topic in self.in_doubt or sent.last_sent < self.gone_at.get(place.topic, 0):
            return
        known, earlier = self.promised.setdefault(place, {}).get(offset, (value, promise))
        if known != value:
            self.violations.append(f"{place} offset {offset} was {known!r} and is {value!r}")
        kept = Promise.ALWAYS if Promise.ALWAYS in {earlier, promise} else Promise.KILL
        self.promised[place][offset] = (value, kept)

    def note_producer_id(self, producer_id: int) -> None:
        """Take note that a producer id was given out."""
        if producer_id in self.producer_ids:
            self.violations.append(f"producer id {producer_id} was given twice")
        self.producer_ids.append(producer_id)

    def note_start(self, place: Place, offset: int, *, is_promised: bool) -> None:
        """Take note that records before an offset were asked to be deleted, or that they are."""
        self.start_asked[place] = max(self.start_asked.get(place, 0), offset)
        if is_promised:
            self.start_promised[place] = max(self.start_promised.get(place, 0), offset)

    def forget_topic(self, name: str) -> None:
        """Take note that a topic is being deleted: nothing is promised of it until that is done or decided."""
        self.in_doubt.add(name)
        for place in [place for place in self.promised if place.topic == name]:
            del self.promised[place]

    def note_deleted(self, name: str) -> None:
        """Take note that a topic is gone: what is found from now on under its name was sent later."""
        self.in_doubt.discard(name)
        self.gone_at[name] = self.tick()

    def power_failed(self) -> None:
        """Forget what a power loss may take."""
        for offsets in self.promised.values():
            for offset in [offset for offset, (_, promise) in offsets.items() if promise is Promise.KILL]:
                del offsets[offset]

    def compare(self, stored: Mapping[Place, Stored]) -> None:
        """Compare with all that a broker holds; what it holds is promised from now on."""
        self.in_doubt.clear()
        for place, offsets in self.promised.items():
            self._compare_promises(place, offsets, stored.get(place))
        for place, held in stored.items():
            self._compare_log(place, held)
            for offset, value in held.records:
                self.note_promise(place, offset, value, Promise.ALWAYS)

    def _compare_promises(
        self, place: Place, offsets: Mapping[int, tuple[bytes, Promise]], held: Stored | None
    ) -> None:
        if held is None:
            if offsets:
                self.violations.append(f"{place} is gone, with {len(offsets)} promised records")
            return
        found = dict(held.records)
        for offset, (value, promise) in sorted(offsets.items()):
            if offset < self.start_asked.get(place, 0):
                continue
            if found.get(offset) != value:
                has = found.get(offset, f"nothing (it holds {held.start} to {held.end})")
                self.violations.append(f"{place} lost {value!r} ({promise.value}) at offset {offset}: {has!r}")

    def _compare_log(self, place: Place, held: Stored) -> None:
        offsets = [offset for offset, _ in held.records]
        if offsets != list(range(held.start, held.end)):
            self.violations.append(f"{place} holds {held.start} to {held.end}, but has {offsets}")
        if held.start > self.start_asked.get(place, 0):
            self.violations.append(f"{place} starts at {held.start}, nobody asked for that")
        if held.start < self.start_promised.get(place, 0):
            self.violations.append(f"{place} starts at {held.start}, deleted up to {self.start_promised[place]}")
        last_numbers: dict[bytes, int] = {}
        for offset, value in held.records:
            self._compare_record(place, held, offset, value)
            client, _, number = value.partition(b":")
            if int(number) <= last_numbers.get(client, -1):
                self.violations.append(f"{place} has {value!r} at {offset}, behind {last_numbers[client]}")
            last_numbers[client] = int(number)

    def _compare_record(self, place: Place, held: Stored, offset: int, value: bytes) -> None:
        sent = self.sent.get(value)
        if sent is None or sent.place != place:
            self.violations.append(f"{place} has {value!r} at {offset}, which nobody sent there")
        # A record that nobody had an answer for may have been on its way until now.
        elif sent.known_at and sent.known_at < self.made_at.get(held.topic_id, self.gone_at.get(place.topic, 0)):
            self.violations.append(f"{place} has {value!r} at {offset}, from before the topic was made")

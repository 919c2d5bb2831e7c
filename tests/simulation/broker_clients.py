"""Clients of a simulated broker that live longer than it: they reconnect, send again what was not acknowledged, go on.

Each has a `run` for one life of the broker, which ends when it is cancelled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.layout import headers
from goqueue.records.reader import read_records
from goqueue.testing import SeededEntropy
from tests.protocols.kafka.messages import Plain
from tests.protocols.kafka.raw import FETCH, PRODUCE, Closed, RawClient
from tests.protocols.kafka.requests import ALL, LEADER, NONE, fetch, fetched, new_producer, produce, produced
from tests.simulation.broker_ledger import Ledger, Place, Promise

IN_FLIGHT_MAX = 5
OUT_OF_RANGE = 1
Connect = Callable[[], Awaitable[RawClient]]


class Batch(NamedTuple):
    """Records on their way, and the number of the first one in its producer's sequence."""

    place: Place
    sequence: int
    values: tuple[bytes, ...]


@dataclass(slots=True)
class Life:
    """What a client needs in one life of the broker."""

    connect: Connect
    entropy: SeededEntropy
    ledger: Ledger
    is_group: Callable[[str], bool]
    places: Callable[[], list[Place]]
    sleep: Callable[[float], Awaitable[None]]

    async def pause(self, seconds: float) -> None:
        """Let some time pass."""
        await self.sleep(self.entropy.fraction() * seconds)

    def promise(self, place: Place, acks: int = ALL) -> Promise:
        """Return what an acknowledgement, or a sight, is worth there."""
        return Promise.ALWAYS if acks == ALL and self.is_group(place.topic) else Promise.KILL


async def sessions(life: Life, session: Callable[[RawClient], Awaitable[None]]) -> None:
    """Run one session after the other, for ever, each on a connection of its own."""
    while True:
        try:
            client = await life.connect()
            await session(client)
        except (Closed, OSError):
            await life.pause(0.05)


def records_of(data: bytes) -> list[tuple[int, bytes]]:
    """Return offsets and values of the records in some batches."""
    return [
        (record.offset, record.value or b"")
        for position, header in headers(data)
        for record in read_records(data[position : position + header.size_bytes])
    ]


@dataclass(slots=True)
class IdempotentProducer:
    """Sends until everything is acknowledged, in order, whatever happens on the way."""

    name: str
    producer_id: int = -1
    number: int = 0
    sequences: dict[Place, int] = field(default_factory=dict)
    unacknowledged: dict[Place, list[Batch]] = field(default_factory=dict)
    is_flushing: bool = False

    @property
    def is_idle(self) -> bool:
        """Whether all that was sent is acknowledged."""
        return not any(self.unacknowledged.values())

    async def run(self, life: Life) -> None:
        """Publish to random partitions."""
        await sessions(life, lambda client: self._session(life, client))

    async def _session(self, life: Life, client: RawClient) -> None:
        while self.producer_id < 0:
            self.producer_id = await new_producer(client)
            if self.producer_id >= 0:
                life.ledger.note_producer_id(self.producer_id)
            await life.pause(0.01)
        while client.is_open:
            in_flight: deque[Batch] = deque()
            for batches in self.unacknowledged.values():
                for batch in batches:
                    self._send(life, client, batch)
                    in_flight.append(batch)
            while await self._step(life, client, in_flight):
                pass
            # Something was refused: whatever was sent behind it is refused as well; then all of it is sent again.
            while in_flight:
                self._settle(life, in_flight.popleft(), await client.reply())
            await life.pause(0.1)

    async def _step(self, life: Life, client: RawClient, in_flight: deque[Batch]) -> bool:
        """Send something new, or wait for a reply; return whether all is well."""
        if not self.is_flushing and len(in_flight) < IN_FLIGHT_MAX and life.entropy.chance(0.6):
            batch = self._next(life)
            if batch is not None:
                self._send(life, client, batch)
                in_flight.append(batch)
            await life.pause(0.03)
            return True
        if not in_flight:
            await life.pause(0.03)
            return client.is_open
        return self._settle(life, in_flight.popleft(), await client.reply())

    def _next(self, life: Life) -> Batch | None:
        place = life.entropy.choice(life.places())
        pending = self.unacknowledged.setdefault(place, [])
        if len(pending) >= IN_FLIGHT_MAX:
            return None
        size = 1 + life.entropy.below(3)
        values = tuple(f"{self.name}:{self.number + index}".encode() for index in range(size))
        self.number += size
        sequence = self.sequences.get(place, 0)
        self.sequences[place] = sequence + size
        pending.append(Batch(place, sequence, values))
        return pending[-1]

    def _send(self, life: Life, client: RawClient, batch: Batch) -> None:
        for value in batch.values:
            life.ledger.note_sent(value, batch.place)
        data = build_batch(
            [NewRecord(1_700_000_000_000, None, value) for value in batch.values],
            producer_id=self.producer_id,
            producer_epoch=0,
            base_sequence=batch.sequence,
        )
        client.send(PRODUCE, 9, produce(batch.place.topic, data, partition=batch.place.partition))

    def _settle(self, life: Life, batch: Batch, reply: Plain) -> bool:
        result = produced(reply)
        if result["error_code"]:
            return False
        self.unacknowledged[batch.place].remove(batch)
        for index, value in enumerate(batch.values):
            life.ledger.note_promise(batch.place, result["base_offset"] + index, value, life.promise(batch.place))
        return True


@dataclass(slots=True)
class PlainProducer:
    """Sends each record once, with any acks, and takes what comes."""

    name: str
    number: int = 0

    async def run(self, life: Life) -> None:
        """Publish to random partitions."""
        await sessions(life, lambda client: self._session(life, client))

    async def _session(self, life: Life, client: RawClient) -> None:
        await self._ask_for_an_id(life, client)
        in_flight: deque[tuple[Place, bytes, int]] = deque()
        while client.is_open:
            while in_flight and (len(in_flight) >= IN_FLIGHT_MAX or life.entropy.chance(0.3)):
                place, value, acks = in_flight.popleft()
                result = produced(await client.reply())
                if not result["error_code"]:
                    life.ledger.note_promise(place, result["base_offset"], value, life.promise(place, acks))
            place = life.entropy.choice(life.places())
            acks = life.entropy.choice([ALL, ALL, LEADER, NONE])
            value = f"{self.name}:{self.number}".encode()
            self.number += 1
            life.ledger.note_sent(value, place)
            data = build_batch([NewRecord(1_700_000_000_000, None, value)])
            request = produce(place.topic, data, partition=place.partition, acks=acks)
            client.send(PRODUCE, life.entropy.choice([3, 7, 9, 12]), request, has_reply=acks != NONE)
            if acks != NONE:
                in_flight.append((place, value, acks))
            await life.pause(0.06)

    async def _ask_for_an_id(self, life: Life, client: RawClient) -> None:
        """Take a producer id, which it has no use for, as a program does that starts over."""
        if life.entropy.chance(0.5):
            producer_id = await new_producer(client)
            if producer_id >= 0:
                life.ledger.note_producer_id(producer_id)


@dataclass(slots=True)
class Consumer:
    """Follows one partition and tells what it sees."""

    place: Place
    position: int = 0
    high_watermark: int = 0

    async def run(self, life: Life) -> None:
        """Read on, for ever."""
        await sessions(life, lambda client: self._session(life, client))

    async def _session(self, life: Life, client: RawClient) -> None:
        while client.is_open:
            wait_ms = life.entropy.choice([0, 20, 200])
            request = fetch(self.place.topic, self.position, partition=self.place.partition, wait_ms=wait_ms)
            result = fetched(await client.call(FETCH, 11, request))
            if result["error_code"] == OUT_OF_RANGE:
                self._return(life, result)
            elif not result["error_code"]:
                self._take(life, result)
            await life.pause(0.1)

    def _take(self, life: Life, result: Plain) -> None:
        is_group = life.is_group(self.place.topic)
        if is_group and result["high_watermark"] < self.high_watermark:
            life.ledger.violations.append(
                f"{self.place} had a high watermark of {self.high_watermark}, now {result['high_watermark']}"
            )
        self.high_watermark = result["high_watermark"]
        for offset, value in records_of(result["records"]):
            if offset >= self.position:
                life.ledger.note_promise(self.place, offset, value, life.promise(self.place))
                self.position = offset + 1

    def _return(self, life: Life, result: Plain) -> None:
        """Go back to where there are records: only a deletion, or a loss that was announced, may demand that."""
        is_deleted = self.position < life.ledger.start_asked.get(self.place, 0)
        if not is_deleted and life.is_group(self.place.topic):
            life.ledger.violations.append(f"{self.place} no longer has offset {self.position}, which was read")
        start, end = result["log_start_offset"], result["high_watermark"]
        self.position = min(max(self.position, start), end)
        self.high_watermark = end

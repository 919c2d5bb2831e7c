"""A state machine over its own log: decide, append, apply, wait, reply.

State in memory is what `apply` made of the log, at start and ever after. A command is decided and its records are
appended and applied without a pause in between; the caller gets its answer once they are durable. If they cannot
become durable, the log goes offline, and so does the shard: what it has in memory is never acted on again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from goqueue.errors import Corrupt, GoQueueError
from goqueue.machines.catalog import KeyedRecord
from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.layout import headers
from goqueue.records.reader import read_records
from goqueue.runtime.partition import Partition
from goqueue.seams.clock import Clock

_READ_BYTES = 1024 * 1024

CommandT_contra = TypeVar("CommandT_contra", contravariant=True)


class Machine(Protocol[CommandT_contra]):
    """What a shard runs."""

    def decide(self, command: CommandT_contra) -> Sequence[KeyedRecord]:
        """Return the records that carry out a command, changing nothing; raises what forbids it."""
        ...

    def apply(self, record: KeyedRecord) -> None:
        """Take note of a stored record."""
        ...


class Shard(Generic[CommandT_contra]):
    """One machine and the partition that holds its records."""

    def __init__(self, machine: Machine[CommandT_contra], partition: Partition, clock: Clock) -> None:
        self.partition = partition
        self._machine = machine
        self._clock = clock
        self._replay()

    def _replay(self) -> None:
        log = self.partition.log
        offset = log.start_offset
        while data := log.read(offset, bytes_max=_READ_BYTES):
            view = memoryview(data)
            for position, header in headers(data):
                for record in read_records(view[position:]):
                    if record.key is None:
                        raise Corrupt(f"{log.directory} has a record without a key at offset {record.offset}")
                    self._machine.apply(KeyedRecord(record.key, record.value))
                offset = header.next_offset

    async def submit(self, command: CommandT_contra) -> None:
        """Carry out a command; durable at return. Raises what forbids it, or LogOffline."""
        records = self._machine.decide(command)
        if records:
            self._append(records)
        # An earlier command may have made this one needless, and not be durable yet.
        await self.partition.committed(self.partition.log.end_offset)

    def _append(self, records: Sequence[KeyedRecord]) -> None:
        now_ms = self._clock.now_ms()
        batch = build_batch([NewRecord(now_ms, record.key, record.value) for record in records])
        (outcome,) = self.partition.append([batch])
        if isinstance(outcome, GoQueueError):
            raise outcome
        for record in records:
            self._machine.apply(record)

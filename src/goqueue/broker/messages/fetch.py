"""Reading: from offsets of many partitions to bytes, at once or as soon as there are enough of them.

A fetch that finds too little waits: it watches its partitions and looks again when one of them gets on, until it has
enough, meets an error, or its time is up. It looks again from a callback of its own, so that whatever happens to its
reader cannot disturb the publisher who woke it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from goqueue.broker.admission import OK, Caller, declare
from goqueue.broker.topics.private import private_topic
from goqueue.errors import GoQueueError
from goqueue.machines.producer import AbortedRange
from goqueue.records.layout import read_header
from goqueue.runtime.partition import Partition

if TYPE_CHECKING:
    from goqueue.broker.messages.service import MessageService

FETCH = declare("messages.fetch", on="topic", at="wanted")


class FetchTarget(NamedTuple):
    """What is to be read of one partition, or why there is no such partition; `known_epoch` is -1 for none."""

    partition: Partition | GoQueueError
    offset: int
    bytes_max: int
    known_epoch: int = -1


class FetchTerms(NamedTuple):
    """When a fetch is answered: with that many bytes, or after that time; never with more than `bytes_max`."""

    wait_ms: int = 0
    bytes_min: int = 1
    bytes_max: int = 2**31 - 1
    is_committed_only: bool = False


class Fetched(NamedTuple):
    """What was read of one partition; the offsets are -1 if there is an error instead."""

    data: bytes
    error: GoQueueError | None = None
    high_watermark: int = -1
    last_stable_offset: int = -1
    start_offset: int = -1
    aborted: Sequence[AbortedRange] | None = None


class Fetch:
    """One fetch, from `begin` until `done` is told what was read, or it is cancelled."""

    def __init__(
        self,
        service: MessageService,
        caller: Caller,
        wanted: Sequence[FetchTarget],
        terms: FetchTerms,
        done: Callable[[Sequence[Fetched]], None],
    ) -> None:
        self._service = service
        self._caller = caller
        self._wanted = [_admitted(each) for each in wanted]
        self._terms = terms._replace(bytes_max=min(terms.bytes_max, service.core.options.fetch_bytes_max))
        self._done = done
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._look: asyncio.Handle | None = None
        self._began = 0.0
        self.is_over = False

    def begin(self) -> None:
        """Read now; if there is too little, wait for more."""
        try:
            self._began = self._service.admission.enter(FETCH)
        except GoQueueError as error:
            self._began = self._service.core.clock.monotonic()
            self._finish([Fetched(b"", error) for _ in self._wanted])
            return
        if not self._try():
            self._timer = self._loop.call_later(self._terms.wait_ms / 1000, self.finish_now)
            self._watch()

    def cancel(self) -> None:
        """Forget the fetch: nobody waits for its result any more."""
        if not self.is_over:
            self.is_over = True
            self._stop_waiting()

    def finish_now(self) -> None:
        """Answer with what there is."""
        if not self.is_over:
            self._finish(self._read())

    def _try(self) -> bool:
        """Answer if there is enough, or if waiting cannot help."""
        terms = self._terms
        may_wait = terms.wait_ms > 0 and terms.bytes_min > 0
        available = self._available()
        if may_wait and available is not None and available < terms.bytes_min:
            return False
        results = self._read()
        if may_wait and available is not None and not any(result.data or result.error for result in results):
            # The guess was too good: an open transaction hides all of it.
            return False
        self._finish(results)
        return True

    def _available(self) -> int | None:
        """Return about how many bytes there are; None if there is an error to be told."""
        total = 0
        for partition, offset, bytes_max, known_epoch in self._wanted:
            if isinstance(partition, GoQueueError):
                return None
            try:
                partition.check_read(offset, known_epoch)
                # One batch comes in any case, however little is asked for.
                total += min(partition.bytes_after(offset), max(bytes_max, 1))
            except GoQueueError:
                return None
        return total

    def _read(self) -> list[Fetched]:
        left = self._terms.bytes_max
        results = []
        is_first = True
        for wanted in self._wanted:
            result = self._read_one(wanted, left, is_first=is_first)
            if len(result.data) > left and not is_first:
                # A reader always gets one batch, however large; more than that only within its limit.
                result, left = result._replace(data=b""), 0
            elif isinstance(wanted.partition, Partition):
                wanted.partition.bytes_out += len(result.data)
            left -= len(result.data)
            is_first = is_first and not result.data
            results.append(result)
        return results

    def _read_one(self, wanted: FetchTarget, left: int, *, is_first: bool) -> Fetched:
        partition = wanted.partition
        if isinstance(partition, GoQueueError):
            return Fetched(b"", partition)
        is_committed_only = self._terms.is_committed_only
        try:
            partition.check_read(wanted.offset, wanted.known_epoch)
            data = b""
            if left > 0 or is_first:
                data = partition.read(
                    wanted.offset, bytes_max=max(min(wanted.bytes_max, left), 0), is_committed_only=is_committed_only
                )
            aborted = aborted_in(partition, wanted.offset, data) if is_committed_only and data else None
        except GoQueueError as error:
            return Fetched(
                b"", error, partition.high_watermark, partition.last_stable_offset, partition.log.start_offset
            )
        stable = partition.last_stable_offset
        return Fetched(data, None, partition.high_watermark, stable, partition.log.start_offset, aborted)

    def _watch(self) -> None:
        for wanted in self._wanted:
            if isinstance(wanted.partition, Partition):
                wanted.partition.waiters.watch(self._woken)

    def _woken(self) -> None:
        if self._look is None and not self.is_over:
            self._look = self._loop.call_soon(self._look_again)

    def _look_again(self) -> None:
        self._look = None
        if not self.is_over and not self._try():
            self._watch()

    def _finish(self, results: Sequence[Fetched]) -> None:
        self.is_over = True
        self._stop_waiting()
        fault = next((result.error for result in results if result.error), None)
        self._service.admission.leave(FETCH, self._caller, self._began, fault.code if fault else OK)
        self._done(results)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._look is not None:
            self._look.cancel()
        for wanted in self._wanted:
            if isinstance(wanted.partition, Partition):
                wanted.partition.waiters.forget(self._woken)


def _admitted(wanted: FetchTarget) -> FetchTarget:
    """Return what is wanted, or TopicPrivate in place of a partition that holds the broker's own state."""
    partition = wanted.partition
    if isinstance(partition, GoQueueError) or not partition.is_internal:
        return wanted
    return wanted._replace(partition=private_topic(partition.topic))


def aborted_in(partition: Partition, offset: int, data: bytes) -> Sequence[AbortedRange]:
    """Return the aborted transactions that have records in what was read, and perhaps some that begin just behind.

    Readers take one into account when they get to its first record, so those are harmless. To look for the exact end
    would cost more than the read, where batches are small.
    """
    end = partition.log.segments.end_of_read(read_header(data).base_offset, len(data))
    return partition.log.aborted_transactions(offset, min(end, partition.last_stable_offset))

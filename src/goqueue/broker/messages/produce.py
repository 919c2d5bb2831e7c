"""Publishing: from the sections of many requests to one append per partition, and from outcomes to replies.

Requests come in bursts, as a connection read them, and all that a burst holds for one partition is written at once.
A request is answered when its caller's terms are met:

| acks | answered when                                                          |
|------|------------------------------------------------------------------------|
| 0    | never waits; the protocol sends no reply                               |
| 1    | the records are in the log                                             |
| all  | the high watermark has passed them: durable with `goqueue.flush=group` |

While a log is far behind with its syncs, everybody waits for the disk: a kernel that has to write back too much blocks
whoever writes next, which would be all clients at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from typing_extensions import override

from goqueue.broker.admission import OK, Admission, Caller, declare
from goqueue.errors import GoQueueError, NotEnoughReplicas, ProducerFenced, TopicProtected, TransactionFenced
from goqueue.machines.transactions.values import ProducerEpoch
from goqueue.records.layout import read_header
from goqueue.runtime.partition import Appended, Outcome, Partition

if TYPE_CHECKING:
    from goqueue.broker.messages.service import MessageService

PUBLISH = declare("messages.publish", on="topic", at="requests", writes=True)
_IN_SYNC = 1


class Acks(IntEnum):
    """Whom a publisher waits for."""

    ALL = -1
    NONE = 0
    LEADER = 1


class Section(NamedTuple):
    """The records of one request for one partition, or why there is no such partition."""

    partition: Partition | GoQueueError
    records: bytearray | memoryview


# Calling the class goes through a Python function, and there is one for each request.
_section = partial(tuple.__new__, Section)


class Publish:
    """One request: its sections, and once they are all settled, their outcomes, which `done` is told."""

    __slots__ = ("_burst", "_unsettled", "acks", "done", "outcomes", "sections", "transactional_id")

    def __init__(
        self,
        acks: Acks,
        sections: Sequence[Section],
        done: Callable[[Sequence[Outcome]], None],
        transactional_id: str | None = None,
    ) -> None:
        self.acks = acks
        self.sections = sections
        self.done = done
        self.transactional_id = transactional_id
        self.outcomes: list[Outcome] = []

    def settle(self, burst: _Burst) -> None:
        """Wait for what the terms demand, then tell; called once all sections have been appended or refused."""
        self._burst = burst
        self._unsettled = 1
        for number, outcome in enumerate(self.outcomes):
            if not isinstance(outcome, GoQueueError):
                self._wait_for(self.sections[number].partition, outcome.end_offset)
        self._settled()

    def _wait_for(self, partition: Partition | GoQueueError, end_offset: int) -> None:
        assert isinstance(partition, Partition)
        if self.acks is Acks.ALL and end_offset > partition.high_watermark:
            if not partition.log.fault:
                self._unsettled += 1
                partition.waiters.wait_for(end_offset, self._settled)
        elif partition.flusher.is_behind and not partition.log.fault:
            self._unsettled += 1
            partition.flusher.when_durable(end_offset, self._settled)

    def _settled(self) -> None:
        self._unsettled -= 1
        if self._unsettled:
            return
        if self.acks is Acks.ALL:
            self._check_committed()
        self._count()
        self.done(self.outcomes)

    def _count(self) -> None:
        """Count the request by what came of it."""
        code = next((each.code for each in self.outcomes if isinstance(each, GoQueueError)), OK)
        self._burst.ended(code)

    def _check_committed(self) -> None:
        """Turn what was appended but will never be committed into an error."""
        for number, (partition, _) in enumerate(self.sections):
            outcome = self.outcomes[number]
            if isinstance(outcome, Appended) and isinstance(partition, Partition):
                try:
                    partition.require_committed(outcome.end_offset)
                except GoQueueError as error:
                    self.outcomes[number] = error


class PublishRun(Publish):
    """Requests in a row, of one section each and all for one partition: each has its outcome, and all are told at once.

    They are on their way to the disk together anyway, and what every request costs by itself is paid once.
    """

    __slots__ = ("_gathered", "_partition")

    def __init__(self, acks: Acks, partition: Partition, done: Callable[[Sequence[Outcome]], None]) -> None:
        self._partition = partition
        self._gathered: list[Section] = []
        super().__init__(acks, self._gathered, done)

    def add(self, records: memoryview) -> None:
        """Let one more request be part of it."""
        self._gathered.append(_section((self._partition, records)))

    @override
    def settle(self, burst: _Burst) -> None:
        self._burst = burst
        self._unsettled = 1
        ends = [each.end_offset for each in self.outcomes if not isinstance(each, GoQueueError)]
        if ends:
            self._wait_for(self._partition, max(ends))
        self._settled()

    @override
    def _count(self) -> None:
        for code, count in Counter([getattr(each, "code", OK) for each in self.outcomes]).items():
            self._burst.ended(code, count)


class _Burst:
    """What all requests of a burst share. Those that succeed at once are counted together."""

    __slots__ = ("_admission", "_began", "_caller", "is_being_settled", "succeeded")

    def __init__(self, admission: Admission, caller: Caller, began: float) -> None:
        self._admission = admission
        self._caller = caller
        self._began = began
        self.is_being_settled = True
        self.succeeded = 0

    def ended(self, outcome: str, count: int = 1) -> None:
        """Count requests that have ended; those that succeed at once are counted together in the end."""
        if self.is_being_settled and outcome is OK:
            self.succeeded += count
        else:
            self._admission.leave(PUBLISH, self._caller, self._began, outcome, count)


def publish(service: MessageService, caller: Caller, requests: Sequence[Publish], *, is_moved: bool = False) -> None:
    """Append what the requests of a burst hold; each is told its outcomes as soon as its terms are met.

    The sections' buffers may be used again at return. Never raises what a request did wrong: that is its outcome.
    What `is_moved` was taken by the broker before, and may be of any size.
    """
    try:
        began = service.admission.enter(PUBLISH)
    except GoQueueError as error:
        began = service.core.clock.monotonic()
        for request in requests:
            request.outcomes = [error] * len(request.sections)
    else:
        _append(service, requests, is_moved=is_moved)
    burst = _Burst(service.admission, caller, began)
    for request in requests:
        request.settle(burst)
    burst.is_being_settled = False
    if burst.succeeded:
        burst.ended(OK, burst.succeeded)


def _append(service: MessageService, requests: Sequence[Publish], *, is_moved: bool) -> None:
    """Gather the sections of all requests by partition, and append to each partition once."""
    by_partition: dict[Partition, tuple[list[bytearray | memoryview], list[tuple[list[Outcome], int]]]] = {}
    for request in requests:
        if request.transactional_id is not None:
            request.outcomes = [
                _append_in_transaction(service, request, *section, is_moved=is_moved) for section in request.sections
            ]
            continue
        outcomes = request.outcomes
        is_for_all = request.acks is Acks.ALL
        for partition, records in request.sections:
            if isinstance(partition, GoQueueError):
                outcomes.append(partition)
                continue
            if partition.is_internal or (is_for_all and partition.settings.min_insync_replicas > _IN_SYNC):
                outcomes.append(_refusal(partition))
                continue
            gathered = by_partition.get(partition)
            if gathered is None:
                gathered = by_partition[partition] = ([], [])
            gathered[0].append(records)
            gathered[1].append((outcomes, len(outcomes)))
            outcomes.append(_PENDING)
    for partition, (sections, places) in by_partition.items():
        for (outcomes, number), outcome in zip(places, partition.append(sections, is_moved=is_moved), strict=True):
            outcomes[number] = outcome


def _append_in_transaction(
    service: MessageService,
    request: Publish,
    partition: Partition | GoQueueError,
    records: bytearray | memoryview,
    *,
    is_moved: bool,
) -> Outcome:
    """Append what belongs to a transaction, if the coordinator knows that it writes to this partition."""
    assert request.transactional_id is not None
    try:
        if isinstance(partition, GoQueueError):
            return partition
        if partition.is_internal or (request.acks is Acks.ALL and partition.settings.min_insync_replicas > _IN_SYNC):
            return _refusal(partition)
        where = partition.place
        service.check_writer(request.transactional_id, writer_of(records), where)
    except GoQueueError as error:
        return told_by_partition(error)
    (outcome,) = partition.append([records], is_transactional=True, is_moved=is_moved)
    return outcome


def writer_of(records: bytearray | memoryview) -> ProducerEpoch:
    """Return the producer that a batch names in its header."""
    header = read_header(records)
    return ProducerEpoch(header.producer_id, header.producer_epoch)


def told_by_partition(error: GoQueueError) -> GoQueueError:
    """Return what a coordinator says about a publish as partitions tell it, which is what publishers know of."""
    return ProducerFenced(error.message) if isinstance(error, TransactionFenced) else error


def _refusal(partition: Partition) -> GoQueueError:
    name = f"{partition.topic}-{partition.index}"
    if partition.is_internal:
        return TopicProtected(f"{name} holds the broker's own state and is written by nobody else")
    wanted = partition.settings.min_insync_replicas
    return NotEnoughReplicas(f"{name} has {_IN_SYNC} replica in sync, min.insync.replicas is {wanted}")


_PENDING = Appended(-1, -1)

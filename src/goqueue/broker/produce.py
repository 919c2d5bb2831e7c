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

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from goqueue.broker.pipeline import OK, Caller, Pipeline
from goqueue.broker.transactions import add_partitions, known, verify
from goqueue.errors import GoQueueError, NotEnoughReplicas, ProducerFenced, TopicProtected, TransactionFenced
from goqueue.machines.group_values import TopicPartition
from goqueue.machines.transaction_values import ProducerIdentity
from goqueue.records.layout import read_header
from goqueue.runtime.partition import Appended, Outcome, Partition

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker

OPERATION = "messages.publish"
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
        is_for_all = self.acks is Acks.ALL
        for number, outcome in enumerate(self.outcomes):
            if isinstance(outcome, GoQueueError):
                continue
            partition = self.sections[number][0]
            assert isinstance(partition, Partition)
            if is_for_all and outcome.end_offset > partition.high_watermark:
                if not partition.log.fault:
                    self._unsettled += 1
                    partition.waiters.wait_for(outcome.end_offset, self._settled)
            elif partition.flusher.is_behind and not partition.log.fault:
                self._unsettled += 1
                partition.flusher.when_durable(outcome.end_offset, self._settled)
        self._settled()

    def _settled(self) -> None:
        self._unsettled -= 1
        if self._unsettled:
            return
        if self.acks is Acks.ALL:
            self._check_committed()
        code = OK
        for outcome in self.outcomes:
            if isinstance(outcome, GoQueueError):
                code = outcome.code
                break
        burst = self._burst
        if burst.is_being_settled and code is OK:
            burst.succeeded += 1
        else:
            burst.leave(code)
        self.done(self.outcomes)

    def _check_committed(self) -> None:
        """Turn what was appended but will never be committed into an error."""
        for number, (partition, _) in enumerate(self.sections):
            outcome = self.outcomes[number]
            if isinstance(outcome, Appended) and isinstance(partition, Partition):
                try:
                    partition.require_committed(outcome.end_offset)
                except GoQueueError as error:
                    self.outcomes[number] = error


class _Burst:
    """What all requests of a burst share. Those that succeed at once are counted together."""

    __slots__ = ("_began", "_pipeline", "_protocol", "is_being_settled", "succeeded")

    def __init__(self, pipeline: Pipeline, protocol: str, began: float) -> None:
        self._pipeline = pipeline
        self._protocol = protocol
        self._began = began
        self.is_being_settled = True
        self.succeeded = 0

    def leave(self, outcome: str, count: int = 1) -> None:
        """Count requests that have ended."""
        self._pipeline.leave(OPERATION, self._protocol, self._began, outcome, count)


def publish(broker: Broker, caller: Caller, requests: Sequence[Publish]) -> None:
    """Append what the requests of a burst hold; each is told its outcomes as soon as its terms are met.

    The sections' buffers may be used again at return. Never raises what a request did wrong: that is its outcome.
    """
    try:
        began = broker.pipeline.enter(writes=True)
    except GoQueueError as error:
        began = broker.clock.monotonic()
        for request in requests:
            request.outcomes = [error] * len(request.sections)
    else:
        _append(broker, requests)
    burst = _Burst(broker.pipeline, caller.protocol, began)
    for request in requests:
        request.settle(burst)
    burst.is_being_settled = False
    if burst.succeeded:
        burst.leave(OK, burst.succeeded)


async def publish_when_known(broker: Broker, caller: Caller, request: Publish, *, adds_partitions: bool) -> None:
    """Publish what belongs to a transaction, once it is durable that the coordinator knows of all its partitions.

    With `adds_partitions` they become part of the transaction on the way, otherwise they have to be already.
    """
    assert request.transactional_id is not None
    if adds_partitions:
        request.sections = await _with_partitions_added(broker, caller, request.transactional_id, request.sections)
    # What the coordinator's log does not take is found again, and told, when the request is published.
    with suppress(GoQueueError):
        await known(broker, request.transactional_id)
    publish(broker, caller, [request])


async def _with_partitions_added(
    broker: Broker, caller: Caller, transactional_id: str, sections: Sequence[Section]
) -> Sequence[Section]:
    """Make the partitions of a request part of its producer's transaction.

    Returns the sections as they are to be published: where that was refused, with why in the place of the partition.
    """
    by_writer: dict[ProducerIdentity, dict[int, TopicPartition]] = {}
    for number, (partition, records) in enumerate(sections):
        if isinstance(partition, Partition) and not partition.is_internal:
            # What is no batch is found again, and told, when the request is published.
            with suppress(GoQueueError):
                by_writer.setdefault(_writer(records), {})[number] = TopicPartition(partition.topic, partition.index)
    added = list(sections)
    for writer, wanted in by_writer.items():
        refusals = await _add(broker, caller, transactional_id, writer, frozenset(wanted.values()))
        for number, where in wanted.items():
            if where in refusals:
                added[number] = Section(refusals[where], sections[number].records)
    return added


async def _add(
    broker: Broker,
    caller: Caller,
    transactional_id: str,
    writer: ProducerIdentity,
    partitions: frozenset[TopicPartition],
) -> Mapping[TopicPartition, GoQueueError]:
    """Add all partitions that can be, and return why the others cannot."""
    try:
        refused = await add_partitions(broker, caller, transactional_id, writer, partitions)
    except GoQueueError as error:
        return dict.fromkeys(partitions, _told_by_partition(error))
    others = partitions - refused.keys()
    if refused and others:
        return {**refused, **await _add(broker, caller, transactional_id, writer, others)}
    return refused


def _append(broker: Broker, requests: Sequence[Publish]) -> None:
    """Gather the sections of all requests by partition, and append to each partition once."""
    by_partition: dict[Partition, tuple[list[bytearray | memoryview], list[tuple[list[Outcome], int]]]] = {}
    for request in requests:
        if request.transactional_id is not None:
            request.outcomes = [_append_in_transaction(broker, request, *section) for section in request.sections]
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
        for (outcomes, number), outcome in zip(places, partition.append(sections), strict=True):
            outcomes[number] = outcome


def _append_in_transaction(
    broker: Broker, request: Publish, partition: Partition | GoQueueError, records: bytearray | memoryview
) -> Outcome:
    """Append what belongs to a transaction, if the coordinator knows that it writes to this partition."""
    assert request.transactional_id is not None
    try:
        if isinstance(partition, GoQueueError):
            return partition
        if partition.is_internal or (request.acks is Acks.ALL and partition.settings.min_insync_replicas > _IN_SYNC):
            return _refusal(partition)
        where = TopicPartition(partition.topic, partition.index)
        verify(broker, request.transactional_id, _writer(records), where)
    except GoQueueError as error:
        return _told_by_partition(error)
    (outcome,) = partition.append([records], is_transactional=True)
    return outcome


def _writer(records: bytearray | memoryview) -> ProducerIdentity:
    header = read_header(records)
    return ProducerIdentity(header.producer_id, header.producer_epoch)


def _told_by_partition(error: GoQueueError) -> GoQueueError:
    """Return what a coordinator says about a publish as partitions tell it, which is what publishers know of."""
    return ProducerFenced(error.message) if isinstance(error, TransactionFenced) else error


def _refusal(partition: Partition) -> GoQueueError:
    name = f"{partition.topic}-{partition.index}"
    if partition.is_internal:
        return TopicProtected(f"{name} holds the broker's own state and is written by nobody else")
    wanted = partition.settings.min_insync_replicas
    return NotEnoughReplicas(f"{name} has {_IN_SYNC} replica in sync, min.insync.replicas is {wanted}")


_PENDING = Appended(-1, -1)

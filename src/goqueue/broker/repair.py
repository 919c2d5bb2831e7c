"""Repairs the broker's own logs when they are damaged, with the broker stopped: `goqueue log repair`.

The readable records of a damaged log are written to a new one. The damaged one is set aside under another name, and
never deleted. Logs of users are not touched.

| step | names in the data directory                       | another run after a crash                                |
|------|---------------------------------------------------|----------------------------------------------------------|
| 1    | `LOG`, `LOG.repair` (being written)               | removes `LOG.repair` and begins again                    |
| 2    | `LOG.damaged-N`, `LOG.repair` (whole and durable) | goes on with step 3; a broker does not start in between  |
| 3    | `LOG.damaged-N`, `LOG`                            | finds nothing to do                                      |

The catalogue has more sources than its log: directories that hold a log, and are named as one of a partition, tell
which topics there are. Of a topic that only its directories know, the settings and the id are lost, and partitions
after the last one that was written to, since these have no directory.

The last record of a transactional id may be the one that is lost. Partitions would fence a producer that goes on with
an older epoch, so a producer that uses the id next gets another producer id.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Protocol

from msgspec.structs import replace

from goqueue.broker.internal_topics import (
    CATALOG_TOPIC,
    COORDINATOR_PARTITIONS,
    DELIVERIES_TOPIC,
    GROUPS_TOPIC,
    INTERNAL_CONFIG,
    REDRIVES_TOPIC,
    REPAIR_SUFFIX,
    SET_ASIDE,
    TRANSACTIONS_TOPIC,
)
from goqueue.broker.topics.service import RECEIPT_KEY_BYTES
from goqueue.errors import GoQueueError
from goqueue.log import names
from goqueue.log.batches import own_batch
from goqueue.log.log import Log
from goqueue.log.salvage import Salvage, salvage
from goqueue.machines.catalog import Catalog, Command, CreateTopic, NameCluster, TakeProducerIds
from goqueue.machines.decision import KeyedRecord
from goqueue.machines.groups.consumer.heartbeat_pace import HeartbeatPace
from goqueue.machines.groups.machine import GroupMachine
from goqueue.machines.queues.machine import QueueMachine
from goqueue.machines.redrives.machine import RedriveMachine
from goqueue.machines.transactions.machine import TransactionMachine
from goqueue.machines.transactions.records import transaction_record
from goqueue.machines.transactions.values import EPOCH_MAX
from goqueue.model.log_settings import Cleanup, LogSettings
from goqueue.model.sinks import is_sink_key
from goqueue.model.topic import PARTITIONS_MAX, is_internal, is_name
from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.reader import Record
from goqueue.runtime.clean_shutdown import CLOSED_STATES_LOG
from goqueue.seams.disk import Disk, make_durable_directory, remove_tree
from goqueue.seams.entropy import Entropy

_SETTINGS = LogSettings(cleanup=Cleanup.COMPACT, retention_ms=-1)
_PARTITION_NAME = re.compile(r"(.+)-(0|[1-9][0-9]*)")
_BATCH_BYTES = 256 * 1024
_INTERNAL_PARTITIONS = {
    GROUPS_TOPIC: COORDINATOR_PARTITIONS,
    TRANSACTIONS_TOPIC: COORDINATOR_PARTITIONS,
    DELIVERIES_TOPIC: COORDINATOR_PARTITIONS,
    REDRIVES_TOPIC: 1,
}
# More than were ever given out since the catalogue last said how many, or in a millisecond: no producer gets the id of
# another, also if the catalogue is lost twice. A partition would take its messages for duplicates.
_PRODUCER_IDS_SKIPPED = 10**9
_PRODUCER_IDS_PER_MS = 1000
_LOSSES: Mapping[str, str] = {
    GROUPS_TOPIC: "groups go on where their last readable commit was, or begin anew: messages may come again",
    TRANSACTIONS_TOPIC: "transactions that are not known any more are aborted where they are open, also half committed",
    DELIVERIES_TOPIC: "messages whose acknowledgement is lost are delivered again",
    REDRIVES_TOPIC: "redrives that are not known any more end, and dead letters may be redriven again",
}
_UNREADABLE = (GoQueueError, ValueError, KeyError, TypeError, IndexError)


class _Machine(Protocol):
    def apply(self, record: KeyedRecord) -> None: ...


_MACHINES: Mapping[str, Callable[[], _Machine]] = {
    GROUPS_TOPIC: lambda: GroupMachine({}, HeartbeatPace()),
    TRANSACTIONS_TOPIC: TransactionMachine,
    DELIVERIES_TOPIC: QueueMachine,
    REDRIVES_TOPIC: RedriveMachine,
}


@dataclass(slots=True)
class RepairPlan:
    """Plans the repair of one log: the records to keep, the losses, and what replaces them."""

    log: str
    faults: list[str]
    bytes_lost: int
    records: list[NewRecord]
    notes: list[str] = field(default_factory=list)
    is_finished_by_rename: bool = False
    is_leftover: bool = False


def plan_repairs(disk: Disk, directory: PurePath, entropy: Entropy, now_ms: int) -> Sequence[RepairPlan]:
    """Return what has to be done; nothing if all logs of the broker can be read. Changes nothing."""
    present = disk.list_directory(directory)
    plans = []
    for name in sorted({name.removesuffix(REPAIR_SUFFIX) for name in present if _is_own(name)}):
        if name not in present:
            plans.append(RepairPlan(name, ["an earlier repair was interrupted"], 0, [], is_finished_by_rename=True))
        elif name != f"{CATALOG_TOPIC}-0":
            plans += _plan_internal(disk, directory, name)
    catalog = f"{CATALOG_TOPIC}-0"
    if not any(plan.log == catalog for plan in plans):
        plans += _plan_catalog(disk, directory, present, entropy, now_ms)
    planned = {plan.log for plan in plans}
    leftovers = [name.removesuffix(REPAIR_SUFFIX) for name in present if _is_being_repaired(name)]
    reason = "an earlier repair was interrupted, and its log is sound now"
    plans += [RepairPlan(name, [reason], 0, [], is_leftover=True) for name in leftovers if name not in planned]
    return plans


def repair(disk: Disk, directory: PurePath, plans: Iterable[RepairPlan]) -> Mapping[str, str]:
    """Carry out what was planned; return where the damaged log of each name is now."""
    moved = {}
    for plan in plans:
        target = directory / plan.log
        made = directory / f"{plan.log}{REPAIR_SUFFIX}"
        if not plan.is_finished_by_rename:
            remove_tree(disk, made)
            if plan.is_leftover:
                continue
            # Where there is none, an empty one is set aside: then `LOG.repair` alone always means that it is whole.
            make_durable_directory(disk, target)
            try:
                _write(disk, made, plan.records)
            except (OSError, GoQueueError):
                # The disk is full, most often. The damaged log is still in its place, so the new one is removed.
                remove_tree(disk, made)
                raise
            aside = _unused(disk, directory, plan.log)
            disk.rename(target, aside)
            disk.sync_directory(directory)
            moved[plan.log] = aside.name
        disk.rename(made, target)
        disk.sync_directory(directory)
    return moved


def _is_being_repaired(name: str) -> bool:
    """Tell whether a name is that of a log that a repair has begun to write, and not renamed yet."""
    return is_internal(name) and name.endswith(REPAIR_SUFFIX)


def _is_own(name: str) -> bool:
    """Tell whether a name is that of a log of the broker's own, or of one that a repair has begun to write."""
    found = _PARTITION_NAME.fullmatch(name.removesuffix(REPAIR_SUFFIX))
    return found is not None and is_internal(found[1]) and SET_ASIDE not in name and name != CLOSED_STATES_LOG


def _plan_internal(disk: Disk, directory: PurePath, name: str) -> Iterable[RepairPlan]:
    topic = name.rpartition("-")[0]
    found = salvage(disk, directory / name)
    machine = _MACHINES[topic]() if topic in _MACHINES else None
    kept = _accepted(found, machine)
    if found.faults:
        if isinstance(machine, TransactionMachine):
            kept = _with_other_producers(machine, kept)
        yield RepairPlan(name, found.faults, found.bytes_lost, kept, [_LOSSES[topic]] if topic in _LOSSES else [])


def _accepted(found: Salvage, machine: _Machine | None) -> list[NewRecord]:
    """Return the records that a machine takes; the others are faults."""
    kept = []
    for record in found.records:
        if record.key is None:
            found.faults.append(f"the record at offset {record.offset} has no key")
            continue
        try:
            if machine is not None:
                machine.apply(KeyedRecord(record.key, record.value))
        except _UNREADABLE as error:
            found.faults.append(f"the record at offset {record.offset} means nothing: {error}")
            continue
        kept.append(_copy(record))
    return kept


def _with_other_producers(machine: TransactionMachine, kept: Iterable[NewRecord]) -> list[NewRecord]:
    """Return the records of sinks and of transactional ids, of which none goes on with the epoch that it had.

    At the end of epochs an id takes another producer. A transaction being ended stays as it is, so that it ends.
    """
    records = [record for record in kept if is_sink_key((record.key or b"").decode())]
    for transaction in machine.all():
        stays = transaction.is_ending
        key, value = transaction_record(transaction if stays else replace(transaction, epoch=EPOCH_MAX, previous=None))
        records.append(NewRecord(transaction.updated_ms, key, value))
    return records


def _copy(record: Record) -> NewRecord:
    return NewRecord(record.timestamp, record.key, record.value, record.headers)


def _plan_catalog(
    disk: Disk, directory: PurePath, present: Sequence[str], entropy: Entropy, now_ms: int
) -> Iterable[RepairPlan]:
    name = f"{CATALOG_TOPIC}-0"
    partitions = _partitions_of_directories(disk, directory, present)
    if name in present:
        found = salvage(disk, directory / name)
    elif partitions:
        found = Salvage(faults=["the log of the catalogue is missing"])
    else:
        return
    catalog = Catalog()
    _accepted(found, catalog)
    if not found.faults:
        return
    plan = RepairPlan(name, found.faults, found.bytes_lost, [])
    _complete(catalog, partitions, plan, entropy, now_ms)
    plan.records = [NewRecord(now_ms, record.key, record.value) for record in catalog.records()]
    yield plan


def _partitions_of_directories(disk: Disk, directory: PurePath, present: Iterable[str]) -> Mapping[str, int]:
    """Return how many partitions topics have at least, by the logs that are there."""
    partitions: dict[str, int] = {}
    for name in present:
        found = _PARTITION_NAME.fullmatch(name)
        if found is None or not _holds_a_log(disk, directory / name):
            continue
        topic, index = found[1], int(found[2])
        if topic in _INTERNAL_PARTITIONS:
            partitions[topic] = _INTERNAL_PARTITIONS[topic]
        elif not is_internal(topic) and is_name(topic) and index < PARTITIONS_MAX:
            partitions[topic] = max(partitions.get(topic, 0), index + 1)
    return partitions


def _holds_a_log(disk: Disk, path: PurePath) -> bool:
    """Tell whether there are files of a log in a directory: others may have names that end in a number, too."""
    if not disk.is_directory(path):
        return False
    return any(name == names.CHECKPOINT or names.parse(name) is not None for name in disk.list_directory(path))


def _complete(catalog: Catalog, partitions: Mapping[str, int], plan: RepairPlan, entropy: Entropy, now_ms: int) -> None:
    """Add what directories tell to what could be read of a catalogue."""

    def carry_out(command: Command) -> None:
        for record in catalog.plan(command):
            catalog.apply(record)

    if catalog.cluster_id is None:
        plan.notes.append("the id of the cluster is lost; it gets another")
    carry_out(NameCluster(entropy.uuid(), entropy.token(RECEIPT_KEY_BYTES)))
    by_time = now_ms * _PRODUCER_IDS_PER_MS - catalog.next_producer_id
    carry_out(TakeProducerIds(max(_PRODUCER_IDS_SKIPPED, by_time)))
    known = {topic.name: topic for topic in catalog.topics}
    plan.notes.append(f"{sum(not topic.is_internal for topic in known.values())} topics are kept as they are")
    for name, count in sorted(partitions.items()):
        topic = known.get(name)
        if topic is None:
            carry_out(CreateTopic(name, entropy.uuid(), count, INTERNAL_CONFIG if is_internal(name) else {}, now_ms))
            if not is_internal(name):
                lost = "its settings and its id are lost, and partitions after the last one that was written to"
                known_as = (
                    f"topic {name} is known from its directories: at least {count} partitions, and it gets {count}"
                )
                plan.notes.append(f"{known_as}; {lost}")
        elif topic.is_going or topic.partitions < count:
            # Nothing is removed, or left out, because of what a damaged catalogue says.
            catalog.apply(KeyedRecord(b"topic " + name.encode(), None))
            carry_out(CreateTopic(name, topic.id, max(count, topic.partitions), topic.config, topic.created_ms))
            why = (
                "was being deleted; delete it again" if topic.is_going else f"has {count} partitions by its directories"
            )
            plan.notes.append(f"topic {name} {why}")


def _write(disk: Disk, directory: PurePath, records: Sequence[NewRecord]) -> None:
    log = Log(disk, directory, _SETTINGS)
    try:
        batch: list[NewRecord] = []
        size = 0
        for record in records:
            batch.append(record)
            size += len(record.key or b"") + len(record.value or b"")
            if size >= _BATCH_BYTES:
                log.append([own_batch(build_batch(batch))], leader_epoch=log.leader_epoch)
                batch, size = [], 0
        if batch:
            log.append([own_batch(build_batch(batch))], leader_epoch=log.leader_epoch)
    finally:
        log.close()


def _unused(disk: Disk, directory: PurePath, name: str) -> PurePath:
    number = 1
    while disk.exists(path := directory / f"{name}{SET_ASIDE}{number}"):
        number += 1
    return path

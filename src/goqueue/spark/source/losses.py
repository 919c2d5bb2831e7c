"""Lost records: raised as an error, or logged as a warning if the read may continue."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from goqueue.client.kafka import TopicPartition
from goqueue.errors import NotFound
from goqueue.spark.source.options import FAIL_ON_DATA_LOSS

_log = logging.getLogger("goqueue.spark")


class DataLost(NotFound):
    """Unread records were removed."""

    code = "data_lost"


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss, and how a read continues without it."""

    what: str
    consequence: str


def removed(place: TopicPartition, start: int, end: int, log_start: int, next_offset: int | None = None) -> Loss:
    """Return the loss of records removed by retention or DeleteRecords; `end` is exclusive.

    The `next_offset` that can be read is before the log if it is in an archive, which then has a gap.
    """
    next_offset = log_start if next_offset is None else next_offset
    archive = "" if next_offset == log_start else f", and the archive goes on at {next_offset}"
    return Loss(
        f"offsets {start} to {min(end, next_offset) - 1} of {place} were removed (by retention or DeleteRecords) "
        f"before they were read; the log starts at {log_start}{archive}",
        f"goes on at offset {next_offset}",
    )


def cut_off(place: TopicPartition, offset: int, log_end: int, *, is_end: bool = False) -> Loss:
    """Return the loss of a log that ends before a position, or before the end of the query."""
    where = f"offset {offset}, where the query is to end" if is_end else f"the position {offset} of the query"
    return Loss(
        f"{place} ends at offset {log_end}, before {where}: the broker has lost records, or "
        "kafka.isolation.level was changed",
        f"ends at offset {log_end}" if is_end else f"goes on at offset {log_end}",
    )


def left(place: TopicPartition) -> Loss:
    """Return the loss of a partition that is no longer subscribed."""
    return Loss(f"{place} is not subscribed any more", "goes on without it")


def deleted(topic: str) -> Loss:
    """Return the loss of a whole topic."""
    return Loss(f"topic {topic!r} was deleted, or is not subscribed any more", "goes on without it")


def recreated(topic: str, *, is_new_read: bool = True) -> Loss:
    """Return the loss of a topic that was replaced by another one, which is read from now on, or not."""
    return Loss(
        f"topic {topic!r} was deleted and made again since the query read it",
        "reads the new topic from its start" if is_new_read else "goes on without it",
    )


def settle(losses: Sequence[Loss], *, is_failure: bool, told: set[str] | None = None) -> None:
    """Raise DataLost, or warn of each loss that is not in `told`, the losses of the last look."""
    if losses and is_failure:
        goes_on = "; ".join(dict.fromkeys(loss.consequence for loss in losses))
        raise DataLost(
            f"data is lost: {'; '.join(loss.what for loss in losses)}",
            hint=f"with the option {FAIL_ON_DATA_LOSS}=false the read {goes_on}; a stream can begin anew with another "
            "checkpointLocation; a longer retention.ms of the topic leaves more time to read",
        )
    for loss in losses:
        if told is None or loss.what not in told:
            _log.warning("data is lost: %s; the read %s", loss.what, loss.consequence)
    if told is not None:
        told.clear()
        told.update(loss.what for loss in losses)

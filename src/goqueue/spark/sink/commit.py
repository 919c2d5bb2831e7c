"""Commits or aborts, on the driver, the transactions that the tasks of a write have staged.

| event                            | result                                                                   |
|-----------------------------------------|------------------------------------------------------------------------|
| the batch is committed                  | transactions of other attempts are aborted, so that readers need not wait |
| it was committed before                 | the same; the broker aborts the transactions staged again               |
| a later batch was committed before      | `CheckpointOutdated`: nothing is written                               |
| a stage is gone: timeout, or taken over | `BatchNotCommitted`: nothing of the batch is visible                   |
| no answer                               | `BatchNotCommitted`, unknown; asking again later is harmless |

Aborts name the producer id and epoch, not only the transactional id, and the broker refuses to abort a committed
transaction. So an abort after a commit, or after a new attempt has begun, is harmless.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from goqueue.api.transactions import BatchCommitted
from goqueue.client import Client, Patience, Producer, transactions
from goqueue.client.kafka import KafkaData
from goqueue.client.kafka.waiting import Waiting
from goqueue.errors import Conflict, Corrupt, GoQueueError, NotFound, Unavailable
from goqueue.model.sinks import sink_key
from goqueue.seams.clock import SystemClock
from goqueue.seams.entropy import SystemEntropy
from goqueue.spark.broker import http_address
from goqueue.spark.sink.options import SinkOptions
from goqueue.spark.sink.staging import StagedRows

T = TypeVar("T")

_ABORT_TIMEOUT_S = 5.0
_TIMEOUT_S_MIN = 0.1

_log = logging.getLogger("goqueue.spark")


class BatchNotCommitted(Conflict):
    """A batch of a write is not committed, or its outcome is unknown."""

    code = "batch_not_committed"


class CheckpointOutdated(Conflict):
    """The checkpoint is older than the last committed batch."""

    code = "checkpoint_outdated"


def commit_staged(options: SinkOptions, batch: int, staged: Iterable[StagedRows], *, again: str) -> None:
    """Commit the staged transactions of a batch once; `again` is the hint for a failure."""
    stages = [each for each in staged if each.producer is not None]
    if not stages:
        return
    sink = stages[0].sink

    def commit(client: Client) -> BatchCommitted:
        return client.send(transactions.commit_batch(sink, batch, _producers(stages)))

    try:
        done = _answered(options, commit)
    except NotFound:
        # # The broker or its call was not found: the error is not about the batch.
        raise
    except GoQueueError as error:
        raise _not_committed(error, batch, stages, again) from error
    _abort_lost(options, sink)
    if done.last_batch > batch:
        raise CheckpointOutdated(
            f"batch {batch} of {sink} is not written: batch {done.last_batch} was committed before, so the checkpoint "
            "is older than what is in the topics",
            hint="use the checkpoint that the query had, or a new one, with which it begins anew and writes rows again",
        )
    if not done.is_new:
        _log.info("batch %d of %s was committed before, what was staged again is dropped", batch, sink)


def abort_staged(options: SinkOptions, staged: Iterable[StagedRows], *, ended_sink: str | None = None) -> None:
    """Abort staged transactions, best effort; committed ones stay.

    All transactions of an `ended_sink` are aborted, including those of tasks that returned nothing.
    """
    producers = _producers(staged)
    if producers:
        _abort_all(options, lambda _: producers)
    if ended_sink is not None:
        _abort_lost(options, ended_sink)


def _abort_lost(options: SinkOptions, sink: str) -> None:
    """Abort transactions of a sink that will not be committed, so that readers need not wait for them."""

    def find(client: Client) -> list[Producer]:
        found = client.send(transactions.list_all(state="Ongoing"))
        lost = [each for each in found if each.transactional_id.startswith(f"{sink_key(sink)}:")]
        return [Producer(each.transactional_id, each.producer_id, each.epoch) for each in lost]

    _abort_all(options, find)


def _abort_all(options: SinkOptions, find: Callable[[Client], list[Producer]]) -> None:
    try:
        with _client(options, _ABORT_TIMEOUT_S) as client:
            for producer in find(client):
                _abort(client, producer)
    except GoQueueError as error:
        _log.warning("staged transactions cannot be aborted and end by their timeout: %s", error)


def _abort(client: Client, producer: Producer) -> None:
    try:
        client.send(transactions.abort(producer))
    except Unavailable:
        raise
    except GoQueueError as error:
        # # It is committed, ended, or taken over by another attempt: nothing to abort.
        _log.info("%s was not aborted: %s", producer.transactional_id, error)


def _producers(stages: Iterable[StagedRows]) -> list[Producer]:
    return [Producer(*each.producer) for each in stages if each.producer is not None]


def _answered(options: SinkOptions, ask: Callable[[Client], T]) -> T:
    """Ask until there is an answer or the time is up; the broker may move meanwhile."""
    waiting = Waiting(SystemClock(), SystemEntropy())
    deadline = waiting.deadline(options.timeout_ms / 1000)
    attempt = 1
    while True:
        try:
            with _client(options, deadline.left_s) as client:
                return ask(client)
        except Unavailable:
            if not waiting.pause(attempt, deadline):
                raise
        attempt += 1


def _client(options: SinkOptions, timeout_s: float) -> Client:
    timeout_s = max(timeout_s, _TIMEOUT_S_MIN)
    url = options.http_url
    if url is None:
        with KafkaData(options.bootstrap, timeout_s=timeout_s, connect_timeout_s=timeout_s) as data:
            url = http_address(data.describe_broker())
    return Client(url, timeout_s=timeout_s, patience=Patience(attempts=1))


def _not_committed(error: GoQueueError, batch: int, stages: Sequence[StagedRows], again: str) -> BatchNotCommitted:
    rows = sum(each.rows for each in stages)
    what = f"batch {batch} of {stages[0].sink}, {rows:,} rows staged by {len(stages):,} tasks,"
    if isinstance(error, Unavailable | Corrupt):
        return BatchNotCommitted(f"it is not known whether {what} is committed: {error}", hint=again)
    return BatchNotCommitted(f"{what} is not committed, and nothing of it is visible: {error}", hint=again)

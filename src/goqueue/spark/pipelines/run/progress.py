"""How far the queries of a pipeline have got: pure arithmetic over what Spark tells after each batch.

Spark's account of a batch is a JSON document. `read_batch` takes from it what people ask for; `advance` adds it to what
was known of the query. A query without anything to do tells so every ten seconds, under the number of its last batch:
such an account changes the rates, and no total.

A row that breaks a rule of `expect` goes on. It is counted as a warning, apart from bad rows, which do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

DEAD_LETTERS_NAME: Final = "dead letters"
"""The query of a pipeline that writes them; its rows are those that it writes, since it reads much that is none."""
WRITTEN_METRIC: Final = "goqueue.written"
RULES_PREFIX: Final = "goqueue.rules."
WARNINGS_PREFIX: Final = "goqueue.warnings."
_GOQUEUE: Final = "goqueue"


TopicOffsets = Mapping[tuple[str, str], int]
"""Offsets by topic and partition."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What one batch has done, or all of them."""

    rows: int
    rows_written: int
    bad_rows: Mapping[str, int]
    warned_rows: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class BatchAccount:
    """Spark's account of one batch; `lag` is None if no source can tell what is left."""

    number: int
    query_id: str
    is_idle: bool
    rows_read: int
    rows_written: int
    rows_per_second: float
    seconds: float
    lag: int | None
    state_rows: int
    state_bytes: int
    watermark: str | None
    bad_rows: Mapping[str, int]
    warned_rows: Mapping[str, int]
    positions: TopicOffsets
    offsets: int = 0
    """By how many offsets of topics it has gone on; not all of them need have a message."""


@dataclass(frozen=True, slots=True)
class RunProgress:
    """What is known of a query; totals are those of this run. `batch` is -1 before the first one."""

    name: str
    query_id: str = ""
    batch: int = -1
    rows: int = 0
    rows_written: int = 0
    rows_per_second: float = 0.0
    batch_seconds: float = 0.0
    lag: int | None = None
    state_rows: int = 0
    state_bytes: int = 0
    watermark: str | None = None
    bad_rows: Mapping[str, int] = field(default_factory=dict)
    warned_rows: Mapping[str, int] = field(default_factory=dict)
    updated_at_ms: int = 0
    offsets: int = 0
    positions: TopicOffsets = field(default_factory=dict)
    """Where its last batch ended in topics."""

    @property
    def totals(self) -> Figures:
        """What all batches of this run have done."""
        return Figures(self.rows, self.rows_written, self.bad_rows, self.warned_rows)


def read_batch(account: Mapping[str, Any]) -> BatchAccount:
    """Return what a batch was like, by Spark's account of it."""
    durations = account.get("durationMs") or {}
    seconds = durations.get("triggerExecution", 0) / 1000
    read = account.get("numInputRows")
    if read is None:
        # Spark Connect tells it of each source only.
        read = sum(source.get("numInputRows") or 0 for source in account.get("sources") or [])
    metrics = {name: _counts(row) for name, row in (account.get("observedMetrics") or {}).items()}
    operators = account.get("stateOperators") or []
    return BatchAccount(
        number=account["batchId"],
        query_id=account.get("id") or "",
        is_idle="addBatch" not in durations,
        rows_read=read,
        rows_written=(metrics.get(WRITTEN_METRIC) or {}).get("rows") or 0,
        rows_per_second=read / seconds if seconds else 0.0,
        seconds=seconds,
        lag=_lag(account.get("sources") or []),
        state_rows=sum(operator.get("numRowsTotal") or 0 for operator in operators),
        state_bytes=sum(operator.get("memoryUsedBytes") or 0 for operator in operators),
        watermark=_watermark(account.get("eventTime") or {}),
        bad_rows=broken_rules(metrics, RULES_PREFIX),
        warned_rows=broken_rules(metrics, WARNINGS_PREFIX),
        positions=_reached(account.get("sources") or []),
        offsets=sum(map(_advanced, account.get("sources") or [])),
    )


def _counts(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return observed values by name; Spark Connect tells names and values apart."""
    if row.keys() != {"schema", "values"}:
        return row
    return dict(zip((field["name"] for field in row["schema"]["fields"]), row["values"], strict=True))


def broken_rules(metrics: Mapping[str, Any], prefix: str) -> dict[str, int]:
    """Return how many rows broke each rule of a kind, as `step.rule`; rules that no row broke are there with 0."""
    return {
        f"{name.removeprefix(prefix)}.{rule}": count or 0
        for name, counts in metrics.items()
        if name.startswith(prefix)
        for rule, count in counts.items()
    }


def advance(known: RunProgress, batch: BatchAccount, now_ms: int) -> RunProgress:
    """Add a batch to what was known of a query."""
    if batch.is_idle:
        return replace(
            known,
            query_id=batch.query_id,
            rows_per_second=0.0,
            lag=batch.lag if batch.lag is not None else known.lag,
            updated_at_ms=now_ms,
        )
    return RunProgress(
        name=known.name,
        query_id=batch.query_id,
        batch=batch.number,
        rows=known.rows + batch.rows_read,
        rows_written=known.rows_written + batch.rows_written,
        rows_per_second=batch.rows_per_second,
        batch_seconds=batch.seconds,
        lag=batch.lag,
        state_rows=batch.state_rows,
        state_bytes=batch.state_bytes,
        watermark=batch.watermark or known.watermark,
        bad_rows=summed(known.bad_rows, batch.bad_rows),
        warned_rows=summed(known.warned_rows, batch.warned_rows),
        positions=batch.positions or known.positions,
        updated_at_ms=now_ms,
        offsets=known.offsets + batch.offsets,
    )


def summed(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    """Add counts by name."""
    return {name: first.get(name, 0) + second.get(name, 0) for name in (*first, *second)}


def _lag(sources: list[Mapping[str, Any]]) -> int | None:
    """Return how many messages there were behind the end of a batch; None if no source reads topics."""
    lags = [
        sum(max(0, end - reached.get(place, end)) for place, end in ends.items())
        for source in sources
        if (ends := _offsets(source.get("latestOffset"))) is not None
        and (reached := _offsets(source.get("endOffset"))) is not None
    ]
    return sum(lags) if lags else None


def live_lag(progress: RunProgress, ends: TopicOffsets) -> int | None:
    """Return how many messages a query has not read yet, by where its topics end now."""
    if not progress.positions or not ends:
        return progress.lag
    topics = {topic for topic, _ in progress.positions}
    return sum(max(0, end - progress.positions.get(place, end)) for place, end in ends.items() if place[0] in topics)


def _reached(sources: list[Mapping[str, Any]]) -> TopicOffsets:
    """Return where a batch ended; of a topic that is read twice, the offset that was reached by both."""
    found: dict[tuple[str, str], int] = {}
    for source in sources:
        for place, offset in (_offsets(source.get("endOffset")) or {}).items():
            found[place] = min(offset, found.get(place, offset))
    return found


def _advanced(source: Mapping[str, Any]) -> int:
    """Return by how many offsets a source went on with a batch; none if it has just begun, or reads no topics."""
    before, after = _offsets(source.get("startOffset")), _offsets(source.get("endOffset"))
    if before is None or after is None:
        return 0
    return sum(max(0, offset - before.get(place, offset)) for place, offset in after.items())


def _offsets(document: object) -> dict[tuple[str, str], int] | None:
    """Return the offsets of a position as `goqueue.spark.source.positions` writes it; None if it is something else."""
    if not isinstance(document, Mapping) or document.get("source") != _GOQUEUE:
        return None
    return {
        (topic, partition): offset
        for topic, position in document["topics"].items()
        for partition, offset in position["offsets"].items()
    }


def _watermark(event_time: Mapping[str, str]) -> str | None:
    # Before the first row with a time, Spark tells the year 1970.
    watermark = event_time.get("watermark", "")
    return None if not watermark or watermark.startswith("1970-01-01T00:00:00") else watermark

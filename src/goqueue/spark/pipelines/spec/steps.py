"""Steps: what is done to rows, and where a step says what it reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from goqueue.spark.pipelines.spec.fields import MappingReader, Reference, check_sql
from goqueue.spark.pipelines.spec.functions import ReadFile, parse_function
from goqueue.spark.pipelines.spec.model import (
    Action,
    Aggregate,
    Deduplicate,
    Expectation,
    JoinKind,
    JoinTransform,
    PipelineStep,
    PythonTransform,
    SqlTransform,
    TimeWindow,
    Transform,
    Watermark,
)
from goqueue.spark.pipelines.spec.nodes import ListNode
from goqueue.spark.sql.query import SqlQuery, read_query
from goqueue.spark.sql.tokens import SqlError

_TRANSFORMS = ["sql", "python", "join"]
_CLAUSES = (*Action, "watermark", "deduplicate", "aggregate")


@dataclass(frozen=True, slots=True)
class StepDraft:
    """A step whose inputs are only names yet; `query` is what can be seen of its SQL."""

    step: PipelineStep
    reads: tuple[Reference, ...]
    query: SqlQuery | None = None

    @property
    def groups_in_sql(self) -> bool:
        """Whether its SQL groups rows."""
        return self.query is not None and self.query.groups


def parse_step(name: str, fields: MappingReader, read: ReadFile) -> StepDraft:
    """Return a step."""
    kind = fields.among(_TRANSFORMS, is_needed=False)
    reads = fields.references("from")
    transform: Transform | None = None
    query: SqlQuery | None = None
    if kind == "sql":
        transform, query, reads = _sql(fields, reads)
    elif kind == "python":
        scalar = fields.needed("python", "transforms.py:clean")
        function = parse_function(scalar, f"python of {fields.what}", fields.notes, fields.directory, read)
        transform = PythonTransform(function)
        _check_count(fields, reads, most=None)
    elif kind == "join":
        _check_count(fields, reads, most=1)
        transform, others = _join(fields)
        reads += others
    else:
        _check_count(fields, reads, most=1)
    step = PipelineStep(
        name,
        tuple(reference.name for reference in reads),
        transform,
        tuple(_expectations(fields)),
        _watermark(fields),
        _deduplicate(fields),
        _aggregate(fields),
    )
    fields.finish()
    if not kind and not any(map(fields.has, _CLAUSES)):
        fields.notes.warning(fields.place, f"{fields.what} does nothing", f"add one of {', '.join(_TRANSFORMS)}")
    return StepDraft(step, reads, query)


def _check_count(fields: MappingReader, reads: Sequence[Reference], *, most: int | None) -> None:
    if not reads and not fields.has("from"):
        fields.notes.error(fields.place, f"{fields.what} reads nothing", "add from: with the name of a source or step")
    elif most is not None and len(reads) > most:
        fields.notes.error(
            reads[most].place,
            f"{fields.what} can read only one source or step",
            "read several with sql, python or join",
        )


def _sql(
    fields: MappingReader, named: tuple[Reference, ...]
) -> tuple[SqlTransform, SqlQuery | None, tuple[Reference, ...]]:
    scalar = fields.scalar("sql")
    if scalar is None:
        return SqlTransform(""), None, named
    try:
        query = read_query(scalar.text)
    except SqlError as error:
        fields.notes.error(scalar.at(error.offset), f"sql of {fields.what}: {error.message}")
        return SqlTransform(scalar.text), None, named
    found = tuple(Reference(table.name, scalar.at(table.offset)) for table in query.tables)
    if not fields.has("from"):
        if not found:
            fields.notes.error(scalar.place, f"sql of {fields.what} reads no source or step", "select FROM one")
        return SqlTransform(scalar.text), query, found
    _compare(fields, named, found)
    return SqlTransform(scalar.text), query, named


def _compare(fields: MappingReader, named: Sequence[Reference], found: Sequence[Reference]) -> None:
    """Check that `from` says what the query says, if it says anything."""
    names = {reference.name.casefold() for reference in named}
    tables = {reference.name.casefold() for reference in found}
    for reference in found:
        if reference.name.casefold() not in names:
            fields.notes.error(
                reference.place,
                f"sql of {fields.what} reads {reference.name}, which its from leaves out",
                "add it, or leave from away: the query says it all",
            )
    for reference in named:
        if reference.name.casefold() not in tables:
            fields.notes.warning(reference.place, f"{fields.what} names {reference.name}, but its sql does not read it")


def _join(fields: MappingReader) -> tuple[JoinTransform, tuple[Reference, ...]]:
    inner = fields.inner("join")
    if inner is None:
        return JoinTransform(JoinKind.INNER), ()
    other = inner.needed("with", "customers")
    kind = inner.choice("type", JoinKind.INNER)
    columns: tuple[str, ...] = ()
    condition = ""
    if isinstance(inner.node("on"), ListNode):
        columns = inner.texts("on")
    else:
        scalar = inner.needed("on", "[customer_id]")
        condition = scalar.text
        if condition.isidentifier():
            columns, condition = (condition,), ""
        elif condition:
            check_sql(scalar, f"on of {inner.what}", fields.notes)
    inner.finish()
    return JoinTransform(kind, columns, condition), (Reference(other.text, other.place),) if other.text else ()


def _expectations(fields: MappingReader) -> Iterator[Expectation]:
    names: set[str] = set()
    for action in Action:
        for key, condition in fields.pairs(action):
            check_sql(condition, f"{key.text} in {action} of {fields.what}", fields.notes)
            if key.text in names:
                # A dead row carries the name of its rule, so that has to say which one.
                fields.notes.error(key.place, f"{fields.what} has two rules with the name {key.text}")
            names.add(key.text)
            yield Expectation(key.text, condition.text, action)


def _watermark(fields: MappingReader) -> Watermark | None:
    inner = fields.inner("watermark")
    if inner is None:
        return None
    column = inner.needed("column", "placed_at").text
    inner.needed("delay", "10m")
    delay_ms = inner.duration_ms("delay")
    inner.finish()
    return Watermark(column, delay_ms)


def _deduplicate(fields: MappingReader) -> Deduplicate | None:
    columns = fields.texts("deduplicate")
    return Deduplicate(columns) if columns else None


def _aggregate(fields: MappingReader) -> Aggregate | None:
    group_by = fields.texts("group_by")
    window = _window(fields)
    columns = dict(fields.conditions("aggregate"))
    if fields.has("aggregate"):
        return Aggregate(columns, group_by, window)
    for name in ("window", "group_by"):
        if fields.has(name):
            fields.notes.error(
                fields.key_place(name),
                f"{fields.what} has {name} but computes nothing",
                "add aggregate: {total: sum(amount)}",
            )
    return None


def _window(fields: MappingReader) -> TimeWindow | None:
    inner = fields.inner("window")
    if inner is None:
        return None
    column = inner.needed("column", "placed_at").text
    kind = inner.among(["size", "gap"])
    size_ms, gap_ms, slide_ms = inner.duration_ms("size"), inner.duration_ms("gap"), inner.duration_ms("slide")
    if inner.has("slide") and (kind == "gap" or slide_ms > size_ms > 1):
        fields.notes.error(
            inner.key_place("slide"),
            "the windows of a session have no slide"
            if kind == "gap"
            else "windows that slide by more than their size leave rows out",
        )
    inner.finish()
    return TimeWindow(column, size_ms, slide_ms or size_ms, gap_ms)

"""Finds rules and steps that depend on time or randomness in their SQL.

Each sink and the dead letters have their own query, which evaluates the steps separately. If a rule gave a row
different results in the query of a sink and in that of the dead letters, the row would be in neither or in both. So
`expect_or_dlq` and all steps before it must be deterministic. Elsewhere nondeterminism loses no rows, but two sinks may
get different ones. User-defined functions are checked when the pipeline runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, assert_never

from goqueue.spark.pipelines.checks.draft import PipelineDraft
from goqueue.spark.pipelines.graph import upstream
from goqueue.spark.pipelines.spec.model import (
    Action,
    ArchiveSource,
    FileSource,
    JoinTransform,
    PipelineStep,
    Source,
    SqlTransform,
    TopicSource,
)
from goqueue.spark.pipelines.spec.nodes import Notes
from goqueue.spark.sql.nondeterminism import columns_in, is_bare, is_time, nondeterminism_in

WHY: Final = "sinks and dead letters look at rows separately, and a row could get lost between them"
MOVE_HINT: Final = "check the rows in a step before it, or use expect_or_drop"
_TIME_HINT: Final = "compare with the time of the message, keep: [timestamp], or use expect or expect_or_drop"
_COLUMN_HINT: Final = "; a column of that name is written in backticks"
_RANDOM_HINT: Final = "decide by what is in the row, such as xxhash64(id) % 100 = 0, or use expect_or_drop"


def check_nondeterminism(
    draft: PipelineDraft, reads: Mapping[str, Sequence[str]], inputs: Mapping[str, Sequence[str]], notes: Notes
) -> None:
    """Note where rows could get lost, and where sinks would not get the same ones; `inputs` are those of sinks."""
    columns = frozenset(chain.from_iterable(columns_in(_schema(source)) for source in draft.sources.values()))
    for key, each in draft.steps.items():
        for rule in each.step.expectations:
            if rule.action is Action.DLQ and (chance := nondeterminism_in(rule.condition, columns)):
                message = f"rule {rule.name} of step {key.text} depends on {chance}: {WHY}"
                notes.error(key.place, message, _hint(chance))
        before = _before_rules(each.step, columns)
        if chance := before or _behind_rules(each.step, columns):
            dying = [] if not before or not _is_dying(each.step) else [key.text]
            dying += [
                other.text
                for other, judge in draft.steps.items()
                if _is_dying(judge.step) and key.text in upstream(reads, reads[other.text])
            ]
            for name in dying[:1]:
                message = f"step {key.text} depends on {chance}, and step {name} makes dead letters after it: {WHY}"
                notes.error(key.place, message, MOVE_HINT)
            sinks = [name for name, read in inputs.items() if key.text in upstream(reads, read)]
            if len(sinks) > 1:
                message = f"step {key.text} depends on {chance}, and {_listed(sinks)} each work it out for themselves"
                hint = "write it to a topic, and let another pipeline read that, if they are to get the same rows"
                notes.warning(key.place, message, hint)


def _schema(source: Source) -> str:
    """Return what is said of the columns of a source."""
    match source:
        case TopicSource() | ArchiveSource():
            values = source.decode.values
            schema = b"" if values is None else values.schema
            # That of Protobuf is bytes, with names in between.
            return source.decode.schema + (schema if isinstance(schema, str) else schema.decode("latin-1"))
        case FileSource():
            return source.schema
    assert_never(source)


def _hint(chance: str) -> str:
    if not is_time(chance):
        return _RANDOM_HINT
    return _TIME_HINT + (_COLUMN_HINT if is_bare(chance) else "")


def _before_rules(step: PipelineStep, columns: Collection[str]) -> str:
    """Return what the rows depend on that the rules of a step look at."""
    match step.transform:
        case SqlTransform(text):
            return nondeterminism_in(text, columns)
        case JoinTransform():
            return nondeterminism_in(step.transform.condition, columns)
    return ""


def _behind_rules(step: PipelineStep, columns: Collection[str]) -> str:
    return next(filter(None, (nondeterminism_in(text, columns) for text in _texts_behind_rules(step))), "")


def _texts_behind_rules(step: PipelineStep) -> Iterator[str]:
    yield from (rule.condition for rule in step.expectations if rule.action is Action.DROP)
    if step.aggregate is not None:
        yield from step.aggregate.columns.values()


def _is_dying(step: PipelineStep) -> bool:
    return any(rule.action is Action.DLQ for rule in step.expectations)


def _listed(sinks: Sequence[str]) -> str:
    return f"sinks {', '.join(sinks[:-1])} and {sinks[-1]}"

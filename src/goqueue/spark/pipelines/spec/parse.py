"""From nodes to a pipeline: the one parser for files and modules.

`parse` notes every mistake that it finds and goes on; a pipeline comes out only if none of them is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from goqueue.model.units import quoted
from goqueue.spark.pipelines.checks.draft import PipelineDraft
from goqueue.spark.pipelines.checks.structure import check
from goqueue.spark.pipelines.spec.fields import MappingReader, as_duration_ms, kind_of
from goqueue.spark.pipelines.spec.functions import ReadFile
from goqueue.spark.pipelines.spec.model import AvailableNow, Interval, PipelineSpec, Trigger
from goqueue.spark.pipelines.spec.nodes import MappingEntry, MappingNode, Node, Notes, ScalarNode
from goqueue.spark.pipelines.spec.sinks import parse_sink
from goqueue.spark.pipelines.spec.sources import check_topic, parse_source
from goqueue.spark.pipelines.spec.steps import parse_step

DEFAULT_INTERVAL_MS = 5_000
AVAILABLE_NOW = "available_now"

# Names of sources and steps are tables in SQL, and those of sinks directories of checkpoints.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_PIPELINE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def parse(root: Node, notes: Notes, directory: PurePath, read: ReadFile) -> PipelineSpec | None:
    """Return the pipeline that a tree stands for; None if a mistake keeps it from running."""
    fields = MappingReader(root, "the file", notes, directory=directory)
    if not isinstance(root, MappingNode):
        return None
    name = _pipeline_name(fields)
    draft = PipelineDraft(
        sources={key: parse_source(key.text, inner, read) for key, inner in _section(fields, "sources", "source")},
        steps={key: parse_step(key.text, inner, read) for key, inner in _section(fields, "steps", "step")},
        sinks={key: parse_sink(key.text, inner, read) for key, inner in _section(fields, "sinks", "sink")},
    )
    for section in ("sources", "sinks"):
        if not fields.has(section):
            notes.error(fields.place, f"the pipeline has no {section}", f"add {section}: with at least one")
    dead_letters = _dead_letters(fields, name)
    spec = PipelineSpec(
        name,
        _trigger(fields),
        tuple(draft.sources.values()),
        (),
        (),
        dead_letters,
        description=fields.text("description"),
        broker=fields.text("broker"),
        checkpoint=fields.path("checkpoint"),
        spark={key.text: value.text for key, value in fields.pairs("spark")},
    )
    fields.finish()
    return check(draft, spec, notes)


def _pipeline_name(fields: MappingReader) -> str:
    scalar = fields.needed("pipeline", "orders")
    if scalar.text and not _PIPELINE_NAME.fullmatch(scalar.text):
        fields.notes.error(
            scalar.place,
            f"{quoted(scalar.text)} cannot be the name of a pipeline",
            "up to 100 letters, digits, dots, underscores and hyphens",
        )
    return scalar.text


def _section(fields: MappingReader, section: str, noun: str) -> Iterator[tuple[ScalarNode, MappingReader]]:
    """Yield the entries of a section that have names of their own."""
    node = fields.node(section)
    if node is None:
        return
    if not isinstance(node, MappingNode):
        hint = f"write {section}: with a name for each {noun}"
        fields.notes.error(node.place, f"{section} has to be a mapping of names, not {kind_of(node)}", hint)
        return
    seen: dict[str, ScalarNode] = {}
    for entry in node.entries:
        _check_name(entry, noun, fields.notes)
        first = seen.setdefault(entry.key.text.casefold(), entry.key)
        if first is not entry.key:
            # SQL makes no difference between small and capital letters.
            fields.notes.error(
                entry.key.place, f"{entry.key.text} and {first.text} are the same name", f"see line {first.place.line}"
            )
        yield (
            entry.key,
            MappingReader(entry.value, f"{noun} {entry.key.text}", fields.notes, directory=fields.directory),
        )


def _check_name(entry: MappingEntry, noun: str, notes: Notes) -> None:
    if not _NAME.fullmatch(entry.key.text):
        better = re.sub(r"\W", "_", entry.key.text, flags=re.ASCII)
        notes.error(
            entry.key.place,
            f"{quoted(entry.key.text)} cannot be the name of a {noun}",
            f"write {better}" if _NAME.fullmatch(better) else "names are made of letters, digits and underscores",
        )


def _trigger(fields: MappingReader) -> Trigger:
    scalar = fields.scalar("trigger")
    if scalar is None:
        return Interval(DEFAULT_INTERVAL_MS)
    if scalar.text == AVAILABLE_NOW:
        return AvailableNow()
    if not scalar.text[:1].isdigit():
        hint = f"write a duration such as 5s, or {AVAILABLE_NOW}"
        fields.notes.error(scalar.place, f"the trigger cannot be {quoted(scalar.text)}", hint)
        return AvailableNow()
    return Interval(as_duration_ms(scalar, "the trigger", fields.notes))


def _dead_letters(fields: MappingReader, name: str) -> str:
    scalar = fields.scalar("dlq")
    if scalar is None:
        return f"{name}.dlq"
    check_topic(scalar, fields.notes)
    return scalar.text

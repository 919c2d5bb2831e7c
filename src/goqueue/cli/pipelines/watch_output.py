"""What is printed of pipelines that run: rows for programs, tables and sentences for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import typer

from goqueue.cli.groups.words import age_text, moment_text
from goqueue.cli.pipelines.stop import StopOutcome
from goqueue.cli.terminal.output import Format, show
from goqueue.cli.terminal.streams import console
from goqueue.cli.terminal.tables import Column, Row, count_text, print_facts, print_table, size_text
from goqueue.client.pipeline_values import Pipeline, PipelineSummary, QueryProgress

_LIST = (
    Column("pipeline"),
    Column("state"),
    Column("rows/s", is_number=True),
    Column("lag", is_number=True),
    Column("rows", is_number=True, spared=1),
    Column("bad rows", is_number=True, spared=2),
    Column("warned", is_number=True, spared=8),
    Column("queries", is_number=True, spared=5),
    Column("restarts", is_number=True, spared=4),
    Column("last report", is_number=True, spared=3),
    Column("trigger", spared=6),
    Column("master", spared=7),
)
_QUERIES = (
    Column("query"),
    Column("batch", is_number=True, spared=2),
    Column("rows/s", is_number=True),
    Column("lag", is_number=True),
    Column("batch time", is_number=True),
    Column("rows", is_number=True),
    Column("bad rows", is_number=True),
    Column("warned", is_number=True, spared=5),
    Column("state", is_number=True, spared=1),
    Column("watermark", spared=3),
    Column("last batch", spared=4),
)
_BAD_ROWS = (Column("query"), Column("rule"), Column("bad rows", is_number=True))
_WARNED_ROWS = (Column("query"), Column("rule"), Column("warned rows", is_number=True))
_STYLES = {"failed": "bold red", "lost": "bold red", "restarting": "yellow", "ended": "dim"}


def show_list(found: Sequence[PipelineSummary], output_format: Format) -> None:
    """Print pipelines, one in a line."""
    if output_format is not Format.TABLE:
        show("pipeline", [msgspec.to_builtins(each) for each in found], output_format)
        return
    print_table(_LIST, [Row(_summary_cells(each), _STYLES.get(each.state, "")) for each in found])
    if not found:
        typer.echo("no pipeline has reported within the last hour; start one with `goqueue pipeline run`", err=True)


def show_pipeline(found: Pipeline, output_format: Format) -> None:
    """Print all that is known of a pipeline."""
    if output_format is not Format.TABLE:
        head: dict[str, Any] = msgspec.to_builtins(found)
        queries = head.pop("queries")
        show("pipeline", [head], output_format)
        show("query", [{"pipeline": found.name, **query} for query in queries], output_format)
        return
    print_facts(_facts(found), title=f"pipeline {found.name}")
    if found.queries:
        typer.echo()
        print_table(_QUERIES, [Row(_query_cells(each, is_running=found.is_running)) for each in found.queries])
    _show_rules(_BAD_ROWS, {each.name: each.bad_rows for each in found.queries})
    _show_rules(_WARNED_ROWS, {each.name: each.warned_rows for each in found.queries})


def _show_rules(columns: Sequence[Column], counts: Mapping[str, Mapping[str, int]]) -> None:
    """Print how often the rules of each query were broken, if any was."""
    broken = [(query, rule, count) for query, rules in counts.items() for rule, count in rules.items() if count]
    if broken:
        typer.echo()
        print_table(columns, [Row([_line(query), _line(rule), count_text(count)]) for query, rule, count in broken])


def show_stop(outcome: StopOutcome, output_format: Format) -> None:
    """Tell what has come of a wish to stop."""
    if output_format is Format.TABLE:
        typer.echo(_stop_sentence(outcome))
        return
    row: dict[str, Any] = {
        "pipeline": outcome.last.name,
        "run_id": outcome.run_id,
        "was_running": outcome.was_running,
        "is_stopped": outcome.is_stopped,
        "state": "ended" if outcome.is_replaced else outcome.last.state,
        "error": None if outcome.is_replaced else outcome.last.error,
        "waited_seconds": round(outcome.waited_s, 3),
    }
    show("stop", [row], output_format)


@contextmanager
def telling_progress(name: str) -> Iterator[Callable[[Pipeline], None]]:
    """Show on standard error that a pipeline is waited for, and how it is; elsewhere than on a terminal, once."""
    screen = console(stderr=True, highlight=False, emoji=False, markup=False)
    told: set[str] = set()
    with screen.status(f"asking pipeline {name} to stop") as status:

        def tell(seen: Pipeline) -> None:
            sentence = f"waiting for pipeline {name} to stop; it is {seen.state}, {_at_work(seen)}"
            if screen.is_terminal:
                status.update(sentence)
            elif seen.state not in told:
                told.add(seen.state)
                screen.print(sentence, soft_wrap=True)

        yield tell


def _at_work(seen: Pipeline) -> str:
    unread = sum(query.lag or 0 for query in seen.queries)
    return f"{count_text(unread, 'message')} behind" if unread else f"last heard {age_text(seen.silent_seconds)} ago"


def _stop_sentence(outcome: StopOutcome) -> str:
    last = outcome.last
    if outcome.is_replaced:
        return f"stopped pipeline {last.name}; another run of it has begun since"
    if last.state == "lost":
        heard = f"pipeline {last.name} is lost: nothing was heard of it for {age_text(last.silent_seconds)}"
        return f"{heard}; if it comes back, it is told to stop"
    if not outcome.was_running:
        return f"pipeline {last.name} does not run: it has {last.state}"
    if last.state == "failed":
        return f"pipeline {last.name} has stopped, but it has failed: {_line(last.error or 'it does not say why')}"
    if outcome.is_stopped:
        return f"stopped pipeline {last.name} after {age_text(outcome.waited_s)}"
    still = f"still {last.state} after {age_text(outcome.waited_s)}" if outcome.is_waited_for else last.state
    return f"asked pipeline {last.name} to stop; it is {still}"


def _summary_cells(found: PipelineSummary) -> list[str]:
    return [
        found.name,
        found.state if found.wish == "run" or not found.is_running else f"{found.state}, to stop",
        _speed(found.rows_per_second) if found.is_running else "-",
        _number(found.lag),
        count_text(found.rows),
        count_text(found.bad_rows),
        count_text(found.warned_rows),
        count_text(found.queries),
        count_text(found.restarts),
        f"{age_text(found.silent_seconds)} ago",
        _line(found.trigger),
        _line(found.master),
    ]


def _facts(found: Pipeline) -> list[tuple[str, str]]:
    state = f"{found.state}, and asked to stop" if found.wish == "stop" and found.is_running else found.state
    facts = [
        ("state", state),
        ("about", _line(found.description)),
        ("run", _line(found.run_id)),
        ("started", moment_text(found.started_at)),
        ("last report", f"{age_text(found.silent_seconds)} ago"),
        ("trigger", _line(found.trigger)),
        ("master", _line(found.master)),
        ("restarts", count_text(found.restarts)),
    ]
    if found.error:
        facts.append(("last error", _line(found.error)))
    return facts


def _query_cells(query: QueryProgress, *, is_running: bool) -> list[str]:
    kept = f"{count_text(query.state_rows, 'row')}, {size_text(query.state_bytes)}" if query.state_rows else "-"
    return [
        _line(query.name),
        _number(query.batch),
        _speed(query.rows_per_second) if is_running else "-",
        _number(query.lag),
        "-" if query.batch_seconds is None else age_text(query.batch_seconds),
        count_text(query.rows),
        count_text(sum(query.bad_rows.values())),
        count_text(sum(query.warned_rows.values())),
        kept,
        _line(query.watermark or ""),
        "-" if query.updated_at is None else moment_text(query.updated_at),
    ]


def _line(text: str) -> str:
    """Return what a run has said as one line that leaves the terminal as it is."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split()) or "-"


def _number(value: int | None) -> str:
    return "-" if value is None else count_text(value)


def _speed(rows_per_second: float) -> str:
    return f"{rows_per_second:,.0f}" if rows_per_second >= 10 or not rows_per_second else f"{rows_per_second:.1f}"

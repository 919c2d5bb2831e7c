"""`goqueue pipeline list`, `describe` and `stop`: running pipelines, as they report themselves to the broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from goqueue.cli.connection import DEFAULT_SERVER, PipelineArgument, ServerOption, connected
from goqueue.cli.terminal.output import Format, FormatOption, Value, fields, show
from goqueue.cli.terminal.streams import console
from goqueue.cli.terminal.tables import Column, Table, one_line, print_facts, size_text
from goqueue.cli.terminal.times import age_text, moment_text
from goqueue.errors import Unavailable, UnknownPipeline
from goqueue.model.units import count_text

if TYPE_CHECKING:
    from goqueue.client import Client
    from goqueue.client.pipeline_values import Pipeline, PipelineSummary, QueryProgress

_POLL_S = 0.3
_STYLES = {"failed": "bold red", "lost": "bold red", "restarting": "yellow", "ended": "dim"}

Tell = Callable[["Pipeline"], None]


class _Broken(NamedTuple):
    """How often a query broke a rule."""

    query: str
    rule: str
    rows: int


def _state(found: PipelineSummary) -> str:
    return found.state if found.wish == "run" or not found.is_running else f"{found.state}, stop requested"


def _speed(rows_per_second: float) -> str:
    return f"{rows_per_second:,.0f}" if rows_per_second >= 10 or not rows_per_second else f"{rows_per_second:.1f}"


def _kept(query: QueryProgress) -> str | None:
    return f"{count_text(query.state_rows, 'row')}, {size_text(query.state_bytes)}" if query.state_rows else None


_PIPELINES: Table[PipelineSummary] = Table(
    "pipeline",
    Column("pipeline", lambda each: each.name),
    Column("state", _state),
    Column("rows/s", lambda each: _speed(each.rows_per_second) if each.is_running else None, is_number=True),
    Column("lag", lambda each: each.lag, is_number=True),
    Column("rows", lambda each: each.rows, is_number=True, spared=1),
    Column("bad rows", lambda each: each.bad_rows, is_number=True, spared=2),
    Column("warned", lambda each: each.warned_rows, is_number=True, spared=8),
    Column("queries", lambda each: each.queries, is_number=True, spared=5),
    Column("restarts", lambda each: each.restarts, is_number=True, spared=4),
    Column("last report", lambda each: f"{age_text(each.silent_seconds)} ago", is_number=True, spared=3),
    Column("trigger", lambda each: one_line(each.trigger), spared=6),
    Column("master", lambda each: one_line(each.master), spared=7),
    style=lambda each: _STYLES.get(each.state, ""),
)


def _queries_table(*, is_running: bool) -> Table[QueryProgress]:
    """Return the table of queries; only a running pipeline has a speed."""
    return Table(
        "query",
        Column("query", lambda each: one_line(each.name)),
        Column("batch", lambda each: each.batch, is_number=True, spared=2),
        Column("rows/s", lambda each: _speed(each.rows_per_second) if is_running else None, is_number=True),
        Column("lag", lambda each: each.lag, is_number=True),
        Column(
            "batch time",
            lambda each: None if each.batch_seconds is None else age_text(each.batch_seconds),
            is_number=True,
        ),
        Column("rows", lambda each: each.rows, is_number=True),
        Column("bad rows", lambda each: sum(each.bad_rows.values()), is_number=True),
        Column("warned", lambda each: sum(each.warned_rows.values()), is_number=True, spared=5),
        Column("state", _kept, is_number=True, spared=1),
        Column("watermark", lambda each: one_line(each.watermark or ""), spared=3),
        Column("last batch", lambda each: None if each.updated_at is None else moment_text(each.updated_at), spared=4),
    )


def _rules_table(heading: str) -> Table[_Broken]:
    return Table(
        "rule",
        Column("query", lambda each: one_line(each.query)),
        Column("rule", lambda each: one_line(each.rule)),
        Column(heading, lambda each: each.rows, is_number=True),
    )


def list_pipelines(*, server: ServerOption = DEFAULT_SERVER, output_format: FormatOption = Format.TABLE) -> None:
    """List pipelines of the last hour: speed, lag and state.

    Example: [bold]goqueue pipeline list[/bold]

    Example: [bold]goqueue pipeline list --format json | jq 'select(.is_running | not)'[/bold]
    """
    from goqueue.client import pipelines

    with connected(server) as client:
        found = client.send(pipelines.list_all())
    _PIPELINES.show(found, output_format)
    if not found and output_format is Format.TABLE:
        typer.echo("no pipeline has reported in the last hour; start one with `goqueue pipeline run`", err=True)


def describe(
    pipeline: PipelineArgument, *, server: ServerOption = DEFAULT_SERVER, output_format: FormatOption = Format.TABLE
) -> None:
    """Describe a pipeline: its run, its last error, and the speed and lag of each query.

    Example: [bold]goqueue pipeline describe orders[/bold]
    """
    from goqueue.client import pipelines

    with connected(server) as client:
        found = client.send(pipelines.describe(pipeline))
    queries = found.queries
    if output_format is not Format.TABLE:
        show("pipeline", [{name: each for name, each in fields(found).items() if name != "queries"}], output_format)
        show("query", [{"pipeline": found.name, **fields(query)} for query in queries], output_format)
        return
    print_facts(_facts(found), title=f"pipeline {found.name}")
    if queries:
        typer.echo()
        _queries_table(is_running=found.is_running).print(queries)
    _print_rules("bad rows", {each.name: each.bad_rows for each in queries})
    _print_rules("warned rows", {each.name: each.warned_rows for each in queries})


def stop(
    pipeline: PipelineArgument,
    *,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the pipeline has stopped.")] = True,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0.0, help="Maximum time to wait.")
    ] = 120.0,
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Stop a pipeline, wherever it runs, after its current batch.

    Committed work is kept, and the next run continues from there. A pipeline
    that does not run is left alone. Exits with 1 if the pipeline has failed,
    or has not stopped within the timeout.

    Example: [bold]goqueue pipeline stop orders[/bold]

    Example: [bold]goqueue pipeline stop orders --no-wait[/bold]
    """
    with connected(server) as client, _telling_progress(pipeline) as tell:
        outcome = stop_pipeline(client, pipeline, wait_s=timeout if wait else 0.0, tell=tell)
    if output_format is Format.TABLE:
        typer.echo(_stop_sentence(outcome))
    else:
        _show_stop(outcome, output_format)
    if wait and not outcome.is_good_end:
        raise typer.Exit(1)


class StopOutcome(NamedTuple):
    """The result of a request to stop: the last state of the pipeline, and how long the command waited.

    `is_replaced` if another run has begun in the meantime; the requested run has ended then.
    """

    run_id: str
    was_running: bool
    last: Pipeline
    waited_s: float
    is_waited_for: bool
    is_replaced: bool = False

    @property
    def is_stopped(self) -> bool:
        """Whether the run is known to have ended."""
        return self.is_replaced or self.last.state in {"ended", "failed"}

    @property
    def is_good_end(self) -> bool:
        """Whether the run has ended without an error."""
        return self.is_replaced or self.last.state == "ended" or (self.last.state == "failed" and not self.was_running)


def stop_pipeline(client: Client, name: str, *, wait_s: float, tell: Tell) -> StopOutcome:
    """Request that a pipeline stops, and wait until it has ended, is lost, or the time is up.

    UnknownPipeline if there is none. Returns at once if it does not run.
    """
    from goqueue.client import pipelines

    began = time.monotonic()
    asked = client.send(pipelines.stop(name))
    last = client.send(pipelines.describe(name))
    while True:
        waited_s = time.monotonic() - began
        if last.run_id != asked.run_id:
            return StopOutcome(asked.run_id, asked.is_running, last, waited_s, wait_s > 0, is_replaced=True)
        if not last.is_running or waited_s >= wait_s:
            return StopOutcome(asked.run_id, asked.is_running, last, waited_s, wait_s > 0)
        tell(last)
        if last.wish != "stop":
            # A restarted broker has forgotten the request.
            with suppress(Unavailable, UnknownPipeline):
                client.send(pipelines.stop(name))
        time.sleep(min(_POLL_S, max(wait_s - waited_s, 0.0)))
        # A starting broker may not answer, or not know the pipeline yet.
        with suppress(Unavailable, UnknownPipeline):
            last = client.send(pipelines.describe(name))


@contextmanager
def _telling_progress(name: str) -> Iterator[Tell]:
    """Show on standard error that the command waits; without a terminal, once per state."""
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
    lag = sum(query.lag or 0 for query in seen.queries)
    return f"lag {count_text(lag, 'message')}" if lag else f"last report {age_text(seen.silent_seconds)} ago"


def _stop_sentence(outcome: StopOutcome) -> str:
    last = outcome.last
    if outcome.is_replaced:
        return f"stopped pipeline {last.name}; another run has begun since"
    if last.state == "lost":
        silence = age_text(last.silent_seconds)
        return f"pipeline {last.name} is lost: no report for {silence}; it stops if it reports again"
    if not outcome.was_running:
        return f"pipeline {last.name} does not run: it has {last.state}"
    if last.state == "failed":
        return f"pipeline {last.name} has stopped with an error: {one_line(last.error or 'no reason reported')}"
    if outcome.is_stopped:
        return f"stopped pipeline {last.name} after {age_text(outcome.waited_s)}"
    still = f"still {last.state} after {age_text(outcome.waited_s)}" if outcome.is_waited_for else last.state
    return f"asked pipeline {last.name} to stop; it is {still}"


def _show_stop(outcome: StopOutcome, output_format: Format) -> None:
    row: dict[str, Value] = {
        "pipeline": outcome.last.name,
        "run_id": outcome.run_id,
        "was_running": outcome.was_running,
        "is_stopped": outcome.is_stopped,
        "state": "ended" if outcome.is_replaced else outcome.last.state,
        "error": None if outcome.is_replaced else outcome.last.error,
        "waited_seconds": round(outcome.waited_s, 3),
    }
    show("stop", [row], output_format)


def _facts(found: Pipeline) -> list[tuple[str, str]]:
    state = f"{found.state}, stop requested" if found.wish == "stop" and found.is_running else found.state
    facts = [
        ("state", state),
        ("about", one_line(found.description)),
        ("run", one_line(found.run_id)),
        ("started", moment_text(found.started_at)),
        ("last report", f"{age_text(found.silent_seconds)} ago"),
        ("trigger", one_line(found.trigger)),
        ("master", one_line(found.master)),
        ("restarts", count_text(found.restarts)),
    ]
    if found.error:
        facts.append(("last error", one_line(found.error)))
    return facts


def _print_rules(heading: str, counts: Mapping[str, Mapping[str, int]]) -> None:
    """Print how often each query broke which rules, if any."""
    broken = [_Broken(query, rule, count) for query, rules in counts.items() for rule, count in rules.items() if count]
    if broken:
        typer.echo()
        _rules_table(heading).print(broken)

"""`goqueue bench fairness`: measure a modest client beside heavy ones, which run in processes of their own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue_bench.cli.messages import DataDirOption, JsonOption, OutputOption
from goqueue_bench.cli.results import Announce, measure, present
from goqueue_bench.options import Neighbour

if TYPE_CHECKING:
    from goqueue_bench.measure import Result

QuickOption = Annotated[bool, typer.Option("--quick", help="Fewer rounds, rougher numbers, less than a minute.")]


def fairness(
    *,
    only: Annotated[list[Neighbour] | None, typer.Option(help="Measure beside this one; can be repeated.")] = None,
    before: Annotated[
        Path | None,
        typer.Option(dir_okay=False, exists=True, help="An earlier result: compare the rates of bulk publishers."),
    ] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds of the modest client in each phase.")] = None,
    cycles: Annotated[int | None, typer.Option(min=1, help="How often calm and loaded phases alternate.")] = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
    output: OutputOption = None,
    quick: QuickOption = False,
    tiny: Annotated[bool, typer.Option("--tiny", hidden=True, help="As little as shows that it works.")] = False,
) -> None:
    """Measure how much slower a modest client becomes while another client works as hard as it can.

    The modest client publishes, receives and acks single messages by HTTP, publishes by Kafka and asks for /livez. It
    is measured alone and beside each heavy client, in turns. The command fails unless every request of the modest
    client succeeds. A goal that is missed does not make it fail.

    Example: [bold]goqueue bench fairness --only bulk_kafka --only pipelined[/bold]
    """
    from goqueue_bench.fairness.workloads import FULL, QUICK, TINY, run_fairness

    size = TINY if tiny else QUICK if quick else FULL
    size = replace(size, rounds=rounds or size.rounds, cycles=cycles or size.cycles)
    rates = {} if before is None else _rates(before)

    def run(workspace: Path, announce: Announce) -> Iterator[Result]:
        return run_fairness(workspace, size, only or list(Neighbour), announce, rates)

    machine, results = measure(data_dir, run)
    present(machine, results, asdict(size), output, as_json=as_json)


def _rates(stored: Path) -> dict[str, float]:
    """Return the rates of bulk publishers in an earlier result."""
    results = json.loads(stored.read_text("utf-8"))["results"]
    return {name: each["value"] for name, each in results.items() if name.endswith("_rate")}

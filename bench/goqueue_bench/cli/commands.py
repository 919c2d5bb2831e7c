"""`goqueue bench`: measure this machine with GoQueue on it, and show the numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from goqueue_bench.cli import client as bench_client
from goqueue_bench.cli import fairness as bench_fairness
from goqueue_bench.cli import groups as bench_groups
from goqueue_bench.cli import messages as bench_broker
from goqueue_bench.cli import partitions as bench_partitions
from goqueue_bench.cli import queues as bench_queue
from goqueue_bench.cli import spark as bench_spark
from goqueue_bench.cli.results import measure, present

app = typer.Typer(no_args_is_help=True, help="Measure what GoQueue does on this machine.")
for command in (
    bench_broker.publish,
    bench_broker.replay,
    bench_broker.latency,
    bench_broker.requests,
    bench_groups.groups,
    bench_groups.transactions,
    bench_partitions.partitions,
    bench_queue.queue,
    bench_fairness.fairness,
    bench_client.client,
    bench_spark.spark,
):
    app.command()(command)


@app.callback()
def bench() -> None:
    """Measure what GoQueue does on this machine."""


@app.command()
def checksum(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    output: Annotated[Path | None, typer.Option(help="Also write the JSON object to this file.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller sizes, rougher numbers.")] = False,
) -> None:
    """Measure what it costs to verify the checksums of batches whose records are read.

    The same work is done with and without it, in this process. A goal that is missed does not make the command fail.

    Example: [bold]goqueue bench checksum --json[/bold]
    """
    from goqueue_bench.checksum import FULL, QUICK, run

    machine, results = measure(None, lambda _, announce: run(QUICK if quick else FULL, announce))
    present(machine, results, {}, output, as_json=as_json)


@app.command()
def log(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    output: Annotated[Path | None, typer.Option(help="Also write the JSON object to this file.")] = None,
    data_dir: Annotated[
        Path | None, typer.Option(file_okay=False, exists=True, help="Work in a directory below this one.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller sizes, rougher numbers, a few seconds.")] = False,
) -> None:
    """Measure appending, committing, reading, opening and memory of the log, against this disk's own speed.

    Everything is written to a directory of its own, which is removed at the end. A goal that is missed does not make
    the command fail; work that was not done does.

    Example: [bold]goqueue bench log --quick --data-dir /mnt/data[/bold]
    """
    from goqueue_bench.log.workloads import FULL, QUICK, run

    machine, results = measure(data_dir, lambda workspace, announce: run(workspace, QUICK if quick else FULL, announce))
    present(machine, results, {}, output, as_json=as_json)

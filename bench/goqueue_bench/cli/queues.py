"""`goqueue bench queue`: measure queues by HTTP, with clients in processes of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue_bench.cli.messages import DataDirOption, FlushOption, JsonOption, OutputOption, PidOption
from goqueue_bench.cli.results import Announce, measure, present
from goqueue_bench.options import Flush, QueuePart

if TYPE_CHECKING:
    from goqueue_bench.measure import Result

QuickOption = Annotated[bool, typer.Option("--quick", help="Fewer messages, rougher numbers, less than a minute.")]


def queue(
    *,
    only: Annotated[list[QueuePart] | None, typer.Option(help="Measure this part; can be repeated.")] = None,
    server: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Measure the broker with that HTTP port, not a private one."),
    ] = None,
    pid: PidOption = None,
    flush: FlushOption = Flush.GROUP,
    batch: Annotated[int, typer.Option(min=2, max=1000, help="Messages of a request.")] = 500,
    connections: Annotated[int, typer.Option(min=1, help="Clients of batches at the same time.")] = 4,
    partitions: Annotated[int, typer.Option(min=1, help="Partitions of the topic.")] = 4,
    size: Annotated[int, typer.Option(min=16, help="Bytes of a message.")] = 100,
    messages: Annotated[int | None, typer.Option(min=1, help="How many messages, instead of the usual number.")] = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
    output: OutputOption = None,
    quick: QuickOption = False,
) -> None:
    """Measure queues: messages are published, leased and acked by HTTP, over bare sockets.

    In batches, one by one, and at 1,000 a second to consumers that wait. The command fails unless every request
    succeeds, every message is acked exactly once and the group is empty in the end. A goal that is missed does not make
    it fail.

    Example: [bold]goqueue bench queue --only batches --connections 2[/bold]
    """
    if pid is not None and server is None:
        raise typer.BadParameter("a private broker's process is known: --pid goes with --server")

    def run(workspace: Path, announce: Announce) -> Iterator[Result]:
        from dataclasses import fields, replace

        from goqueue_bench.queues.measure import QueueLoad
        from goqueue_bench.queues.workloads import FULL, QUICK, QueueTarget, run_queue

        usual = QUICK if quick else FULL
        if messages is not None:
            usual = replace(usual, **{field.name: messages for field in fields(usual)})
        load = QueueLoad(messages=0, batch=batch, connections=connections, partitions=partitions, size_bytes=size)
        target = QueueTarget(server=server, pid=pid, flush=flush)
        return run_queue(target, workspace, usual, load, only or list(QueuePart), announce)

    machine, results = measure(data_dir, run)
    settings = {
        "broker": "private" if server is None else "running",
        "flush": flush,
        "batch": batch,
        "connections": connections,
        "partitions": partitions,
        "size_bytes": size,
    }
    present(machine, results, settings, output, as_json=as_json)

"""`goqueue bench groups|transactions`: measure what a broker's coordinators do, in a private one or one that runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue_bench.cli.messages import (
    BootstrapOption,
    DataDirOption,
    FlushOption,
    JsonOption,
    OutputOption,
    PidOption,
)
from goqueue_bench.cli.results import Announce, measure, present
from goqueue_bench.options import Flush, GroupPart

if TYPE_CHECKING:
    from goqueue_bench.groups.workloads import GroupSize
    from goqueue_bench.measure import Result
    from goqueue_bench.messages.workloads import Target

QuickOption = Annotated[bool, typer.Option("--quick", help="Smaller sizes, rougher numbers, less than a minute.")]


def groups(
    *,
    only: Annotated[list[GroupPart] | None, typer.Option(help="Measure this part; can be repeated.")] = None,
    bootstrap: BootstrapOption = None,
    pid: PidOption = None,
    connections: Annotated[int, typer.Option(min=1, help="Connections that commit, each for its own group.")] = 16,
    groups: Annotated[int | None, typer.Option(min=1, help="How many groups are loaded.")] = None,
    offsets: Annotated[int | None, typer.Option(min=1, help="How many offsets each of those has.")] = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
    output: OutputOption = None,
    quick: QuickOption = False,
) -> None:
    """Measure groups: commits, one more member in small and large groups, and a start with many offsets.

    Commits and large groups over bare sockets, small groups with the client confluent-kafka. The command fails unless
    every commit counts, every member gets its share and no partition has two owners. A goal that is missed does not
    make it fail. A broker that runs already is not stopped, so how it loads is left out.

    Example: [bold]goqueue bench groups --only load --groups 1000 --offsets 100[/bold]
    """
    target = _target(bootstrap, pid)
    parts = only or [part for part in GroupPart if target.is_private or part is not GroupPart.LOAD]

    def run(workspace: Path, announce: Announce) -> Iterator[Result]:
        from goqueue_bench.groups.workloads import run_groups

        return run_groups(target, workspace, _size(connections, groups, offsets, is_quick=quick), parts, announce)

    machine, results = measure(data_dir, run)
    settings = {"broker": "private" if target.is_private else "running", "connections": connections}
    present(machine, results, settings, output, as_json=as_json)


def transactions(
    *,
    bootstrap: BootstrapOption = None,
    pid: PidOption = None,
    flush: FlushOption = Flush.GROUP,
    producers: Annotated[int, typer.Option(min=1, help="Producers at the same time.")] = 16,
    messages_per_transaction: Annotated[int, typer.Option(min=1, help="Messages of a transaction.")] = 100,
    size: Annotated[int, typer.Option(min=16, help="Bytes of a message.")] = 100,
    count: Annotated[
        int | None, typer.Option("--transactions", min=1, help="How many transactions, instead of the usual number.")
    ] = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
    output: OutputOption = None,
    quick: QuickOption = False,
) -> None:
    """Measure transactions with the client confluent-kafka, from beginning to confirmed commit.

    Several producers at the same time, one alone, and one that takes its messages from another topic and commits how
    far it has come. The command fails unless every message can be read exactly once by those who read committed
    messages only.

    Example: [bold]goqueue bench transactions --producers 8[/bold]
    """
    target = _target(bootstrap, pid, flush)

    def run(workspace: Path, announce: Announce) -> Iterator[Result]:
        from goqueue_bench.groups.workloads import FULL_TRANSACTIONS, QUICK_TRANSACTIONS, run_transactions
        from goqueue_bench.transactions.commit import Transactions

        usual = QUICK_TRANSACTIONS if quick else FULL_TRANSACTIONS
        wanted = Transactions(
            count=count or usual, producers=producers, messages=messages_per_transaction, size_bytes=size
        )
        return run_transactions(target, workspace, wanted, announce)

    machine, results = measure(data_dir, run)
    settings = {
        "broker": "private" if target.is_private else "running",
        "flush": flush,
        "producers": producers,
        "messages_per_transaction": messages_per_transaction,
        "size_bytes": size,
    }
    present(machine, results, settings, output, as_json=as_json)


def _target(bootstrap: str | None, pid: int | None, flush: Flush = Flush.GROUP) -> Target:
    from goqueue_bench.messages.workloads import Target

    if pid is not None and bootstrap is None:
        raise typer.BadParameter("a private broker's process is known: --pid goes with --bootstrap")
    return Target(bootstrap=bootstrap, pid=pid, flush=flush)


def _size(connections: int, groups: int | None, offsets: int | None, *, is_quick: bool) -> GroupSize:
    from dataclasses import replace

    from goqueue_bench.groups.load import Load
    from goqueue_bench.groups.workloads import FULL, QUICK

    usual = QUICK if is_quick else FULL
    return replace(
        usual,
        commits=replace(usual.commits, connections=connections),
        load=Load(groups=groups or usual.load.groups, offsets=offsets or usual.load.offsets),
    )

"""`goqueue log repair`: repair the broker's internal logs after damage."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.terminal.confirm import DryRunOption, YesOption, require_typed
from goqueue.cli.terminal.output import Format, FormatOption, Row, show

if TYPE_CHECKING:
    from goqueue.broker.repair import RepairPlan

_FAULTS_SHOWN = 10


def repair(
    data_dir: Annotated[Path, typer.Argument(metavar="DATA_DIR", help="The data directory of a broker.")],
    *,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Repair the broker's internal logs: catalogue, committed offsets, transactions, deliveries, redrives.

    The broker must be stopped. Shows the damage, what would be lost and what would be kept, and asks for confirmation.
    Readable records are kept. A damaged log is renamed to LOG.damaged-N, and never deleted. Messages of topics are not
    changed. If it is interrupted, run it again.

    Example: [bold]goqueue log repair data --dry-run[/bold]
    """
    from goqueue.broker import repair as core
    from goqueue.errors import NotFound
    from goqueue.seams.clock import SystemClock
    from goqueue.seams.disk import RealDisk, lock_directory
    from goqueue.seams.entropy import SystemEntropy

    disk = RealDisk()
    if not disk.is_directory(data_dir):
        raise NotFound(f"{data_dir} is not a directory")
    with lock_directory(data_dir):
        plans = core.plan_repairs(disk, data_dir, SystemEntropy(), SystemClock().now_ms())
        show("repair", [_row(plan) for plan in plans], output_format)
        for plan in plans:
            for line in [*(f"damaged: {fault}" for fault in plan.faults[:_FAULTS_SHOWN]), *plan.notes]:
                typer.echo(f"{plan.log}: {line}", err=True)
        if not plans:
            typer.echo("All internal logs are readable; there is nothing to repair.", err=True)
            return
        if dry_run:
            typer.echo("Nothing was changed (--dry-run).", err=True)
            return
        if not yes:
            require_typed("repair", "the word repair", "nothing was changed")
        for log, aside in core.repair(disk, data_dir, plans).items():
            typer.echo(f"{log}: the damaged log is kept as {data_dir / aside}", err=True)
        typer.echo("Repaired. Start the broker, and check the items above.", err=True)


def _row(plan: RepairPlan) -> Row:
    return {
        "log": plan.log,
        "faults": len(plan.faults),
        "bytes_lost": plan.bytes_lost,
        "records_kept": len(plan.records),
    }

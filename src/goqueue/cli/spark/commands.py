"""`goqueue spark`: check the Spark installation of pipelines."""

from __future__ import annotations

from typing import Annotated

import typer

from goqueue.cli.doctor.findings import CheckStatus, show_findings
from goqueue.cli.terminal.output import Format, FormatOption

app = typer.Typer(no_args_is_help=True, help="Check the Spark installation of pipelines.")


@app.callback()
def spark() -> None:
    """Check the Spark installation of pipelines."""


@app.command()
def doctor(
    *,
    master: Annotated[
        str | None,
        typer.Option(metavar="MASTER", help="Spark master of the job: local[2], spark://HOST:PORT, sc://HOST:PORT."),
    ] = None,
    bootstrap: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Also check this broker.")] = None,
    runs_job: Annotated[bool, typer.Option("--job/--no-job", help="Start Spark and run a job of one row.")] = True,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Check that pipelines can run: packages, Java, Spark, the data source.

    Starts Spark as pipelines do, and runs a job of one row through Java and
    a Python worker, which takes about 15 seconds. Each problem comes with a
    fix. Exits with 1 if something does not work.

    Example: [bold]goqueue spark doctor[/bold]

    Example: [bold]goqueue spark doctor --master 'local\\[2]' --bootstrap broker:9092[/bold]
    """
    from goqueue.cli.doctor import broker as doctor_broker
    from goqueue.cli.spark import doctor as spark_doctor

    # First, so that wrong usage is reported before the long wait.
    broker = doctor_broker.look_over_kafka(bootstrap, "--bootstrap") if bootstrap else []
    findings = [*spark_doctor.check(master, runs_job=runs_job), *broker]
    show_findings(findings, output_format)
    if any(finding.verdict is CheckStatus.FAILURE for finding in findings):
        raise typer.Exit(1)

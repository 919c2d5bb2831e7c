"""`goqueue doctor`: find common problems of the installation, the broker and this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.connection import DEFAULT_SERVER, ServerOption
from goqueue.cli.doctor.findings import CheckResult, CheckStatus, show_findings
from goqueue.cli.terminal.output import Format, FormatOption

if TYPE_CHECKING:
    from goqueue.server.settings import Settings


def doctor(
    *,
    server: ServerOption = DEFAULT_SERVER,
    kafka: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Kafka address of the broker; otherwise from the settings.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Settings file of the broker on this machine.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Data directory of the broker on this machine.")
    ] = None,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Check the installation, the broker and this machine.

    Checks installed versions; whether the broker answers over HTTP and
    Kafka, and at the address that it advertises to Kafka clients; ports,
    data directory, free space, open files, clocks. Each problem comes with
    a fix. Exits with 1 if something does not work.

    Example: [bold]goqueue doctor[/bold]

    Example: [bold]goqueue doctor --server http://broker:8080 --kafka broker:9092[/bold]
    """
    findings = list(_findings(server, kafka, config, data_dir))
    show_findings(findings, output_format)
    if any(finding.verdict is CheckStatus.FAILURE for finding in findings):
        raise typer.Exit(1)


def _findings(server: str, kafka: str | None, config: Path | None, data_dir: Path | None) -> Iterator[CheckResult]:
    from goqueue.cli.doctor import broker as doctor_broker
    from goqueue.cli.doctor import install as doctor_install
    from goqueue.cli.doctor import machine as doctor_machine

    yield from doctor_install.check()
    settings, flaws = _settings(config, data_dir)
    yield from flaws
    broker = doctor_broker.look(server, kafka, settings)
    yield from broker.findings
    if settings is None:
        return
    if broker.is_elsewhere:
        yield CheckResult.skipped(
            "this machine", "the broker runs on another machine; run `goqueue doctor` there as well"
        )
        return
    yield from doctor_machine.check(settings, broker)


def _settings(config: Path | None, data_dir: Path | None) -> tuple[Settings | None, list[CheckResult]]:
    """Return the settings of a broker that is started here, and findings on them."""
    from goqueue.errors import InvalidSettings
    from goqueue.server.settings_sources import load

    flags = {} if data_dir is None else {"data_dir": str(data_dir)}
    try:
        loaded = load(flags, os.environ, config)
    except InvalidSettings as error:
        lines = "; ".join(mistake.line for mistake in error.mistakes)
        return None, [
            CheckResult.failure("settings", lines, "correct them; `goqueue config show` shows each with its source")
        ]
    given = [effective for effective in loaded.values if effective.source != "default"]
    what = f"{len(given)} of {len(loaded.values)} are set" if given else "all of them are defaults"
    return loaded.settings, [CheckResult.ok("settings", what)]

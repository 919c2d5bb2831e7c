"""What commands print through a console of rich cannot control a terminal, whoever has written it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.live import Live
from rich.table import Table
from rich.text import Text

import goqueue.cli
from goqueue.cli.doctor.findings import CheckResult, show_findings
from goqueue.cli.pipelines.output import show_mistakes
from goqueue.cli.pipelines.screen import Lines
from goqueue.cli.server.config import _show_table
from goqueue.cli.terminal.output import Format
from goqueue.cli.terminal.streams import console, write_line
from goqueue.spark.pipelines.spec.nodes import Mistake, MistakeSeverity, SourceLocation
from goqueue.spark.pipelines.write.sinks import ShownRows
from goqueue_bench.cli import results as bench_results
from goqueue_bench.machine import Machine
from goqueue_bench.measure import Result
from tests.cli.test_terminal_escapes import EVIL, RAW

# The first part, which no column is too narrow for.
SHOWN = r"x\x1b"


def _findings() -> None:
    show_findings([CheckResult.failure("data directory", EVIL, EVIL)], Format.TABLE)


def _settings() -> None:
    setting: Any = SimpleNamespace(name="data_dir", description="where")
    effective: Any = SimpleNamespace(setting=setting, value=EVIL, source=EVIL)
    _show_table([effective])


def _bench() -> None:
    machine = Machine(EVIL, 1, 1, EVIL, EVIL, EVIL, "", python_is_optimised=False, goqueue="", loop_ms=1.0)
    bench_results.show(machine, [Result("name", EVIL, 1.0, "s")])


def _mistakes() -> None:
    reading: Any = SimpleNamespace(
        file=EVIL, text=f"a: {EVIL}", mistakes=[Mistake(SourceLocation(1, 4), EVIL, EVIL, MistakeSeverity.ERROR)]
    )
    show_mistakes(reading)


def _rows() -> None:
    Lines().show_rows(ShownRows("sink", 1, [EVIL], [[EVIL]], is_all=True))


def _line() -> None:
    write_line(EVIL)


@pytest.mark.parametrize("show", [_findings, _settings, _bench, _mistakes, _rows, _line])
def test_output_has_no_control_characters(show: Callable[[], None], capsys: pytest.CaptureFixture[str]) -> None:
    show()
    shown = capsys.readouterr().out
    assert not RAW.search(shown), shown
    assert SHOWN in shown, shown


def test_cells_of_console_sinks_forge_no_rows(capsys: pytest.CaptureFixture[str]) -> None:
    Lines().show_rows(ShownRows("sink", 1, ["value"], [["a\nforged"]], is_all=True))
    assert [line.strip() for line in capsys.readouterr().out.splitlines()][-1] == r"a\x0aforged"


def test_tables_and_live_displays_keep_the_escapes_of_rich(capsys: pytest.CaptureFixture[str]) -> None:
    screen = console(force_terminal=True, color_system="standard", width=80, legacy_windows=False)
    table = Table()
    table.add_column("name")
    table.add_row(Text("x\x1b\u202ey" + " " * 20, style="red"))
    with Live(table, console=screen, auto_refresh=False) as live:
        live.update(table, refresh=True)
    shown = capsys.readouterr().out
    assert "\x1b[31m" in shown
    assert r"x\x1b\u202ey" in shown
    assert "\u202e" not in shown


def test_only_one_module_makes_consoles() -> None:
    folder = Path(goqueue.cli.__file__).parent
    found = {file.name for file in folder.glob("*.py") if re.search(r"[ (]Console\(", file.read_text("utf-8"))}
    assert not found

"""`goqueue bench` without the package of the benchmarks."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from goqueue.cli import bench


@pytest.mark.parametrize("arguments", [[], ["log"], ["log", "--quick", "--output", "x.json"]])
def test_command_without_benchmarks_says_how_to_get_them(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goqueue.cli.bench.find_spec", lambda _: None)
    app = typer.Typer()
    app.callback()(lambda: None)
    bench.add_bench(app)
    ended = CliRunner().invoke(app, ["bench", *arguments])
    assert ended.exit_code == 1
    assert "goqueue_bench is part of the source" in ended.stderr

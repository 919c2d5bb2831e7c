"""`goqueue bench client`: publishes of an `AsyncClient`, few and many at once, of which none is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from goqueue.cli.main import app
from goqueue_bench import client_concurrency
from goqueue_bench.measure import BenchmarkFailed


def test_rates_are_measured_for_few_and_many_calls_at_once(tmp_path: Path) -> None:
    output = tmp_path / "client.json"
    shown = CliRunner().invoke(app, ["bench", "client", "--messages", "64", "--json", "--output", str(output)])
    assert shown.exit_code == 0, shown.output
    document = json.loads(shown.stdout)
    assert document == json.loads(output.read_text())
    results = document["results"]
    assert list(results) == ["calls_1", "calls_8", "calls_64", "many_against_one"]
    assert results["many_against_one"]["goal"] == "at least 1"
    for name in list(results)[:3]:
        assert 0 < results[name]["least"] <= results[name]["value"] <= results[name]["most"]


def test_messages_that_are_not_stored_fail_the_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = client_concurrency.publishes_per_second

    async def half(server: str, concurrency: int, count: int) -> float:
        return await measured(server, concurrency, count // 2)

    monkeypatch.setattr(client_concurrency, "publishes_per_second", half)
    with pytest.raises(BenchmarkFailed, match="messages are stored"):
        list(client_concurrency.run(tmp_path, 128, lambda _: None))

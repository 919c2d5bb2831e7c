"""`goqueue bench fairness`: a modest client is measured beside each heavy one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from goqueue.cli.main import app
from goqueue_bench.fairness.client import STEPS
from goqueue_bench.fairness.neighbour import Done, work_until_told
from goqueue_bench.options import Neighbour

_BULK = {"bulk_kafka", "bulk_http"}


def bench(*arguments: str) -> dict[str, dict[str, object]]:
    shown = CliRunner().invoke(app, ["bench", "fairness", "--tiny", "--json", *arguments])
    assert shown.exit_code == 0, shown.output
    results: dict[str, dict[str, object]] = json.loads(shown.stdout)["results"]
    return results


def test_modest_client_is_measured_beside_every_neighbour() -> None:
    found = bench()
    expected = []
    for neighbour in Neighbour:
        expected += [f"{neighbour}_p50", f"{neighbour}_p99", *([f"{neighbour}_rate"] if neighbour in _BULK else [])]
    assert list(found) == expected
    for name, each in found.items():
        if name.endswith("_rate"):
            assert each["unit"] == "messages/s"
            continue
        assert each["goal"] == ("at most 3" if name.endswith("_p50") else "at most 5")
        assert set(each) >= {f"{step}_loaded_ms" for step in STEPS} | {"calm_ms", "loaded_ms"}
    assert found["many_messages_p50"]["neighbour_refused"] == found["many_messages_p50"]["neighbour_requests"]


def test_rates_of_bulk_publishers_are_compared_with_an_earlier_result(tmp_path: Path) -> None:
    earlier = tmp_path / "earlier.json"
    earlier.write_text(json.dumps({"results": {"bulk_http_rate": {"value": 1e9}, "bulk_http_p50": {"value": 2}}}))
    found = bench("--only", "bulk_http", "--before", str(earlier))
    assert found["bulk_http_against_before"]["is_met"] is False


def test_what_a_neighbour_did_is_added_up() -> None:
    words = iter([False, False, True])
    report = work_until_told(iter([Done(messages=5), Done(refused=1)]), lambda: next(words))
    assert (report.requests, report.messages, report.refused) == (2, 5, 1)
    with pytest.raises(StopIteration):
        work_until_told(iter([]), lambda: False)

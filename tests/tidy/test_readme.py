"""The figures in README.md are the stored ones."""

from __future__ import annotations

import json

import pytest
from bench.readme import BEGIN, END, README, RESULTS, renew


def test_every_figure_in_the_readme_comes_from_the_stored_results() -> None:
    readme = README.read_text("utf-8")
    if readme != renew(readme, RESULTS.read_text("utf-8")):
        pytest.fail("the figures in README.md are not those of bench/results/log.json: run `make readme`")


def test_another_result_makes_another_readme() -> None:
    readme = README.read_text("utf-8")
    results = json.loads(RESULTS.read_text("utf-8"))
    results["results"]["read"]["value"] = 0.123
    changed = renew(readme, json.dumps(results))
    assert "| 0.123 x |" in changed
    assert changed.partition(BEGIN)[0] == readme.partition(BEGIN)[0]
    assert changed.partition(END)[2] == readme.partition(END)[2]


def test_a_readme_without_a_place_for_the_figures_is_refused() -> None:
    with pytest.raises(ValueError, match="end of figures"):
        renew(f"{BEGIN}\n", RESULTS.read_text("utf-8"))

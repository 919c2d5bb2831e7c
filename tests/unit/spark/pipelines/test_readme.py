"""The pipeline that README shows, and the one that `goqueue demo` runs, are the same, and valid."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import yaml

from goqueue.spark.pipelines import load

README = Path(__file__).parents[4] / "README.md"


def test_the_pipeline_of_the_readme_is_valid_and_that_of_the_demonstration(tmp_path: Path) -> None:
    (shown,) = re.findall(r"```yaml\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    file = tmp_path / "orders.yaml"
    file.write_text(shown, "utf-8")
    reading = load(file, {})
    assert reading.pipeline is not None
    assert not reading.mistakes
    run = yaml.safe_load(resources.files("goqueue.cli").joinpath("demo_orders.yaml").read_text("utf-8"))
    # What README leaves out for the sake of space.
    del run["description"], run["broker"], run["steps"]["valid"]["expect"]
    run["steps"]["enriched"]["sql"] = " ".join(run["steps"]["enriched"]["sql"].split())
    assert yaml.safe_load(shown) == run

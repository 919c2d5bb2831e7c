"""The pipeline that `goqueue demo` runs is valid."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from goqueue.spark.pipelines import load


def test_pipeline_of_the_demo_is_valid(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(resources.files("goqueue.cli.demo").joinpath("orders.yaml").read_text("utf-8"), "utf-8")
    reading = load(file, {})
    assert reading.pipeline is not None
    assert not reading.mistakes

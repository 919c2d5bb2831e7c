"""A pipeline written in Python is the same pipeline, with the same mistakes."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from goqueue.spark.pipelines import PipelineSpec, load
from goqueue.spark.pipelines.spec.model import PipelineStep, PythonTransform
from tests.unit.spark.pipelines.pipelines_kit import lines_of

MODULE = """\
from datetime import timedelta
from goqueue.spark.pipelines import Pipeline

pipeline = Pipeline("orders", trigger="30s", spark={"spark.ui.enabled": False})
pipeline.source("orders", topic="orders", decode={"format": "json", "schema": "id STRING, at TIMESTAMP"})
pipeline.source("users", parquet="users")

@pipeline.step(expect_or_dlq={"has_id": "id IS NOT NULL"}, watermark={"column": "at", "delay": timedelta(minutes=5)})
def cleaned(orders):
    return orders

@pipeline.step
def known(cleaned, users):
    return cleaned

pipeline.apply("once", inputs="known", deduplicate=["id"])
pipeline.sql("counted", "SELECT count(*) FROM once")
pipeline.sink("lake", inputs="once", parquet="out", partition_by=["day"])

@pipeline.foreach_batch(inputs="counted", mode="update")
def store(batch, number):
    pass
"""
SAME = """\
pipeline: orders
trigger: 30s
spark: {spark.ui.enabled: false}
sources:
  orders: {topic: orders, decode: {format: json, schema: "id STRING, at TIMESTAMP"}}
  users: {parquet: users}
steps:
  cleaned:
    from: orders
    python: pipeline.py:cleaned
    expect_or_dlq: {has_id: id IS NOT NULL}
    watermark: {column: at, delay: 5m}
  known: {from: [cleaned, users], python: "pipeline.py:known"}
  once: {from: known, deduplicate: [id]}
  counted: {sql: SELECT count(*) FROM once}
sinks:
  lake: {from: once, parquet: out, partition_by: [day]}
  store: {from: counted, foreach_batch: "pipeline.py:store", mode: update}
"""


@pytest.fixture
def module(tmp_path: Path) -> Path:
    file = tmp_path / "pipeline.py"
    file.write_text(MODULE)
    return file


def loaded(file: Path) -> PipelineSpec:
    reading = load(file, {})
    assert lines_of(reading) == []
    assert reading.pipeline is not None
    return reading.pipeline


def without_function(step: PipelineStep) -> PipelineStep:
    return replace(step, transform=None) if isinstance(step.transform, PythonTransform) else step


def test_a_module_and_a_file_make_the_same_pipeline(module: Path) -> None:
    file = module.with_suffix(".yaml")
    file.write_text(SAME)
    from_module, from_file = loaded(module), loaded(file)
    assert [*map(without_function, from_module.steps)] == [*map(without_function, from_file.steps)]
    assert from_module.sinks[0] == from_file.sinks[0]
    assert replace(from_module, steps=(), sinks=()) == replace(from_file, steps=(), sinks=())


def test_a_step_has_the_function_itself(module: Path) -> None:
    transform = loaded(module).steps[0].transform
    assert isinstance(transform, PythonTransform)
    assert transform.function.function is not None
    assert transform.function.function("rows") == "rows"


def test_a_mistake_names_the_line_of_the_call(module: Path) -> None:
    text = MODULE.replace("partition_by", "partition").replace("def known(cleaned, users)", "def known(cleaned, user)")
    module.write_text(text)
    told = lines_of(load(module, {}))
    assert "12:1 error: step known reads user, but there is no such source or step (did you mean users?)" in told
    assert "18:1 error: sink lake has no key 'partition' (did you mean partition_by?)" in told


def test_a_name_that_is_given_twice_is_told(module: Path) -> None:
    module.write_text(MODULE + 'pipeline.source("users", csv="other")\n')
    assert "23:1 error: users is there twice in the sources" in lines_of(load(module, {}))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = 1\n", '1:1 error: the module has no pipeline (write pipeline = Pipeline("name") at its top level)'),
        ("\nx = (\n", "2:5 error: the module fails: SyntaxError: '(' was never closed"),
        ("\n\nx = y\n", "3:1 error: the module fails: NameError: name 'y' is not defined"),
        ("def f():\n    raise ValueError('no')\n\nf()\n", "2:1 error: the module fails: ValueError: no"),
        ("import pyspark.nothing_like_this\n", "(pip install 'goqueue[spark]')"),
        ("import sys\nsys.exit(3)\n", "2:1 error: the module fails: SystemExit: 3"),
        (
            "from goqueue.spark.pipelines import Pipeline\np = Pipeline('a')\nq = Pipeline('b')\nr = q\n",
            "1:1 error: the module has several pipelines: p, q, r (put each into a file of its own)",
        ),
        (
            "from goqueue.spark.pipelines import Pipeline\np = Pipeline('a')\np.source('a', topic=p)\n",
            "3:1 error: the module fails: TypeError: topic cannot be a Pipeline",
        ),
    ],
)
def test_a_module_without_a_pipeline_says_why(module: Path, text: str, told: str) -> None:
    module.write_text(text)
    (line,) = lines_of(load(module, {}))
    assert line.endswith(told)


def test_a_module_may_import_what_lies_beside_it_and_leaves_nothing_behind(module: Path) -> None:
    (module.parent / "beside_the_pipeline.py").write_text("NAME = 'orders'\n")
    module.write_text("from beside_the_pipeline import NAME\n" + MODULE.replace('Pipeline("orders"', "Pipeline(NAME"))
    paths = list(sys.path)
    try:
        assert loaded(module).name == "orders"
    finally:
        sys.modules.pop("beside_the_pipeline", None)
    assert sys.path == paths
    assert "__goqueue_pipeline__" not in sys.modules


def test_a_file_that_is_no_text_is_told(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_bytes(b"pipeline: a\nname: \xff\n")
    assert lines_of(load(file, {})) == ["2:1 error: the file is not UTF-8 (save it with that encoding)"]


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing.yaml", {})

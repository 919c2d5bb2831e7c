"""Which Python Spark looks for data sources with: the one that imports `goqueue.spark`, unless another is chosen."""

from __future__ import annotations

import pytest

from goqueue.spark import name_python

PYTHON = "/opt/venv/bin/python"


def test_spark_uses_the_python_of_the_program() -> None:
    environ: dict[str, str] = {}
    name_python(environ, PYTHON)
    assert environ == {"PYSPARK_PYTHON": PYTHON, "PYSPARK_DRIVER_PYTHON": PYTHON}


@pytest.mark.parametrize("name", ["PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYSPARK_GATEWAY_PORT"])
def test_choice_of_the_user_or_of_spark_submit_is_left_alone(name: str) -> None:
    environ = {name: "chosen"}
    name_python(environ, PYTHON)
    assert environ == {name: "chosen"}


def test_program_that_does_not_know_its_python_names_none() -> None:
    environ: dict[str, str] = {}
    name_python(environ, "")
    assert environ == {}

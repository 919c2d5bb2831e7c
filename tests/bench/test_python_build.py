"""Results name the build of Python, and whether it was optimised."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from goqueue_bench import python_build
from goqueue_bench.machine import describe
from goqueue_bench.python_build import is_optimised, this_build
from goqueue_bench.readme import render_log

DEBIAN = "'--enable-shared' '--prefix=/usr' '--with-wheel-pkg-dir=/usr/share/python-wheels/' 'CC=x86_64-linux-gnu-gcc'"


@pytest.mark.parametrize(
    ("variables", "machine", "expected"),
    [
        ({"CONFIG_ARGS": "'--enable-optimizations' '--with-lto'"}, "x86_64", True),
        (
            {"CONFIG_ARGS": "'--prefix=/opt'", "PY_CORE_CFLAGS": "-O3 -fprofile-use"},
            "x86_64",
            True,
        ),
        ({"CONFIG_ARGS": "'--prefix=/opt'", "PGO_PROF_USE_FLAG": "-fprofile-use"}, "x86_64", False),
        ({"CONFIG_ARGS": DEBIAN}, "x86_64", True),
        ({"CONFIG_ARGS": DEBIAN}, "riscv64", False),
        ({}, "x86_64", False),
        ({"CONFIG_ARGS": None}, "x86_64", False),
    ],
)
def test_optimised_build_is_recognised(variables: dict[str, object], machine: str, expected: bool) -> None:
    assert is_optimised(variables, machine=machine) is expected


def test_stored_results_name_the_build(tmp_path: Path) -> None:
    stored = json.loads(json.dumps(describe(tmp_path)._asdict()))
    assert stored["python_is_optimised"] is this_build().is_optimised
    assert stored["python_compiler"] == this_build().compiler
    named = "(optimised, GCC 12.2.0)"
    told = {**stored, "python_is_optimised": True, "python_compiler": "GCC 12.2.0"}
    assert named in render_log({"log": {"machine": told, "results": {}}})
    assert "(not optimised, " in render_log({"log": {"machine": {**told, "python_is_optimised": False}, "results": {}}})


def test_the_module_runs_by_itself_and_names_an_interpreter_that_is_optimised() -> None:
    command = [sys.executable, "-I", "-S", python_build.__file__]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    expected = (0, sys.executable) if this_build().is_optimised else (1, "")
    assert (ended.returncode, ended.stdout.strip()) == expected, ended.stderr

"""Python files of users: what lies beside them can be imported, and goes with their functions wherever they go."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pyspark.serializers import CloudPickleSerializer

from goqueue.spark.pipelines.spec.functions import run_file


def pair(directory: Path, factor: int) -> Path:
    """Write a file that uses another one beside it."""
    directory.mkdir()
    (directory / "helpers.py").write_text(f"FACTOR = {factor}\n\ndef times(x):\n    return x * FACTOR\n")
    (directory / "main.py").write_text(
        "import helpers\nfrom helpers import times\n\ndef twice(x):\n    return helpers.times(x) + times(x)\n"
    )
    return directory / "main.py"


def test_two_files_may_each_have_a_helper_of_the_same_name(tmp_path: Path) -> None:
    first, second = (run_file(pair(tmp_path / name, factor)) for name, factor in (("a", 2), ("b", 5)))
    assert (first.twice(1), second.twice(1)) == (4, 10)
    assert "helpers" not in sys.modules
    assert str(tmp_path / "a") not in sys.path


def test_a_function_takes_along_what_it_uses_of_its_neighbours(tmp_path: Path) -> None:
    pickles: Any = CloudPickleSerializer()  # type: ignore[no-untyped-call]
    sent = pickles.dumps(run_file(pair(tmp_path / "a", 3)).twice)
    # As on an executor, which has none of these files.
    assert pickles.loads(sent)(7) == 42

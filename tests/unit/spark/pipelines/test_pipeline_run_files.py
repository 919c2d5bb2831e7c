"""Directories of files belong to the query that began them, as far as that can be seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from goqueue.errors import Invalid
from goqueue.spark.pipelines.model import FileFormat, FileSink
from goqueue.spark.pipelines.run_files import require_own


def noted(directory: Path, *names: str) -> str:
    """Make a directory with such files, and return the one above it."""
    directory.mkdir(parents=True)
    for name in names:
        (directory / name).touch()
    return str(directory.parent)


@pytest.mark.parametrize(
    ("in_files", "in_checkpoint", "is_own"),
    [
        ((), (), True),
        ((), ("0", "1"), True),
        (("0", "1"), ("0", "1", "2", ".2.crc"), True),
        (("9.compact", "10"), ("10",), True),
        (("0",), (), False),
        (("9.compact", "10", "11"), ("0", "1"), False),
    ],
)
def test_a_query_has_planned_what_is_noted_in_its_directory(
    tmp_path: Path, in_files: tuple[str, ...], in_checkpoint: tuple[str, ...], is_own: bool
) -> None:
    path = noted(tmp_path / "out" / "_spark_metadata", *in_files)
    checkpoint = noted(tmp_path / "checkpoint" / "offsets", *in_checkpoint)
    for written in (path, f"file://{path}", f"file:{path}"):
        sink = FileSink("out", "orders", FileFormat.PARQUET, written)
        if is_own:
            require_own(sink, checkpoint)
            continue
        with pytest.raises(Invalid, match="does not go on with"):
            require_own(sink, checkpoint)
        # Nobody can tell what is there.
        for elsewhere in ("abfss://a@b/c", "dbfs:/c"):
            require_own(sink, elsewhere)

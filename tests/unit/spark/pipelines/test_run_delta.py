"""A batch is in a Delta table once, also if two drivers write it, one of which was taken for dead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyarrow import parquet
from pyspark.sql.types import LongType, StructField, StructType

from goqueue.errors import Invalid
from goqueue.spark.pipelines.spec.model import DeltaSink
from goqueue.spark.pipelines.write.attempts import Overtaken
from goqueue.spark.pipelines.write.delta import _Table

QUERY = "5b1c8d8e-1111-4222-8333-444455556666"
CONF = SimpleNamespace(get=lambda _name, default: default)
STATE = SimpleNamespace(newHadoopConf=lambda: CONF)
SESSION = SimpleNamespace(
    _jvm=None,
    _jsparkSession=SimpleNamespace(sessionState=lambda: STATE),
    conf=SimpleNamespace(get=lambda _name: "", set=lambda _name, _text: None),
)


class Rows:
    """Rows that are written as Spark does, once something else has happened."""

    def __init__(self, *numbers: int, before: Callable[[], object] = lambda: None) -> None:
        self.sparkSession = SESSION
        self.schema = StructType([StructField("number", LongType())])
        self._numbers = numbers
        self._before = before

    @property
    def write(self) -> Any:
        return self

    def format(self, _name: str) -> Any:
        return self

    def mode(self, _name: str) -> Any:
        return self

    def partitionBy(self, *_names: str) -> Any:  # noqa: N802 - Spark's
        return self

    def save(self, directory: str) -> None:
        self._before()
        Path(directory).mkdir(parents=True, exist_ok=True)
        parquet.write_table(pa.table({"number": [*self._numbers]}), Path(directory) / "part-00000-c0ffee.parquet")


@pytest.fixture
def opened(tmp_path: Path) -> Callable[[], _Table]:
    sink = DeltaSink("table", "rows", str(tmp_path / "table"))
    rows: Any = Rows()
    return lambda: _Table(sink, rows, QUERY)


def write(table: _Table, number: int, *numbers: int, before: Callable[[], object] = lambda: None) -> bool:
    rows: Any = Rows(*numbers, before=before)
    return table.write(rows, number)


def seen(tmp_path: Path) -> list[int]:
    """Return the rows of the table; no file may be there that it does not have."""
    table = DeltaTable(tmp_path / "table")
    assert len(list((tmp_path / "table").rglob("*.parquet"))) == len(table.file_uris())
    return sorted(table.to_pyarrow_table()["number"].to_pylist())


def test_batch_that_another_driver_has_committed_is_not_written_again(
    opened: Callable[[], _Table], tmp_path: Path
) -> None:
    one, other = opened(), opened()
    assert write(one, 0, 1, 2)
    assert not write(other, 0, 1, 2)
    assert (seen(tmp_path), other.last) == ([1, 2], 0)
    assert write(other, 1, 3)
    assert not write(one, 1, 3)
    assert seen(tmp_path) == [1, 2, 3]


def test_driver_that_is_taken_for_dead_cannot_commit_rows_that_were_removed(
    opened: Callable[[], _Table], tmp_path: Path
) -> None:
    old = opened()
    assert write(old, 0, 1)
    with pytest.raises(Overtaken, match="another run of this pipeline has begun"):
        write(old, 1, 2, before=opened)
    assert seen(tmp_path) == [1]
    assert write(opened(), 1, 2)
    assert seen(tmp_path) == [1, 2]


@pytest.mark.parametrize("is_killed", [False, True])
def test_attempt_that_is_about_to_be_committed_is_not_removed(
    opened: Callable[[], _Table], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_killed: bool
) -> None:
    old = opened()
    new: list[_Table] = []
    commit = _Table._commit

    def overtaken(self: _Table, schema: Any, actions: Any, number: int) -> bool:
        if not new:
            new.append(opened())
            if is_killed:
                raise KeyboardInterrupt
        return commit(self, schema, actions, number)

    monkeypatch.setattr(_Table, "_commit", overtaken)
    if is_killed:
        with pytest.raises(KeyboardInterrupt):
            write(old, 0, 1, 2)
    else:
        assert write(old, 0, 1, 2)
    assert write(new[0], 0, 1, 2) == is_killed
    assert seen(tmp_path) == [1, 2]


def test_batch_without_rows_leaves_nothing(opened: Callable[[], _Table], tmp_path: Path) -> None:
    table = opened()
    assert write(table, 0)
    assert list((tmp_path / "table").iterdir()) == []


def test_path_without_a_scheme_is_refused_where_spark_would_write_it_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CONF, "get", lambda _name, _default: "hdfs://there")
    rows: Any = Rows()
    with pytest.raises(Invalid, match="default file system"):
        _Table(DeltaSink("table", "rows", str(tmp_path / "table")), rows, QUERY)

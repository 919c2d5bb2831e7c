"""The examples on reading in docs/spark.md work, against a broker with some orders in it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.client import Client, groups
from goqueue.spark.source.options import NAMES
from goqueue.testing.broker import Broker
from tests.spark.read_kit import new_topic, publish

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DOCUMENT = Path(__file__).parents[2] / "docs" / "spark.md"


@pytest.fixture(scope="module")
def reading_section() -> str:
    found = re.search(r"^## Reading\n.*?(?=^## |\Z)", _DOCUMENT.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert found
    return found[0]


def test_every_example_works(
    spark: SparkSession, reading_section: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: dict[str, Any] = {"spark": spark}
    with Broker() as broker:
        new_topic(broker, name="orders")
        publish(broker.bootstrap, "orders", ['{"id": 1, "amount": 2.5}', '{"id": 2}', "no JSON"])
        for example in re.findall(r"^```py\n(.*?)^```", reading_section, re.MULTILINE | re.DOTALL):
            here = example.replace("127.0.0.1:9092", broker.bootstrap)
            for folder in ("archive", "checkpoints"):
                here = here.replace(f'"{folder}/', f'"{tmp_path}/{folder}/')
            exec(here, names)  # noqa: S102 - they are ours

        def rows(name: str) -> list[tuple[Any, ...]]:
            return [tuple(row) for row in names[name].collect()]

        assert rows("per_key") == [(None, 3)]
        assert spark.read.parquet(str(tmp_path / "archive" / "orders")).count() == 3
        assert rows("last_offsets") == [(0, 2)]
        assert sorted(rows("values"))[0] == (0, b'{"id": 1, "amount": 2.5}')
        assert sorted(rows("good")) == [(0, 1, 2.5), (1, 2, None)]
        assert rows("bad") == [(0, 2, "the value is not JSON: no JSON")]
        with Client(broker.http) as client:
            assert client.send(groups.offsets("order-archive")).lag == 0
    spark.catalog.dropTempView("orders")


def test_every_option_is_described(reading_section: str) -> None:
    missing = [name for name in NAMES if f"`{name}`" not in reading_section]
    assert not missing

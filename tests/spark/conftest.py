"""One Spark for all tests of it.

Spark takes ten seconds to start and half a gigabyte, so there should be one per run, not one per xdist worker. Tests of
this directory are put in front of all others: `--dist worksteal` gives each worker an even stretch of the list to
begin with, and idle workers steal from the end of it. So all of them fall to the first worker, which starts with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HERE = Path(__file__).parent


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _HERE not in item.path.parents)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session that all tests share; what they set on it or leave in it, they take back."""
    from goqueue.spark.session import SessionRequest, start_session

    warehouse = tmp_path_factory.mktemp("warehouse")
    settings = {"spark.driver.memory": "1g", "spark.sql.warehouse.dir": str(warehouse)}
    session = start_session(SessionRequest(name="goqueue tests", master="local[2]", settings=settings))
    yield session
    session.stop()

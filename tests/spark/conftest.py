"""One Spark for all tests of it.

Spark takes ten seconds to start and half a gigabyte, so there should be one per run, not one per xdist worker. Tests of
this directory are put in front of all others: `--dist worksteal` gives each worker an even stretch of the list to
begin with, and idle workers steal from the end of it. So all of them fall to the first worker, which starts with them.
Behind them come the examples of documents, some of which start Sparks of their own: what takes long is not left for the
end, when only one worker would have something to do.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.quick_java import QUICK_DRIVERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HERE = Path(__file__).parent
_DOCUMENTS = _HERE.parent / "unit" / "test_docs.py"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: (_HERE not in item.path.parents, item.path != _DOCUMENTS))


@pytest.fixture(scope="session", autouse=True)
def quick_drivers() -> None:
    """Let all Sparks start quickly, those that commands start as well."""
    os.environ.update(QUICK_DRIVERS)


@pytest.fixture(scope="session")
def spark(quick_drivers: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session that all tests share; what they set on it or leave in it, they take back."""
    del quick_drivers
    from goqueue.spark.session import SessionRequest, start_session

    warehouse = tmp_path_factory.mktemp("warehouse")
    settings = {"spark.driver.memory": "1g", "spark.sql.warehouse.dir": str(warehouse)}
    session = start_session(SessionRequest(name="goqueue tests", master="local[2]", settings=settings))
    yield session
    session.stop()

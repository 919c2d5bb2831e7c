"""One Spark session for all tests of it.

Spark takes ten seconds to start and half a gigabyte, so there should be one per run, not one per xdist worker:
`tests/scheduling.py` gives all files that use the session to the same worker.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.spark.quick_java import QUICK_DRIVERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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

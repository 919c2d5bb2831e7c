"""How a session is started, by who has said where Spark runs."""

from __future__ import annotations

import os

import pytest

from goqueue.spark.session import MachineResources, SessionPlan, SessionRequest, SparkTarget, plan_session, this_machine

GIB = 1024**3
MACHINE = MachineResources(cores=8, memory_bytes=12 * GIB)
PYTHON = "/opt/venv/bin/python"


def plan(request: SessionRequest | None = None, /, **environ: str) -> SessionPlan:
    return plan_session(request or SessionRequest(), environ, MACHINE, PYTHON)


def test_by_default_spark_is_local_quiet_and_closed_to_others() -> None:
    made = plan()
    assert made.target is SparkTarget.LOCAL
    assert made.needs_java
    assert (
        made.settings.items()
        >= {
            "spark.master": "local[*]",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "3072m",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.execution.arrow.pyspark.enabled": "true",
            "spark.sql.shuffle.partitions": "8",
            "spark.ui.enabled": "false",
        }.items()
    )
    assert made.environ["SPARK_GOQUEUE_PYTHON"] == PYTHON
    assert made.environ["PYSPARK_PYTHON"] == made.environ["PYSPARK_DRIVER_PYTHON"]
    assert os.access(str(made.environ["PYSPARK_PYTHON"]), os.X_OK)
    assert made.environ["SPARK_LOCAL_IP"] == "127.0.0.1"


def test_a_spark_of_its_own_has_its_own_pyspark_for_workers() -> None:
    made = plan(SessionRequest(master="local[2]"), SPARK_HOME="/opt/spark")
    assert made.environ["PYSPARK_PYTHON"] == PYTHON


def test_settings_of_the_caller_are_stronger_than_ours() -> None:
    wanted = {"spark.ui.enabled": "true", "spark.sql.session.timeZone": "Asia/Tokyo", "spark.x": "y"}
    assert plan(SessionRequest(settings=wanted)).settings.items() >= wanted.items()
    assert plan(SessionRequest(has_pages=True)).settings["spark.ui.enabled"] == "true"


@pytest.mark.parametrize(
    ("master", "target"),
    [("local", SparkTarget.LOCAL), ("local[2]", SparkTarget.LOCAL), ("spark://h:7077", SparkTarget.CLUSTER)],
)
def test_a_master_decides_against_the_environment(master: str, target: SparkTarget) -> None:
    for request in (SessionRequest(master=master), SessionRequest(settings={"spark.master": master})):
        made = plan(request, SPARK_REMOTE="sc://elsewhere")
        assert made.target is target
        assert made.settings["spark.master"] == master
        # PySpark would refuse to start with both.
        assert made.environ["SPARK_REMOTE"] is None


def test_a_driver_whose_executors_are_elsewhere_is_not_bound_to_loopback() -> None:
    made = plan(SessionRequest(master="spark://h:7077"))
    assert not made.settings.keys() & {"spark.driver.bindAddress", "spark.driver.host", "spark.driver.memory"}
    assert "SPARK_LOCAL_IP" not in made.environ
    assert made.needs_java


@pytest.mark.parametrize("master", ["spark://127.0.0.1:7077", "spark://localhost:7077"])
def test_a_driver_whose_executors_are_here_is_closed_to_others(master: str) -> None:
    made = plan(SessionRequest(master=master))
    assert made.settings["spark.driver.host"] == made.settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert made.environ["SPARK_LOCAL_IP"] == "127.0.0.1"


def test_executors_have_their_python_where_the_driver_has_it_unless_somebody_says_where() -> None:
    cluster = SessionRequest(master="spark://h:7077")
    named = SessionRequest(master="spark://h:7077", settings={"spark.pyspark.python": "/usr/bin/python3.11"})
    left_by_a_local_one = plan().environ["PYSPARK_PYTHON"] or ""
    # Spark would take the last one for what it finds by itself, on executors too.
    assert _pythons(plan(cluster, PYSPARK_DRIVER_PYTHON="jupyter")) == {PYTHON}
    assert _pythons(plan(cluster, PYSPARK_PYTHON=left_by_a_local_one)) == {PYTHON}
    assert _pythons(plan(cluster, PYSPARK_PYTHON="/usr/bin/python3")) == {"/usr/bin/python3"}
    assert _pythons(plan(named, PYSPARK_PYTHON="/usr/bin/python3")) == {"/usr/bin/python3.11"}


def _pythons(made: SessionPlan) -> set[str | None]:
    return {made.environ["PYSPARK_PYTHON"], made.environ["PYSPARK_DRIVER_PYTHON"]}


@pytest.mark.parametrize("request_", [SessionRequest(master="sc://h:15002"), SessionRequest()])
def test_a_spark_server_needs_no_java_here(request_: SessionRequest) -> None:
    made = plan(request_, SPARK_REMOTE="sc://h:15002")
    assert made.target is SparkTarget.CONNECT
    assert not made.needs_java
    assert "spark.master" not in made.settings
    assert made.settings.get("spark.remote", "sc://h:15002") == "sc://h:15002"


def test_a_server_that_pyspark_starts_for_itself_needs_java_and_this_python() -> None:
    made = plan(SPARK_REMOTE="local[2]")
    assert made.target is SparkTarget.CONNECT
    assert made.needs_java
    assert made.environ["SPARK_GOQUEUE_PYTHON"] == PYTHON


def test_under_spark_submit_only_the_session_is_ours() -> None:
    made = plan(PYSPARK_GATEWAY_PORT="4711", SPARK_HOME="/opt/spark")
    assert made.target is SparkTarget.SUBMITTED
    assert made.settings.keys() == {"spark.sql.session.timeZone", "spark.sql.execution.arrow.pyspark.enabled"}
    assert not made.environ
    assert not made.needs_java


@pytest.mark.parametrize("variable", ["PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME"])
def test_who_has_configured_a_spark_of_their_own_keeps_its_master(variable: str) -> None:
    made = plan(**{variable: "something"})
    assert made.target is SparkTarget.CLUSTER
    assert "spark.master" not in made.settings


def test_memory_that_the_environment_sets_is_left_alone() -> None:
    assert "spark.driver.memory" not in plan(SPARK_DRIVER_MEMORY="9g").settings


@pytest.mark.parametrize(("memory", "heap"), [(1 * GIB, 1 * GIB), (8 * GIB, 2 * GIB), (512 * GIB, 4 * GIB)])
def test_the_heap_is_a_bounded_share_of_the_memory(memory: int, heap: int) -> None:
    assert MachineResources(cores=1, memory_bytes=memory).heap_bytes == heap


def test_this_machine_has_something() -> None:
    machine = this_machine()
    assert machine.cores >= 1
    assert machine.memory_bytes > 100 * 1024**2

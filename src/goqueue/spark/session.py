"""Starts Spark sessions: `start_session` is the only way.

The first of these that is set decides where Spark runs:

| set by                                                  | target    | GoQueue adds                                   |
|---------------------------------------------------------|-----------|------------------------------------------------|
| spark-submit, which has started this program            | submitted | settings of the session                        |
| a master, as an argument or setting: `sc://...`         | connect   | settings of the session                        |
| a master, as an argument or setting: `local[2]`, ...    | local     | all of what is below                           |
| any other master, as an argument or setting             | cluster   | settings of session and driver, Java, Python   |
| `SPARK_REMOTE`                                          | connect   | settings of the session                        |
| `PYSPARK_SUBMIT_ARGS`, `SPARK_CONF_DIR` or `SPARK_HOME` | cluster   | settings of session and driver, Java, Python   |
| nothing                                                 | local     | `local[*]`, and all settings below             |

A local Spark listens only on loopback, has no web UI by default, uses a share of the memory, and runs its workers with
this Python, so that they find the same packages. A cluster must have its Python at the same path, unless
`PYSPARK_PYTHON` names another. Every session uses UTC and transfers rows as Arrow. Settings of the caller override all
of this. `plan_session` decides and is pure.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from goqueue.errors import NotFound, Unavailable
from goqueue.spark.java import find_java, launch_detached

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_GIB = 1024**3
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
# # Rows are mostly in Python and in files: few jobs need a larger heap, and they can set it.
_HEAP_BYTES_MIN, _HEAP_BYTES_MAX = 1 * _GIB, 4 * _GIB

INSTALL_HINT = "pip install 'goqueue[spark]', in the environment that this program runs in"

SESSION_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
"""Settings of every session."""

_LOOPBACK = "127.0.0.1"
_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")
_PYTHON_LAUNCHER = Path(__file__).parent / "python_home" / "bin" / "python"
_PYTHON_VARIABLE = "SPARK_GOQUEUE_PYTHON"
_SHUFFLE_PARTITIONS_MIN = 2
_CONFIGURED_BY = ("PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME")
_MIB = 1024**2
_EXIT_WAIT_S = 2.0


@dataclass(frozen=True, slots=True)
class MachineResources:
    """The cores and memory that a process may use, within the limits of its container."""

    cores: int
    memory_bytes: int

    @property
    def heap_bytes(self) -> int:
        """The memory for Spark's Java: a quarter, since its Python workers and a broker may be here as well."""
        return min(max(self.memory_bytes // 4, _HEAP_BYTES_MIN), _HEAP_BYTES_MAX)


def this_machine() -> MachineResources:
    """Return the resources of this machine."""
    is_bound = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if is_bound else os.cpu_count() or 1
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    # "max" if there is no limit, and no such file outside of Linux.
    with suppress(OSError, ValueError):
        memory_bytes = min(memory_bytes, int(_CGROUP_LIMIT.read_text()))
    return MachineResources(cores, memory_bytes)


class SparkTarget(StrEnum):
    """Where Spark runs, which decides what GoQueue configures."""

    LOCAL = "local"
    CLUSTER = "cluster"
    CONNECT = "connect"
    SUBMITTED = "submitted"


class SparkNotInstalled(NotFound):
    """PySpark, or a package that it needs, is not installed."""

    code = "spark_not_installed"


class SparkNotStarted(Unavailable):
    """Spark did not start, or its server does not answer."""

    code = "spark_not_started"


class SparkLost(Unavailable):
    """Spark ended or became unreachable during use."""

    code = "spark_lost"


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """The caller's settings for a session."""

    name: str = "goqueue"
    master: str | None = None
    """A Spark master such as `local[2]` or `spark://host:7077`, or `sc://host:15002` for a Spark Connect server."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of Spark, which override ours."""
    has_pages: bool = False
    """Whether a local Spark serves its web UI."""
    output: int | None = None
    """A file descriptor for the output of Spark and its Python workers, which are then detached from the terminal:
    Ctrl-C does not reach them. Only for a Spark that this program starts.
    """


@dataclass(frozen=True, slots=True)
class SessionPlan:
    """How to start a session."""

    target: SparkTarget
    settings: Mapping[str, str]
    environ: Mapping[str, str | None]
    """Environment variables for Spark's start; None removes one."""
    needs_java: bool


def plan_session(
    request: SessionRequest, environ: Mapping[str, str], machine: MachineResources, python: str
) -> SessionPlan:
    """Plan a session; `python` is the interpreter of workers on this machine."""
    master = request.master or request.settings.get("spark.master")
    remote = request.settings.get("spark.remote")
    if master and master.startswith("sc://"):
        master, remote = None, master
    target = _target(master, remote, environ)
    ours = dict(SESSION_SETTINGS)
    changes: dict[str, str | None] = {}
    if target in {SparkTarget.LOCAL, SparkTarget.CLUSTER}:
        ours |= _driver_settings(request.name)
    if target is SparkTarget.CLUSTER:
        changes |= _python_of_cluster(request.settings, environ, python)
        if urlsplit(master or "").hostname in _THIS_MACHINE:
            # # Executors of a master on loopback are on this machine, so the driver listens only on loopback.
            ours |= {"spark.driver.host": _LOOPBACK, "spark.driver.bindAddress": _LOOPBACK}
            changes["SPARK_LOCAL_IP"] = environ.get("SPARK_LOCAL_IP", _LOOPBACK)
    if target is SparkTarget.LOCAL:
        ours |= _local_settings(environ, machine, has_pages=request.has_pages)
        master = master or "local[*]"
    where = {"spark.master": master} if master else {"spark.remote": remote} if remote else {}
    if where and target is not SparkTarget.SUBMITTED:
        # PySpark refuses to choose between a variable and an argument.
        changes["SPARK_REMOTE"] = None
    own = {name: text for name, text in request.settings.items() if name not in {"spark.master", "spark.remote"}}
    # Without a server's address, PySpark starts a server for itself.
    is_served_here = target is SparkTarget.CONNECT and not (remote or environ["SPARK_REMOTE"]).startswith("sc://")
    if target is SparkTarget.LOCAL or is_served_here:
        changes |= {**_python_of_this_machine(environ, python), "SPARK_LOCAL_IP": _LOOPBACK}
    needs_java = target in {SparkTarget.LOCAL, SparkTarget.CLUSTER} or is_served_here
    return SessionPlan(target, {**ours, **where, **own}, changes, needs_java)


def _target(master: str | None, remote: str | None, environ: Mapping[str, str]) -> SparkTarget:
    if "PYSPARK_GATEWAY_PORT" in environ:
        return SparkTarget.SUBMITTED
    if master:
        return SparkTarget.LOCAL if master.startswith("local") else SparkTarget.CLUSTER
    if remote or "SPARK_REMOTE" in environ:
        return SparkTarget.CONNECT
    if any(name in environ for name in _CONFIGURED_BY):
        return SparkTarget.CLUSTER
    return SparkTarget.LOCAL


def _driver_settings(name: str) -> dict[str, str]:
    log_settings = Path(__file__).with_name("log4j2.properties")
    return {
        "spark.app.name": name,
        # # Spark's progress bar overwrites the output of the program.
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log_settings.as_uri()}",
    }


def _python_of_cluster(settings: Mapping[str, str], environ: Mapping[str, str], python: str) -> dict[str, str | None]:
    """Name one Python for driver and executors.

    Spark runs the tasks of a data source with the Python that found the data source: `PYSPARK_DRIVER_PYTHON`, which on
    some machines is `jupyter`.
    """
    named = environ.get("PYSPARK_PYTHON")
    if named == str(_PYTHON_LAUNCHER):
        # # Set for a local Spark by this program or its parent.
        named = None
    chosen = settings.get("spark.pyspark.python") or named or python
    return {"PYSPARK_PYTHON": chosen, "PYSPARK_DRIVER_PYTHON": chosen}


def _python_of_this_machine(environ: Mapping[str, str], python: str) -> dict[str, str | None]:
    """Name this Python, through a script that starts it faster if Spark comes with PySpark."""
    if "SPARK_HOME" in environ:
        return {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
    door = str(_PYTHON_LAUNCHER)
    return {"PYSPARK_PYTHON": door, "PYSPARK_DRIVER_PYTHON": door, _PYTHON_VARIABLE: python}


def _local_settings(environ: Mapping[str, str], machine: MachineResources, *, has_pages: bool) -> dict[str, str]:
    settings = {
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.driver.host": _LOOPBACK,
        "spark.ui.enabled": "true" if has_pages else "false",
        # # Spark's default is 200 tasks for every join and grouping.
        "spark.sql.shuffle.partitions": str(max(machine.cores, _SHUFFLE_PARTITIONS_MIN)),
    }
    if "SPARK_DRIVER_MEMORY" not in environ:
        settings["spark.driver.memory"] = f"{machine.heap_bytes // _MIB}m"
    return settings


def start_session(request: SessionRequest | None = None) -> SparkSession:
    """Return the session of this process, started if there is none yet.

    A start takes about ten seconds, so keep the session. Spark's start scripts read environment variables, so this
    changes the environment of the process. Raises SparkNotInstalled, JavaNotFound or SparkNotStarted.
    """
    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SparkNotInstalled(f"Spark is not installed here: {error}", hint=INSTALL_HINT) from None
    request = request or SessionRequest()
    plan = plan_session(request, os.environ, this_machine(), sys.executable)
    _prepare(plan)
    try:
        if request.output is not None and plan.target in {SparkTarget.LOCAL, SparkTarget.CLUSTER}:
            launch_detached(plan.settings, request.output)
        # # `SparkSession.builder` is shared and keeps settings of earlier sessions.
        return SparkSession.Builder().config(map=dict(plan.settings)).getOrCreate()
    except ImportError as error:
        raise SparkNotInstalled(f"a package is missing: {error}", hint=_missing_hint(plan)) from None
    except (PySparkException, Py4JError) as error:
        from goqueue.spark.failures import reason_in

        # # The text of a Java error has the whole stack.
        reason = reason_in(str(error))
        raise SparkNotStarted(
            f"Spark did not start: {reason}", hint="`goqueue spark doctor` looks for the cause"
        ) from error


def is_remote(session: SparkSession) -> bool:
    """Return whether a session uses Spark Connect, which offers no access to Java."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def java_exit(session: SparkSession) -> str | None:
    """Describe how the Java that this program started has ended; None if it runs or is not ours."""
    if is_remote(session):
        return None
    process = getattr(session.sparkContext._gateway, "proc", None)
    if process is None:
        return None
    # # Java closes its connections before it exits.
    with suppress(subprocess.TimeoutExpired):
        process.wait(_EXIT_WAIT_S)
    code = process.poll()
    if code is None:
        return None
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"has ended with exit code {code}"
    return f"Spark's Java (process {process.pid}) {how}"


def release_session(session: SparkSession) -> None:
    """Release a session of Spark Connect with its running work at the server; does nothing for other sessions.

    `stop` would also end a server that PySpark started, with its other sessions.
    """
    if is_remote(session):
        from pyspark.errors import PySparkException

        # # A dead server has nothing to release.
        with suppress(PySparkException):
            session.client.release_session()
        session.client.close()


def _prepare(plan: SessionPlan) -> None:
    changes = dict(plan.environ)
    if plan.needs_java:
        changes |= find_java(os.environ).environ
    for name, text in changes.items():
        if text is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = text


def _missing_hint(plan: SessionPlan) -> str:
    return "pip install 'goqueue[spark-connect]'" if plan.target is SparkTarget.CONNECT else INSTALL_HINT

"""How much of this machine there is for Spark: cores and memory, as the limits of a container leave them.

The one way to a Spark session: `start_session`.

Where Spark runs is not decided here but found out, the strongest first:

| said by                                                 | target    | what GoQueue adds                              |
|---------------------------------------------------------|-----------|------------------------------------------------|
| spark-submit, which has started this program            | submitted | settings of the session                        |
| a master, as an argument or setting: `sc://...`         | connect   | settings of the session                        |
| a master, as an argument or setting: `local[2]`, ...    | local     | all of what is below                           |
| any other master, as an argument or setting             | cluster   | settings of session and driver, Java, Python   |
| `SPARK_REMOTE`                                          | connect   | settings of the session                        |
| `PYSPARK_SUBMIT_ARGS`, `SPARK_CONF_DIR` or `SPARK_HOME` | cluster   | settings of session and driver, Java, Python   |
| nobody                                                  | local     | `local[*]`, and all of what is below           |

A local Spark listens on loopback only, shows no web pages unless asked, takes a share of the memory, and runs its
workers with this very Python, so that they find the same packages. A cluster is taken to have its Python where this
one is, unless `PYSPARK_PYTHON` names another place. Every session keeps time in UTC and hands rows over as Arrow. What
the caller sets is stronger than all of this. `plan_session` decides and is pure.
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
# Rows are in Python and in files for the most part: more heap than this is needed by few jobs, and they can ask for it.
_HEAP_BYTES_MIN, _HEAP_BYTES_MAX = 1 * _GIB, 4 * _GIB

INSTALL_HINT = "pip install 'goqueue[spark]', in the environment that this program runs in"

SESSION_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
"""What every session has, wherever Spark runs."""

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
    """What a process may use here."""

    cores: int
    memory_bytes: int

    @property
    def heap_bytes(self) -> int:
        """The memory for Spark's Java: a quarter, since its Python workers and a broker may be here as well."""
        return min(max(self.memory_bytes // 4, _HEAP_BYTES_MIN), _HEAP_BYTES_MAX)


def this_machine() -> MachineResources:
    """Look at this machine."""
    is_bound = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if is_bound else os.cpu_count() or 1
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    # "max" if there is no limit, and no such file outside of Linux.
    with suppress(OSError, ValueError):
        memory_bytes = min(memory_bytes, int(_CGROUP_LIMIT.read_text()))
    return MachineResources(cores, memory_bytes)


class SparkTarget(StrEnum):
    """Where the work is done, and so how much there is for us to say."""

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
    """Spark has ended, or cannot be reached any more, while it was needed."""

    code = "spark_lost"


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """What a caller wants of its session."""

    name: str = "goqueue"
    master: str | None = None
    """A Spark master such as `local[2]` or `spark://host:7077`, or `sc://host:15002` for a Spark Connect server."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Spark's own settings, stronger than ours."""
    has_pages: bool = False
    """Whether a local Spark shows its web pages."""
    output: int | None = None
    """Keeps Spark apart from the terminal of this program: what it and its Pythons print goes to this file descriptor,
    and Ctrl-C does not reach them. Only for a Spark that is started by this program."""


@dataclass(frozen=True, slots=True)
class SessionPlan:
    """How a session will be started."""

    target: SparkTarget
    settings: Mapping[str, str]
    environ: Mapping[str, str | None]
    """What the environment has to say when Spark starts; None if it must not say it."""
    needs_java: bool


def plan_session(
    request: SessionRequest, environ: Mapping[str, str], machine: MachineResources, python: str
) -> SessionPlan:
    """Decide how to start a session; `python` is the interpreter that workers on this machine use."""
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
            # Executors of a master that only this machine can reach are on this machine, and reach a driver that is
            # closed to all others.
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
        # A bar that Spark draws over whatever the program writes.
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log_settings.as_uri()}",
    }


def _python_of_cluster(settings: Mapping[str, str], environ: Mapping[str, str], python: str) -> dict[str, str | None]:
    """Name one Python for driver and executors.

    Spark runs the tasks of a data source that it has found by itself with the Python that it has found it with, which
    is `PYSPARK_DRIVER_PYTHON` where that is set: to `jupyter`, on some machines.
    """
    named = environ.get("PYSPARK_PYTHON")
    if named == str(_PYTHON_LAUNCHER):
        # Left by a local Spark that was started by this program, or by the one that has started it.
        named = None
    chosen = settings.get("spark.pyspark.python") or named or python
    return {"PYSPARK_PYTHON": chosen, "PYSPARK_DRIVER_PYTHON": chosen}


def _python_of_this_machine(environ: Mapping[str, str], python: str) -> dict[str, str | None]:
    """Name this Python, entered through a script that lets it start quickly, if PySpark brings the Spark to it."""
    if "SPARK_HOME" in environ:
        return {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
    door = str(_PYTHON_LAUNCHER)
    return {"PYSPARK_PYTHON": door, "PYSPARK_DRIVER_PYTHON": door, _PYTHON_VARIABLE: python}


def _local_settings(environ: Mapping[str, str], machine: MachineResources, *, has_pages: bool) -> dict[str, str]:
    settings = {
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.driver.host": _LOOPBACK,
        "spark.ui.enabled": "true" if has_pages else "false",
        # The default is 200 tasks for every join and grouping, however few rows there are.
        "spark.sql.shuffle.partitions": str(max(machine.cores, _SHUFFLE_PARTITIONS_MIN)),
    }
    if "SPARK_DRIVER_MEMORY" not in environ:
        settings["spark.driver.memory"] = f"{machine.heap_bytes // _MIB}m"
    return settings


def start_session(request: SessionRequest | None = None) -> SparkSession:
    """Return the session of this process, started if there is none yet.

    That takes about ten seconds, so keep it. The environment of this process is changed as the plan says: that is
    how Spark's start scripts are told. SparkNotInstalled, JavaNotFound or SparkNotStarted if it does not work out.
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
        # Not `SparkSession.builder`, which keeps the settings of whoever used it before.
        return SparkSession.Builder().config(map=dict(plan.settings)).getOrCreate()
    except ImportError as error:
        raise SparkNotInstalled(f"a package is missing: {error}", hint=_missing_hint(plan)) from None
    except (PySparkException, Py4JError) as error:
        from goqueue.spark.failures import reason_in

        # Of an error in Java, the text has the whole stack.
        reason = reason_in(str(error))
        raise SparkNotStarted(
            f"Spark did not start: {reason}", hint="`goqueue spark doctor` looks for the cause"
        ) from error


def is_remote(session: SparkSession) -> bool:
    """Tell whether a session is one of Spark Connect: its Spark is another program, and has no Java to talk to."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def java_exit(session: SparkSession) -> str | None:
    """Return how the Java that this program has started has ended, in a sentence; None if it has not, or is another."""
    if is_remote(session):
        return None
    process = getattr(session.sparkContext._gateway, "proc", None)
    if process is None:
        return None
    # Java may be on its way out, and its connections are closed before it is gone.
    with suppress(subprocess.TimeoutExpired):
        process.wait(_EXIT_WAIT_S)
    code = process.poll()
    if code is None:
        return None
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"has ended with exit code {code}"
    return f"Spark's Java (process {process.pid}) {how}"


def release_session(session: SparkSession) -> None:
    """End a session of Spark Connect, and what it has left in the middle at the server; any other is left alone.

    Not by `stop`, which also ends a server that PySpark has started itself, on which other sessions may be.
    """
    if is_remote(session):
        from pyspark.errors import PySparkException

        # A server that is gone has nothing left.
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

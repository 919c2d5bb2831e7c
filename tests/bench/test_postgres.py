"""PostgreSQL beside GoQueue: which of its servers is taken, and what is sent to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from goqueue_bench.peers.postgres import array, programs


def install(directory: Path) -> Path:
    directory.mkdir(parents=True)
    (directory / "initdb").touch(mode=0o755)
    return directory


def test_the_newest_server_of_debian_is_taken(tmp_path: Path) -> None:
    installed = {version: install(tmp_path / version / "bin") for version in ("9.6", "15", "10")}
    # What a removed server leaves behind.
    (tmp_path / "17" / "bin").mkdir(parents=True)
    assert programs(tmp_path) == installed["15"]


def test_elsewhere_the_server_on_the_path_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(install(tmp_path / "bin")))
    assert programs(tmp_path / "none") == tmp_path / "bin"
    monkeypatch.setenv("PATH", "")
    assert programs(tmp_path / "none") is None


def test_an_array_has_its_shape_and_type_before_its_values() -> None:
    shape = "00000001 00000000 00000014 00000002 00000001"
    first, second = "00000008 0000000000000007", "00000008 0000000000000009"
    ids = [(7).to_bytes(8, "big"), (9).to_bytes(8, "big")]
    assert array(20, ids) == bytes.fromhex(shape + first + second)

"""The names of the client are there when they are used, and cost nothing before."""

from __future__ import annotations

import subprocess
import sys

import pytest

from goqueue import client


def test_every_public_name_can_be_used() -> None:
    assert all(getattr(client, name) is not None for name in client.__all__)


def test_a_name_that_does_not_exist_is_named() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Conductor'"):
        _ = client.Conductor  # type: ignore[attr-defined, unused-ignore]


def test_a_worker_that_only_moves_batches_does_not_load_the_rest() -> None:
    program = "import goqueue.client.kafka, sys; print(*{'httpx', 'rich', 'asyncio', 'anyio'} & set(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == []

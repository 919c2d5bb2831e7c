"""`goqueue job archive` tells what is wrong before Spark starts."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from goqueue.client import Client, topics
from goqueue.testing.broker import Broker
from tests.cli.command import Command


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--format", "yaml"), "use table or json"),
        (("--keep", "soon"), "write 500ms, 30s"),
        (("--file-size", "1KiB"), "at least 64KiB"),
        (("--keep", "31d"), "at most 30 days"),
    ],
)
def test_wrong_usage_is_reported(tmp_path: Path, options: tuple[str, ...], told: str) -> None:
    refused = Command("http://127.0.0.1:1").refused("job", "archive", "orders", tmp_path, *options, exit_code=2)
    assert told in refused


def test_missing_topic_and_wrong_archive_are_reported(tmp_path: Path) -> None:
    with Broker() as broker:
        goqueue = Command(broker.http)
        at = ("--broker", broker.bootstrap)
        assert "there is no topic 'orders'" in goqueue.refused("job", "archive", "orders", tmp_path, *at)
        with Client(broker.http) as client:
            client.send(topics.create("orders"))
        assert "[invalid]" in goqueue.refused("job", "archive", "orders", " ", *at)
        assert "nothing new in topic orders" in goqueue.done("job", "archive", "orders", tmp_path / "a", *at)
        elsewhere = goqueue.refused("job", "archive", "orders", tmp_path / "c", *at)
        assert f"names an archive at {tmp_path}/a, not at {tmp_path}/c" in elsewhere
        # What the hint says helps.
        assert "`goqueue topic alter orders --unset goqueue.archive.path`" in elsewhere
        goqueue.done("topic", "alter", "orders", "--unset", "goqueue.archive.path")
        assert "Spark reads deleted records" in goqueue.done("job", "archive", "orders", tmp_path / "c", *at)
        goqueue.done("topic", "alter", "orders", "--config", f"goqueue.archive.path={tmp_path}/a")
        (tmp_path / "file").write_text("")
        assert f"{tmp_path}/file is a file" in goqueue.refused("job", "archive", "orders", tmp_path / "file", *at)
        assert "is no URI (write two slashes: s3://b/x)" in goqueue.refused("job", "archive", "orders", "s3:/b/x", *at)
        told = goqueue.refused("job", "archive", "orders", tmp_path / "b", "--verify")
        # The first run has noted where the log starts, and told the topic of the archive: that must not vanish.
        shutil.rmtree(tmp_path / "a")
        gone = goqueue.refused("job", "archive", "orders", tmp_path / "a", *at)
        goqueue.done("topic", "alter", "orders", "--unset", "goqueue.archive.path")
        assert "Spark reads deleted records" in goqueue.done("job", "archive", "orders", tmp_path / "a", *at)
    assert "which does not exist" in gone
    assert "topic alter orders --unset goqueue.archive.path" in gone
    assert "does not hold topic 'orders', but nothing [not_archived]" in told

"""`goqueue job archive` as a process that is killed at any moment: the archive holds every row once."""

from __future__ import annotations

import json
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from goqueue.spark.archive.commits import load
from goqueue.spark.archive.store import ArchiveStore
from goqueue.testing.broker import Broker
from tests.cli.command import INSTALLED, Command, installed_environ
from tests.spark.archive_kit import archive, archived
from tests.spark.read_kit import new_topic, publish, reading, remove_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def broker(goqueue_session_broker: Broker) -> Broker:
    return goqueue_session_broker


@pytest.mark.long
@pytest.mark.parametrize("moment", ["first files are there", "first commit is there", "second commit is there"])
def test_a_command_that_is_killed_is_run_again_and_every_row_is_there_once(
    spark: SparkSession, broker: Broker, tmp_path: Path, moment: str
) -> None:
    topic, path = new_topic(broker, partitions=2), tmp_path / "archive"
    store = ArchiveStore(str(path))
    for partition in (0, 1):
        publish(broker.bootstrap, topic, ["x" * 50] * 60_000, partition=partition)
    if moment == "second commit is there":
        archive(spark, broker, topic, path)
        publish(broker.bootstrap, topic, ["y" * 50] * 60_000)
    command = [INSTALLED, "job", "archive", topic, str(path), "--broker", broker.bootstrap, "--master", "local[2]"]
    commits = load(store).number + 1

    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=installed_environ(broker.http))
    try:
        while process.poll() is None and not _is_there(moment, path, store, commits):
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.02)
    finally:
        process.kill()
        process.communicate()

    environ = installed_environ(broker.http)
    again = subprocess.run([*command, "--format", "json"], check=False, capture_output=True, env=environ)
    (outcome,) = [row for line in again.stdout.splitlines() if (row := json.loads(line))["kind"] == "archive"]
    total = 180_000 if commits else 120_000
    assert (again.returncode, sum(file.rows for file in archived(path, topic).files)) == (0, total), outcome
    assert Command(broker.http)("job", "archive", topic, path, "--verify").exit_code == 0
    remove_records(broker.bootstrap, topic, before=120_000 if commits else 60_000)
    assert reading(spark, broker.bootstrap, topic).schema("offset BIGINT").load().count() == total


def _is_there(moment: str, path: Path, store: ArchiveStore, commits: int) -> bool:
    if moment == "first files are there":
        return any(path.rglob("*.parquet"))
    return load(store).number + 1 > commits

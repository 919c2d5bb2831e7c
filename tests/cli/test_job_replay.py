"""`goqueue job replay` tells what is wrong with a job that has begun before Spark starts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from goqueue.client import Client, topics
from goqueue.spark.jobs.replay.notes import JobDirectory, ReplayNotes, ReplayRequest
from goqueue.testing.broker import Broker
from tests.cli.command import Command

WISH = ReplayRequest(
    source="orders", target="again", start="beginning", end="end", where="", partitions="auto", has_origin=True
)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def begun(broker: Broker, tmp_path: Path) -> JobDirectory:
    """A job that has begun with two topics, which are made anew."""
    ids = {name: make(broker, name) for name in ("orders", "again")}
    directory = JobDirectory(str(tmp_path / "one"))
    directory.begin(
        ReplayNotes(
            wish=WISH,
            bounds={"startingOffsets": "earliest", "endingOffsets": "latest"},
            keeps_partitions=True,
            began_at="2026-01-31T12:00:00Z",
            source_id=ids["orders"],
            target_id=ids["again"],
        )
    )
    return directory


def make(broker: Broker, name: str) -> str:
    """Make a topic, anew if it is there; return its id."""
    delete(broker, name)
    with Client(broker.http) as client:
        client.send(topics.create(name))
        return client.send(topics.describe(name)).id


def delete(broker: Broker, name: str) -> None:
    with Client(broker.http) as client:
        if any(topic.name == name for topic in client.send(topics.list_all())):
            client.send(topics.delete(name))


def arguments(broker: Broker, begun: JobDirectory, *options: str) -> list[str]:
    where = ["--name", "one", "--broker", broker.bootstrap, "--checkpoint", str(Path(begun.path).parent)]
    return ["job", "replay", "orders", "again", *where, *options]


def test_job_refuses_a_target_that_was_deleted_or_recreated(broker: Broker, begun: JobDirectory) -> None:
    goqueue = Command(broker.http)
    make(broker, "again")
    told = goqueue.refused(*arguments(broker, begun))
    assert (
        "topic 'again' was deleted and created again since replay one began, so its earlier messages are gone" in told
    )
    assert "(--restart starts over, and creates the topic if it is missing) [replay_target_lost]" in told

    delete(broker, "again")
    told = goqueue.refused(*arguments(broker, begun, "--skip-lost"))
    assert "topic 'again', the target of replay one, was deleted (--restart starts over" in told


def test_job_without_its_source_ends_if_lost_messages_are_skipped(broker: Broker, begun: JobDirectory) -> None:
    goqueue = Command(broker.http)
    make(broker, "orders")
    told = goqueue.refused(*arguments(broker, begun))
    assert (
        "topic 'orders', which replay one was reading, was deleted and made again, and the rest of it is lost" in told
    )
    delete(broker, "orders")
    told = goqueue.refused(*arguments(broker, begun))
    assert "which replay one was reading, is gone" in told
    assert "with --skip-lost the job ends without the rest" in told
    assert begun.done_at == ""

    told = goqueue.done(*arguments(broker, begun, "--skip-lost"))
    assert "is gone, and the rest of it is lost" in told
    assert "replay one done" in told
    assert begun.done_at != ""


def test_a_checkpoint_without_notes_is_not_taken_up(broker: Broker, begun: JobDirectory) -> None:
    path = Path(begun.path)
    (path / "query").mkdir()
    (path / "job.json").unlink()
    told = Command(broker.http).refused(*arguments(broker, begun))
    assert f"{path} has a checkpoint, but the notes job.json of replay one are missing" in told
    assert (path / "query").exists()

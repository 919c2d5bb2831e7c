"""`goqueue job replay` with a real Spark and broker: what is published again, and that it is once, whatever happens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from goqueue.client import Client, jobs, topics
from goqueue.errors import UnknownTopic
from goqueue.spark.jobs.replay.topics import look_at_source
from goqueue.testing.broker import Broker
from tests.cli.command import INSTALLED, Command, Row, installed_environ
from tests.spark.archive_kit import DAY_MS, NOON_MS, archive, kept_topic, publish_at
from tests.spark.read_kit import WAIT_S, delete_topic, new_topic, publish, remove_records
from tests.spark.sink_kit import committed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def broker(goqueue_session_broker: Broker) -> Broker:
    return goqueue_session_broker


class Replays:
    """The command, with the session and the broker of the tests, and a directory of its own for notes."""

    def __init__(self, broker: Broker, directory: Path) -> None:
        self._usual = ["--broker", broker.bootstrap, "--checkpoint", directory, "--format", "json"]
        self._command = Command(broker.http)

    def __call__(self, *arguments: object, exit_code: int = 0) -> dict[str, list[Row]]:
        """Run a replay, and return what it has told by kinds."""
        result = self._command("job", "replay", *arguments, *self._usual)
        assert result.exit_code == exit_code, result.output
        told: dict[str, list[Row]] = {}
        for line in result.stdout.splitlines():
            row = json.loads(line)
            told.setdefault(row.pop("kind"), []).append(row)
        return told

    def refused(self, *arguments: object) -> str:
        """Run a replay, which fails; return why."""
        result = self._command("job", "replay", *arguments, *self._usual)
        assert result.exit_code == 1, result.output
        return result.stderr


@pytest.fixture
def replay(spark: SparkSession, broker: Broker, tmp_path: Path) -> Replays:
    del spark
    return Replays(broker, tmp_path)


def old_messages(broker: Broker, topic: str, count: int) -> None:
    """Write messages of long ago, a minute apart, to two partitions in turn, with keys and headers."""
    with Client(broker.http) as client:
        client.send(topics.create(topic, partitions=2, config={"retention.ms": "-1"}))
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for number in range(count):
        producer.produce(
            topic,
            f"order {number}",
            f"key-{number}",
            partition=number % 2,
            timestamp=NOW_MS + number * 60_000,
            headers=[("goqueue-priority", b"4"), ("trace", b"x")] if number % 3 == 0 else None,
        )
    assert producer.flush(WAIT_S) == 0


def values(broker: Broker, topic: str) -> Counter[str]:
    return Counter((row.value or b"").decode() for row in committed(broker.bootstrap, topic))


def exists(broker: Broker, topic: str) -> bool:
    with Client(broker.http) as client:
        try:
            client.send(topics.describe(topic))
        except UnknownTopic:
            return False
    return True


def test_chosen_messages_are_published_once_as_they_were(replay: Replays, broker: Broker) -> None:
    old_messages(broker, "orders", 12)
    # Of 12 messages, 2 to 9 are within these times, and the even ones of them are chosen.
    bounds = ("--from", "2023-11-14T22:15:20Z", "--to", "2023-11-14T22:23:20Z", "--where")
    even = "substring(text, 7) % 2 = 0 AND key IS NOT NULL"

    told = replay("orders", "again", *bounds, even, "--dry-run")
    assert [row["messages"] for row in told["partition"]] == [4]
    (counted,) = told["partition"]
    assert (counted["partition"], counted["first_offset"], counted["last_offset"]) == (0, 1, 4)
    assert (counted["first_time_ms"], counted["last_time_ms"]) == (NOW_MS + 120_000, NOW_MS + 480_000)
    wrong = replay.refused("orders", "again", *bounds, "amont > 7")
    assert "--where 'amont > 7' cannot be used" in wrong
    assert "`amont` cannot be resolved" in wrong
    wrong = replay.refused("orders", "again", "--where", "CAST(text AS INT) > 7", "--dry-run")
    assert "the messages cannot be counted" in wrong
    assert "'order " in wrong
    assert not exists(broker, "again")

    told = replay("orders", "again", *bounds, even)
    (last,) = told["replay"]
    assert (last["ending"], last["read"], last["published"], last["left"]) == ("done", 8, 4, 0)
    assert any("made topic again like orders: 2 partitions" in str(row["text"]) for row in told["note"])
    with Client(broker.http) as client:
        runs = [job for job in client.send(jobs.list_all()) if job.name == "orders-to-again"]
    (done,) = [job for job in runs if job.state != "failed"]
    assert (done.verb, done.state, done.error) == ("replay", "done", None)
    assert (done.read, done.written, done.offsets_done, done.offsets) == (8, 4, 8, 8)
    assert done.description == f"topic orders to topic again, where {even}"
    assert "`amont` cannot be resolved" in str(next(job.error for job in runs if job.state == "failed"))

    rows = committed(broker.bootstrap, "again")
    assert [row.value for row in rows] == [b"order 2", b"order 4", b"order 6", b"order 8"]
    assert [(row.partition, row.key, row.timestamp_ms) for row in rows] == [
        (0, f"key-{number}".encode(), NOW_MS + number * 60_000) for number in (2, 4, 6, 8)
    ]
    origin = [
        (("goqueue-replay-topic", b"orders"), ("goqueue-replay-partition", b"0"), ("goqueue-replay-offset", number))
        for number in (b"1", b"2", b"3", b"4")
    ]
    assert [row.headers[-3:] for row in rows] == origin
    assert [row.headers[:-3] for row in rows] == [(), (), (("goqueue-priority", b"4"), ("trace", b"x")), ()]

    told = replay("orders", "again", *bounds, even)
    assert list(told) == ["note"]
    assert "was done at" in str(told["note"][0]["text"])
    refusal = replay.refused("orders", "again", *bounds, "true")
    assert f"was begun with --where '{even}' and not 'true'" in refusal
    assert "[replay_differs]" in refusal
    assert values(broker, "again").total() == 4

    replay("orders", "again", *bounds, even, "--restart", "--partitions", "key", "--no-origin")
    assert set(values(broker, "again").values()) == {2}


def test_a_topic_can_be_replayed_into_itself_and_a_rate_is_kept(
    replay: Replays, broker: Broker, tmp_path: Path
) -> None:
    topic = new_topic(broker)
    publish(broker.bootstrap, topic, [str(number) for number in range(10)])

    told = replay(topic, topic, "--rate", 4)

    read = [row["read"] for row in told["batch"]]
    assert isinstance(read[-1], int)
    assert read[-1] == 10
    assert all(0 <= int(str(after)) - int(str(before)) <= 4 for before, after in pairwise([0, *read]))
    assert told["replay"][0]["ending"] == "done"
    assert values(broker, topic) == Counter({str(number): 2 for number in range(10)})

    # A crash behind the last batch, before that is noted: nothing is left to do, and it finds out.
    (tmp_path / f"{topic}-to-{topic}" / "done.json").unlink()
    told = replay(topic, topic, "--rate", 4)
    assert (told["replay"][0]["ending"], told["replay"][0]["published"]) == ("done", 0)


@contextmanager
def when_published(broker: Broker, topic: str, act: Callable[[], None]) -> Iterator[None]:
    """Have something done as soon as something is in a topic."""
    is_over = threading.Event()

    def run() -> None:
        while not is_over.wait(0.1):
            if values(broker, topic):
                act()
                return

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(WAIT_S)


def test_a_replay_that_is_asked_to_stop_ends_its_batch_and_goes_on_with_the_same_command(
    replay: Replays, broker: Broker
) -> None:
    source, target = new_topic(broker), new_topic(broker)
    publish(broker.bootstrap, source, [str(number) for number in range(60)])

    with when_published(broker, target, lambda: os.kill(os.getpid(), signal.SIGTERM)):
        told = replay(source, target, "--rate", 2, exit_code=130)
    (last,) = told["replay"]
    assert last["ending"] == "stopped"
    assert "the same command continues from" in str(last["advice"])
    published = values(broker, target).total()
    assert last["published"] == published
    assert 0 < published < 60
    publish(broker.bootstrap, source, ["too late"])

    # How fast it goes is not part of what is replayed.
    told = replay(source, target)
    assert any("continues from its checkpoint" in str(row["text"]) for row in told["note"])
    assert told["replay"][0]["ending"] == "done"
    assert values(broker, target) == Counter(str(number) for number in range(60))


def test_a_replay_that_goes_on_without_what_is_lost_ends_when_its_source_is_deleted(
    replay: Replays, broker: Broker, tmp_path: Path
) -> None:
    source, target = new_topic(broker), new_topic(broker)
    publish(broker.bootstrap, source, [str(number) for number in range(60)])

    with when_published(broker, target, lambda: delete_topic(broker, source)):
        told = replay(source, target, "--rate", 4, "--skip-lost")

    (last,) = told["replay"]
    assert (last["ending"], last["left"]) == ("done", 0)
    published = values(broker, target)
    assert 0 < published.total() < 60
    assert set(published.values()) == {1}
    assert last["missing"] == 60 - published.total()
    assert str(last["advice"]).startswith(f"{last['missing']} offsets had no message: it was lost")
    assert any(
        f"begins, with its checkpoint in {tmp_path}/{source}-to-{target}" in str(row["text"]) for row in told["note"]
    )

    (tmp_path / f"{source}-to-{target}" / "done.json").unlink()
    refusal = replay.refused(source, target)
    assert f"topic '{source}', which replay {source}-to-{target} was reading, is gone" in refusal
    assert "with --skip-lost the job ends without the rest" in refusal
    assert replay(source, target, "--skip-lost")["replay"][0]["ending"] == "done"


def test_what_the_log_has_not_any_more_is_replayed_from_the_archive(
    replay: Replays, broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    source, target, path = kept_topic(broker, partitions=2), kept_topic(broker, partitions=2), tmp_path / "archive"
    publish_at(broker, source, [(NOON_MS + n * DAY_MS // 4, f"a{n}") for n in range(8)])
    publish_at(broker, source, [(NOON_MS + n, f"b{n}") for n in range(4)], partition=1)
    archive(spark, broker, source, path)
    publish(broker.bootstrap, source, ["new"])
    remove_records(broker.bootstrap, source, 8)
    remove_records(broker.bootstrap, source, 2, partition=1)
    everything = Counter([f"a{n}" for n in range(8)] + [f"b{n}" for n in range(4)] + ["new"])

    told = replay(source, target, "--batch", 8)
    (last,) = told["replay"]
    assert (last["ending"], last["read"], last["published"], last["left"]) == ("done", 13, 13, 0)
    rows = committed(broker.bootstrap, target)
    assert Counter((row.value or b"").decode() for row in rows) == everything
    assert {row.timestamp_ms for row in rows if row.value == b"a3"} == {NOON_MS + 3 * DAY_MS // 4}
    assert {dict(row.headers)["goqueue-replay-offset"] for row in rows if row.value == b"a3"} == {b"3"}
    # As old as that is what the target gets, and may remove.
    assert look_at_source(broker.bootstrap, source, "auto").oldest_ms == NOON_MS

    moved = path.rename(tmp_path / "moved")
    refusal = replay.refused(source, target, "--name", "again", "--dry-run")
    assert f"there is no archive at {path}" in refusal
    assert "with --archive never only the log is replayed" in refusal
    assert "goqueue.archive=" not in refusal
    told = replay(source, target, "--name", "again", "--dry-run", "--archive", moved)
    assert [row["messages"] for row in told["partition"]] == [9, 4]
    bounds = look_at_source(broker.bootstrap, source, "never").bounds
    assert {number: each.first for number, each in bounds.items()} == {0: 8, 1: 2}


@contextmanager
def running(broker: Broker, directory: Path, arguments: list[str]) -> Iterator[subprocess.Popen[str]]:
    """Run the command in processes of its own, with a Spark of its own; nothing of it is left."""
    where = ["--broker", broker.bootstrap, "--checkpoint", str(directory), "--master", "local[2]"]
    process: subprocess.Popen[str] = subprocess.Popen(
        [INSTALLED, "job", "replay", *arguments, *where, "--format", "json"],
        stdout=subprocess.PIPE,
        text=True,
        env=installed_environ(broker.http),
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def rows(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    assert process.stdout is not None
    return map(json.loads, process.stdout)


def test_a_replay_that_is_killed_and_run_again_publishes_everything_once(
    replay: Replays, broker: Broker, tmp_path: Path
) -> None:
    source, target = new_topic(broker, partitions=2), new_topic(broker, partitions=3)
    written = [f"{number:04}" for number in range(1_000)]
    publish(broker.bootstrap, source, written[:500])
    publish(broker.bootstrap, source, written[500:], partition=1)
    arguments = [source, target, "--batch", "40"]
    with running(broker, tmp_path, arguments) as process:
        assert any(row["kind"] == "batch" and row["published"] >= 120 for row in rows(process))
        assert "is running already" in replay.refused(*arguments)
        os.killpg(process.pid, signal.SIGKILL)
    before = values(broker, target).total()
    assert 120 <= before < 1_000

    told = replay(source, target, "--batch", 400)

    (last,) = told["replay"]
    assert last["ending"] == "done"
    assert values(broker, target) == Counter(written)


@pytest.mark.long
def test_ctrl_c_ends_the_command_well(broker: Broker, tmp_path: Path) -> None:
    source = new_topic(broker)
    publish(broker.bootstrap, source, [str(number) for number in range(1_000)])

    with running(broker, tmp_path, [source, f"{source}-again", "--batch", "10"]) as process:
        told = rows(process)
        assert any(row["kind"] == "batch" for row in told)
        os.killpg(process.pid, signal.SIGINT)
        (last,) = (row for row in told if row["kind"] == "replay")
        assert process.wait(WAIT_S) == 130

    assert last["ending"] == "stopped"
    assert 0 < last["published"] <= values(broker, f"{source}-again").total() < 1_000


def test_a_replay_into_a_topic_that_is_made_anew_is_not_done_and_begins_anew_with_all_of_it(
    replay: Replays, broker: Broker, tmp_path: Path
) -> None:
    source, target = new_topic(broker), "made-anew"
    with Client(broker.http) as client:
        client.send(topics.alter(source, config={"message.timestamp.type": "LogAppendTime"}))
    # As large as a topic takes; what is added to it makes it larger, and compression smaller.
    large = "x" * (1_048_576 - 100)
    written = [*(str(number) for number in range(12)), large]
    producer = Producer({"bootstrap.servers": broker.bootstrap, "message.max.bytes": 2_000_000, "log_level": 0})
    for value in written:
        producer.produce(source, value, partition=0)
    assert producer.flush(WAIT_S) == 0

    def make_anew() -> None:
        delete_topic(broker, target)
        new_topic(broker, name=target)

    with when_published(broker, target, make_anew):
        where = ("--broker", broker.bootstrap, "--checkpoint", tmp_path)
        result = Command(broker.http)("job", "replay", source, target, "--rate", 5, *where)
    assert result.exit_code == 1, result.output
    assert f"topic '{target}' was deleted and created again since replay" in result.output + result.stderr
    assert "topic create" not in result.output
    assert values(broker, target).total() < len(written)

    delete_topic(broker, target)
    (tmp_path / f"{source}-to-{target}" / "job.json").unlink()
    told = replay(source, target, "--restart")
    assert any("starts again" in str(row["text"]) for row in told["note"])
    assert (told["replay"][0]["ending"], told["replay"][0]["published"]) == ("done", 13)
    assert values(broker, target) == Counter(written)
    stamps = {row.value: row.timestamp_ms for row in committed(broker.bootstrap, source)}
    assert {row.value: row.timestamp_ms for row in committed(broker.bootstrap, target)} == stamps

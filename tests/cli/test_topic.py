"""`goqueue topic`: through the command, against a real broker."""

from __future__ import annotations

import subprocess

import pytest

from tests.cli.command import INSTALLED, Command, installed_environ


def test_topic_is_created_listed_described_and_deleted(goqueue: Command, topic: str) -> None:
    assert goqueue.done("topic", "create", topic, "--partitions", 2) == f"created topic {topic} with 2 partitions\n"
    assert topic in goqueue.done("topic", "list")
    assert f"topic {topic}\n" in goqueue.done("topic", "describe", topic)
    assert goqueue.done("topic", "delete", topic, "--yes").startswith(f"deleted topic {topic}: 0 messages")
    assert topic not in goqueue.done("topic", "list")


def test_settings_are_taken_with_units_and_shown_as_numbers_with_their_meaning(goqueue: Command, topic: str) -> None:
    config = ["--config", "retention.ms=7d", "--config", "segment.bytes=1MiB", "--config", "cleanup.policy=compact"]
    (made,) = goqueue.rows("topic", "create", topic, *config, kind="topic")
    assert made["config"] == {"retention.ms": "604800000", "segment.bytes": "1048576", "cleanup.policy": "compact"}
    lines = goqueue.done("topic", "describe", topic).splitlines()
    (shown,) = [line.split() for line in lines if line.startswith("retention.ms")]
    assert shown == ["retention.ms", "604800000", "7d", "topic"]
    (shown,) = [line.split() for line in lines if line.startswith("retention.bytes")]
    assert shown[1:3] == ["-1", "unlimited"]


def test_describe_prints_all_details_as_rows(goqueue: Command, topic: str) -> None:
    goqueue.done("topic", "create", topic, "--partitions", 2, "--config", "retention.ms=1000")
    goqueue.done("produce", topic, "--partition", 1, stdin=b"one\ntwo\n")
    (described,) = goqueue.rows("topic", "describe", topic, kind="topic")
    assert (described["name"], described["partitions"], described["messages"]) == (topic, 2, 2)
    assert described["is_internal"] is False
    assert isinstance(described["size_bytes"], int)
    assert described["size_bytes"] > 0
    first, second = goqueue.rows("topic", "describe", topic, kind="partition")
    assert (first["partition"], first["start_offset"], first["end_offset"]) == (0, 0, 0)
    assert (second["partition"], second["start_offset"], second["end_offset"]) == (1, 0, 2)
    assert second["log_end_offset"] == second["last_stable_offset"] == 2
    assert second["size_bytes"] == described["size_bytes"]
    assert second["error"] is None
    settings = {row["name"]: row for row in goqueue.rows("topic", "describe", topic, kind="setting")}
    assert settings["retention.ms"] == {"topic": topic, "name": "retention.ms", "value": "1000", "source": "topic"}
    assert settings["cleanup.policy"]["source"] == "default"


def test_list_shows_sizes_on_request(goqueue: Command, topic: str) -> None:
    goqueue.done("produce", topic, stdin=b"one\ntwo\nthree\n")
    (row,) = [row for row in goqueue.rows("topic", "list", "--sizes", kind="topic") if row["name"] == topic]
    assert row["messages"] == 3
    (row,) = [row for row in goqueue.rows("topic", "list", kind="topic") if row["name"] == topic]
    assert "messages" not in row
    (line,) = [line.split() for line in goqueue.done("topic", "list", "--sizes").splitlines() if topic in line]
    assert line[:3] == [topic, "3", "3"]


@pytest.mark.parametrize("output_format", ["table", "json", "yaml"])
@pytest.mark.parametrize("arguments", [["list"], ["list", "--sizes"], ["describe"]])
def test_every_format_names_the_topic(goqueue: Command, topic: str, output_format: str, arguments: list[str]) -> None:
    goqueue.done("topic", "create", topic)
    named = [topic] if arguments == ["describe"] else []
    assert topic in goqueue.done("topic", *arguments, *named, "--format", output_format)


def test_alter_changes_only_named_settings(goqueue: Command, topic: str) -> None:
    goqueue.done("topic", "create", topic, "--config", "retention.ms=1h", "--config", "segment.bytes=1MiB")
    changes = ["--config", "retention.ms=2h", "--unset", "segment.bytes", "--partitions", 5]
    rows = goqueue.rows("topic", "alter", topic, *changes, kind="change")
    assert [(row["name"], row["old"], row["new"], row["is_done"]) for row in rows] == [
        ("retention.ms", "3600000", "7200000", True),
        ("segment.bytes", "1048576", None, True),
        ("partitions", "3", "5", True),
    ]
    (described,) = goqueue.rows("topic", "describe", topic, kind="topic")
    assert described["config"] == {"retention.ms": "7200000"}
    assert described["partitions"] == 5


def test_alter_shows_changes_without_making_them(goqueue: Command, topic: str) -> None:
    goqueue.done("topic", "create", topic)
    before = goqueue.rows("topic", "describe", topic, kind="topic")
    shown = goqueue.done("topic", "alter", topic, "--config", "retention.ms=1d", "--partitions", 9, "--dry-run")
    assert f"topic {topic} would be changed" in shown
    assert "604800000 (7d)" in shown
    assert "86400000 (1d)" in shown
    assert goqueue.rows("topic", "describe", topic, kind="topic") == before


def test_alter_says_if_nothing_is_to_be_changed(goqueue: Command, topic: str) -> None:
    goqueue.done("topic", "create", topic, "--config", "retention.ms=1h")
    arguments = ["--config", "retention.ms=3600000", "--partitions", 3, "--unset", "segment.ms"]
    assert goqueue.done("topic", "alter", topic, *arguments) == f"topic {topic} has these settings already\n"


@pytest.mark.parametrize("options", [["--dry-run"], []])
def test_alter_refuses_the_same_with_and_without_a_dry_run(goqueue: Command, topic: str, options: list[str]) -> None:
    goqueue.done("topic", "create", topic)
    reason = goqueue.refused("topic", "alter", topic, "--config", "retention.ms=soon", *options, exit_code=2)
    assert "retention.ms" in reason
    reason = goqueue.refused("topic", "alter", topic, "--config", "retention.mss=1", *options)
    assert reason.startswith("goqueue: 'retention.mss' is no setting of a topic; did you mean retention.ms?")
    assert reason.endswith("[invalid_topic_settings]\n")
    assert goqueue.refused("topic", "alter", topic, "--partitions", 2, *options).endswith("[invalid_partitions]\n")


def test_delete_asks_for_the_name_and_shows_the_size(goqueue: Command, topic: str) -> None:
    goqueue.done("produce", topic, stdin=b"one\ntwo\n")
    reason = goqueue.refused("topic", "delete", topic, stdin=b"yes\n")
    assert f"This permanently deletes topic {topic}: 2 messages (" in reason
    assert "in 3 partitions" in reason
    assert "nothing was deleted" in reason
    assert goqueue.refused("topic", "delete", topic, stdin=b"")
    assert goqueue.rows("topic", "describe", topic, kind="topic")
    result = goqueue("topic", "delete", topic, stdin=f"{topic}\n".encode())
    assert result.exit_code == 0
    assert result.stdout.startswith(f"deleted topic {topic}: 2 messages")
    assert goqueue.refused("topic", "describe", topic).endswith("[unknown_topic]\n")


def test_dry_run_of_delete_shows_the_size(goqueue: Command, topic: str) -> None:
    goqueue.done("produce", topic, stdin=b"one\ntwo\n")
    (row,) = goqueue.rows("topic", "delete", topic, "--dry-run", kind="deletion")
    assert (row["topic"], row["partitions"], row["messages"], row["is_done"]) == (topic, 3, 2, False)
    assert goqueue.done("topic", "delete", topic, "--dry-run").startswith(f"would delete topic {topic}: 2 messages")
    (row,) = goqueue.rows("topic", "delete", topic, "--yes", kind="deletion")
    assert row["is_done"] is True


def test_an_expected_failure_is_one_line_with_code(goqueue: Command, topic: str) -> None:
    goqueue.done("topic", "create", topic)
    reason = goqueue.refused("topic", "create", topic)
    assert reason.count("\n") == 1
    assert reason.startswith("goqueue: ")
    assert reason.endswith("[topic_exists]\n")
    for verb in (["describe"], ["alter", "--partitions", "9"], ["delete", "--yes"]):
        assert goqueue.refused("topic", *verb, "absent").endswith("[unknown_topic]\n")
    assert goqueue.refused("topic", "create", "a b").endswith("[invalid_topic_name]\n")
    assert goqueue.refused("topic", "create", "__mine").endswith("[topic_protected]\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["create"],
        ["create", "x", "--partitions", "0"],
        ["create", "x", "--config", "retention.ms"],
        ["create", "x", "--config", "=1"],
        ["create", "x", "--config", "retention.ms=1", "--config", "retention.ms=2"],
        ["create", "x", "--config", "retention.ms=7 years"],
        ["create", "x", "--server", "ftp://broker"],
        ["alter", "x"],
        ["alter", "x", "--config", "retention.ms=1", "--unset", "retention.ms"],
        ["list", "--format", "xml"],
        ["rename", "x"],
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2_without_a_request(arguments: list[str]) -> None:
    nobody = Command("http://127.0.0.1:1")
    assert nobody("topic", *arguments).exit_code == 2


@pytest.mark.parametrize(
    "arguments", [["topic", "list"], ["topic", "create", "x"], ["produce", "x"], ["consume", "x"]], ids=" ".join
)
def test_unreachable_broker_is_one_line_with_a_hint(arguments: list[str]) -> None:
    reason = Command("http://127.0.0.1:1").refused(*arguments)
    assert reason.count("\n") == 1
    assert "http://127.0.0.1:1" in reason
    assert "goqueue serve" in reason
    assert "--server" in reason
    assert "GOQUEUE_SERVER" in reason


def test_names_of_topics_are_completed(goqueue: Command, topic: str) -> None:
    goqueue.done("topic", "create", f"{topic}-one")
    goqueue.done("topic", "create", f"{topic}-two")
    for words in (["topic", "describe"], ["produce"], ["consume"]):
        assert completed(goqueue, *words, f"{topic}-") == [f"{topic}-one", f"{topic}-two"]
    server = goqueue.environ["GOQUEUE_SERVER"]
    nobody = Command("http://127.0.0.1:1")
    assert completed(nobody, "consume", "--server", server, f"{topic}-o") == [f"{topic}-one"]
    assert completed(nobody, "consume", f"{topic}-", attempts=1) == []


def completed(command: Command, *words: str, attempts: int = 10) -> list[str]:
    """Return what a shell is told when somebody presses the tab key behind these words, and again if it is nothing.

    Completion does not wait long for a broker, and a busy machine may keep it waiting.
    """
    asking = {"_GOQUEUE_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(["goqueue", *words])}
    environ = {**installed_environ(command.environ["GOQUEUE_SERVER"]), **asking, "COMP_CWORD": str(len(words))}
    told = ""
    while not told and attempts:
        told = subprocess.run([INSTALLED], env=environ, capture_output=True, text=True, timeout=60, check=True).stdout
        attempts -= 1
    return told.split()

"""`goqueue produce`: what is read becomes messages, and what fails is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from goqueue.testing.broker import Broker
from tests.cli.command import Command, Row

# Retention comes by every second, and messages that say they are of 1970 are older than what a topic keeps by default.
KEPT_FOR_EVER = ("--config", "retention.ms=-1")


def stored(goqueue: Command, topic: str) -> list[Row]:
    """Return all messages of a topic, with what matters to whoever published them."""
    lines = goqueue.done("consume", topic, "--format", "json").splitlines()
    parsed = [json.loads(line) for line in lines]
    return [{name: value for name, value in row.items() if name not in {"topic", "timestamp"}} for row in parsed]


def values(goqueue: Command, topic: str) -> list[object]:
    return [row["value"] for row in stored(goqueue, topic)]


def test_each_line_of_standard_input_is_a_message(goqueue: Command, topic: str) -> None:
    said = goqueue.done("produce", topic, stdin=b"one\n\n three \r\nlast")
    assert values(goqueue, topic) == ["one", "", " three \r", "last"]
    assert said.startswith(f"published to {topic}: 4 messages, 15 B in 0.")


def test_files_are_read_one_after_the_other_and_a_dash_is_standard_input(
    goqueue: Command, topic: str, tmp_path: Path
) -> None:
    (tmp_path / "a").write_text("one\ntwo")
    (tmp_path / "b").write_text("four\n")
    goqueue.done("produce", topic, tmp_path / "a", "-", tmp_path / "b", "--partition", 0, stdin=b"three\n")
    assert values(goqueue, topic) == ["one", "two", "three", "four"]


def test_key_headers_and_partition_are_those_of_all_messages(goqueue: Command, topic: str) -> None:
    options = ["--key", "k", "--header", "a=1", "--header", "b==", "--header", "a=2", "--partition", 2]
    goqueue.done("produce", topic, *options, stdin=b"one\ntwo\n")
    first, second = stored(goqueue, topic)
    assert first == {
        "partition": 2,
        "offset": 0,
        "key": "k",
        "value": "one",
        "headers": {"a": "2", "b": "="},
        "headers_base64": [["a", "MQ=="], ["b", "PQ=="], ["a", "Mg=="]],
    }
    assert (second["offset"], second["value"], second["headers"]) == (1, "two", first["headers"])


def test_a_separator_ends_the_key(goqueue: Command, topic: str) -> None:
    goqueue.done("produce", topic, "--key-separator", r"\t", stdin=b"k1\tone\nk2\ttwo\tmore\n\t\n")
    assert sorted((str(row["key"]), row["value"]) for row in stored(goqueue, topic)) == [
        ("", ""),
        ("k1", "one"),
        ("k2", "two\tmore"),
    ]


def test_a_line_without_its_separator_is_named_and_the_others_are_sent(goqueue: Command, topic: str) -> None:
    result = goqueue("produce", topic, "--key-separator", ":", stdin=b"a:1\nb\nc:3\n")
    assert result.exit_code == 1
    assert result.stderr == "standard input:2: there is no ':' in 'b' (it ends the key) [invalid]\n"
    assert "2 messages" in result.stdout
    assert "; 1 failed" in result.stdout
    assert sorted(map(str, values(goqueue, topic))) == ["1", "3"]


def test_a_whole_file_is_one_message(goqueue: Command, topic: str, tmp_path: Path) -> None:
    picture = bytes(range(256))
    (tmp_path / "picture").write_bytes(picture)
    (tmp_path / "text").write_text("two\nlines\n")
    goqueue.done("produce", topic, "--whole-file", tmp_path / "picture", tmp_path / "text", "--partition", 0)
    first, second = stored(goqueue, topic)
    assert first["value_base64"] == "AAECAwQFBgcICQ" + str(first["value_base64"])[14:]
    assert second["value"] == "two\nlines\n"
    assert goqueue("consume", topic, "--count", 1).stdout_bytes == picture + b"\n"


def test_lines_keep_every_byte(goqueue: Command, topic: str) -> None:
    lines = [bytes([byte]) * 3 for byte in range(256) if byte != 10]
    goqueue.done("produce", topic, "--partition", 1, stdin=b"\n".join(lines) + b"\n")
    assert goqueue("consume", topic).stdout_bytes.split(b"\n") == [*lines, b""]


def test_json_lines_are_messages_of_the_http_interface(goqueue: Command, topic: str) -> None:
    messages: list[Row] = [
        {"key": "k", "value": {"a": [1, 2.5, None]}, "headers": {"h": "x"}, "partition": 0, "timestamp": 1000},
        {"value_base64": "AP8=", "key_base64": "/w==", "partition": 0},
        {"key": "k", "value": None, "partition": 0, "headers": [{"name": "h", "value_base64": "AA=="}]},
    ]
    lines = "".join(json.dumps(message) + "\n" for message in messages)
    goqueue.done("topic", "create", topic, *KEPT_FOR_EVER)
    goqueue.done("produce", topic, "--json-lines", stdin=lines.encode())
    first, second, third = stored(goqueue, topic)
    assert json.loads(str(first["value"])) == messages[0]["value"]
    assert (second["value_base64"], second["key_base64"]) == ("AP8=", "/w==")
    assert (third["key"], third["value"], third["headers"]) == ("k", None, {"h": "\0"})


def test_json_of_consume_republishes_messages_byte_for_byte(goqueue: Command, topic: str) -> None:
    rows: list[Row] = [
        {"key": "k1", "value": "plain", "headers": {"a": "1"}},
        {"key_base64": "/w==", "value_base64": "AP8K", "headers": [{"name": "h", "value_base64": "gA=="}]},
        {"key": None, "value": None, "headers": [{"name": "a", "value": "1"}, {"name": "a", "value": None}]},
        {"key": "", "value": "", "headers": {"": ""}},
        {"value": 'sn\u00f6\u2603\u0000\n\t"\\'},
    ]
    given = [{**row, "partition": number % 3, "timestamp": 1000 + number} for number, row in enumerate(rows)]
    for name in (topic, f"{topic}-copy"):
        goqueue.done("topic", "create", name, *KEPT_FOR_EVER)
    goqueue.done("produce", topic, "--json-lines", stdin=b"".join(json.dumps(row).encode() + b"\n" for row in given))
    original = goqueue("consume", topic, "--format", "json").stdout_bytes
    goqueue.done("produce", f"{topic}-copy", "--json-lines", stdin=original)
    copy = goqueue("consume", f"{topic}-copy", "--format", "json").stdout_bytes
    assert copy == original.replace(f'"{topic}"'.encode(), f'"{topic}-copy"'.encode())
    assert original.count(b"\n") == len(rows)


def test_each_line_that_the_broker_refuses_is_named_though_it_refuses_them_together(
    goqueue: Command, topic: str
) -> None:
    good = [{"value": str(number), "partition": 0} for number in range(50)]
    lines = [json.dumps(message) for message in good]
    lines[7] = "{"
    lines[11] = '{"value": "x", "colour": "red"}'
    lines[30] = '{"value": "x", "partition": 99}'
    lines[40] = '{"value": "x", "delay": "5s"}'
    lines[41] = "[1]"
    result = goqueue("produce", topic, "--json-lines", stdin="\n".join(lines).encode())
    assert result.exit_code == 1
    named = sorted(int(line.split(":")[1]) for line in result.stderr.splitlines())
    assert named == [8, 12, 31, 41, 42]
    assert "45 messages" in result.stdout
    assert values(goqueue, topic) == [row["value"] for number, row in enumerate(good) if number + 1 not in named]


def test_failures_are_rows_with_their_place_and_code(goqueue: Command, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "orders.jsonl"
    file.write_text('{"value": "1"}\n{"value": "2", "partition": 99}\n')
    (failure,) = goqueue.rows("produce", topic, file, "--json-lines", kind="failure", exit_code=1)
    assert (failure["source"], failure["line"], failure["code"]) == (str(file), 2, "unknown_partition")
    (summary,) = goqueue.rows("produce", topic, file, "--json-lines", kind="summary", exit_code=1)
    assert isinstance(summary.pop("seconds"), float)
    assert summary == {"topic": topic, "messages": 1, "bytes": 14, "failed": 1, "topic_created": False}


def test_many_failures_are_counted_and_the_first_ones_named(goqueue: Command, topic: str) -> None:
    result = goqueue("produce", topic, "--partition", 99, stdin=b"x\n" * 60)
    assert result.exit_code == 1
    *named, last = result.stderr.splitlines()
    assert [line.split(":")[1] for line in named] == [str(number) for number in range(1, 21)]
    assert last == "... and 40 more failures"
    assert "0 messages" in result.stdout


@pytest.mark.parametrize("acks", ["all", "leader", "none"])
def test_messages_arrive_with_any_acks(goqueue: Command, topic: str, acks: str) -> None:
    goqueue.done("produce", topic, "--acks", acks, stdin=b"one\n")
    assert goqueue.done("consume", topic, "--follow", "--count", 1) == "one\n"


@pytest.mark.parametrize("output_format", ["table", "json", "yaml"])
def test_every_format_tells_the_summary(goqueue: Command, topic: str, output_format: str) -> None:
    said = goqueue.done("produce", topic, "--format", output_format, stdin=b"one\ntwo\n")
    assert topic in said
    assert "messages" in said


def test_created_topic_is_reported(goqueue: Command, topic: str) -> None:
    name = f"{topic}-new"
    assert goqueue.done("produce", name, stdin=b"one\n").endswith("; the topic did not exist and was created\n")
    assert "was created" not in goqueue.done("produce", name, stdin=b"two\n")
    for is_created in (True, False):
        (summary,) = goqueue.rows("produce", f"{name}er", kind="summary", stdin=b"one\n")
        assert summary["topic_created"] is is_created


def test_a_topic_that_may_not_be_made_on_demand_is_an_error(topic: str) -> None:
    with Broker(auto_create_topics=False) as broker:
        result = Command(broker.http)("produce", topic, stdin=b"one\ntwo\n")
    assert result.exit_code == 1
    lines = result.stderr.splitlines()
    assert lines[0] == "standard input:1: not published, and neither were later lines"
    assert lines[1].startswith("goqueue: ")
    assert lines[1].endswith("[unknown_topic]")


def test_lines_before_an_unreadable_file_are_published(goqueue: Command, topic: str, tmp_path: Path) -> None:
    (tmp_path / "good").write_text("one\ntwo\n")
    unreadable = Path("/proc/self/mem")  # also for those who may read everything
    result = goqueue("produce", topic, tmp_path / "good", unreadable)
    assert result.exit_code == 1
    assert "2 messages" in result.stdout
    assert result.stderr.startswith("goqueue: ")
    assert "Input/output error" in result.stderr
    assert values(goqueue, topic) == ["one", "two"]


def test_a_name_that_no_topic_can_have_is_refused_before_anything_is_read(goqueue: Command) -> None:
    assert goqueue.refused("produce", "a b").endswith("[invalid_topic_name]\n")


@pytest.mark.parametrize(
    "options",
    [
        ["--header", "x"],
        ["--partition", "-1"],
        ["--json-lines", "--whole-file"],
        ["--json-lines", "--key", "k"],
        ["--key", "k", "--key-separator", ":"],
        ["--key-separator", ""],
        ["--acks", "some"],
        ["no-such-file"],
    ],
    ids=" ".join,
)
def test_options_that_do_not_go_together_are_a_mistake_in_the_call(options: list[str]) -> None:
    assert Command("http://127.0.0.1:1")("produce", "topic", *options).exit_code == 2

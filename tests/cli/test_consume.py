"""`goqueue consume`: what is printed, from where, up to where, and in which order."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from goqueue.testing.broker import Broker
from tests.cli.command import Command

START_MS = 1_700_000_000_000


@pytest.fixture
def filled(goqueue: Command, topic: str) -> str:
    """A topic of three partitions with twelve messages, a second apart, dealt out in turn; old, and kept for ever."""
    goqueue.done("topic", "create", topic, "--config", "retention.ms=-1")
    rows = [
        {"key": f"k{number}", "value": f"v{number}", "partition": number % 3, "timestamp": START_MS + 1000 * number}
        for number in range(12)
    ]
    goqueue.done("produce", topic, "--json-lines", stdin=b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    return topic


def numbers(printed: str) -> list[int]:
    return [int(line.removeprefix("v")) for line in printed.splitlines()]


def test_all_partitions_are_printed_in_order_of_time(goqueue: Command, filled: str) -> None:
    assert numbers(goqueue.done("consume", filled)) == list(range(12))


def test_one_partition_is_printed_alone(goqueue: Command, filled: str) -> None:
    assert numbers(goqueue.done("consume", filled, "--partition", 1)) == [1, 4, 7, 10]
    assert goqueue.refused("consume", filled, "--partition", 3).endswith("[unknown_partition]\n")


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("beginning", list(range(12))),
        ("end", []),
        ("0", list(range(12))),
        ("2", list(range(6, 12))),
        ("99", []),
        ("-1", [9, 10, 11]),
        ("-99", list(range(12))),
        (str(START_MS), []),
        ("2023-11-14T22:13:25Z", list(range(5, 12))),
        ("2023-11-14T23:13:25.500+01:00", list(range(6, 12))),
        ("2023-11-01", list(range(12))),
        ("2099-01-01", []),
        ("10m ago", []),
        ("100000d ago", list(range(12))),
    ],
)
def test_from_option_sets_the_start_position(goqueue: Command, filled: str, start: str, expected: list[int]) -> None:
    assert numbers(goqueue.done("consume", filled, "--from", start)) == expected


def test_a_count_ends_it(goqueue: Command, filled: str) -> None:
    assert numbers(goqueue.done("consume", filled, "--count", 5)) == [0, 1, 2, 3, 4]
    assert numbers(goqueue.done("consume", filled, "-n", 5, "--from", "3")) == [9, 10, 11]


def test_following_goes_on_until_the_count_is_reached(goqueue: Command, filled: str) -> None:
    assert numbers(goqueue.done("consume", filled, "--follow", "--count", 12)) == list(range(12))


def test_keys_are_printed_in_front_if_asked(goqueue: Command, filled: str) -> None:
    assert goqueue.done("consume", filled, "--key", "--count", 2) == "k0\tv0\nk1\tv1\n"


def test_an_empty_topic_prints_nothing(goqueue: Command, topic: str) -> None:
    goqueue.done("topic", "create", topic)
    assert goqueue.done("consume", topic) == ""


def test_json_has_everything(goqueue: Command, filled: str) -> None:
    row = json.loads(goqueue.done("consume", filled, "--count", 1, "--format", "json"))
    assert row == {
        "topic": filled,
        "partition": 0,
        "offset": 0,
        "timestamp": START_MS,
        "key": "k0",
        "value": "v0",
        "headers": {},
    }


def test_yaml_has_the_same_as_json(goqueue: Command, filled: str) -> None:
    rows = yaml.safe_load(goqueue.done("consume", filled, "--format", "yaml"))
    expected = goqueue.done("consume", filled, "--format", "json").splitlines()
    assert rows == [json.loads(line) for line in expected]


def test_a_table_has_a_heading_and_a_line_for_each_message(goqueue: Command, filled: str) -> None:
    heading, *lines = goqueue.done("consume", filled, "--format", "table").splitlines()
    assert heading.split() == ["partition", "offset", "time", "key", "value"]
    assert len(lines) == 12
    partition, offset, day, _, key, value = lines[4].split()
    assert (partition, offset, key, value) == ("1", "1", "k4", "v4")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", day)


def test_a_table_lets_no_message_control_the_terminal(goqueue: Command, topic: str) -> None:
    goqueue.done("produce", topic, "--whole-file", stdin=b"\x1b[2Jred\n\xff\xc2\x9b")
    assert goqueue.done("consume", topic, "--format", "table").splitlines()[1].endswith(r"\x1b[2Jred\x0a\xff\x9b")


def test_a_null_value_is_an_empty_line_and_null_in_json(goqueue: Command, topic: str) -> None:
    goqueue.done("produce", topic, "--json-lines", stdin=b'{"key": "k"}\n')
    assert goqueue.done("consume", topic) == "\n"
    assert json.loads(goqueue.done("consume", topic, "--format", "json"))["value"] is None
    assert goqueue.done("consume", topic, "--format", "table").splitlines()[1].endswith("-")


def test_offsets_that_are_gone_are_left_out(topic: str) -> None:
    with Broker() as broker:
        goqueue = Command(broker.http)
        small = ["--config", "segment.bytes=1KiB", "--config", "retention.ms=1h"]
        goqueue.done("topic", "create", topic, "--partitions", 1, *small)
        for number in range(40):
            goqueue.done("produce", topic, "--partition", 0, stdin=b"%d " % number + b"x" * 200 + b"\n")
        broker.advance(2 * 3600)
        (partition,) = goqueue.rows("topic", "describe", topic, kind="partition")
        first = int(str(partition["start_offset"]))
        assert first > 0
        lines = goqueue.done("consume", topic, "--from", "0").splitlines()
        assert [int(line.split()[0]) for line in lines] == list(range(first, 40))


def test_an_unknown_topic_is_one_line(goqueue: Command, topic: str) -> None:
    reason = goqueue.refused("consume", topic)
    assert reason.count("\n") == 1
    assert reason.endswith("[unknown_topic]\n")


@pytest.mark.parametrize("start", ["", "soon", "10 years ago", "2023-13-01", "m ago", "1e3"])
def test_invalid_start_position_is_wrong_usage(start: str) -> None:
    result = Command("http://127.0.0.1:1")("consume", "topic", "--from", start)
    assert result.exit_code == 2
    assert "--from" in result.stderr

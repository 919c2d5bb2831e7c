"""`goqueue group`: what is shown of groups, and how their offsets are moved and deleted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from goqueue.client import Client, Membership, PartitionOffset, groups
from goqueue.model.partitioners import name_partition
from goqueue.testing.broker import Broker
from tests.cli.command import Command

VERBS = ["list", "describe", "explain", "seek", "delete"]


@pytest.fixture
def client(goqueue_session_broker: Broker) -> Iterator[Client]:
    with Client(goqueue_session_broker.http) as connected:
        yield connected


@pytest.fixture
def group(goqueue: Command, client: Client, topic: str) -> str:
    """A group of the same name as its topic, with two partitions of ten messages, of which it has read some."""
    goqueue.done("topic", "create", topic, "--partitions", 2)
    for partition in range(2):
        lines = "".join(f"{number}\n" for number in range(10)).encode()
        goqueue.done("produce", topic, "--partition", partition, stdin=lines)
    client.send(groups.commit(topic, [PartitionOffset(topic, 0, 4), PartitionOffset(topic, 1, 10)]))
    return topic


@pytest.fixture
def member(client: Client, group: str) -> Membership:
    """A member of the group."""
    return client.send(groups.join(group, [group], client_id="worker"))


def committed(client: Client, group: str) -> list[int | None]:
    """Return the committed offsets."""
    return [each.offset for each in client.send(groups.offsets(group)).offsets]


def test_groups_are_listed_with_state_and_lag(goqueue: Command, group: str) -> None:
    (row,) = [row for row in goqueue.rows("group", "list", kind="group") if row["name"] == group]
    assert row == {"name": group, "group_kind": "offsets", "state": "empty", "members": 0, "lag": 6}
    (line,) = [line.split() for line in goqueue.done("group", "list").splitlines() if line.startswith(group)]
    assert line == [group, "offsets", "empty", "0", "6"]


def test_describe_tells_owner_lag_last_commit_and_the_last_rebalance(
    goqueue: Command, group: str, member: Membership
) -> None:
    text = goqueue.done("group", "describe", group)
    assert f"because member {member.member_id} joined" in text
    assert "6 messages, the oldest for" in text
    (line,) = [line.split() for line in text.splitlines() if line.startswith(f"{group}-0")]
    assert line[1:4] == ["4", "10", "6"]
    assert line[-1] == "worker"
    (row,) = goqueue.rows("group", "describe", group, kind="group")
    assert (row["name"], row["state"], row["lag"]) == (group, "stable", 6)
    (shown,) = goqueue.rows("group", "describe", group, kind="member")
    assert (shown["group"], shown["member_id"], shown["client_id"]) == (group, member.member_id, "worker")
    rows = goqueue.rows("group", "describe", group, kind="offset")
    assert [(row["partition"], row["offset"], row["lag"]) for row in rows] == [(0, 4, 6), (1, 10, 0)]
    (rebalance,) = goqueue.rows("group", "describe", group, kind="rebalance")
    assert (rebalance["reason"], rebalance["moves"]) == (f"member {member.member_id} joined", 0)


def test_explain_describes_a_group_in_sentences(goqueue: Command, group: str, member: Membership) -> None:
    text = goqueue.done("group", "explain", group)
    assert f"Group {group} is stable: 1 member in generation 1, reading {group}" in text
    assert f"worker ({member.member_id} on 127.0.0.1) reads {group}-0, {group}-1." in text
    assert "6 messages in 1 partition are unread" in text
    assert "1 rebalance so far, which moved 0 partitions" in text
    rows = goqueue.rows("group", "explain", group, kind="sentence")
    assert {row["about"] for row in rows} == {"state", "member", "lag", "rebalance"}


@pytest.mark.parametrize("output_format", ["table", "json", "yaml"])
@pytest.mark.parametrize("verb", ["list", "describe", "explain"])
def test_every_format_names_the_group(goqueue: Command, group: str, verb: str, output_format: str) -> None:
    named = [] if verb == "list" else [group]
    assert group in goqueue.done("group", verb, *named, "--format", output_format)


def test_dry_run_of_seek_shows_moves_and_changes_nothing(goqueue: Command, client: Client, group: str) -> None:
    rows = goqueue.rows("group", "seek", group, "--to", "offset", "--offset", 6, "--dry-run", kind="move")
    assert [(row["partition"], row["from"], row["to"], row["skipped"], row["read_again"]) for row in rows] == [
        (0, 4, 6, 2, 0),
        (1, 10, 6, 0, 4),
    ]
    assert {row["is_done"] for row in rows} == {False}
    text = goqueue.done("group", "seek", group, "--to", "start", "--dry-run")
    assert text.startswith(f"would move 2 offsets of group {group}")
    (line,) = [line.split() for line in text.splitlines() if line.startswith(f"{group}-1")]
    assert line == [f"{group}-1", "10", "0", "0", "10", "10"]
    assert committed(client, group) == [4, 10]


def test_seek_asks_for_the_name_of_the_group_with_a_preview(goqueue: Command, client: Client, group: str) -> None:
    reason = goqueue.refused("group", "seek", group, "--to", "end", stdin=b"yes\n")
    assert f"This moves 2 offsets of group {group}:" in reason
    assert "read again" in reason
    assert "nothing was moved" in reason
    assert goqueue.refused("group", "seek", group, "--to", "end", stdin=b"")
    assert committed(client, group) == [4, 10]
    result = goqueue("group", "seek", group, "--to", "end", stdin=f"{group}\n".encode())
    assert result.exit_code == 0
    assert result.stdout.startswith(f"moved 2 offsets of group {group}")
    assert committed(client, group) == [10, 10]


@pytest.mark.parametrize(
    ("options", "after"),
    [
        (["--to", "start"], [0, 0]),
        (["--to", "end"], [10, 10]),
        (["--to", "offset", "--offset", "7"], [7, 7]),
        (["--to", "offset", "--offset", "7", "--topic", "{group}", "--partition", "1"], [4, 7]),
        (["--to", "time", "--time", "1h ago"], [0, 0]),
        (["--to", "time", "--time", "2200-01-01"], [10, 10]),
        (["--to", "group", "--from-group", "{group}-other"], [4, 3]),
    ],
)
def test_seek_moves_to_each_kind_of_position(
    goqueue: Command, client: Client, group: str, options: list[str], after: list[int]
) -> None:
    client.send(groups.commit(f"{group}-other", [PartitionOffset(group, 1, 3)]))
    named = [option.format(group=group) for option in options]
    rows = goqueue.rows("group", "seek", group, *named, "--yes", kind="move")
    assert all(row["is_done"] for row in rows)
    assert committed(client, group) == after


def test_seek_gives_offsets_to_a_group_that_has_none(goqueue: Command, client: Client, group: str) -> None:
    name = f"{group}-new"
    assert goqueue.refused("group", "seek", name, "--to", "end", "--yes").endswith("[unknown_group]\n")
    goqueue.done("group", "seek", name, "--to", "end", "--topic", group, "--yes")
    assert committed(client, name) == [10, 10]


def test_seek_reports_partitions_that_it_cannot_move_and_exits_with_1(
    goqueue: Command, client: Client, group: str
) -> None:
    arguments = ["--to", "start", "--topic", group, "--partition", 0, "--partition", 9, "--yes"]
    result = goqueue("group", "seek", group, *arguments)
    assert result.exit_code == 1
    assert "has no partition 9" in result.stdout
    assert committed(client, group) == [0, 10]


def test_groups_with_members_are_not_moved_or_deleted(
    goqueue: Command, client: Client, group: str, member: Membership
) -> None:
    for arguments in (["seek", group, "--to", "start"], ["delete", group]):
        for answer in ([], ["--yes"]):
            reason = goqueue.refused("group", *arguments, *answer)
            assert reason.count("\n") == 1, "nobody is asked for what cannot be done"
            assert "has members: worker" in reason
            assert reason.endswith("[group_not_empty]\n")
    goqueue.done("group", "seek", group, "--to", "start", "--dry-run")
    assert committed(client, group) == [4, 10]
    client.send(groups.leave(group, member.member_id))
    goqueue.done("group", "delete", group, "--yes")


def test_delete_of_a_group_asks_for_its_name_and_shows_its_offsets(goqueue: Command, group: str) -> None:
    what = f"group {group}: 2 offsets, 6 messages unread"
    assert goqueue.done("group", "delete", group, "--dry-run") == f"would delete {what}\n"
    reason = goqueue.refused("group", "delete", group, stdin=b"no\n")
    assert f"This permanently deletes {what}." in reason
    assert "nothing was deleted" in reason
    result = goqueue("group", "delete", group, stdin=f"{group}\n".encode())
    assert result.stdout == f"deleted {what}\n"
    assert goqueue.refused("group", "describe", group).endswith("[unknown_group]\n")
    assert group not in {row["name"] for row in goqueue.rows("group", "list", kind="group")}


@pytest.mark.parametrize(
    "arguments",
    [
        ["describe"],
        ["seek", "g"],
        ["seek", "g", "--to", "middle"],
        ["seek", "g", "--to", "offset"],
        ["seek", "g", "--to", "offset", "--offset", "-1"],
        ["seek", "g", "--to", "time"],
        ["seek", "g", "--to", "time", "--time", "soon"],
        ["seek", "g", "--to", "time", "--time", "1234"],
        ["seek", "g", "--to", "group"],
        ["seek", "g", "--to", "start", "--offset", "3"],
        ["seek", "g", "--to", "end", "--from-group", "h"],
        ["seek", "g", "--to", "start", "--partition", "0"],
        ["seek", "g", "--to", "start", "--topic", "a", "--topic", "b", "--partition", "0"],
        ["list", "--format", "xml"],
        ["rename", "g"],
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2_without_a_request(arguments: list[str]) -> None:
    assert Command("http://127.0.0.1:1")("group", *arguments).exit_code == 2


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_takes_the_address_of_a_broker_and_a_format(verb: str) -> None:
    text = Command("http://127.0.0.1:1").done("group", verb, "--help")
    assert "--server" in text
    assert "--format" in text


@pytest.mark.parametrize("verb", ["describe", "explain", "delete"])
def test_a_group_that_is_not_there_is_one_line(goqueue: Command, verb: str) -> None:
    reason = goqueue.refused("group", verb, "absent")
    assert (reason.count("\n"), reason.endswith("[unknown_group]\n")) == (1, True)


def test_the_brokers_own_topics_are_listed_on_request(goqueue: Command, group: str) -> None:
    own = {row["name"] for row in goqueue.rows("topic", "list", kind="topic")}
    assert group in own
    assert not any(str(name).startswith("__") for name in own)
    everything = {row["name"] for row in goqueue.rows("topic", "list", "--internal", kind="topic")}
    assert "__consumer_offsets" in everything


def test_incomplete_list_of_groups_is_reported(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path) as broker:
        goqueue = Command(broker.http)
        goqueue.done("topic", "create", "orders")
        with Client(broker.http) as client:
            for group in ("lost", "seen"):
                client.send(groups.commit(group, [PartitionOffset("orders", 0, 1)]))
        assert goqueue("group", "list").stderr == ""
        broker.stop()
        place = name_partition("lost", 50)
        (log,) = (tmp_path / f"__consumer_offsets-{place}").glob("*.log")
        data = bytearray(log.read_bytes())
        data[-1] ^= 1
        log.write_bytes(data)
        broker.start()
        result = Command(broker.http)("group", "list", "--format", "json")
        assert result.exit_code == 0
        assert [json.loads(line)["name"] for line in result.stdout.splitlines()] == ["seen"]
        assert result.stderr.startswith("there may be more groups: ")

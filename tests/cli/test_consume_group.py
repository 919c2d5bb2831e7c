"""`goqueue consume --group`: members that are processes, killed, stopped and cut off from their broker."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from goqueue.client import Client, GroupMember, NewMessage, groups, messages, topics
from goqueue.errors import UnknownGroup
from goqueue.testing.broker import Broker
from tests.cli.command import INSTALLED, Command, installed_environ

DEADLINE_S = 180.0


class Reading:
    """A member that is a process; what it prints is collected while it runs."""

    def __init__(self, server: str, *arguments: object) -> None:
        command = [INSTALLED, "consume", *map(str, arguments)]
        self.process = subprocess.Popen(
            command, env=installed_environ(server), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.lines: list[str] = []
        self.said: list[str] = []
        self.moved = threading.Event()
        streams = ((self.process.stdout, self.lines), (self.process.stderr, self.said))
        self._collectors = [threading.Thread(target=self._collect, args=each) for each in streams]
        for each in self._collectors:
            each.start()

    def _collect(self, stream: Iterator[bytes], found: list[str]) -> None:
        for line in stream:
            found.append(line.decode().rstrip("\n"))
            self.moved.set()

    def until(self, fact: Callable[[], bool], what: str) -> None:
        """Wait for a fact that what it prints makes true."""
        deadline = time.monotonic() + DEADLINE_S
        while not fact():
            assert time.monotonic() < deadline, f"it did not come true that {what}: {self.said}"
            self.moved.wait(0.1)
            self.moved.clear()

    def end(self, number: int | None = None) -> int:
        """Send a signal, if any, and return the exit code when it has ended and all it printed is known."""
        if number is not None:
            self.process.send_signal(number)
        try:
            code = self.process.wait(DEADLINE_S)
        finally:
            self.process.kill()
            for each in self._collectors:
                each.join()
            for stream in (self.process.stdout, self.process.stderr):
                assert stream is not None
                stream.close()
        return code


@contextmanager
def reading(server: str, *arguments: object) -> Iterator[Reading]:
    """Run a member; whatever happens, it has ended afterwards."""
    member = Reading(server, *arguments)
    try:
        yield member
    finally:
        member.process.kill()
        member.end()


def members_of(client: Client, group: str) -> tuple[GroupMember, ...]:
    """Return the members of a group, of which there are none before the first has joined."""
    try:
        return client.send(groups.describe(group)).members
    except UnknownGroup:
        return ()


def offsets(client: Client, group: str) -> dict[int, int | None]:
    return {each.partition: each.offset for each in client.send(groups.offsets(group)).offsets}


def fill(client: Client, topic: str, numbers: range, partitions: int) -> None:
    batch = [NewMessage(f"{number}", partition=number % partitions) for number in numbers]
    client.send(messages.publish(topic, batch))


def test_a_member_prints_up_to_its_count_and_leaves_the_rest_to_the_next(goqueue: Command, topic: str) -> None:
    goqueue.done("topic", "create", topic, "--partitions", 1)
    goqueue.done("produce", topic, stdin=b"a\nb\nc\n")
    first = goqueue("consume", topic, "--group", topic, "--count", 2)
    assert (first.exit_code, first.stdout, first.stderr) == (0, "a\nb\n", f"reads {topic}-0\n")
    assert goqueue.done("consume", topic, "--group", topic, "--count", 1) == "c\n"
    (group,) = [row for row in goqueue.rows("group", "list", kind="group") if row["name"] == topic]
    assert (group["members"], group["lag"]) == (0, 0)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_commits_what_was_printed_and_leaves(
    goqueue_session_broker: Broker, topic: str, number: int, code: int
) -> None:
    server = goqueue_session_broker.http
    with Client(server) as client:
        client.send(topics.create(topic, partitions=1))
        fill(client, topic, range(3), 1)
        with reading(server, topic, "--group", topic) as member:
            member.until(lambda: len(member.lines) == 3, "all is printed")
            assert member.end(number) == code
        assert member.lines == ["0", "1", "2"]
        assert member.said == [f"reads {topic}-0"]
        assert offsets(client, topic) == {0: 3}
        assert members_of(client, topic) == ()


@contextmanager
def unread(server: str, *arguments: object, unbuffered: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a member whose output nobody reads."""
    command = [INSTALLED, "consume", *map(str, arguments)]
    environ = {**installed_environ(server), "PYTHONUNBUFFERED": unbuffered}
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def until(fact: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not fact():
        assert time.monotonic() < deadline


@pytest.mark.parametrize("unbuffered", ["1", ""])
def test_member_with_blocked_output_keeps_its_membership_and_stops_at_a_signal(topic: str, unbuffered: str) -> None:
    with Broker() as broker, Client(broker.http) as client:
        client.send(topics.create(topic, partitions=1))
        client.send(messages.publish(topic, [NewMessage("x" * 1000, partition=0) for _ in range(500)]))
        with unread(broker.http, topic, "--group", topic, unbuffered=unbuffered) as member:
            assert member.stdout is not None
            # More than a pipe holds: it is in the middle of printing from now on.
            assert member.stdout.read(1) == b"x"
            (joined,) = members_of(client, topic)
            for _ in range(3):
                broker.advance(20)
                until(lambda: (members_of(client, topic)[0].silent_seconds or 0) < 5)
            assert [each.member_id for each in members_of(client, topic)] == [joined.member_id]
            member.send_signal(signal.SIGINT)
            assert member.wait(DEADLINE_S) == 130
        assert members_of(client, topic) == ()
        # What was not printed as a whole is left to the next member.
        assert offsets(client, topic) == {0: 0}


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_is_obeyed_soon_when_the_broker_is_gone(topic: str, number: int, code: int) -> None:
    with Broker() as broker, Client(broker.http) as client:
        client.send(topics.create(topic, partitions=1))
        fill(client, topic, range(1), 1)
        with reading(broker.http, topic, "--group", topic) as member:
            member.until(lambda: len(member.lines) == 1, "it is printed")
            broker.stop()
            began = time.monotonic()
            assert member.end(number) == code
            assert time.monotonic() - began < 20
        (said,) = member.said[1:]
        assert said.startswith("the last printed messages are not committed: nobody answers")


def test_options_that_contradict_a_group_are_refused(goqueue: Command, topic: str) -> None:
    assert "--partition" in goqueue.refused("consume", topic, "--group", "g", "--partition", 0, exit_code=2)
    assert "group seek" in goqueue.refused("consume", topic, "--group", "g", "--from", 17, exit_code=2)
    assert goqueue.refused("consume", topic, "--group", "g").endswith("[unknown_topic]\n")


def test_uncommitted_messages_are_printed_only_if_asked_for(
    goqueue: Command, goqueue_session_broker: Broker, topic: str
) -> None:
    with Client(goqueue_session_broker.http) as client:
        client.send(topics.create(topic, partitions=1))
        fill(client, topic, range(1), 1)
        with client.transaction(topic) as transaction:
            transaction.publish(topic, [NewMessage("open", partition=0)])
            shown = ("--isolation", "read-uncommitted")
            assert goqueue.done("consume", topic) == "0\n"
            assert goqueue.done("consume", topic, "--isolation", "read-committed") == "0\n"
            assert goqueue.done("consume", topic, "--count", 2, "--follow", *shown) == "0\nopen\n"
            assert goqueue.done("consume", topic, "--group", topic, "--count", 2, *shown) == "0\nopen\n"
            assert goqueue.done("consume", topic, "--group", f"{topic}-2", "--count", 1) == "0\n"


def test_three_members_share_a_topic_through_a_kill_and_a_restart_and_lose_nothing(topic: str) -> None:
    with Broker() as first:
        port = int(first.http.rpartition(":")[2])
    with Broker(http_port=port) as broker, Client(broker.http) as client, ExitStack() as stack:
        client.send(topics.create(topic, partitions=6))
        options = (topic, "--group", topic, "--format", "json")
        members = [stack.enter_context(reading(broker.http, *options)) for _ in range(3)]

        def printed(*some: Reading) -> Counter[str]:
            return Counter(json.loads(line)["value"] for member in some for line in list(member.lines))

        def has(count: int) -> Callable[[], bool]:
            return lambda: len(printed(*members)) >= count

        def shared(count: int) -> Callable[[], bool]:
            return lambda: [len(each.assigned) for each in members_of(client, topic)] == [6 // count] * count

        killed = members[0]
        killed.until(shared(3), "each has two partitions")
        fill(client, topic, range(300), 6)
        killed.until(has(300), "all of the first messages are printed")
        # Nobody has read what another one has.
        assert set(printed(*members).values()) == {1}
        places = [{json.loads(line)["partition"] for line in member.lines} for member in members]
        assert sorted(map(len, places)) == [2, 2, 2]

        killed.end(signal.SIGKILL)
        broker.restart()
        fill(client, topic, range(300, 600), 6)
        # The living are heard every now and then, the killed one never again.
        broker.advance(20)
        living = members[1]
        living.until(
            lambda: sorted(each.silent_seconds or 0 for each in members_of(client, topic))[1] < 5,
            "the living were heard",
        )
        broker.advance(11)
        living.until(shared(2), "the living have three partitions each")
        living.until(has(600), "all messages are printed")
        assert [member.end(signal.SIGTERM) for member in members[1:]] == [143, 143]

        assert set(printed(*members)) == {f"{number}" for number in range(600)}
        # What has come twice was printed by the killed one before, and was not committed.
        twice = {value for value, count in printed(*members).items() if count > 1}
        assert twice <= set(printed(killed))
        assert offsets(client, topic) == dict.fromkeys(range(6), 100)

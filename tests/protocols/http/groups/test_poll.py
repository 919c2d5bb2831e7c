"""Messages for members by HTTP: which, from where, in which order, and what is committed when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from goqueue.testing import Broker
from tests.protocols.http.expect import publish, refused
from tests.protocols.http.group_kit import Member, describe, done, fill, settle


def offsets(http: httpx.Client, group: str) -> dict[int, int | None]:
    """Return the committed offset of each partition."""
    return {each["partition"]: each["offset"] for each in describe(http, group)["offsets"]}


def test_a_member_reads_all_partitions_of_all_its_topics_once(
    http: httpx.Client, new_topic: Callable[..., str]
) -> None:
    one, two = new_topic(2), new_topic(1)
    fill(http, one, 3, 2)
    publish(http, two, {"value": "other", "key": "k", "headers": {"h": "x"}})
    member = Member(http, one, one, two)
    member.join()
    polled = member.poll()
    assert sorted(message["value"] for message in polled["messages"]) == ["0/0", "0/1", "0/2", "1/0", "1/1", "other"]
    (other,) = [message for message in polled["messages"] if message["topic"] == two]
    assert (other["key"], other["headers"], other["offset"]) == ("k", {"h": "x"}, 0)
    assert polled["generation"] == member.generation
    assert polled["state"] == "stable"
    ends = {(each["topic"], each["partition"]): each["offset"] for each in polled["offsets"]}
    assert ends == {(one, 0): 3, (one, 1): 2, (two, 0): 1}
    assert member.values() == []
    publish(http, two, {"value": "later"})
    assert member.values() == ["later"]


def test_a_poll_tells_where_it_goes_on_in_each_partition_once(
    http: httpx.Client, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(2)
    fill(http, topic, 3, 1)
    member = Member(http, topic, topic)
    member.join()
    first = member.poll(reset="latest", after=0)
    assert (places(first), first["messages"]) == ({0: 3, 1: 1}, [])
    # It was not seen, so it is sent again.
    assert places(member.poll(reset="latest", after=0)) == {0: 3, 1: 1}
    assert places(member.poll(after=1)) == {}
    publish(http, topic, {"value": "new", "partition": 1})
    assert places(member.poll(after=2)) == {1: 2}
    # A member that seeks back and reads the same again gets the offset as well.
    assert places(member.poll(after=3, seek=f"{topic}:1:1")) == {1: 2}


def places(polled: Any) -> dict[int, int]:
    return {each["partition"]: each["offset"] for each in polled["offsets"]}


def test_partitions_take_turns_whatever_there_is_in_one_of_them(
    http: httpx.Client, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(4)
    fill(http, topic, 500, 20, 20, 0)
    member = Member(http, topic, topic)
    member.join()
    seen = Counter(value.split("/")[0] for _ in range(9) for value in member.values(limit=10))
    assert seen == {"0": 50, "1": 20, "2": 20}


def test_limits_bound_a_poll_and_nothing_is_skipped(http: httpx.Client, new_topic: Callable[..., str]) -> None:
    topic = new_topic(2)
    fill(http, topic, 25, 25)
    member = Member(http, topic, topic)
    member.join()
    seen: list[str] = []
    while values := member.values(limit=7):
        assert len(values) <= 7
        seen += values
    assert sorted(seen) == sorted(f"{partition}/{number}" for partition in range(2) for number in range(25))
    assert [value for value in seen if value.startswith("0/")] == [f"0/{number}" for number in range(25)]


def test_a_message_comes_however_large_it_is(http: httpx.Client, topic: str) -> None:
    publish(http, topic, {"value": "x" * 5000}, {"value": "y" * 5000})
    member = Member(http, topic, topic)
    member.join()
    assert [value[0] for value in member.values(max_bytes="1KiB")] == ["x"]
    assert [value[0] for value in member.values(max_bytes="1KiB")] == ["y"]


def test_reading_begins_at_the_committed_offset(http: httpx.Client, topic: str) -> None:
    fill(http, topic, 10)
    done(http.post(f"/groups/{topic}/offsets", json={"offsets": [{"topic": topic, "partition": 0, "offset": 7}]}))
    member = Member(http, topic, topic)
    member.join()
    assert member.values() == ["0/7", "0/8", "0/9"]


def test_a_new_group_begins_where_it_wants(http: httpx.Client, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    fill(http, topic, 3)
    early, late = Member(http, f"{topic}-early", topic), Member(http, f"{topic}-late", topic)
    early.join()
    late.join()
    assert late.values(reset="latest") == []
    publish(http, topic, {"value": "new"})
    assert early.values(reset="earliest") == ["0/0", "0/1", "0/2", "new"]
    assert late.values(reset="latest") == ["new"]
    refused(late.try_poll(reset="middle"), 400, "malformed_request")


def test_an_offset_that_is_gone_is_treated_like_none() -> None:
    with Broker(default_segment_bytes=1024) as broker, httpx.Client(base_url=broker.http) as http:
        done(http.post("/topics", json={"name": "t", "partitions": 1, "config": {"retention.ms": 1000}}), 201)
        body = {"offsets": [{"topic": "t", "partition": 0, "offset": 1}]}
        for number in range(4):
            publish(http, "t", {"value": f"{number}" * 600})
        for group in ("early", "late"):
            done(http.post(f"/groups/{group}/offsets", json=body))
        broker.advance(3600)
        publish(http, "t", {"value": "young"})
        start = done(http.get("/topics/t/partitions"))["partitions"][0]["start_offset"]
        assert start > 1
        early, late = Member(http, "early", "t"), Member(http, "late", "t")
        early.join()
        late.join()
        assert early.values()[-1:] == ["young"]
        assert late.values(reset="latest") == []


def test_auto_commit_commits_what_the_poll_before_has_brought(http: httpx.Client, topic: str) -> None:
    fill(http, topic, 9)
    member = Member(http, topic, topic)
    member.join()
    assert member.values(limit=4, auto_commit=True) == ["0/0", "0/1", "0/2", "0/3"]
    assert offsets(http, topic)[0] is None, "it is unknown whether these messages have arrived"
    assert member.values(limit=4, auto_commit=True) == ["0/4", "0/5", "0/6", "0/7"]
    assert offsets(http, topic)[0] == 4
    member.values(auto_commit=True)
    assert offsets(http, topic)[0] == 8
    member.values(auto_commit=True)
    assert offsets(http, topic)[0] == 9


def test_a_poll_commits_nothing_unless_asked_to(http: httpx.Client, topic: str) -> None:
    fill(http, topic, 3)
    member = Member(http, topic, topic)
    member.join()
    member.poll()
    member.poll()
    assert offsets(http, topic)[0] is None


def test_a_start_at_the_end_is_committed_with_the_rest(http: httpx.Client, topic: str) -> None:
    fill(http, topic, 3)
    member = Member(http, topic, topic)
    member.join()
    member.values(reset="latest", auto_commit=True)
    member.values(reset="latest", auto_commit=True)
    assert offsets(http, topic)[0] == 3
    publish(http, topic, {"value": "while it was away"})
    member.join()
    assert member.values(reset="latest") == ["while it was away"]


def test_rejoined_member_starts_at_committed_offsets(http: httpx.Client, topic: str) -> None:
    fill(http, topic, 6)
    member = Member(http, topic, topic)
    member.join()
    member.values(limit=2)
    done(member.commit(topic, (0, 2)))
    assert member.values(limit=2) == ["0/2", "0/3"]
    member.join()
    assert member.values() == ["0/2", "0/3", "0/4", "0/5"]


def test_a_reply_that_was_lost_comes_again(http: httpx.Client, topic: str) -> None:
    fill(http, topic, 6)
    member = Member(http, topic, topic)
    member.join()
    first = member.poll(limit=2, after=0)
    assert first["poll"] == 1
    lost = member.poll(limit=2, after=1, auto_commit=True)
    assert lost["poll"] == 2
    again = member.poll(limit=2, after=1, auto_commit=True)
    assert (again["poll"], again["messages"]) == (2, lost["messages"])
    assert offsets(http, topic)[0] == 2, "what was lost is not committed"
    assert member.values(after=2, auto_commit=True) == ["0/4", "0/5"]
    assert offsets(http, topic)[0] == 4
    refused(member.try_poll(after=7), 400, "malformed_request")
    assert member.values(after=2) == ["0/4", "0/5"]


def test_a_lost_first_reply_of_a_start_at_the_end_comes_again(http: httpx.Client, topic: str) -> None:
    member = Member(http, topic, topic)
    member.join()
    member.poll(reset="latest", after=0)
    publish(http, topic, {"value": "new"})
    assert member.values(reset="latest", after=1) == ["new"]
    assert member.values(reset="latest", after=1) == ["new"]


def test_messages_of_a_partition_that_moved_go_on_where_the_owner_before_committed(
    http: httpx.Client, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(2)
    fill(http, topic, 4, 4)
    first, second = Member(http, topic, topic), Member(http, topic, topic)
    first.join()
    assert len(first.values()) == 8
    done(first.commit(topic, (0, 3), (1, 3)))
    second.join()
    settle(first, second)
    assert sorted(first.values() + second.values()) == ["0/3", "1/3"]


def test_revoked_partitions_are_not_read_but_can_be_committed(
    http: httpx.Client, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(2)
    fill(http, topic, 4, 4)
    first, second = Member(http, topic, topic), Member(http, topic, topic)
    first.join()
    first.poll(limit=8)
    second.join()
    (kept,) = [each["partition"] for each in done(first.beat())["assignment"]]
    fill(http, topic, 5, 5)
    polled = first.poll(auto_commit=True)
    assert polled["state"] == "rebalancing"
    assert {message["partition"] for message in polled["messages"]} == {kept}
    assert offsets(http, topic) == {0: 4, 1: 4}


def test_the_positions_of_a_topic_go_with_it(http: httpx.Client, topic: str) -> None:
    fill(http, topic, 2)
    member = Member(http, topic, topic)
    member.join()
    assert member.values() == ["0/0", "0/1"]
    done(http.delete(f"/topics/{topic}"), 204)
    done(http.post("/topics", json={"name": topic, "partitions": 1}), 201)
    fill(http, topic, 3)
    polled = member.poll(auto_commit=True)
    assert (polled["messages"], polled["state"]) == ([], "rebalancing"), "it has nothing of that topic yet"
    assert offsets(http, topic) == {0: None}, "what it has read of the former one is committed nowhere"
    member.heartbeat()
    assert member.values() == ["0/0", "0/1", "0/2"]


def test_members_of_other_groups_are_not_disturbed(http: httpx.Client, topic: str) -> None:
    fill(http, topic, 3)
    members = [Member(http, f"{topic}-{number}", topic) for number in range(3)]
    for member in members:
        member.join()
        assert member.values(auto_commit=True) == ["0/0", "0/1", "0/2"]


@pytest.mark.parametrize(
    "query",
    [
        {"limit": 0},
        {"limit": 10_001},
        {"wait": "2m"},
        {"wait": "-1"},
        {"max_bytes": "lots"},
        {"auto_commit": "perhaps"},
        {"after": -1},
        {"member_id": ""},
        {"generation": 0},
        {"offset": 1},
    ],
)
def test_a_poll_that_cannot_be_meant_is_refused(http: httpx.Client, topic: str, query: dict[str, object]) -> None:
    member = Member(http, topic, topic)
    member.join()
    refused(member.try_poll(**query), 400, "malformed_request")


def test_a_poll_says_who_it_is_for(http: httpx.Client) -> None:
    refused(http.get("/groups/g/poll"), 400, "malformed_request")


def test_a_poll_can_go_on_elsewhere_in_single_partitions(http: httpx.Client, new_topic: Callable[..., str]) -> None:
    topic = new_topic(2)
    fill(http, topic, 4, 2)
    member = Member(http, topic, topic)
    member.join()
    assert len(member.values()) == 6
    assert member.values(seek=f"{topic}:0:2") == ["0/2", "0/3"]
    assert sorted(member.values(seek=f"{topic}:0:3,{topic}:1:1")) == ["0/3", "1/1"]
    # An offset that is not there is treated like one that is gone; what is not the member's is left out.
    astray = member.poll(seek=f"{topic}:0:99", limit=1, after=3)
    assert [message["value"] for message in astray["messages"]] == ["0/0"]
    (told,) = astray["errors"]
    assert (told["partition"], told["error"]["code"]) == (0, "offset_out_of_range")
    assert [told["error"][name] for name in ("offset", "start_offset", "end_offset")] == [99, 0, 4]
    # That reply may be lost; once it has arrived, nothing is missing.
    assert member.poll(limit=1, after=3)["errors"] == astray["errors"]
    assert "errors" not in member.poll(limit=1, after=4)
    assert member.values(seek=f"{topic}:0:1", limit=1, after=5) == ["0/1"]
    assert member.values(seek=f"{topic}:7:0,other:0:0") == ["0/2", "0/3"]


def test_a_poll_leaves_open_transactions_out_unless_asked_for_them(http: httpx.Client, topic: str) -> None:
    identity = {"transactional_id": topic}
    identity |= done(http.post("/producers/init", json=identity))
    publishing = {**identity, "topic": topic, "messages": [{"value": "open", "partition": 0}]}
    done(http.post("/transactions/publish", json=publishing))
    member = Member(http, topic, topic)
    member.join()
    assert member.values() == []
    assert member.values(isolation="read_uncommitted") == ["open"]
    done(http.post("/transactions/abort", json=identity))


@pytest.mark.parametrize("seek", ["orders", "orders:0", "orders:0:-1", "orders:x:0", "orders:0:1,", "a b:0:1"])
def test_a_place_to_go_on_has_a_topic_a_partition_and_an_offset(http: httpx.Client, topic: str, seek: str) -> None:
    member = Member(http, topic, topic)
    member.join()
    refused(member.try_poll(seek=seek), 400, "malformed_request")

"""Groups and their offsets outlive the broker; where members had got to without a commit does not."""

from __future__ import annotations

import httpx

from goqueue.testing import Broker
from tests.protocols.http.group_kit import Cooperative, Member, describe, done, fill, settle


def test_members_go_on_after_a_restart_where_they_have_committed() -> None:
    with Broker() as broker:
        with httpx.Client(base_url=broker.http) as http:
            done(http.post("/topics", json={"name": "t", "partitions": 3}), 201)
            fill(http, "t", 4, 4, 4)
            first, second = Member(http, "g", "t"), Member(http, "g", "t")
            first.join()
            second.join()
            settle(first, second)
            for member in (first, second):
                member.poll(limit=1, after=0)
                done(member.commit("t", *((partition, 2) for partition in member.assigned)))
                member.poll()
            before = describe(http, "g")
        broker.restart()
        with httpx.Client(base_url=broker.http) as http:
            first.http = second.http = http
            after = describe(http, "g")
            volatile = ("silent_seconds", "lag_seconds", "retention_left_seconds")
            assert without(after, *volatile) == without(before, *volatile)
            for member in (first, second):
                told = done(member.beat())
                assert (told["state"], told["generation"]) == ("stable", member.generation)
            polled = first.values(after=2) + second.values(after=2)
            assert sorted(polled) == sorted(f"{partition}/{number}" for partition in range(3) for number in (2, 3))


def test_a_member_hears_that_the_broker_has_forgotten_where_it_was_until_it_has_heard() -> None:
    with Broker() as broker:
        with httpx.Client(base_url=broker.http) as http:
            done(http.post("/topics", json={"name": "t", "partitions": 1}), 201)
            fill(http, "t", 4)
            member = Member(http, "g", "t")
            member.join()
            assert not member.poll(limit=2, after=0)["has_forgotten"]
            assert not member.poll(limit=1, after=1)["has_forgotten"]
        broker.restart()
        with httpx.Client(base_url=broker.http) as http:
            member.http = http
            for _ in range(2):
                polled = member.poll(after=2)
                assert (polled["has_forgotten"], polled["offsets"][0]["offset"]) == (True, 4)
            polled = member.poll(after=2, seek="t:0:3")
            assert [each["value"] for each in polled["messages"]] == ["0/3"]
            assert polled["has_forgotten"]
            assert not member.poll(after=3)["has_forgotten"]


def test_a_rebalance_that_was_under_way_goes_on_after_a_restart() -> None:
    with Broker() as broker:
        with httpx.Client(base_url=broker.http) as http:
            done(http.post("/topics", json={"name": "t", "partitions": 3}), 201)
            first, second = Cooperative(http, "g", "t"), Cooperative(http, "g", "t")
            first.join()
            second.join()
            first.heartbeat()
            asked = first.revoke
            assert asked
        broker.restart()
        with httpx.Client(base_url=broker.http) as http:
            first.http = second.http = http
            second.heartbeat()
            assert (second.state, second.assigned) == ("pending_assign", set())
            first.give_back(*asked)
            second.heartbeat()
            assert second.assigned == asked
            assert describe(http, "g")["state"] == "stable"


def without(value: object, *names: str) -> object:
    """Return a JSON value without some fields."""
    if isinstance(value, dict):
        return {name: without(each, *names) for name, each in value.items() if name not in names}
    if isinstance(value, list):
        return [without(each, *names) for each in value]
    return value

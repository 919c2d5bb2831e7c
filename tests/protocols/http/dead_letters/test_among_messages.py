"""A topic that a queue group has chosen for its dead letters may hold other messages as well: these are no letters."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from goqueue.broker.dead_letters import purges as letter_purges
from tests.protocols.http.expect import publish, read, refused
from tests.protocols.http.expect import values as values_read
from tests.protocols.http.letter_kit import bury, letters, moves, preview, redrive, values
from tests.protocols.http.queue_kit import fill


def _choose(http: httpx.Client, group: str, topic: str) -> None:
    """Have a queue group send its dead letters to a topic."""
    http.patch(f"/queues/{group}", json={"dead_letters": topic}).raise_for_status()


def test_a_topic_with_letters_of_its_own_that_was_chosen_for_others_is_not_taken_for_one_of_letters(
    http: httpx.Client, topic: str
) -> None:
    bury(http, topic, ["dead"])
    fill(http, topic, ["alive"])
    _choose(http, f"{topic}-other", topic)
    calls = [
        http.get(f"/topics/{topic}/dlq"),
        http.post(f"/topics/{topic}/dlq/purge", json={}),
        http.post(f"/topics/{topic}/dlq/redrive", json={}),
    ]
    for reply in calls:
        problem = refused(reply, 409, "conflict")
        assert f"{topic}, {topic}.dlq" in problem["detail"]
        assert f"name {topic}.dlq" in problem["hint"]
    assert values(letters(http, f"{topic}.dlq")) == ["dead"]
    assert values_read(read(http, topic)) == ["dead", "alive"]


def test_a_topic_of_letters_that_has_died_itself_may_still_be_named(
    http: httpx.Client, new_topic: Callable[..., str]
) -> None:
    graveyard, topic = new_topic(1), new_topic(1)
    _choose(http, f"{topic}-group", graveyard)
    bury(http, topic, ["a"])
    http.post("/topics", json={"name": f"{graveyard}.dlq", "partitions": 1}).raise_for_status()
    assert values(letters(http, graveyard)) == ["a"]
    assert http.post(f"/topics/{graveyard}/dlq/purge", json={}).json() == {"topic": graveyard, "purged": 1}
    assert values(letters(http, graveyard)) == [], "nothing that is there is no letter"
    assert http.post(f"/topics/{graveyard}/dlq/purge", json={}).json() == {"topic": graveyard, "purged": 0}


@pytest.mark.parametrize("said", [{}, {"dry_run": True}])
def test_a_purge_deletes_nothing_where_messages_do_not_say_why_they_died(
    http: httpx.Client, new_topic: Callable[..., str], said: dict[str, bool]
) -> None:
    chosen, topic = new_topic(2), new_topic(1)
    _choose(http, f"{topic}-group", chosen)
    bury(http, topic, ["dead"])
    publish(http, chosen, {"value": "alive", "partition": 1})
    problem = refused(http.post(f"/topics/{chosen}/dlq/purge", json=said), 409, "conflict")
    assert f"{chosen}-1:0" in problem["detail"]
    assert ".dlq" in problem["hint"]
    assert values_read(read(http, chosen, 0)) == ["dead"]
    assert values_read(read(http, chosen, 1)) == ["alive"]


def test_a_purge_refuses_where_there_are_too_many_to_see_that_all_are_letters(
    http: httpx.Client, new_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    graveyard, topic = new_topic(1), new_topic(1)
    _choose(http, f"{topic}-group", graveyard)
    bury(http, topic, ["a", "b"])
    monkeypatch.setattr(letter_purges, "LOOKED_AT_MAX", 1)
    refused(http.post(f"/topics/{graveyard}/dlq/purge", json={}), 409, "conflict")
    monkeypatch.setattr(letter_purges, "LOOKED_AT_MAX", 2)
    assert http.post(f"/topics/{graveyard}/dlq/purge", json={}).json() == {"topic": graveyard, "purged": 2}


def test_a_purge_of_a_topic_by_its_name_takes_whatever_is_there(http: httpx.Client, topic: str) -> None:
    name = f"{topic}.dlq"
    http.post("/topics", json={"name": name, "partitions": 1}).raise_for_status()
    publish(http, name, {"value": "by hand"})
    for said in ({"dry_run": True}, {}):
        assert http.post(f"/topics/{name}/dlq/purge", json=said).json() == {"topic": name, "purged": 1}
    assert letters(http, name)["letters"] == []


def test_a_redrive_never_publishes_what_does_not_say_why_it_died(
    http: httpx.Client, new_topic: Callable[..., str]
) -> None:
    chosen, topic, target = new_topic(1), new_topic(1), new_topic(1)
    _choose(http, f"{topic}-group", chosen)
    bury(http, topic, ["dead"])
    publish(http, chosen, {"value": "alive"})
    told = preview(http, chosen, target=target)
    done = redrive(http, chosen, target=target)
    assert told["moves"] == done["moves"] == moves(moved=1, failed=1)
    assert "does not say why it died" in done["error"]
    assert values_read(read(http, target)) == ["dead"]
    assert redrive(http, chosen)["moves"] == moves(redriven=1, failed=1)

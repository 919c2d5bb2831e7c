"""Dead letters by HTTP: they say why they died, are found by what they say, page by page, and can be deleted."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import httpx
import pytest

from goqueue.broker.dead_letters import browsing
from goqueue.broker.dead_letters import stats as letter_counts
from goqueue.model.dead_letter_selection import Order
from goqueue.protocols.http.api.dead_letters import _cursor
from goqueue.testing import Broker
from tests.protocols.http.expect import publish, read, refused
from tests.protocols.http.expect import values as values_read
from tests.protocols.http.letter_kit import bury, count, letters, moves, noise, redrive, start, values, wait_for
from tests.protocols.http.queue_kit import Consumer, fill


def test_a_letter_shows_the_message_as_it_was_and_why_it_died(http: httpx.Client, topic: str) -> None:
    bury(http, topic, ["order"], "no such customer", key="k", headers={"trace": "abc"})
    page = letters(http, topic)
    assert (page["topic"], page["cursor"], page["cut"]) == (f"{topic}.dlq", None, False)
    (letter,) = page["letters"]
    assert (letter["key"], letter["value"], letter["headers"]) == ("k", "order", {"trace": "abc"})
    assert (letter["topic"], letter["offset"], letter["redriven"]) == (f"{topic}.dlq", 0, False)
    cause = letter["cause"]
    said = {"reason": "rejected", "error": "no such customer", "attempts": 1, "group": f"{topic}-group", "redrives": 0}
    assert said.items() <= cause.items()
    assert (cause["topic"], cause["partition"], cause["offset"], cause["consumer"]) == (topic, 0, 0, "ann")
    assert cause["timestamp"] <= cause["first_delivery"] == cause["last_delivery"] <= letter["timestamp"]


def test_the_topic_of_dead_letters_may_be_named_itself(http: httpx.Client, topic: str) -> None:
    bury(http, topic, ["a"])
    assert letters(http, f"{topic}.dlq")["letters"] == letters(http, topic)["letters"]


@pytest.mark.parametrize("length", [246, 249])
def test_topics_with_the_longest_names_have_letters_of_their_own(http: httpx.Client, topic: str, length: int) -> None:
    for last in ("a", "b"):
        name = topic.ljust(length - 1, "x") + last
        http.post("/topics", json={"name": name, "partitions": 1}).raise_for_status()
        fill(http, name, [last])
        consumer = Consumer(http, topic, name)
        consumer.settle("reject", consumer.receive())
        wait_for(partial(_has_letters, http, name))
        page = letters(http, name)
        assert values(page) == [last]
        assert page["topic"].startswith(topic)
        assert page["topic"].endswith(".dlq")
        assert redrive(http, name)["moves"] == moves(moved=1)


def _has_letters(http: httpx.Client, topic: str) -> bool:
    return count(http, topic) > 0


def test_a_topic_without_dead_letters_has_an_empty_page(http: httpx.Client, topic: str) -> None:
    fill(http, topic, ["fine"])
    assert letters(http, topic) == {"topic": None, "letters": [], "cursor": None, "cut": False, "unreadable": 0}
    refused(http.get("/topics/nobody/dlq"), 404, "unknown_topic")
    refused(http.post(f"/topics/{topic}/dlq/redrive", json={}), 409, "conflict")


def test_letters_that_a_group_sends_elsewhere_are_found(http: httpx.Client, topic: str) -> None:
    elsewhere = f"{topic}-elsewhere"
    http.patch(f"/queues/{topic}-group", json={"dead_letters": elsewhere}).raise_for_status()
    bury(http, topic, ["a"])
    assert letters(http, topic)["topic"] == letters(http, elsewhere)["topic"] == elsewhere


def test_a_topic_whose_messages_say_why_they_died_has_letters(http: httpx.Client, topic: str) -> None:
    publish(http, topic, {"value": "row", "headers": {"goqueue-dlq-reason": "expectation", "goqueue-dlq-rule": "r"}})
    (letter,) = letters(http, topic)["letters"]
    assert (letter["cause"]["reason"], letter["cause"]["topic"], letter["headers"]) == ("expectation", "", {})


def test_an_ordinary_topic_is_neither_purged_nor_redriven_whatever_its_messages_say(
    http: httpx.Client, topic: str
) -> None:
    publish(http, topic, {"value": "copied", "headers": {"goqueue-dlq-reason": "r", "goqueue-dlq-topic": topic}})
    publish(http, topic, {"value": "alive"})
    problem = refused(http.post(f"/topics/{topic}/dlq/purge", json={}), 409, "conflict")
    assert "dead_letters" in problem["hint"]
    refused(http.post(f"/topics/{topic}/dlq/redrive", json={}), 409, "conflict")
    refused(http.post(f"/topics/{topic}/dlq/redrive", json={"dry_run": True}), 409, "conflict")
    assert values_read(read(http, topic)) == ["copied", "alive"]


def _share(http: httpx.Client, graveyard: str, *topics: str) -> None:
    for topic in topics:
        http.patch(f"/queues/{topic}-group", json={"dead_letters": graveyard}).raise_for_status()
        bury(http, topic, [f"of {topic}"])


def test_a_topic_has_its_own_letters_of_those_that_lie_with_others(
    http: httpx.Client, new_topic: Callable[..., str]
) -> None:
    graveyard, one, other = (new_topic(1) for _ in range(3))
    _share(http, graveyard, one, other)
    page = letters(http, one, totals="true")
    assert (values(page), page["topic"], page["totals"]["letters"]) == ([f"of {one}"], graveyard, 1)
    assert values(letters(http, graveyard)) == [f"of {other}", f"of {one}"]
    problem = refused(http.post(f"/topics/{one}/dlq/purge", json={}), 409, "conflict")
    assert graveyard in problem["hint"]
    done = redrive(http, one)
    assert (done["moves"], done["selection"]["source"]) == (moves(moved=1), one)
    assert values_read(read(http, other)) == [f"of {other}"]
    assert http.post(f"/topics/{graveyard}/dlq/purge", json={}).json() == {"topic": graveyard, "purged": 2}


def test_letters_of_a_topic_that_lie_in_two_topics_are_asked_for_by_one_of_these(
    http: httpx.Client, new_topic: Callable[..., str]
) -> None:
    graveyard, topic = new_topic(1), new_topic(1)
    _share(http, graveyard, topic)
    http.post("/topics", json={"name": f"{topic}.dlq", "partitions": 1}).raise_for_status()
    problem = refused(http.get(f"/topics/{topic}/dlq"), 409, "conflict")
    assert f"{topic}.dlq, {graveyard}" in problem["detail"]
    assert values(letters(http, graveyard, source=topic)) == [f"of {topic}"]
    assert letters(http, f"{topic}.dlq")["letters"] == []


@pytest.mark.parametrize("order", ["newest", "oldest"])
def test_pages_have_every_letter_once_in_the_order_of_time(
    http: httpx.Client, new_topic: Callable[..., str], order: str
) -> None:
    topic = new_topic(3)
    names = [f"m{number:02}" for number in range(20)]
    for number, name in enumerate(names):
        bury(http, topic, [name], partition=number % 3)
    found, cursor, pages = [], None, 0
    while True:
        query = {"order": order, "limit": 7} | ({} if cursor is None else {"cursor": cursor})
        page = letters(http, topic, **query)
        found += values(page)
        cursor, pages = page["cursor"], pages + 1
        if cursor is None:
            break
    assert found == (names if order == "oldest" else names[::-1])
    assert pages == 3


def test_letters_are_chosen_by_what_they_say(http: httpx.Client, topic: str) -> None:
    bury(http, topic, ["a", "b"], key="k1")
    between = letters(http, topic)["letters"][0]["timestamp"] + 1
    http.patch(f"/queues/{topic}-other", json={"retries": 0}).raise_for_status()
    consumer = Consumer(http, f"{topic}-other", topic, "bob")
    consumer.settle("nack", consumer.receive(1), reason="again")
    wait_for(lambda: count(http, topic) == 3)
    chosen = {
        ("reason", "max_retries_exceeded"): ["a"],
        ("group", f"{topic}-group"): ["b", "a"],
        ("key", "k1"): ["a", "b", "a"],
        ("key", "k2"): [],
        ("until", str(between - 10_000)): [],
        ("since", str(between - 10_000)): ["a", "b", "a"],
        ("source", topic): ["a", "b", "a"],
        ("source", "another"): [],
        ("partition", "0"): ["a", "b", "a"],
        ("partition", "1"): [],
        ("first_offset", "1"): ["b"],
        ("last_offset", "0"): ["a", "a"],
    }
    for (name, value), expected in chosen.items():
        assert values(letters(http, topic, **{name: value})) == expected, name
    totals = letters(http, topic, totals="true", limit=1)["totals"]
    assert totals == {
        "letters": 3,
        "redriven": 0,
        "by_reason": {"rejected": 2, "max_retries_exceeded": 1},
        "cut": False,
        "unreadable": 0,
    }


def test_letters_are_found_by_keys_that_are_no_text(http: httpx.Client, topic: str) -> None:
    bury(http, topic, ["a"], key_base64="++8=")
    bury(http, topic, ["b"], key_base64="AP8=")
    path = f"/topics/{topic}/dlq"
    # A plus in a query stands for a space, unless it was written as %2B.
    for written in ("++8=", "%2B%2B8%3D"):
        assert values(http.get(f"{path}?key_base64={written}").json()) == ["a"]
    assert letters(http, topic, key_base64="AP8=", totals="true")["totals"]["letters"] == 1
    assert "both given" in refused(http.get(f"{path}?key=a&key_base64=YQ=="), 400, "malformed_request")["detail"]
    assert "not base64" in refused(http.get(f"{path}?key_base64=YQ"), 400, "malformed_request")["detail"]


def test_a_look_that_sees_too_much_says_so_and_goes_on(
    http: httpx.Client, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bury(http, topic, ["a"], key="rare")
    bury(http, topic, ["b", "c"])
    monkeypatch.setattr(browsing, "LOOKED_AT_MAX", 2)
    monkeypatch.setattr(browsing, "COUNTED_MAX", 2)
    page = letters(http, topic, key="rare", totals="true")
    assert (values(page), page["cut"], page["totals"]["cut"]) == ([], True, True)
    page = letters(http, topic, key="rare", cursor=page["cursor"])
    assert values(page) == ["a"]


def test_a_cursor_is_taken_as_it_was_given(http: httpx.Client, topic: str) -> None:
    bury(http, topic, ["a", "b"])
    cursor = letters(http, topic, limit=1)["cursor"]
    for nonsense in ("abc", "nonsense", "", "YWJj", "x" * 1000):
        problem = refused(http.get(f"/topics/{topic}/dlq", params={"cursor": nonsense}), 400, "malformed_request")
        assert problem["detail"].startswith(f"{nonsense[:40]!r} is not a cursor of a reply")
        assert "leave it out" in problem["hint"]
    refused(http.get(f"/topics/{topic}/dlq", params={"cursor": cursor, "order": "oldest"}), 400, "malformed_request")
    refused(http.get(f"/topics/{topic}/dlq", params={"since": "5", "until": "5"}), 400, "invalid")
    refused(http.get(f"/topics/{topic}/dlq", params={"since": "yesterday"}), 400, "malformed_request")


def test_cursors_of_wide_topics_are_short_enough_to_be_used(http: httpx.Client, new_topic: Callable[..., str]) -> None:
    topic = f"{new_topic(1)}.dlq"
    http.post("/topics", json={"name": topic, "partitions": 600}).raise_for_status()
    publish(http, topic, *({"value": str(number), "partition": number % 600} for number in range(1200)))
    for order in ("newest", "oldest"):
        found, query = set(), {"order": order, "limit": "700"}
        while True:
            page = letters(http, topic, **query)
            found |= set(values(page))
            if page["cursor"] is None:
                break
            query["cursor"] = page["cursor"]
        assert len(found) == 1200
    left = {index: (70_000 + index * 7919, 9_000_000_000 - index * 104_729) for index in range(1000)}
    assert max(len(_cursor(left, order)) for order in Order) < 8000


def test_headers_count_for_how_large_a_page_may_be(
    http: httpx.Client, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bury(http, topic, ["a", "b", "c"], headers={"large": "x" * 2000})
    monkeypatch.setattr(browsing, "_PAGE_BYTES", 3000)
    page = letters(http, topic)
    assert (values(page), values(letters(http, topic, cursor=page["cursor"]))) == (["c", "b"], ["a"])
    assert len(read(http, topic, max_bytes="3000")["messages"]) == 1


def test_number_of_reasons_and_topics_is_bounded(
    http: httpx.Client, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letter_counts, "REASONS_MAX", 2)
    name = f"{topic}.dlq"
    http.post("/topics", json={"name": name, "partitions": 1}).raise_for_status()
    for letter in "abcd":
        headers = {"goqueue-dlq-reason": letter * 1000, "goqueue-dlq-topic": letter * 1000}
        publish(http, name, {"value": "v", "headers": headers})
    (told,) = [each for each in http.get("/dlq").json()["topics"] if each["topic"] == name]
    assert told["by_reason"] == {"(others)": 2, "d" * 200: 1, "c" * 200: 1}
    assert told["sources"] == ["c" * 200, "d" * 200]


def test_all_topics_for_dead_letters_are_listed(http: httpx.Client, topic: str) -> None:
    bury(http, topic, ["a", "b"])
    listed = {each["topic"]: each for each in http.get("/dlq").json()["topics"]}
    told = listed[f"{topic}.dlq"]
    assert (told["letters"], told["by_reason"], told["sources"]) == (2, {"rejected": 2}, [topic])
    assert told["oldest"] <= told["newest"]
    assert topic not in listed


def test_a_purge_deletes_all_letters(http: httpx.Client, topic: str) -> None:
    bury(http, topic, ["a", "b"])
    reply = http.post(f"/topics/{topic}/dlq/purge", json={})
    assert reply.json() == {"topic": f"{topic}.dlq", "purged": 2}
    assert letters(http, topic)["letters"] == []
    bury(http, topic, ["c"])
    assert values(letters(http, topic)) == ["c"]


@pytest.mark.parametrize("said", [{}, {"dry_run": True}])
def test_a_purge_of_a_topic_that_is_compacted_is_refused_also_if_it_is_dry(
    http: httpx.Client, topic: str, said: dict[str, bool]
) -> None:
    bury(http, topic, ["dead"])
    http.patch(f"/topics/{topic}.dlq", json={"config": {"cleanup.policy": "compact"}}).raise_for_status()
    problem = refused(http.post(f"/topics/{topic}/dlq/purge", json=said), 409, "policy_violation")
    assert "is compacted" in problem["detail"]
    assert values(letters(http, topic)) == ["dead"]


def test_a_purge_does_not_take_letters_from_a_redrive(http: httpx.Client, topic: str) -> None:
    bury(http, topic, ["a", "b", "c"])
    job = start(http, topic, rate=0.001)
    refused(http.post(f"/topics/{topic}/dlq/purge", json={}), 409, "redrive_running")
    http.delete(f"/dlq/redrives/{job['id']}").raise_for_status()


def test_whatever_was_delivered_becomes_a_letter_however_small_their_topic_has_it() -> None:
    with Broker() as broker, httpx.Client(base_url=broker.http, timeout=30) as http:
        http.post("/topics", json={"name": "orders", "partitions": 1}).raise_for_status()
        small = {"name": "small", "partitions": 1, "config": {"max.message.bytes": 2000}}
        http.post("/topics", json=small).raise_for_status()
        http.patch("/queues/billing", json={"dead_letters": "small"}).raise_for_status()
        published = [noise(3000), "a", noise(100_000), "b"]
        fill(http, "orders", published)
        consumer = Consumer(http, "billing", "orders")
        consumer.settle("reject", consumer.receive())
        wait_for(lambda: count(http, "small") == 4)
        assert values(letters(http, "small", order="oldest")) == published
        assert http.get("/queues/billing").json()["partitions"][0]["dead"] == 0
        # The broker moves messages; its limits bind clients only.
        reply = http.post("/topics/small/messages", json={"messages": [{"value": noise(3000)}]})
        assert reply.json()["results"][0]["error"]["code"] == "too_large"


def test_dead_messages_that_are_large_become_letters_a_few_at_a_time() -> None:
    with Broker() as broker, httpx.Client(base_url=broker.http, timeout=60) as http:
        http.post("/topics", json={"name": "orders", "partitions": 1}).raise_for_status()
        published = [noise(900_000 + number) for number in range(12)]
        for each in published:
            fill(http, "orders", [each])
        consumer = Consumer(http, "billing", "orders")
        buried = 0
        while buried < len(published):
            received = consumer.receive(wait="1s")
            consumer.settle("reject", received)
            buried += len(received)
        wait_for(lambda: count(http, "orders") == len(published))
        offsets = [each["cause"]["offset"] for each in letters(http, "orders", order="oldest", limit=4)["letters"]]
        assert offsets == [0, 1, 2, 3]


@pytest.mark.parametrize("order", ["newest", "oldest"])
def test_every_letter_of_large_batches_is_shown_once(http: httpx.Client, topic: str, order: str) -> None:
    http.post("/topics", json={"name": f"{topic}.dlq", "partitions": 1}).raise_for_status()
    for _ in range(2):
        publish(http, f"{topic}.dlq", *({"value": "v"} for _ in range(2500)))
    offsets: list[int] = []
    query = {"order": order, "limit": "1000"}
    while True:
        page = letters(http, topic, **query)
        offsets += [each["offset"] for each in page["letters"]]
        if page["cursor"] is None:
            break
        query["cursor"] = page["cursor"]
    assert offsets == sorted(range(5000), reverse=order == "newest")
    assert letters(http, topic, totals="true", limit=1)["totals"]["by_reason"] == {"unknown": 5000}

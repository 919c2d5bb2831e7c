"""Share groups with librdkafka's share consumer: messages are shared, acknowledged, given back, and given up.

The broker is one of ours in any case: where a group begins, and what becomes of dead messages, is not as in Kafka.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import httpx
import pytest
from confluent_kafka import AcknowledgeType, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from kafka.admin import KafkaAdminClient  # type: ignore[import-untyped]

from goqueue.testing import Broker
from tests.clients.adapters.confluent_shares import ConfluentShare, Got, take
from tests.clients.contract import DEADLINE_S
from tests.clients.expect import eventually

ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT
GROUP = "workers"


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker whose time can be moved."""
    with Broker() as started:
        yield started


@pytest.fixture
def share(broker: Broker) -> Iterator[Callable[..., ConfluentShare]]:
    """Let members join a group; the end of the test closes those that are left."""
    joined: list[ConfluentShare] = []

    def join(*topics: str, group: str = GROUP, is_explicit: bool = False) -> ConfluentShare:
        joined.append(ConfluentShare(broker.bootstrap, group, *(topics or ("orders",)), is_explicit=is_explicit))
        return joined[-1]

    yield join
    for member in joined:
        member.close()


def _create(broker: Broker, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(DEADLINE_S)


def _fill(broker: Broker, count: int, *, first: int = 0, topic: str = "orders", codec: str = "none") -> list[str]:
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "log_level": 0, "compression.type": codec, "linger.ms": 20}
    )
    values = [str(number) for number in range(first, first + count)]
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(DEADLINE_S) == 0
    return values


def _values(got: list[Got]) -> list[str]:
    return sorted((each.value for each in got), key=int)


@pytest.mark.parametrize("partitions", [1, 4])
def test_members_share_a_topic_without_duplicates(
    partitions: int, broker: Broker, share: Callable[..., ConfluentShare]
) -> None:
    _create(broker, "orders", partitions)
    members = [share(), share(), share()]
    values = _fill(broker, 200)
    shares: Counter[ConfluentShare] = Counter()
    got = take(200, *members, done=lambda member, some: shares.update({member: len(some)}))
    # More of them, a few at a time, until every member had some.
    for round_ in range(100):
        if len(shares) == 3:
            break
        values += _fill(broker, 20, first=200 + 20 * round_)
        got += take(20, *members, done=lambda member, some: shares.update({member: len(some)}))
    assert _values(got) == values
    assert len(shares) == 3
    assert {each.deliveries for each in got} == {1}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_arrive_as_they_were_sent(
    codec: str, broker: Broker, share: Callable[..., ConfluentShare]
) -> None:
    values = _fill(broker, 300, codec=codec)
    assert _values(take(300, share())) == values


def test_the_next_poll_accepts_what_the_one_before_has_brought(
    broker: Broker, share: Callable[..., ConfluentShare]
) -> None:
    _fill(broker, 10)
    member = share()
    take(10, member)
    member.commit()
    member.close()
    broker.advance(120)
    values = _fill(broker, 1, first=10)
    assert _values(take(1, share())) == values


def test_unacknowledged_messages_of_a_leaving_member_come_again(
    broker: Broker, share: Callable[..., ConfluentShare]
) -> None:
    values = _fill(broker, 10)
    member = share(is_explicit=True)
    got = take(10, member)
    member.say(ACCEPT, got[:4])
    member.close()
    again = take(6, share())
    assert _values(again) == sorted(set(values) - {each.value for each in got[:4]}, key=int)
    assert {each.deliveries for each in again} == {2}


def test_members_that_leave_in_order_blame_no_message(broker: Broker, share: Callable[..., ConfluentShare]) -> None:
    _create(broker, "orders", 1)
    values = _fill(broker, 3)
    with httpx.Client(base_url=broker.http) as http:
        assert http.patch(f"/queues/{GROUP}", json={"retries": 0}).status_code == 200
        for deliveries in (1, 2, 3):
            member = share(is_explicit=True)
            got = take(3, member)
            assert (_values(got), {each.deliveries for each in got}) == (values, {deliveries})
            member.close()
        assert [each["name"] for each in http.get("/topics").json()["topics"]] == ["orders"]


def test_released_messages_come_again_and_rejected_ones_become_dead_letters(
    broker: Broker, share: Callable[..., ConfluentShare]
) -> None:
    _create(broker, "orders", 1)
    _fill(broker, 9)
    member = share(is_explicit=True)
    got = take(9, member)
    member.say(ACCEPT, got[:3])
    member.say(RELEASE, got[3:6])
    member.say(REJECT, got[6:])
    member.commit()
    again = take(3, member)
    assert (_values(again), {each.deliveries for each in again}) == (["3", "4", "5"], {2})
    member.say(ACCEPT, again)
    member.commit()
    assert member.poll(0.5) == []
    letters = take(3, share("orders.dlq", group="triage"))
    assert _values(letters) == ["6", "7", "8"]
    headers = dict(letters[0].message.headers() or [])
    assert headers["goqueue-dlq-reason"] == b"rejected"
    assert headers["goqueue-dlq-group"] == GROUP.encode()


def test_an_offset_can_be_acknowledged_by_its_number(broker: Broker, share: Callable[..., ConfluentShare]) -> None:
    _create(broker, "orders", 1)
    _fill(broker, 2)
    member = share(is_explicit=True)
    take(2, member)
    member.consumer.acknowledge_offset("orders", 0, 0, ACCEPT)
    member.consumer.acknowledge_offset("orders", 0, 1, RELEASE)
    member.commit()
    assert [(each.value, each.deliveries) for each in take(1, member)] == [("1", 2)]


def test_asynchronous_commit_calls_its_callback(broker: Broker, share: Callable[..., ConfluentShare]) -> None:
    _create(broker, "orders", 1)
    _fill(broker, 5)
    member = share(is_explicit=True)
    told: list[tuple[set[int], object]] = []
    member.consumer.set_acknowledgement_commit_callback(
        lambda offsets, error: told.extend((set(each), error) for each in offsets.values())
    )
    member.say(ACCEPT, take(5, member))
    member.consumer.commit_async()
    eventually(lambda: bool(member.poll(0.05) or told), "the callback is called")
    assert told == [({0, 1, 2, 3, 4}, None)]


def test_a_lease_that_ends_goes_to_another_member(broker: Broker, share: Callable[..., ConfluentShare]) -> None:
    _create(broker, "orders", 1)
    _fill(broker, 3)
    slow, quick = share(is_explicit=True), share()
    got = take(3, slow)
    broker.advance(31)
    again = take(3, quick)
    assert {each.deliveries for each in again} == {2}
    slow.say(ACCEPT, got)
    results = slow.consumer.commit_sync(DEADLINE_S)
    assert [str(error.args[0].name()) for error in results.values() if error is not None] == ["INVALID_RECORD_STATE"]


def test_share_consumers_and_receives_by_http_are_one_group(
    broker: Broker, share: Callable[..., ConfluentShare]
) -> None:
    _create(broker, "orders", 1)
    values = _fill(broker, 10)
    with httpx.Client(base_url=broker.http) as http:
        received = http.post(f"/groups/{GROUP}/receive", json={"topic": "orders", "max": 4}).json()["messages"]
        member = share(is_explicit=True)
        got = take(6, member)
        assert _values(got) == values[4:]
        described = http.get(f"/queues/{GROUP}").json()
        assert sorted(described["consumers"].values()) == [4, 6]
        member.say(ACCEPT, got[1:])
        member.say(RELEASE, got[:1])
        member.commit()
        again = http.post(f"/groups/{GROUP}/receive", json={"topic": "orders", "max": 4}).json()["messages"]
        assert [(each["value"], each["delivery_count"]) for each in again] == [(got[0].value, 2)]
        handles = [each["receipt_handle"] for each in received]
        assert http.post("/messages/nack", json={"receipt_handles": handles, "delay": 0}).status_code == 200
        assert _values(take(4, member)) == values[:4]


def test_settings_of_the_queue_group_hold_for_share_consumers(
    broker: Broker, share: Callable[..., ConfluentShare]
) -> None:
    _create(broker, "orders", 1)
    _fill(broker, 20)
    with httpx.Client(base_url=broker.http) as http:
        settings = {"in_flight_max": 5, "retries": 0, "visibility_timeout": "10s"}
        assert http.patch(f"/queues/{GROUP}", json=settings).status_code == 200
        member = share(is_explicit=True)
        got = take(5, member)
        assert len(got) == 5
        member.say(RELEASE, got)
        member.commit()
        letters = take(5, share("orders.dlq", group="triage"))
        assert {dict(each.message.headers() or [])["goqueue-dlq-reason"] for each in letters} == {
            b"max_retries_exceeded"
        }
        assert http.post(f"/queues/{GROUP}/pause", json={}).status_code == 200
        assert member.poll(0.5) == []
        assert http.post(f"/queues/{GROUP}/resume", json={}).status_code == 200
        assert len(take(5, member)) == 5


def test_messages_of_aborted_transactions_are_not_delivered(
    broker: Broker, share: Callable[..., ConfluentShare]
) -> None:
    _create(broker, "orders", 1)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "x", "log_level": 0})
    producer.init_transactions(DEADLINE_S)
    for number in range(6):
        producer.begin_transaction()
        producer.produce("orders", str(number))
        if number % 2:
            producer.commit_transaction(DEADLINE_S)
        else:
            producer.flush(DEADLINE_S)
            producer.abort_transaction(DEADLINE_S)
    producer.begin_transaction()
    producer.produce("orders", "6")
    producer.flush(DEADLINE_S)
    member = share()
    assert _values(take(3, member)) == ["1", "3", "5"]
    assert member.poll(0.5) == []
    producer.commit_transaction(DEADLINE_S)
    assert _values(take(1, member)) == ["6"]


def test_of_a_large_transaction_nothing_is_passed_however_few_messages_a_member_may_hold(
    broker: Broker, share: Callable[..., ConfluentShare]
) -> None:
    _create(broker, "orders", 1)
    with httpx.Client(base_url=broker.http) as http:
        http.patch(f"/queues/{GROUP}", json={"in_flight_max": 10}).raise_for_status()
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "x", "log_level": 0})
    producer.init_transactions(DEADLINE_S)
    for first in range(0, 100, 25):
        producer.begin_transaction()
        for number in range(first, first + 25):
            producer.produce("orders", f"{number:02}")
        # In one batch, followed by a marker.
        producer.flush(DEADLINE_S)
        if first == 25:
            producer.abort_transaction(DEADLINE_S)
        else:
            producer.commit_transaction(DEADLINE_S)
    assert _values(take(75, share())) == [f"{number:02}" for number in range(100) if not 25 <= number < 50]


def test_a_topic_may_come_later_and_grow(broker: Broker, share: Callable[..., ConfluentShare]) -> None:
    _create(broker, "orders", 1)
    member = share("orders", "later")
    _fill(broker, 1)
    take(1, member)
    _create(broker, "later", 2)
    values = _fill(broker, 10, topic="later")
    assert _values(take(10, member)) == values


def test_members_join_again_when_the_broker_has_been_restarted(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    directory = tmp_path_factory.mktemp("shares")
    with Broker(data_dir=directory) as first:
        port = int(first.bootstrap.rpartition(":")[2])
        values = _fill(first, 10)
        member = ConfluentShare(first.bootstrap, GROUP, "orders", is_explicit=True)
        got = take(10, member)
        member.say(ACCEPT, got[:5])
        member.commit()
    with Broker(data_dir=directory, kafka_port=port) as second, member:
        member.say(RELEASE, got[5:])
        values = [value for value in values if value not in {each.value for each in got[:5]}]
        values += _fill(second, 5, first=10)
        assert _values(take(10, member)) == values


def test_administrators_see_share_groups_and_delete_them(broker: Broker, share: Callable[..., ConfluentShare]) -> None:
    _fill(broker, 1)
    member = share()
    take(1, member)
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        (listed,) = admin.list_groups()
        assert (listed["group_id"], listed["group_state"], listed["group_type"]) == (GROUP, "Stable", "share")
        assert admin.delete_groups([GROUP])[GROUP] != "OK"
        assert httpx.delete(f"{broker.http}/queues/{GROUP}").status_code == 409
        member.close()
        eventually(lambda: admin.list_groups()[0]["group_state"] == "Empty", "the group has no members")
        assert admin.delete_groups([GROUP])[GROUP] == "OK"
        assert admin.list_groups() == []
    finally:
        admin.close()

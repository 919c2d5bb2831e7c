"""Managing topics with the admin clients: what is created, described, grown and deleted, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.clients.adapters.kcat import KcatClient
from tests.clients.contract import Admin, Client, ErrorCode, Message, NewTopic, Place, Setting, Source
from tests.clients.expect import eventually, refused


def test_a_created_topic_has_what_was_asked_for(admin: Admin, new_name: Callable[[], str]) -> None:
    name = new_name()
    admin.create([NewTopic(name=name, partitions=5, settings={"retention.ms": "3600000"})])
    eventually(lambda: name in admin.topics(), "the topic is listed")
    eventually(lambda: len(admin.describe(name)) == 5, "it has 5 partitions")
    (node,) = admin.cluster().nodes
    assert admin.describe(name) == [(partition, node, (node,), (node,)) for partition in range(5)]
    assert admin.settings(name)["retention.ms"] == Setting("3600000", Source.TOPIC)


def test_a_topic_is_created_once(admin: Admin, new_topic: Callable[..., str]) -> None:
    name = new_topic(partitions=2)
    with refused(ErrorCode.TOPIC_ALREADY_EXISTS):
        admin.create([NewTopic(name=name, partitions=4)])
    assert len(admin.describe(name)) == 2


@pytest.mark.parametrize("name", ["a space", "a/slash", "ümlaut", ".", "..", "x" * 250])
def test_an_invalid_name_is_refused(name: str, admin: Admin) -> None:
    with refused(ErrorCode.INVALID_TOPIC_EXCEPTION):
        admin.create([NewTopic(name=name)])
    assert name not in admin.topics()


def test_the_longest_name_is_allowed(admin: Admin, new_name: Callable[[], str]) -> None:
    name = new_name().rjust(249, "x")[-249:]
    admin.create([NewTopic(name=name)])
    eventually(lambda: name in admin.topics(), "the topic is listed")


def test_more_replicas_than_nodes_are_refused(admin: Admin, new_name: Callable[[], str]) -> None:
    name = new_name()
    with refused(ErrorCode.INVALID_REPLICATION_FACTOR):
        admin.create([NewTopic(name=name, replicas=2)])
    assert name not in admin.topics()


def test_a_topic_without_partitions_is_refused(admin: Admin, new_name: Callable[[], str]) -> None:
    with refused(ErrorCode.INVALID_PARTITIONS):
        admin.create([NewTopic(name=new_name(), partitions=0)])


@pytest.mark.parametrize(
    "setting", [("retention.ms", "soon"), ("cleanup.policy", "burn"), ("no.such.setting", "1"), ("segment.bytes", "-1")]
)
def test_an_invalid_setting_is_refused(setting: tuple[str, str], admin: Admin, new_name: Callable[[], str]) -> None:
    name = new_name()
    with refused(ErrorCode.INVALID_CONFIG):
        admin.create([NewTopic(name=name, settings=dict([setting]))])
    assert name not in admin.topics()


def test_a_refused_topic_does_not_hold_up_others_of_the_same_request(admin: Admin, new_name: Callable[[], str]) -> None:
    good = new_name()
    with refused(ErrorCode.INVALID_PARTITIONS):
        admin.create([NewTopic(name=new_name(), partitions=0), NewTopic(name=good, partitions=2)])
    eventually(lambda: good in admin.topics(), "the good topic is there")


def test_a_topic_grows_and_never_shrinks(
    admin: Admin, clients: dict[str, Client], new_topic: Callable[..., str]
) -> None:
    name = new_topic(partitions=2)
    admin.grow(name, 6)
    eventually(lambda: len(admin.describe(name)) == 6, "it has 6 partitions")
    for partitions in (6, 3):
        with refused(ErrorCode.INVALID_PARTITIONS):
            admin.grow(name, partitions)
    assert len(admin.describe(name)) == 6
    kcat = clients["kcat"]
    assert kcat.send(name, [Message(b"into a new one", partition=5)]) == [0]
    with kcat.reader([Place(name, 5)]) as reader:
        assert [record.value for record in reader.take(1)] == [b"into a new one"]


def test_a_deleted_topic_is_gone(admin: Admin, clients: dict[str, Client], new_topic: Callable[..., str]) -> None:
    name = new_topic(partitions=3)
    clients["kcat"].send(name, [Message(b"x")])
    admin.delete([name])
    eventually(lambda: name not in admin.topics(), "the topic is not listed")
    with refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        admin.describe(name)


def test_a_topic_made_again_under_the_same_name_is_empty(
    admin: Admin, clients: dict[str, Client], new_topic: Callable[..., str]
) -> None:
    place = Place(new_topic(partitions=3), 0)
    clients["kcat"].send(place.topic, [Message(b"x")] * 3)
    admin.delete([place.topic])
    eventually(lambda: place.topic not in admin.topics(), "the topic is not listed")
    admin.create([NewTopic(name=place.topic)])
    eventually(lambda: place.topic in admin.topics(), "the new topic is listed")
    eventually(lambda: clients["kcat"].bounds(place) == (0, 0), "the new topic is empty")
    assert len(admin.describe(place.topic)) == 1


def test_an_unknown_topic_cannot_be_changed(admin: Admin, new_name: Callable[[], str]) -> None:
    name = new_name()
    for act in (lambda: admin.delete([name]), lambda: admin.grow(name, 5), lambda: admin.describe(name)):
        with refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            act()
    assert name not in admin.topics()


def test_asking_for_an_unknown_topic_does_not_create_it_if_told_so(
    admins: dict[str, Admin], new_name: Callable[[], str]
) -> None:
    name = new_name()
    for admin in admins.values():
        with refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            admin.describe(name)
        assert name not in admin.topics()


def test_kcat_asks_for_an_unknown_topic_without_creating_it(
    clients: dict[str, Client], admins: dict[str, Admin], new_name: Callable[[], str]
) -> None:
    name = new_name()
    kcat = clients["kcat"]
    assert isinstance(kcat, KcatClient)
    assert kcat.describe(name) == "Broker: Unknown topic or partition"
    assert name not in admins["confluent"].topics()


def test_writing_to_an_unknown_topic_creates_it(
    client: Client, admins: dict[str, Admin], new_name: Callable[[], str], is_goqueue: bool
) -> None:
    name = new_name()
    assert client.send(name, [Message(b"first")]) == [0]
    with client.reader([Place(name, 0)]) as reader:
        assert [record.value for record in reader.take(1)] == [b"first"]
    # Apache Kafka has one partition by default.
    assert len(admins["kafka-python"].describe(name)) == 3 or not is_goqueue


def test_the_cluster_is_one_node_at_the_address_that_clients_use(admin: Admin, bootstrap: str) -> None:
    cluster = admin.cluster()
    assert list(cluster.nodes.values()) == [bootstrap]
    assert cluster.controller in cluster.nodes


def test_many_topics_go_through_one_request(
    admin: Admin, clients: dict[str, Client], new_name: Callable[[], str]
) -> None:
    names = [new_name() for _ in range(20)]
    admin.create([NewTopic(name=name, partitions=4) for name in names])
    eventually(lambda: admin.topics().issuperset(names), "all topics are listed")
    eventually(lambda: all(len(admin.describe(name)) == 4 for name in names), "all have 4 partitions")
    admin.delete(names)
    eventually(lambda: admin.topics().isdisjoint(names), "no topic is listed any more")

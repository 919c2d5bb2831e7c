"""The broker that the clients talk to, the clients, their members of groups, and topics of their own for every test.

The broker is one of ours, one per worker, unless GOQUEUE_TEST_BOOTSTRAP names another (`host:port`): so the same
tests can be run against Apache Kafka, which shows that they ask for what Kafka does. `installed.py` says what happens
to tests whose client is not installed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count

import pytest

from tests.clients.adapters.aio import AiokafkaClient
from tests.clients.adapters.aio_admin import AiokafkaAdmin
from tests.clients.adapters.aio_groups import AiokafkaMember
from tests.clients.adapters.confluent import ConfluentClient
from tests.clients.adapters.confluent_admin import ConfluentAdmin
from tests.clients.adapters.confluent_groups import BROKER_ASSIGNS, COOPERATIVE, ConfluentMember
from tests.clients.adapters.kafka_python import KafkaPythonClient
from tests.clients.adapters.kafka_python_admin import KafkaPythonAdmin
from tests.clients.adapters.kafka_python_groups import KafkaPythonMember
from tests.clients.adapters.kafkajs import Bridge, KafkajsClient
from tests.clients.adapters.kafkajs_admin import KafkajsAdmin
from tests.clients.adapters.kafkajs_groups import KafkajsMember
from tests.clients.adapters.kcat import KcatClient
from tests.clients.adapters.kcat_groups import KcatMember
from tests.clients.contract import Admin, Client, NewTopic
from tests.clients.expect import eventually
from tests.clients.group_contract import Joining, Member
from tests.clients.installed import KAFKAJS, KCAT, is_installed, start_installed, without

_BOOTSTRAP_VARIABLE = "GOQUEUE_TEST_BOOTSTRAP"
_CLIENTS: dict[str, Callable[[str], Client]] = {
    "confluent": ConfluentClient,
    KCAT: KcatClient,
    "aiokafka": AiokafkaClient,
    "kafka-python": KafkaPythonClient,
    KAFKAJS: KafkajsClient,
}
_ADMINS: dict[str, Callable[[str], Admin]] = {
    "confluent": ConfluentAdmin,
    "aiokafka": AiokafkaAdmin,
    "kafka-python": KafkaPythonAdmin,
    KAFKAJS: KafkajsAdmin,
}
_MEMBERS: dict[str, Callable[[str, Joining], Member]] = {
    "confluent": ConfluentMember,
    "confluent-cooperative": lambda bootstrap, joining: ConfluentMember(bootstrap, joining, COOPERATIVE),
    "confluent-broker-assigns": lambda bootstrap, joining: ConfluentMember(bootstrap, joining, BROKER_ASSIGNS),
    KCAT: KcatMember,
    "aiokafka": AiokafkaMember,
    "kafka-python": KafkaPythonMember,
}
_numbers = count()


@pytest.fixture(scope="package")
def bootstrap() -> Iterator[str]:
    """The address of the broker under test, `host:port`."""
    if named := os.environ.get(_BOOTSTRAP_VARIABLE):
        yield named
        return
    from goqueue.testing import Broker

    with Broker() as broker:
        yield broker.bootstrap


@pytest.fixture(scope="package")
def is_goqueue() -> bool:
    """Whether the broker is ours; its defaults are not those of Apache Kafka."""
    return _BOOTSTRAP_VARIABLE not in os.environ


@pytest.fixture(scope="package")
def clients(bootstrap: str) -> Iterator[dict[str, Client]]:
    """All clients that are installed by name, started once."""
    started = start_installed(_CLIENTS, bootstrap)
    yield started
    for each in started.values():
        each.close()


@pytest.fixture(params=_CLIENTS)
def client(request: pytest.FixtureRequest, clients: dict[str, Client]) -> Client:
    """Each of the clients in turn."""
    return clients[request.param]


@pytest.fixture(scope="package")
def admins(bootstrap: str) -> Iterator[dict[str, Admin]]:
    """All admin clients that are installed by name, started once; kcat has none."""
    started = start_installed(_ADMINS, bootstrap)
    yield started
    for each in started.values():
        each.close()


@pytest.fixture(params=_ADMINS)
def admin(request: pytest.FixtureRequest, admins: dict[str, Admin]) -> Admin:
    """Each of the admin clients in turn."""
    return admins[request.param]


@pytest.fixture
def new_name(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Return unused names of topics, also with a broker that earlier runs have used."""
    test = re.sub(r"[^a-zA-Z0-9._-]+", "-", request.node.name)[:150]

    def make() -> str:
        return f"{test}-{os.getpid()}-{os.urandom(3).hex()}-{next(_numbers)}"

    return make


@pytest.fixture
def new_topic(new_name: Callable[[], str], admins: dict[str, Admin]) -> Callable[..., str]:
    """Create a topic that is ready for use, and return its name."""

    def create(partitions: int = 1, settings: dict[str, str] | None = None) -> str:
        topic = NewTopic(name=new_name(), partitions=partitions, settings=settings or {})
        creator = admins["confluent"]
        assert isinstance(creator, ConfluentAdmin)
        creator.create([topic])
        eventually(lambda: topic.name in creator.topics(), f"{topic.name} is among the topics")
        eventually(lambda: creator.is_ready(topic.name, partitions), f"every partition of {topic.name} answers")
        return topic.name

    return create


@pytest.fixture(scope="package")
def kafkajs_bridge(bootstrap: str) -> Iterator[Bridge]:
    """A process of Node for all members that kafkajs has."""
    bridge = Bridge(bootstrap)
    yield bridge
    bridge.close()


@pytest.fixture
def members() -> Iterator[list[Member]]:
    """Members that have joined in a test; the end of the test closes those that are left."""
    joined: list[Member] = []
    yield joined
    for member in joined:
        member.leave()


@pytest.fixture
def join_as(bootstrap: str, members: list[Member], request: pytest.FixtureRequest) -> Callable[..., Member]:
    """Let a member of the named client join a group."""

    def join(client: str, group: str, *topics: str, instance_id: str | None = None) -> Member:
        if not is_installed(client):
            without(client)
        joining = Joining(group=group, topics=topics, instance_id=instance_id)
        if client == KAFKAJS:
            members.append(KafkajsMember(request.getfixturevalue("kafkajs_bridge"), joining))
        else:
            members.append(_MEMBERS[client](bootstrap, joining))
        return members[-1]

    return join


@pytest.fixture(params=[*_MEMBERS, KAFKAJS])
def join(request: pytest.FixtureRequest, join_as: Callable[..., Member]) -> Callable[..., Member]:
    """Let a member of each of the clients in turn join a group."""
    return partial(join_as, request.param)

"""confluent-kafka's admin client, as far as groups are concerned."""

# The library's admin module neither marks its public names as exported nor types all of them.
# mypy: disable-error-code="attr-defined,no-untyped-call"

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, ConsumerGroupType, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.clients.adapters.confluent import broker_refusals, refusal_of
from tests.clients.contract import DEADLINE_S, Place


class MemberView(NamedTuple):
    """A member as it is described."""

    id: str
    client_id: str
    host: str
    assigned: frozenset[Place]


class GroupView(NamedTuple):
    """A group as it is described, with the names of states and kinds that the library has."""

    state: str
    kind: str
    members: list[MemberView]

    @property
    def shares(self) -> dict[str, frozenset[Place]]:
        """Return the partitions of each member."""
        return {member.id: member.assigned for member in self.members}


class ConfluentGroupAdmin:
    """The admin client; every call may raise Refused."""

    def __init__(self, bootstrap: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def listed(self, *, state: str | None = None, kind: str | None = None) -> dict[str, tuple[str, str]]:
        """Return state and kind of all groups, or of those that are in a state or of a kind."""
        states = set() if state is None else {ConsumerGroupState[state]}
        kinds = set() if kind is None else {ConsumerGroupType[kind.upper()]}
        with broker_refusals():
            found = self._admin.list_consumer_groups(states=states, types=kinds, request_timeout=DEADLINE_S)
            result = found.result(DEADLINE_S)
        assert result.errors == []
        return {each.group_id: (each.state.name, each.type.name) for each in result.valid}

    def describe(self, group: str) -> GroupView:
        """Describe a group."""
        with broker_refusals():
            futures = self._admin.describe_consumer_groups([group], request_timeout=DEADLINE_S)
            found = futures[group].result(DEADLINE_S)
        members = [
            MemberView(
                member.member_id,
                member.client_id,
                member.host,
                frozenset(Place(each.topic, each.partition) for each in member.assignment.topic_partitions),
            )
            for member in found.members
        ]
        return GroupView(found.state.name, found.type.name, members)

    def delete(self, group: str) -> None:
        """Delete a group."""
        with broker_refusals():
            self._admin.delete_consumer_groups([group], request_timeout=DEADLINE_S)[group].result(DEADLINE_S)

    def offsets(self, group: str, places: Sequence[Place] | None = None) -> dict[Place, int | None]:
        """Return how far a group is, everywhere or in some partitions."""
        wanted = None if places is None else [TopicPartition(*place) for place in places]
        request = ConsumerGroupTopicPartitions(group, wanted)
        with broker_refusals():
            futures = self._admin.list_consumer_group_offsets([request], request_timeout=DEADLINE_S)
            found = futures[group].result(DEADLINE_S)
        return {
            Place(each.topic, each.partition): None if each.offset < 0 else each.offset
            for each in found.topic_partitions
        }

    def set_offsets(self, group: str, offsets: Mapping[Place, int]) -> None:
        """Set how far a group is; Refused with the code of the first partition that is."""
        request = ConsumerGroupTopicPartitions(group, [TopicPartition(*place, at) for place, at in offsets.items()])
        with broker_refusals():
            futures = self._admin.alter_consumer_group_offsets([request], request_timeout=DEADLINE_S)
            found = futures[group].result(DEADLINE_S)
        for each in found.topic_partitions:
            if each.error is not None:
                raise refusal_of(each.error)

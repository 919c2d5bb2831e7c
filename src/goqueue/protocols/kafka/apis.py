"""The APIs that are offered, each with its versions and handler; also the reply to ApiVersions.

Clients use every API that is listed: they choose by this list alone. Produce and Fetch have no handler here, since
`connection` handles them itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from typing import NamedTuple

from goqueue.kafka_wire.decode import Request, prepare_request
from goqueue.kafka_wire.encode import Reply, encode_response, prepare_response
from goqueue.protocols.kafka.api import cluster, configs, topics
from goqueue.protocols.kafka.api.context import Context
from goqueue.protocols.kafka.api.groups import admin as group_admin
from goqueue.protocols.kafka.api.groups import classic as groups
from goqueue.protocols.kafka.api.groups import consumer as consumer_groups
from goqueue.protocols.kafka.api.groups import offsets as group_offsets
from goqueue.protocols.kafka.api.messages import offsets
from goqueue.protocols.kafka.api.share_groups import fetch as share_fetch
from goqueue.protocols.kafka.api.share_groups import members as share_groups
from goqueue.protocols.kafka.api.transactions import coordination as transactions
from goqueue.protocols.kafka.api.transactions import markers

PRODUCE = 0
FETCH = 1
API_VERSIONS = 18
_UNSUPPORTED_VERSION = 35
_NEVER = 32767

Handler = Callable[[Context, Request], Awaitable[Reply | bytes]]
"""Answers a request: with values to be encoded, or with the encoded body."""


class Api(NamedTuple):
    """One API: its key, the versions that are offered, the first one with tagged fields, and its handler.

    `advertised_from` is the first version in the reply to ApiVersions, if that is not the first that is offered. With
    `lets_others_pass`, later requests are handled while it waits for the disk; replies stay in order.
    """

    key: int
    first: int
    last: int
    flexible_from: int
    handler: Handler | None = None
    advertised_from: int | None = None
    lets_others_pass: bool = False

    def offers(self, version: int) -> bool:
        """Return whether a version is offered."""
        return self.first <= version <= self.last


APIS = {
    api.key: api
    for api in (
        # Old versions of librdkafka (kcat) compress only if version 0 is listed, which they do not use then.
        # Kafka 4 does the same for them.
        Api(PRODUCE, 3, 12, 9, advertised_from=0),
        Api(FETCH, 4, 17, 12),
        Api(2, 1, 10, 6, offsets.list_offsets),
        Api(cluster.METADATA, 0, 13, 9, cluster.metadata),
        Api(8, 2, 10, 8, group_offsets.offset_commit, lets_others_pass=True),
        Api(9, 1, 10, 6, group_offsets.offset_fetch),
        Api(10, 0, 6, 3, cluster.find_coordinator),
        Api(11, 0, 9, 6, groups.join_group),
        Api(12, 0, 4, 4, groups.heartbeat),
        Api(13, 0, 5, 4, groups.leave_group),
        Api(14, 0, 5, 4, groups.sync_group),
        Api(15, 0, 6, 5, group_admin.describe_groups),
        Api(16, 0, 5, 3, group_admin.list_all_groups),
        Api(API_VERSIONS, 0, 4, 3),
        Api(19, 2, 7, 5, topics.create_topics),
        Api(20, 1, 6, 4, topics.delete_topics),
        Api(21, 0, 2, 2, topics.remove_records),
        Api(22, 0, 5, 2, transactions.init_producer_id),
        Api(23, 2, 4, 4, offsets.offset_for_leader_epoch),
        Api(24, 0, 3, 3, transactions.add_partitions_to_txn),
        Api(25, 0, 4, 3, transactions.add_offsets_to_txn),
        Api(26, 0, 5, 3, transactions.end_txn),
        Api(27, 1, 1, 1, markers.write_txn_markers),
        Api(28, 0, 5, 3, transactions.txn_offset_commit),
        Api(32, 1, 4, 4, configs.describe_configs),
        Api(33, 0, 2, 2, configs.alter_configs),
        Api(35, 1, 4, 2, cluster.describe_log_dirs),
        Api(37, 0, 3, 2, topics.create_partitions),
        Api(42, 0, 2, 2, group_admin.delete_groups),
        Api(43, 0, 2, 2, cluster.elect_leaders),
        Api(44, 0, 1, 1, configs.alter_configs_incrementally),
        Api(46, 0, 0, 0, cluster.list_partition_reassignments),
        Api(47, 0, 0, _NEVER, group_offsets.offset_delete),
        Api(55, 0, 2, 0, cluster.describe_quorum),
        Api(60, 0, 1, 0, cluster.describe_cluster),
        Api(61, 0, 0, 0, transactions.describe_producers),
        Api(65, 0, 0, 0, transactions.describe_transactions),
        Api(66, 0, 1, 0, transactions.list_all_transactions),
        Api(68, 0, 1, 0, consumer_groups.consumer_group_heartbeat),
        Api(69, 0, 1, 0, group_admin.describe_consumer_groups),
        Api(74, 0, 1, 0, configs.list_config_resources),
        Api(75, 0, 0, 0, cluster.describe_topic_partitions),
        Api(76, 1, 1, 0, share_groups.share_group_heartbeat),
        Api(77, 1, 1, 0, share_groups.share_group_describe),
        Api(78, 1, 2, 0, share_fetch.share_fetch),
        Api(79, 1, 2, 0, share_fetch.share_acknowledge),
        Api(90, 0, 1, 0, share_groups.describe_share_group_offsets),
        Api(91, 0, 0, 0, share_groups.alter_share_group_offsets),
        Api(92, 0, 0, 0, share_groups.delete_share_group_offsets),
    )
}


@cache
def api_versions(version: int) -> bytes:
    """Return the body of the reply to ApiVersions.

    A request in an unsupported version is answered in version 0, which all clients can read; they ask again.
    """
    api = APIS[API_VERSIONS]
    error, version = (0, version) if api.offers(version) else (_UNSUPPORTED_VERSION, 0)
    keys = [
        {
            "api_key": each.key,
            "min_version": each.first if each.advertised_from is None else each.advertised_from,
            "max_version": each.last,
        }
        for each in APIS.values()
    ]
    # This tells clients that each of their transactions may end with a new epoch.
    transactions_v2 = {"name": "transaction.version", "max_version_level": 2, "min_version_level": 2}
    reply: Reply = {
        "error_code": error,
        "api_keys": keys,
        "supported_features": [{"name": "transaction.version", "min_version": 0, "max_version": 2}],
        "finalized_features_epoch": 0,
        "finalized_features": [transactions_v2],
    }
    return bytes(encode_response(API_VERSIONS, version, reply))


_USUAL_VERSIONS = {3: (4, 5, 6, 12, 13), FETCH: (11, 12, 16), 2: (2, 3, 7), 22: (0, 1, 4), 19: (3, 4), 32: (1, 4)}


def warm_up() -> None:
    """Build the codec of the first requests of usual clients, so that the first client does not wait for it."""
    for version in range(APIS[API_VERSIONS].last + 1):
        api_versions(version)
    for key, versions in _USUAL_VERSIONS.items():
        for version in versions:
            prepare_request(key, version)
            prepare_response(key, version)

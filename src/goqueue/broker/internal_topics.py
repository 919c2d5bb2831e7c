"""The topics that hold the broker's own state, and the names of their logs while a repair works on them."""

from __future__ import annotations

from collections.abc import Mapping

CATALOG_TOPIC = "__catalog"
GROUPS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transactions"
DELIVERIES_TOPIC = "__deliveries"
REDRIVES_TOPIC = "__redrives"
COORDINATOR_PARTITIONS = 50
INTERNAL_CONFIG: Mapping[str, str] = {
    "cleanup.policy": "compact",
    "retention.ms": "-1",
    "segment.bytes": str(16 * 1024 * 1024),
    "max.message.bytes": str(64 * 1024 * 1024),
    # The decisions of a coordinator are durable, whatever the default for other topics is.
    "goqueue.flush": "group",
}
REPAIR_SUFFIX = ".repair"
"""Ends the name of a log that `goqueue log repair` is writing."""
SET_ASIDE = ".damaged-"
"""Follows the name of a log that was set aside, before a number."""

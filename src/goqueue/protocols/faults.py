"""The one table of errors: the Kafka error code and the HTTP status of each code of `goqueue.errors`.

An unlisted code takes the entry of its kind. A test checks that every error of the tree has an entry of its own or
through its kind, and that the statuses and codes exist in their protocols.
"""

from __future__ import annotations

from typing import NamedTuple

from goqueue.errors import GoQueueError


class Fault(NamedTuple):
    """Kafka's error code and the HTTP status of an error."""

    kafka: int
    http: int


UNEXPECTED = Fault(-1, 500)

TABLE: dict[str, Fault] = {
    # kinds
    "invalid": Fault(42, 400),
    "not_found": Fault(3, 404),
    "conflict": Fault(42, 409),
    "fenced": Fault(42, 409),
    "throttled": Fault(89, 429),
    "unavailable": Fault(56, 503),
    "corrupt": Fault(56, 500),
    # batches and records
    "corrupt_batch": Fault(2, 400),
    "unreadable_batch": Fault(2, 500),
    "unsupported_format": Fault(43, 400),
    "too_large": Fault(10, 413),
    "invalid_record": Fault(87, 400),
    "invalid_timestamp": Fault(32, 400),
    # logs and partitions
    "corrupt_log": Fault(56, 500),
    "offset_out_of_range": Fault(1, 416),
    "log_offline": Fault(56, 503),
    "disk_full": Fault(56, 507),
    "not_enough_replicas": Fault(19, 503),
    "unknown_partition": Fault(3, 404),
    "unknown_leader_epoch": Fault(75, 409),
    "leader_epoch_fenced": Fault(74, 409),
    # producers
    "producer_fenced": Fault(47, 409),
    "out_of_order_sequence": Fault(45, 409),
    "unknown_producer": Fault(59, 409),
    "transaction_fenced": Fault(90, 409),
    # groups
    "invalid_group": Fault(24, 400),
    "unknown_group": Fault(69, 404),
    "group_not_empty": Fault(68, 409),
    "group_subscribed": Fault(86, 409),
    "inconsistent_group_protocol": Fault(23, 409),
    "invalid_session_timeout": Fault(26, 400),
    "group_full": Fault(81, 409),
    "group_request_too_large": Fault(42, 413),
    "unknown_member": Fault(25, 404),
    "member_id_required": Fault(79, 409),
    "stale_generation": Fault(22, 409),
    "instance_fenced": Fault(82, 409),
    "instance_in_use": Fault(111, 409),
    "member_fenced": Fault(110, 409),
    "stale_member_epoch": Fault(113, 409),
    "rebalance_in_progress": Fault(27, 409),
    "unsupported_assignor": Fault(112, 400),
    "invalid_pattern": Fault(128, 400),
    "unknown_queue": Fault(69, 404),
    "stale_receipt": Fault(121, 409),
    "invalid_receipt": Fault(42, 400),
    "share_session_not_found": Fault(122, 404),
    "invalid_share_session_epoch": Fault(123, 409),
    "share_session_limit_reached": Fault(133, 429),
    "unknown_redrive": Fault(42, 404),
    "redrive_running": Fault(42, 409),
    "offset_metadata_too_large": Fault(12, 400),
    "commit_too_large": Fault(28, 413),
    "unstable_offsets": Fault(88, 503),
    "coordinator_unavailable": Fault(15, 503),
    # transactions
    "invalid_transaction_state": Fault(48, 409),
    "producer_mismatch": Fault(49, 409),
    "invalid_transaction_timeout": Fault(50, 400),
    "concurrent_transactions": Fault(51, 409),
    "unknown_transaction": Fault(105, 404),
    # pipelines
    "unknown_pipeline": Fault(42, 404),
    "pipeline_running": Fault(42, 409),
    # jobs
    "unknown_job": Fault(42, 404),
    # topics
    "unknown_topic": Fault(3, 404),
    "unknown_topic_id": Fault(100, 404),
    "topic_exists": Fault(36, 409),
    "topic_protected": Fault(17, 403),
    "topic_private": Fault(29, 403),
    "invalid_topic_name": Fault(17, 400),
    "invalid_topic_settings": Fault(40, 400),
    "invalid_partitions": Fault(37, 400),
    "invalid_replication": Fault(38, 400),
    # requests
    "malformed_request": Fault(42, 400),
    "invalid_acks": Fault(21, 400),
    "policy_violation": Fault(44, 409),
    "unknown_files": Fault(56, 409),
    "not_offered": Fault(42, 400),
    "draining": Fault(6, 503),
    # malformed HTTP requests
    "unknown_path": Fault(42, 404),
    "method_not_allowed": Fault(42, 405),
    "request_timeout": Fault(42, 408),
    "body_too_large": Fault(42, 413),
    "unsupported_media_type": Fault(42, 415),
    "unsupported_content_encoding": Fault(42, 415),
    "host_not_allowed": Fault(42, 403),
    "origin_not_allowed": Fault(42, 403),
    "head_too_large": Fault(42, 431),
}


def fault_of(error: GoQueueError) -> Fault:
    """Return the entry of an error: that of its own code, or of the nearest kind above it."""
    for kind in type(error).__mro__:
        found = TABLE.get(getattr(kind, "code", ""))
        if found is not None:
            return found
    return UNEXPECTED

"""What schemathesis cannot know from a schema: how much is too much, and what depends on what there is.

Requests that are meant to be refused are sent as they were made.
"""

from __future__ import annotations

import os
from typing import Any

import schemathesis
from schemathesis import GenerationMode

_PARTITIONS_MAX = 10
STALE_RECEIPT_VARIABLE = "GOQUEUE_TEST_STALE_RECEIPT"
STALE_RECEIPT = os.environ.get(STALE_RECEIPT_VARIABLE, "")
"""A receipt that the broker has signed, of a message that is settled."""
KNOWN_TOPIC, KNOWN_GROUP, KNOWN_MEMBER = "0", "known", "m"
"""State at the start of a run: a topic with one partition, and a group with a member that reads it."""


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Make a request that should succeed one that can: small, and about something that exists."""
    del context, kwargs
    if isinstance(case.body, dict):
        _bound_partitions(case.body)
    if case.meta is None or case.meta.generation.mode is not GenerationMode.POSITIVE:
        return
    case.body = _whole_numbers(case.body)
    if isinstance(case.body, dict):
        _make_fit(case.body, is_change=case.method == "PATCH")
    query = case.query or {}
    # Which offsets there are is not known, and retention may take any of them.
    query.pop("offset", None)
    if "T" in str(query.get("timestamp")).upper():
        query["timestamp"] = "2025-01-31T12:00:00Z"
    if "wait" in query:
        query["wait"] = "1ms"
    # Whether there is such a poll, or such a place, depends on those before.
    query.pop("after", None)
    query.pop("cursor", None)
    _choose_letters(query)
    if "{group}" in case.path and not _comes_or_goes(case):
        case.path_parameters["group"] = KNOWN_GROUP
        _be_known(query)
        if isinstance(case.body, dict):
            _be_known(case.body)


def _choose_letters(fields: dict[str, Any]) -> None:
    """Choose dead letters that could be there: what begins does so before it ends, and keys are given once."""
    if "key_base64" in fields:
        fields.pop("key", None)
    for name in {"until", "last_offset"} & fields.keys():
        del fields[name]
    if "since" in fields:
        fields["since"] = "2025-01-31T12:00:00Z"


def _comes_or_goes(case: Any) -> bool:
    """Tell whether a request is about who is a member: those are for others."""
    return case.method == "DELETE" or "join" in case.path or "leave" in case.path


def _be_known(fields: dict[str, Any]) -> None:
    """Speak as the member that there is, about what it reads."""
    if "member_id" in fields:
        fields["member_id"] = KNOWN_MEMBER
    if "generation" in fields:
        fields["generation"] = 1
    for offset in fields.get("offsets", ()):
        offset |= {"topic": KNOWN_TOPIC, "partition": 0}
    if isinstance(fields.get("time"), str):
        fields["time"] = "2025-01-31T12:00:00+01:00"


def _fit_queue(body: dict[str, Any]) -> None:
    for name in {"visibility_timeout", "timeout", "backoff", "backoff_max"} & body.keys():
        # The greatest durations are told by their errors.
        body[name] = "30s"
    # Which dates there are, and which names topics may have, is told by their errors.
    body.pop("start", None)
    body.pop("dead_letters", None)
    if "wait" in body:
        body["wait"] = "1ms"
    # One that could be, of a lease that is over.
    if "receipt_handle" in body:
        body["receipt_handle"] = STALE_RECEIPT
    if "receipt_handles" in body:
        body["receipt_handles"] = [STALE_RECEIPT] * len(body["receipt_handles"])


def _make_fit(body: dict[str, Any], *, is_change: bool) -> None:
    # Which values a setting takes is told by its error.
    body.pop("config", None)
    if "started_at" in body:
        # A date may be of any century.
        body["started_at"] = "2025-01-31T12:00:00+01:00"
    if "stages" in body:
        # Nothing is staged that could be named.
        body["stages"] = []
    if is_change and body.get("partitions"):
        # A topic never gets fewer.
        body["partitions"] = _PARTITIONS_MAX
    _fit_queue(body)
    if "max_redrives" in body or "dry_run" in body or "reasons" in body:
        body.pop("target", None)
    _choose_letters(body)
    if "queries" in body:
        _be_a_report(body)
    for message in body.get("messages", ()):
        if isinstance(message.get("timestamp"), str):
            # A date may be of any century.
            message["timestamp"] = "2025-01-31T12:00:00+01:00"
        if message.get("partition"):
            message["partition"] = 0


def _be_a_report(body: dict[str, Any]) -> None:
    """Give each query of a pipeline a name of its own, and dates that every calendar has."""
    for number, query in enumerate(body["queries"]):
        query["name"] = f"{number} {query['name']}"[:200]
        if query.get("updated_at"):
            query["updated_at"] = "2025-01-31T12:00:00Z"


def _bound_partitions(body: dict[str, Any]) -> None:
    """Keep topics small: the bounds are tested elsewhere, and take a while."""
    count = body.get("partitions")
    if isinstance(count, int | float) and _PARTITIONS_MAX < count <= 10_000:
        body["partitions"] = _PARTITIONS_MAX


def _whole_numbers(value: Any) -> Any:
    """Write 1.0 as 1: the same to JSON Schema, but not to a strict reader."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_whole_numbers(each) for each in value]
    if isinstance(value, dict):
        return {key: _whole_numbers(each) for key, each in value.items()}
    return value

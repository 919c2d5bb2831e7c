"""Requests are read and responses written as Kafka defines them, in every version that is offered; kio is the judge."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

import pytest

from goqueue.kafka_wire.decode import Cursor, Request, decode_request
from goqueue.kafka_wire.encode import encode_response
from goqueue.kafka_wire.shapes import newest_version
from goqueue.protocols.kafka.apis import FETCH, PRODUCE
from tests.protocols.kafka.generate import OFFERED, message
from tests.protocols.kafka.messages import (
    NO_ID,
    Plain,
    build,
    read,
    request_bytes,
    request_class,
    response_class,
    write,
)

# Produce is parsed by hand and its reply written by hand, and so is that of Fetch: see the tests of these two.
READ_BY_SHAPE = [(key, version) for key, version in OFFERED if key != PRODUCE]
WRITTEN_BY_SHAPE = [(key, version) for key, version in OFFERED if key not in {PRODUCE, FETCH}]


def seen(request: Any, like: Any) -> Any:
    """Return what the broker has read, in the form of the plain values that it should equal.

    A structure that was left out because it has its defaults is None to the broker, whose handlers never need one.
    """
    if request is None and isinstance(like, dict):
        return like if set(like.values()) <= {-1} else None
    if isinstance(request, Request):
        return {name: seen(getattr(request, name), value) for name, value in like.items()}
    if isinstance(request, list | tuple) and isinstance(like, list):
        assert len(request) == len(like)
        return [seen(each, wanted) for each, wanted in zip(request, like, strict=True)]
    return NO_ID if request is None and isinstance(like, UUID) else request


@pytest.mark.seeds(40, long_count=2_000)
def test_a_request_has_the_fields_that_its_client_wrote(seed: int) -> None:
    random = Random(seed)
    for key, version in READ_BY_SHAPE:
        values = message(random, request_class(key, version))
        request = decode_request(key, version, Cursor(request_bytes(key, version, values)))
        assert seen(request, values) == values, f"api {key} version {version}"


@pytest.mark.seeds(40, long_count=2_000)
def test_a_response_is_the_same_bytes_as_another_implementation_writes(seed: int) -> None:
    random = Random(seed)
    for key, version in WRITTEN_BY_SHAPE:
        entity = response_class(key, version)
        values = message(random, entity)
        written = bytes(encode_response(key, version, values))
        assert read(entity, written) == values, f"api {key} version {version}"
        assert bytes(encode_response(key, version, _without_empty_tags(values))) == write(build(entity, values))


def _without_empty_tags(values: Plain) -> Plain:
    """Leave out the lists that may be absent on the wire; present and empty, they mean the same."""
    return {name: value for name, value in values.items() if value or not name.endswith("_features")}


@pytest.mark.seeds(20, long_count=1_000)
def test_an_answer_in_the_newest_form_can_be_told_in_every_version(seed: int) -> None:
    random = Random(seed)
    for key, version in WRITTEN_BY_SHAPE:
        values = message(random, response_class(key, newest_version(key)))
        told = read(response_class(key, version), bytes(encode_response(key, version, _without_nulls(values))))
        assert _agrees(told, _without_nulls(values)), f"api {key} version {version}"


def _without_nulls(value: Any) -> Any:
    """Leave out what is null: an older version may not be able to say that."""
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def _agrees(told: Any, wanted: Any) -> bool:
    if isinstance(told, dict):
        return all(_agrees(told[name], wanted[name]) for name in told.keys() & wanted.keys())
    if isinstance(told, list):
        return len(told) == len(wanted) and all(map(_agrees, told, wanted))
    return bool(told == wanted)


@pytest.mark.parametrize(("key", "version"), READ_BY_SHAPE)
def test_a_field_that_an_old_version_lacks_has_its_default(key: int, version: int) -> None:
    newest = newest_version(key)
    request = decode_request(key, version, Cursor(request_bytes(key, version, {})))
    defaults = read(request_class(key, newest), request_bytes(key, newest, {}))
    own = read(request_class(key, version), request_bytes(key, version, {}))
    expected = defaults | own
    assert seen(request, expected) == expected


def test_what_old_versions_mean_is_what_they_meant_then() -> None:
    """Defaults of the definitions that change what a request asks for."""
    assert _decoded(3, 0).allow_auto_topic_creation is True
    assert _decoded(3, 13).allow_auto_topic_creation is True
    fetch = _decoded(FETCH, 4)
    assert (fetch.session_id, fetch.session_epoch, fetch.max_bytes) == (0, -1, 2**31 - 1)
    offsets = _decoded(2, 1, {"topics": [{"name": "t", "partitions": [{"partition_index": 3, "timestamp": -2}]}]})
    assert offsets.isolation_level == 0
    assert offsets.topics[0].partitions[0].current_leader_epoch == -1


def _decoded(key: int, version: int, values: Plain | None = None) -> Any:
    return decode_request(key, version, Cursor(request_bytes(key, version, values or {})))

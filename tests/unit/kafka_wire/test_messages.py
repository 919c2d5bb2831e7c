"""The shapes of `messages.txt` are those of another implementation, in every version that the broker offers."""

from __future__ import annotations

import pytest

from goqueue.kafka_wire.shapes import newest_version, request_shape, response_shape
from goqueue.protocols.kafka.apis import APIS
from tests.unit.kafka_wire.definitions import TARGET, messages, shape

OFFERED = [(api.key, version) for api in APIS.values() for version in range(api.first, api.last + 1)]


def test_file_has_exactly_the_definitions_of_what_is_offered() -> None:
    if TARGET.read_text("utf-8") != messages(APIS.values()):
        pytest.fail("messages.txt differs: run `python -m tests.unit.kafka_wire.definitions`", pytrace=False)


@pytest.mark.parametrize(("key", "version"), OFFERED)
def test_shape_is_that_of_another_implementation(key: int, version: int) -> None:
    assert request_shape(key, version) == shape("request", key, version)
    assert response_shape(key, version) == shape("response", key, version)


def test_newest_version_is_the_last_that_is_offered() -> None:
    assert {key: newest_version(key) for key in APIS} == {key: api.last for key, api in APIS.items()}


@pytest.mark.parametrize(("key", "version"), [(0, 2), (0, 13), (9_999, 0)])
def test_shape_that_is_not_defined_is_refused(key: int, version: int) -> None:
    with pytest.raises(KeyError):
        request_shape(key, version)

"""Every error of the tree is told in every protocol, by a code or status that the protocol has."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from importlib import import_module
from pkgutil import walk_packages

import pytest
from kio.schema.errors import ErrorCode

from goqueue import errors, protocols
from goqueue.errors import GoQueueError
from goqueue.protocols.faults import TABLE, UNEXPECTED, fault_of

KINDS = (
    errors.Invalid,
    errors.NotFound,
    errors.Conflict,
    errors.Fenced,
    errors.Throttled,
    errors.Unavailable,
    errors.Corrupt,
)


def tree(kind: type[GoQueueError] = GoQueueError) -> Iterator[type[GoQueueError]]:
    """Return all errors below one."""
    for each in kind.__subclasses__():
        yield each
        yield from tree(each)


# Protocols and jobs may have errors of their own.
for module in walk_packages(protocols.__path__, "goqueue.protocols."):
    import_module(module.name)
import_module("goqueue.spark.jobs.replay.job")
ALL = sorted(set(tree()), key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_every_error_is_told(kind: type[GoQueueError]) -> None:
    assert fault_of(kind.__new__(kind)) != UNEXPECTED


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_every_error_is_of_one_kind(kind: type[GoQueueError]) -> None:
    assert sum(issubclass(kind, each) for each in KINDS) == 1


def test_codes_are_unique() -> None:
    codes = [kind.code for kind in ALL if "code" in vars(kind)]
    assert len(codes) == len(set(codes))


@pytest.mark.parametrize("code", sorted(TABLE))
def test_every_entry_is_of_an_error_and_exists_in_its_protocol(code: str) -> None:
    assert code in {kind.code for kind in ALL}
    fault = TABLE[code]
    assert ErrorCode(fault.kafka) is not ErrorCode.none
    assert HTTPStatus(fault.http) >= HTTPStatus.BAD_REQUEST


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_kafka_and_the_tree_agree_whether_to_try_again(kind: type[GoQueueError]) -> None:
    """A client that is told a retriable code sends the same request again; for what cannot help it must not be."""
    fault = fault_of(kind.__new__(kind))
    if issubclass(kind, errors.Invalid | errors.Throttled):
        assert ErrorCode(fault.kafka).retriable is kind.retriable


def test_a_subclass_without_an_entry_is_told_as_its_kind() -> None:
    class NewRefusal(errors.DiskFull):
        code = "new_refusal"

    assert fault_of(NewRefusal("x")) == TABLE["disk_full"]

"""To whom a worker tells what happens: what can be a sink, and one that fails, which is no reason to stop working."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from typing_extensions import override

from goqueue.client import AsyncClient, Client
from goqueue.client.worker_options import WorkerOptions
from goqueue.client.worker_script import WorkerScript
from goqueue.client.worker_values import WorkerDraining
from goqueue.errors import Invalid
from goqueue.seams.sink import Event
from goqueue.testing import ManualClock, SeededEntropy


class Late:
    """Does nothing before somebody awaits it, and nobody does."""

    async def emit(self, event: Event) -> None:
        del event


class Broken:
    """Raises an error whatever it is told."""

    def __init__(self, error: BaseException) -> None:
        self.told: list[Event] = []
        self._error = error

    def emit(self, event: Event) -> None:
        self.told.append(event)
        raise self._error


class Events(list[Event]):
    """A list is false as long as it is empty."""

    def emit(self, event: Event) -> None:
        self.append(event)


class Wordless(Exception):
    @override
    def __str__(self) -> str:
        raise RuntimeError("no words")


def script(sink: Any) -> WorkerScript:
    options: WorkerOptions = {"sink": sink}
    return WorkerScript("billing", ["orders"], options, ManualClock(), SeededEntropy(1))


@pytest.mark.parametrize("sink", [[].append, print, logging.getLogger("mine"), "stderr", 0, Late()])
def test_what_is_no_sink_is_refused_at_once(sink: Any) -> None:
    for client in (Client(), AsyncClient()):
        with pytest.raises(Invalid, match="emit") as refused:
            client.worker("billing", "orders", print, sink=sink)  # type: ignore[arg-type]
        assert "emit(event)" in refused.value.hint


@pytest.mark.parametrize("error", [ValueError("no disk"), Wordless()], ids=["an error", "one without words"])
def test_a_sink_that_fails_ends_nothing_and_that_is_logged_once(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    sink = Broken(error)
    worker = script(sink)
    for _ in range(3):
        worker.give_back_unstarted()
    # It may be better the next time.
    assert sink.told == [WorkerDraining(0, 0)] * 3
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("goqueue", logging.ERROR)
    assert type(error).__name__ in record.getMessage()
    assert "event=WorkerDraining running=0 given_back=0" in record.getMessage()


def test_a_logger_that_fails_ends_nothing_either(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    told = []

    def refuse(record: logging.LogRecord) -> bool:
        told.append(record)
        raise ValueError("no disk")

    monkeypatch.setattr(logging.getLogger("goqueue"), "filters", [refuse])
    with caplog.at_level(logging.INFO, logger="goqueue"):
        script(None).give_back_unstarted()
        script(Broken(ValueError("no disk"))).give_back_unstarted()
    # The event and that it was not heard of; that the other sink has failed.
    assert len(told) == 3


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)], ids=["interrupt", "exit"])
def test_a_sink_may_end_the_program(error: BaseException) -> None:
    with pytest.raises(type(error)):
        script(Broken(error)).give_back_unstarted()


def test_a_sink_that_looks_like_none_is_one() -> None:
    sink = Events()
    script(sink).give_back_unstarted()
    assert sink == [WorkerDraining(0, 0)]

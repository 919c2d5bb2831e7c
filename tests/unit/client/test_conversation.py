"""What the client does with one call, as transcripts: no socket, no clock."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from goqueue.client import messages, server, topics
from goqueue.client.calls import Call, Lost, Reply
from goqueue.client.conversation import Exchange, Patience, Pause, converse
from goqueue.client.problems import BadReply, RequestTimedOut, ServerUnreachable
from goqueue.errors import Draining, GoQueueError, NotFound, Throttled, Unavailable, UnknownTopic
from goqueue.testing import SeededEntropy

SERVER = "http://broker:8080"
READ = server.version()
WRITE = messages.publish("orders", [messages.NewMessage("one")])
VERSION = Reply(200, {"content-type": "application/json"}, b'{"name": "goqueue", "version": "1.0"}')
REFUSED = Lost("Connection refused", is_sent=False)
CUT_OFF = Lost("Connection reset by peer", is_sent=True)
LATE = Lost("", is_sent=True, is_timeout=True)


def problem(status: int, code: str, **headers: str) -> Reply:
    body = json.dumps({"status": status, "code": code, "detail": "because", "hint": "do this"}).encode()
    return Reply(status, {"content-type": "application/problem+json", **headers}, body)


def run(call: Call[object], *outcomes: Reply | Lost, attempts: int = 3) -> tuple[object, list[float]]:
    """Return the result, or the error, of a call that meets these outcomes, and the pauses in between."""
    steps = converse(call, SERVER, Patience(attempts=attempts, first_pause_s=1.0, pause_s_max=8.0), SeededEntropy(1))
    left: list[Reply | Lost] = list(outcomes)
    pauses: list[float] = []
    try:
        step = next(steps)
        while True:
            if isinstance(step, Pause):
                pauses.append(step.seconds)
                step = steps.send(None)
            else:
                assert step == Exchange(call)
                step = steps.send(left.pop(0))
    except StopIteration as end:
        assert not left
        return end.value, pauses
    except GoQueueError as error:
        assert not left
        return error, pauses


def test_a_reply_becomes_the_result() -> None:
    result, pauses = run(READ, VERSION)
    assert result == server.Version("goqueue", "1.0")
    assert pauses == []


@pytest.mark.parametrize("call", [READ, WRITE])
def test_what_never_arrived_is_sent_again(call: Call[object]) -> None:
    error, pauses = run(call, REFUSED, REFUSED, REFUSED)
    assert isinstance(error, ServerUnreachable)
    assert not error.is_sent
    assert "http://broker:8080" in str(error)
    assert "Connection refused" in str(error)
    assert "goqueue serve" in error.hint
    assert len(pauses) == 2


@pytest.mark.parametrize("lost", [CUT_OFF, LATE])
def test_what_may_have_arrived_is_sent_again_only_if_it_changes_nothing(lost: Lost) -> None:
    assert run(READ, lost, VERSION)[0] == server.Version("goqueue", "1.0")
    error, pauses = run(WRITE, lost)
    assert isinstance(error, Unavailable)
    assert "may have been carried out" in str(error)
    assert pauses == []


def test_a_reply_that_comes_too_late_is_told_apart_from_a_lost_connection() -> None:
    assert isinstance(run(WRITE, LATE)[0], RequestTimedOut)
    error, _ = run(WRITE, CUT_OFF)
    assert isinstance(error, ServerUnreachable)
    assert error.is_sent


@pytest.mark.parametrize("call", [READ, WRITE])
@pytest.mark.parametrize(("status", "code", "kind"), [(503, "draining", Draining), (429, "throttled", Throttled)])
def test_a_refusal_for_the_time_being_is_tried_again(
    call: Call[object], status: int, code: str, kind: type[GoQueueError]
) -> None:
    error, pauses = run(call, *[problem(status, code)] * 3)
    assert isinstance(error, kind)
    assert len(pauses) == 2


@pytest.mark.parametrize("reply", [problem(404, "unknown_topic"), problem(503, "log_offline"), problem(400, "invalid")])
def test_a_refusal_for_good_is_not_tried_again(reply: Reply) -> None:
    error, pauses = run(READ, reply)
    assert isinstance(error, GoQueueError)
    assert pauses == []


def test_pauses_grow_up_to_a_limit_and_are_spread_by_chance() -> None:
    _, pauses = run(READ, *[REFUSED] * 7, attempts=7)
    bounds = [1.0, 2.0, 4.0, 8.0, 8.0, 8.0]
    assert all(bound / 2 <= pause < bound for pause, bound in zip(pauses, bounds, strict=True))
    assert len(set(pauses)) == len(pauses)


def test_the_broker_may_ask_for_a_longer_pause_but_not_for_any() -> None:
    def pause(asked: str) -> float:
        return run(READ, problem(503, "draining", **{"retry-after": asked}), VERSION)[1][0]

    assert pause("5") == 5.0
    assert pause("86400") == 8.0
    assert pause("0") < 1.0
    assert pause("Sun, 06 Nov 1994 08:49:37 GMT") < 1.0


def test_a_reply_that_cannot_be_read_is_said_to_come_from_somebody_else() -> None:
    for body in (b"<html>", b"{}", b'{"name": 1}', b""):
        error, _ = run(READ, Reply(200, {"content-type": "text/html"}, body))
        assert isinstance(error, BadReply)
        assert "HTTP port" in error.hint


def test_a_batch_of_which_everything_failed_is_a_result_with_the_reasons() -> None:
    body = {"results": [{"error": {"code": "unknown_partition", "message": "there is none", "status": 404}}]}
    reply = Reply(404, {"content-type": "application/json; charset=utf-8"}, json.dumps(body).encode())
    result, _ = run(WRITE, reply)
    assert isinstance(result, Sequence)
    (fate,) = result
    assert isinstance(fate, NotFound)
    assert (fate.code, fate.message) == ("unknown_partition", "there is none")


def test_a_batch_that_was_refused_as_a_whole_is_an_error() -> None:
    error, _ = run(WRITE, problem(404, "unknown_topic"))
    assert isinstance(error, UnknownTopic)
    assert str(error) == "because (do this)"


def test_a_name_that_could_change_the_path_is_refused_before_anything_is_sent() -> None:
    for name in ("..", "a/b", "a?b", "", "ä"):
        with pytest.raises(GoQueueError, match="cannot be the name of a topic"):
            topics.describe(name)

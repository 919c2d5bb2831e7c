"""Requests as they arrive: however the bytes are cut, the same requests come out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.errors import GoQueueError
from goqueue.protocols.http.wire.requests import Request, RequestReader

BODY_BYTES_MAX = 1000
PLAIN = b"GET /v1/topics?limit=1 HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /a%20b HTTP/1.1\r\nHost: x\r\ncontent-length: 5\r\n\r\nhello"
CHUNKED = b"PUT /c HTTP/1.1\r\nHost: x\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
UPGRADE = b"GET /d HTTP/1.1\r\nHost: x\r\nconnection: Upgrade\r\nupgrade: h2c\r\n\r\n"
REQUESTS = st.lists(st.sampled_from([PLAIN, POST, CHUNKED, UPGRADE]), min_size=1, max_size=5)


def read(parts: Sequence[bytes]) -> list[Request]:
    """Return the requests that bytes make."""
    reader = RequestReader(BODY_BYTES_MAX)
    found: list[Request] = []
    for part in parts:
        reader.feed(part)
        found += reader.take()
    assert not reader.is_arriving
    return found


@given(REQUESTS, st.data())
def test_requests_do_not_depend_on_how_their_bytes_are_cut(sent: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(sent)
    cuts = sorted(data.draw(st.lists(st.integers(1, len(whole)), max_size=8)))
    found = read([whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True) if end > start])
    assert found == [each for request in sent for each in read([request])]


def test_a_request_is_taken_apart() -> None:
    (plain,) = read([PLAIN])
    assert plain == Request("GET", "/v1/topics", b"/v1/topics", b"limit=1", [(b"host", b"x")], b"", is_last=False)
    (post,) = read([POST])
    assert (post.path, post.raw_path, post.body) == ("/a b", b"/a%20b", b"hello")
    assert [each.body for each in read([CHUNKED])] == [b"abcde"]
    assert read([b"GET / HTTP/1.0\r\n\r\n"])[0].is_last


@pytest.mark.parametrize(
    "head", [b"content-length: 1001\r\n\r\n", b"transfer-encoding: chunked\r\n\r\n3e9\r\n" + b"x" * 1001]
)
def test_a_body_that_is_too_large_is_refused_as_early_as_it_is_known(head: bytes) -> None:
    reader = RequestReader(BODY_BYTES_MAX)
    with pytest.raises(GoQueueError, match="body of a request has more than 1000 bytes"):
        reader.feed(PLAIN + b"POST / HTTP/1.1\r\nHost: x\r\n" + head)
    assert len(reader.take()) == 1


@pytest.mark.parametrize(
    "rest",
    [
        [b"0\r\nx: ", *[b"y" * 10_000] * 8],
        [b"0\r\n", *[b"x: y\r\n" * 2_000] * 8],
        [b"1;", *[b"x" * 10_000] * 8],
    ],
)
def test_what_is_neither_head_nor_body_has_an_end(rest: list[bytes]) -> None:
    reader = RequestReader(BODY_BYTES_MAX)
    reader.feed(b"POST / HTTP/1.1\r\nHost: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n")
    *parts, last = rest
    for part in parts[:6]:
        reader.feed(part)
    with pytest.raises(GoQueueError, match="head of a request has more than 65536 bytes"):
        reader.feed(b"".join([*parts[6:], last]))


def test_trailers_are_no_headers() -> None:
    head = b"POST / HTTP/1.1\r\nHost: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"
    (found,) = read([head + b"content-type: application/json\r\n\r\n"])
    assert found.headers == [(b"host", b"x"), (b"transfer-encoding", b"chunked")]


def test_a_head_has_no_more_bytes_than_allowed_however_it_comes() -> None:
    reader = RequestReader(BODY_BYTES_MAX)
    with pytest.raises(GoQueueError, match="head of a request has more than 65536 bytes"):
        reader.feed(b"GET / HTTP/1.1\r\n" + b"a: %s\r\n\r\n" % (b"x" * 70_000))


def test_thousands_of_upgrades_at_once_are_as_many_requests() -> None:
    assert len(read([UPGRADE * 5_000])) == 5_000

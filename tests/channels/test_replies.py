"""Answers taken from their bytes, in whatever pieces these come."""

import time

import pytest

from channels.replies import MAX_HEAD, NoAnswerError, Reply

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def read(data: bytes, *, piece: int) -> Reply:
    reply = Reply()
    for at in range(0, len(data), piece):
        reply.feed(data[at : at + piece])
    return reply


@pytest.mark.parametrize("piece", [1, 3, 10_000])
@pytest.mark.parametrize(
    ("data", "status", "body", "may_keep"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, b"ok", True, id="sized"),
        pytest.param(b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", 200, b"", True, id="no-reason"),
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", True, id="none"),
        pytest.param(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", 304, b"", True, id="304"),
        pytest.param(b"HTTP/1.1 200 OK\ncontent-length:3\n\nyes", 200, b"yes", True, id="bare-newlines"),
        pytest.param(b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, b"x", False, id="1.0"),
        pytest.param(
            b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 1\r\n\r\nx", 200, b"x", True,
            id="1.0-kept",
        ),
        pytest.param(
            b"HTTP/1.1 500 No\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx", 500, b"x", False,
            id="closed",
        ),
        pytest.param(CHUNKED + b"3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n", 200, b"abc0123456789", True,
                     id="chunked"),
        pytest.param(CHUNKED + b"1\r\nx\r\n0\r\nX-After: all\r\n\r\n", 200, b"x", True, id="trailers"),
        pytest.param(
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\n"
            b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", 202, b"", True, id="interim",
        ),
        pytest.param(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n", 101, b"", False, id="another-protocol"),
    ],
)  # fmt: skip
def test_a_whole_answer(data: bytes, status: int, body: bytes, may_keep: bool, piece: int) -> None:
    reply = read(data, piece=piece)
    response = reply.response()
    assert response is not None
    assert (response.status, response.body, response.is_whole) == (status, body, True)
    assert (reply.is_done, reply.may_keep) == (True, may_keep)


def test_headers_are_in_lower_case_and_may_go_on() -> None:
    said = b"Retry-After:  5 \r\nX-Long: a\r\n b\r\nno colon\r\nX: 1\r\nx: 2\r\nContent-Length: 0\r\n\r\n"
    head = b"HTTP/1.1 429 Slow\r\n" + said
    response = read(head, piece=7).response()
    assert response is not None
    assert response.headers == {"retry-after": "5", "x-long": "a b", "x": "2", "content-length": "0"}


@pytest.mark.parametrize(
    ("data", "body"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", b"ab", id="sized"),
        pytest.param(CHUNKED + b"5\r\nab", b"ab", id="chunked"),
        pytest.param(CHUNKED + b"2\r\nab\r\n", b"ab", id="between-chunks"),
    ],
)
def test_an_answer_that_breaks_off(data: bytes, body: bytes) -> None:
    reply = read(data, piece=100)
    response = reply.response(has_ended=True)
    assert response is not None
    assert (reply.is_done, response.body, response.is_whole) == (False, body, False)


@pytest.mark.parametrize("has_ended", [True, False])
def test_one_without_a_length_ends_with_its_connection(has_ended: bool) -> None:
    reply = read(b"HTTP/1.1 200 OK\r\nContent-Length: what\r\n\r\nab", piece=100)
    response = reply.response(has_ended=has_ended)
    assert response is not None
    assert (reply.is_done, reply.may_keep, response.body, response.is_whole) == (
        False,
        False,
        b"ab",
        has_ended,
    )


@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n", CHUNKED + b"FFFFFF\r\n"]
)
def test_of_a_long_body_no_more_is_read_than_is_kept(head: bytes) -> None:
    reply = read(head + b"x" * 70_000, piece=1000)
    response = reply.response()
    assert response is not None
    assert (reply.is_done, reply.may_keep, len(response.body), response.is_whole) == (
        True,
        False,
        65536,
        True,
    )


def test_what_comes_after_the_answer_spoils_the_connection() -> None:
    reply = read(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n", piece=1000)
    assert (reply.is_done, reply.may_keep) == (True, False)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"SSH-2.0-OpenSSH_9\r\n", id="another-protocol"),
        pytest.param(b"HTTP/1.1 two hundred\r\n\r\n", id="no-status"),
        pytest.param(b"HTTP/1.1 200 OK\r\n" + b"X: 1\r\n" * 101 + b"\r\n", id="too-many-headers"),
        pytest.param(b"HTTP/1.1 200 " + b"x" * 70_000, id="endless-head"),
        pytest.param(b"HTTP/1.1 102 Processing\r\n\r\n" * 21, id="nothing-but-interim"),
        pytest.param(CHUNKED + b"zz\r\n", id="no-chunk"),
        pytest.param(CHUNKED + b"1\r\nxyz\r\n", id="chunk-too-long"),
        pytest.param(CHUNKED + b"1" * 70_000, id="endless-size"),
    ],
)
def test_no_answer(data: bytes) -> None:
    with pytest.raises(NoAnswerError):
        read(data, piece=500)


def test_a_head_that_comes_byte_by_byte_keeps_nobody_waiting() -> None:
    """All answers are read by one thread."""
    began = time.process_time()
    read(b"HTTP/1.1 200 OK\r\nX: ".ljust(MAX_HEAD, b"x"), piece=1)
    assert time.process_time() - began < 5

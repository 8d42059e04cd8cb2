"""Over real sockets: whoever sends too much can read why, whether it was announced or not."""

import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI

from notifier.api.edge import MAX_BODY, Edge
from tests.serving import served

MIB = 1024 * 1024
HEAD = b"POST /api/v1/alerts HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    app = FastAPI()
    app.add_middleware(Edge)
    with served(app) as url:
        port = urlsplit(url).port
        assert port is not None
        yield port


def read(sock: socket.socket) -> bytes:
    answer = b""
    while piece := sock.recv(65536):
        answer += piece
    return answer


def flood(sock: socket.socket) -> None:
    for _ in range(1000):
        sock.sendall(b"%x\r\n" % MIB + b" " * MIB + b"\r\n")


@pytest.mark.parametrize("size", [MAX_BODY + 1, 3 * MIB, 20 * MIB])
@pytest.mark.parametrize("is_announced", [True, False], ids=["announced", "in chunks"])
def test_a_client_that_sends_first_and_reads_then_reads_a_413(
    port: int, size: int, *, is_announced: bool
) -> None:
    with socket.create_connection(("127.0.0.1", port), 30) as sock:
        if is_announced:
            sock.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % size + b" " * size)
        else:
            sock.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
            for _ in range(size // MIB + 1):
                sock.sendall(b"%x\r\n" % MIB + b" " * MIB + b"\r\n")
            sock.sendall(b"0\r\n\r\n")
        assert read(sock).startswith(b"HTTP/1.1 413 ")


def test_who_asks_first_is_told_at_once(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), 30) as sock:
        sock.sendall(HEAD + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % (3 * MIB))
        assert read(sock).startswith(b"HTTP/1.1 413 ")


def test_who_never_stops_sending_is_cut_off(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), 30) as sock:
        sock.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            flood(sock)

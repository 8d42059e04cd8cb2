"""The server's socket."""

import socket

from master.listening import listen


def test_what_is_answered_is_sent_at_once() -> None:
    """Also on the connections that come of it: otherwise a second segment waits for 40 ms."""
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1

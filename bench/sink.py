"""A provider that costs next to nothing: takes POSTs over kept connections, notes what arrived when.

python bench/sink.py [--delay-ms 0]      prints its port

Each body names its alert by `burst-N`, each path its channel. GET answers what has come: how many requests,
how many different ones, when the first and the last new one came (`time.monotonic()`), and resets nothing.
"""

import argparse
import asyncio
import json
import re
import sys
import time
from functools import partial

MARK = re.compile(rb"burst-(\d+)")
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
DONE = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
END = b"\r\n\r\n"


class Count:
    """What has come."""

    def __init__(self) -> None:
        self.requests = 0
        self.seen: set[bytes] = set()
        self.first = self.last = 0.0

    def note(self, path: bytes, body: bytes) -> None:
        self.requests += 1
        found = MARK.search(body)
        name = path + (found[1] if found else b"?")
        if name not in self.seen:
            self.seen.add(name)
            self.last = time.monotonic()
            self.first = self.first or self.last

    def shown(self) -> bytes:
        found = {
            "requests": self.requests,
            "different": len(self.seen),
            "first": self.first,
            "last": self.last,
        }
        body = json.dumps(found).encode()
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


class Connection(asyncio.Protocol):
    """One kept connection."""

    def __init__(self, count: Count, delay_s: float) -> None:
        self._count, self._delay_s, self._buffer = count, delay_s, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (head := self._buffer.find(END)) >= 0:
            found = LENGTH.search(self._buffer, 0, head)
            end = head + len(END) + (int(found[1]) if found else 0)
            if len(self._buffer) < end:
                return
            method, path, _ = self._buffer[: self._buffer.index(b"\r\n")].split(b" ", 2)
            if method == b"GET":
                self._transport.write(self._count.shown())
            else:
                self._count.note(path, self._buffer[head:end])
                self._answer()
            self._buffer = self._buffer[end:]

    def _answer(self) -> None:
        if self._delay_s:
            asyncio.get_running_loop().call_later(self._delay_s, self._transport.write, DONE)
        else:
            self._transport.write(DONE)


async def serve(delay_s: float) -> None:
    loop, count = asyncio.get_running_loop(), Count()
    server = await loop.create_server(partial(Connection, count, delay_s), "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--delay-ms", type=float, default=0)
    asyncio.run(serve(parser.parse_args().delay_ms / 1000))
    return 0


if __name__ == "__main__":
    sys.exit(main())

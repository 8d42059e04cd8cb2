"""Reads one HTTP/1.1 answer from its bytes as they come. Does no I/O, and is as patient with odd servers as
`http.client`: lines may end in a bare newline, and an answer without a length ends with its connection."""

import re
from collections.abc import Callable

from channels.transport import MAX_BODY, MAX_INTERIM, Response

MAX_HEAD = 64 * 1024
MAX_HEADERS = 100
_END = re.compile(rb"\r?\n\r?\n")
_STATUS = re.compile(r"HTTP/(\d\.\d) ([1-9]\d\d)(?: .*)?", re.DOTALL)
_LENGTH = re.compile(r"\d{1,18}")
_SIZE = re.compile(rb"[0-9a-fA-F]{1,16}")
SWITCHING, NO_CONTENT, NOT_MODIFIED = 101, 204, 304


class NoAnswerError(Exception):
    """What comes is no HTTP answer."""


class Reply:
    """One answer in the making.

    Attributes:
        is_done: nothing more of it is read.
        may_keep: the connection is good for another request.
    """

    def __init__(self) -> None:
        self.is_done = self.may_keep = False
        self._buffer, self._body = bytearray(), bytearray()
        self._status, self._interim, self._looked = 0, 0, 0
        self._headers: dict[str, str] = {}
        self._left: int | None = None  # of the body or chunk; None: it ends with the connection
        self._step: Callable[[], bool] = self._head

    def feed(self, data: bytes) -> None:
        """Raises NoAnswerError for what cannot be the beginning of one."""
        self._buffer += data
        while not self.is_done and self._step():
            pass
        if self.is_done and self._buffer:  # nobody asked for more
            self.may_keep = False

    def response(self, *, has_ended: bool = False) -> Response | None:
        """What there is by now, if nothing more comes; None: not even its head. `has_ended`: the connection
        was closed in good order."""
        if not self._status:
            return None
        is_whole = self.is_done or (has_ended and self._step == self._rest and self._left is None)
        return Response(self._status, self._headers, bytes(self._body[:MAX_BODY]), is_whole)

    def _head(self) -> bool:
        found = _END.search(self._buffer, self._looked)
        self._looked = 0 if found is not None else max(0, len(self._buffer) - 3)  # its end may be half there
        if (len(self._buffer) if found is None else found.end()) > MAX_HEAD:
            raise NoAnswerError
        if found is None:
            if len(self._buffer) >= 5 and not self._buffer.startswith(b"HTTP/"):
                raise NoAnswerError
            return False
        first, *lines = self._buffer[: found.start()].decode("latin-1").split("\n")
        del self._buffer[: found.end()]
        said = _STATUS.fullmatch(first.rstrip("\r"))
        if said is None or len(lines) > MAX_HEADERS:
            raise NoAnswerError
        status = int(said[2])
        if status < 200 and status != SWITCHING:
            self._interim += 1
            if self._interim > MAX_INTERIM:
                raise NoAnswerError
            return True
        self._status, self._headers = status, _headers_of(lines)
        self._begin_body(said[1])
        return True

    def _begin_body(self, version: str) -> None:
        headers = self._headers
        options = headers.get("connection", "").lower()
        self.may_keep = "close" not in options and (version == "1.1" or "keep-alive" in options)
        length = headers.get("content-length", "")
        if self._status in (SWITCHING, NO_CONTENT, NOT_MODIFIED):
            self.may_keep &= self._status != SWITCHING
            self._end()
        elif headers.get("transfer-encoding", "").lower() == "chunked":
            self._step = self._chunk_head
        elif _LENGTH.fullmatch(length):
            self._left, self._step = int(length), self._rest
        else:
            self.may_keep, self._step = False, self._rest

    def _rest(self) -> bool:
        self._take()
        if self._left == 0:
            self._end()
        return False

    def _chunk_head(self) -> bool:
        line = self._line()
        if line is None:
            return False
        size = _SIZE.match(line.lstrip())
        if size is None:
            raise NoAnswerError
        self._left = int(size[0], 16)
        self._step = self._chunk if self._left else self._trailer
        return True

    def _chunk(self) -> bool:
        self._take()
        if self._left == 0:
            self._step = self._chunk_end
        return self._left == 0

    def _chunk_end(self) -> bool:
        line = self._line()
        if line:
            raise NoAnswerError
        self._step = self._chunk_head if line is not None else self._chunk_end
        return line is not None

    def _trailer(self) -> bool:
        line = self._line()
        if line == b"":
            self._end()
        return bool(line)

    def _line(self) -> bytes | None:
        end = self._buffer.find(b"\n")
        if (len(self._buffer) if end < 0 else end) > MAX_HEAD:
            raise NoAnswerError
        if end < 0:
            return None
        line = bytes(self._buffer[:end]).rstrip(b"\r")
        del self._buffer[: end + 1]
        return line

    def _take(self) -> None:
        """As much of the body as there is; a longer one than anybody keeps is not read to its end."""
        count = len(self._buffer) if self._left is None else min(self._left, len(self._buffer))
        self._body += self._buffer[:count]
        del self._buffer[:count]
        if self._left is not None:
            self._left -= count
        if len(self._body) > MAX_BODY:
            self.may_keep = False
            self._end()

    def _end(self) -> None:
        self.is_done = True


def _headers_of(lines: list[str]) -> dict[str, str]:
    """In lower case; of several of one name the last."""
    found: dict[str, str] = {}
    name = ""
    for line in lines:
        if line[:1] in (" ", "\t") and name:  # it goes on
            found[name] = f"{found[name]} {line.strip()}"
            continue
        before, colon, value = line.partition(":")
        name = before.strip().lower() if colon else ""
        if name:
            found[name] = value.strip()
    return found

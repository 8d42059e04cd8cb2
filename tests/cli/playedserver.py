"""Plays a Faultcast server to the command line: says what it is told to say, keeps what it was asked."""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest


@dataclass
class Server:
    """Plays a Faultcast server: says what it was told to say and keeps what it was asked."""

    url: str = ""
    status: int = 200
    answer: Any = None
    content: bytes | None = None
    asked: list[dict[str, Any]] = field(default_factory=list)


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            server.asked.append(
                {
                    "method": self.command,
                    "path": self.path,
                    "token": self.headers.get("authorization"),
                    "body": json.loads(body) if body else None,
                }
            )
            content = server.content if server.content is not None else json.dumps(server.answer).encode()
            self.send_response(server.status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, args=(0.02,))
    thread.start()
    server.url = f"http://127.0.0.1:{http.server_port}"
    try:
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


def only_asking(
    url: str, monkeypatch: pytest.MonkeyPatch, folder: Path, data_dir: Path | None = None
) -> None:
    """No setting of whoever runs the tests is left: the command line is in `folder` and asks this server."""
    for name in [name for name in os.environ if name.startswith("FAULTCAST_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("FAULTCAST_SERVER", url)
    monkeypatch.setenv("FAULTCAST_DATA_DIR", str(data_dir or folder / "data"))
    monkeypatch.chdir(folder)

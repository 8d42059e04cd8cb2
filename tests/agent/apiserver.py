"""An API server of a test's own, over TLS: it lists, it watches, and it misbehaves as it is told."""

import json
import queue
import ssl
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from agent.kubeapi import Cluster
from tests import certificates

TOKEN = "eyJhbGciOi.the-service-account.s-token"
END = {"type": "END"}  # of a watch, as the server ends one by itself
PATHS = {"/api/v1/nodes": "nodes", "/api/v1/namespaces/default/events": "events"}
Answer = Callable[[BaseHTTPRequestHandler], None]


class ApiServer:
    """`objects`: what a list of each kind holds; `answers`: of each kind, what is answered instead."""

    def __init__(self, folder: Path, host: str = "127.0.0.1") -> None:
        self.pair = certificates.made(folder)
        self.account = folder / "account"
        self.account.mkdir()
        (self.account / "token").write_text(TOKEN)
        (self.account / "ca.crt").write_bytes(self.pair.authority.read_bytes())
        self.objects: dict[str, list[dict[str, Any]]] = {"nodes": [], "events": []}
        self.answers: dict[str, Answer] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.tokens: list[str] = []
        self.version = 7
        self._told: dict[str, list[tuple[int, dict[str, Any]]]] = defaultdict(list)
        self._watches: dict[str, list[queue.Queue[dict[str, Any]]]] = defaultdict(list)
        self._lock = threading.Lock()
        self._server = _Server((host, 0), type("Handler", (_Handler,), {"api": self}))
        self.present(self.pair.certificate, self.pair.key)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def cluster(self, answer_s: float = 5.0) -> Cluster:
        host, port = self._server.server_address[:2]
        return Cluster(str(host), port, self.account, answer_s)

    def present(self, certificate: Path, key: Path) -> None:
        """To whoever connects from now on."""
        self._server.context.load_cert_chain(certificate, key)

    def tell(self, kind: str, how: str, changed: dict[str, Any]) -> None:
        """To all who watch; an object gets the next version."""
        with self._lock:
            self.version += 1
            metadata = {**changed.get("metadata", {}), "resourceVersion": str(self.version)}
            change = {"type": how, "object": {**changed, "metadata": metadata}}
            self._told[kind].append((self.version, change))
            for one in self._watches[kind]:
                one.put(change)

    def end_watches(self, kind: str) -> None:
        for one in self._watches[kind]:
            one.put(END)

    def watched(self, kind: str) -> list[str]:
        """From which versions, in order."""
        return [asked["resourceVersion"] for what, asked in self.asked if what == kind and "watch" in asked]

    def listed(self, kind: str) -> int:
        return len([asked for what, asked in self.asked if what == kind and "watch" not in asked])

    def is_watched(self, kind: str) -> bool:
        return bool(self._watches[kind])

    def close(self) -> None:
        for kind in PATHS.values():
            self.end_watches(kind)
        self._server.shutdown()
        self._server.server_close()

    def stream(self, handler: BaseHTTPRequestHandler, kind: str, version: int) -> None:
        """What is told after that version, until it is ended or nobody listens."""
        changes: queue.Queue[dict[str, Any]] = queue.Queue()
        begin(handler)
        with self._lock:
            for at, change in self._told[kind]:
                if at > version:
                    changes.put(change)
            self._watches[kind].append(changes)
        try:
            while (change := changes.get()) is not END:
                chunk(handler, json.dumps(change).encode() + b"\n")
            chunk(handler, b"")
        finally:
            self._watches[kind].remove(changes)


def begin(handler: BaseHTTPRequestHandler, status: int = 200) -> None:
    handler.send_response(status)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()


def chunk(handler: BaseHTTPRequestHandler, piece: bytes) -> None:
    handler.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")


def said(body: bytes | dict[str, Any], status: int = 200) -> Answer:
    """That answer, and nothing else."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    return answer


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ApiServer]:
    server = ApiServer(tmp_path)
    yield server
    server.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, *of: Any) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        super().__init__(*of)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """In the connection's own thread, so that a slow handshake holds up nobody."""
        with suppress(OSError), self.context.wrap_socket(request, server_side=True) as secured:
            super().finish_request(secured, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    api: ApiServer

    def do_GET(self) -> None:
        self.close_connection = True
        target = urlsplit(self.path)
        kind = PATHS[target.path]
        asked = {name: values[0] for name, values in parse_qs(target.query).items()}
        self.api.asked.append((kind, asked))
        self.api.tokens.append(self.headers["Authorization"].removeprefix("Bearer "))
        if kind in self.api.answers:
            self.api.answers[kind](self)
        elif self.api.tokens[-1] != (self.api.account / "token").read_text():
            said({}, 401)(self)
        elif "watch" in asked:
            self.api.stream(self, kind, int(asked["resourceVersion"]))
        else:
            metadata = {"resourceVersion": str(self.api.version)}
            said({"items": self.api.objects[kind], "metadata": metadata})(self)

    def log_message(self, *_: object) -> None:
        """Quiet."""

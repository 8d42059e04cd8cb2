"""The HTTP side: routes to the played providers, scripted answers, and what arrived at `/_messages`."""

import json
import socket
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

from channels.standin import aliyun, anything, baidu, dingtalk, feishu, tencent, twilio, webhook, wecom
from channels.standin.journal import Journal, Received
from channels.standin.page import page
from channels.standin.robots import Meter, Reply, Request, Robot
from channels.standin.telecom import Account, Provider

PROVIDERS = {
    "dingtalk": dingtalk, "wecom": wecom, "feishu": feishu, "webhook": webhook, "any": anything,
}  # fmt: skip
TELECOM: Mapping[str, Provider] = {"aliyun": aliyun, "baidu": baidu, "tencent": tencent, "twilio": twilio}
MAX_BODY = 4 * 1024 * 1024


@dataclass(frozen=True)
class Scripted:
    """What the next request to a kind gets instead of the provider's own answer.

    Attributes:
        status: of a made-up answer; None: the provider judges as ever, and the rest still holds.
        body: text, or a document sent as JSON.
        headers: added to the answer.
        delay_s: waited before the answer.
        close: the connection ends `before` the answer or in the `middle` of it.
    """

    status: int | None = None
    body: str | Mapping[str, Any] = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    close: Literal["", "before", "middle"] = ""


class Desk:
    """Robots, scripts and the journal: everything that the request threads share."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.url = ""
        self.commands: Sequence[str] = ()  # for the page
        self._robots: dict[tuple[str, str], Robot] = {}
        self._accounts: dict[tuple[str, str], Account] = {}
        self._scripts: dict[str, deque[Scripted]] = {kind: deque() for kind in (*PROVIDERS, *TELECOM)}
        self._lock = threading.Lock()

    def register(self, robot: Robot, *, limited: bool) -> Robot:
        robot.meter = Meter(PROVIDERS[robot.kind].WINDOWS if limited else ())
        with self._lock:
            self._robots[robot.kind, robot.token] = robot
        return robot

    def open(self, account: Account) -> Account:
        with self._lock:
            self._accounts[account.provider, account.key] = account
        return account

    def script(self, kind: str, *answers: Scripted) -> None:
        with self._lock:
            self._scripts[kind].extend(answers)

    def forget_scripts(self) -> None:
        with self._lock:
            for answers in self._scripts.values():
                answers.clear()

    def handle(self, request: Request) -> tuple[Reply, Scripted]:
        """The reply, and what the script does to it."""
        kind = _meant_for(request)
        if kind is None:
            return Reply({"error": "not found"}, status=404), Scripted()
        token, now = (TELECOM.get(kind) or PROVIDERS[kind]).token(request), time.time_ns() / 1e9
        with self._lock:
            script = self._scripts[kind].popleft() if self._scripts[kind] else Scripted()
        if script.status is not None:
            reply = Reply({}, status=script.status, code=f"scripted {script.status}")
        else:
            reply = self._judged(kind, token, request, now)
        moment = datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds")
        self.journal.add(lambda n: _received(n, moment, (reply.kind or kind, token), request, reply))
        return reply, script

    def _judged(self, kind: str, token: str, request: Request, now: float) -> Reply:
        with self._lock:
            robot, account = self._robots.get((kind, token)), self._accounts.get((kind, token))
        if kind in TELECOM:
            if account is None:
                return TELECOM[kind].stranger(request)
            with account.lock:
                return TELECOM[kind].judge(request, account, now)
        played = PROVIDERS[kind]
        reply: Reply = played.judge(request, robot, now) if robot else played.stranger(request)
        return reply


def _meant_for(request: Request) -> str | None:
    """The provider; those of texts and calls all listen at `/` and are told apart by a header."""
    for kind, telecom in TELECOM.items():
        if telecom.takes(request):
            return kind
    return next((kind for kind, played in PROVIDERS.items() if played.PATH.fullmatch(request.path)), None)


def _received(n: int, at: str, robot: tuple[str, str], request: Request, reply: Reply) -> Received:
    return Received(
        n=n, at=at, kind=robot[0], robot=robot[1], is_accepted=reply.is_accepted, code=reply.code,
        title=reply.title, text=reply.text, called=reply.called, id=reply.id,
        body=request.json() or request.body.decode("utf-8", "replace"),
        headers=request.headers, query=request.query,
    )  # fmt: skip


class Server(ThreadingHTTPServer):
    """Ends its open connections when it is closed, as a stopped process would."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, host: str, port: int, desk: Desk) -> None:
        self.desk = desk
        self._open: set[socket.socket] = set()
        super().__init__((host, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def close_all(self) -> None:
        for sock in list(self._open):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news; silence keeps the output of tests readable."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query))
        if parts.path == "/_messages":
            accepted = {"true": True, "false": False}.get(query.get("accepted", ""))
            found = self.server.desk.journal.all(query.get("kind"), accepted=accepted)
            self._answer(200, json.dumps([one.document() for one in found], ensure_ascii=False).encode())
        elif parts.path == "/":
            self._answer(
                200,
                page(self.server.desk.journal, self.server.desk.commands).encode(),
                "text/html; charset=utf-8",
            )
        else:
            self._play()

    def do_DELETE(self) -> None:
        if urlsplit(self.path).path == "/_messages":
            self.server.desk.journal.clear()
            self._answer(200, b"{}")
        else:
            self._play()

    def do_POST(self) -> None:
        path = urlsplit(self.path).path
        if path not in ("/_robots", "/_script"):
            self._play()
            return
        try:
            given = json.loads(self._body())
            known = self._register(given) if path == "/_robots" else self._script(given)
        except (ValueError, TypeError, KeyError) as error:
            self._answer(400, json.dumps({"error": str(error)}).encode())
            return
        self._answer(200, json.dumps(known).encode())

    def _register(self, given: dict[str, Any]) -> dict[str, str]:
        limited = given.pop("limited", True)
        robot = make_robot(self.server.desk.url, **given)
        return {"url": self.server.desk.register(robot, limited=limited).url}

    def _script(self, given: dict[str, Any]) -> dict[str, int]:
        answers = [Scripted(**one) for one in given["answers"]]
        self.server.desk.script(given["kind"], *answers)
        return {"scripted": len(answers)}

    def _play(self) -> None:
        parts = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.command, parts.path, dict(parse_qsl(parts.query)), headers, self._body())
        reply, script = self.server.desk.handle(request)
        if script.delay_s:
            time.sleep(script.delay_s)
        made_up = script.body if isinstance(script.body, str) else json.dumps(script.body, ensure_ascii=False)
        own = json.dumps(reply.body, ensure_ascii=False)
        body = (own if script.status is None else made_up).encode()
        if script.close:
            self.close_connection = True
        if script.close != "before":
            sent = body[: len(body) // 2] if script.close else body
            self._answer(reply.status, sent, length=len(body), extra=script.headers)

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "0")
        return self.rfile.read(min(int(length), MAX_BODY)) if length.isdigit() else b""

    def _answer(
        self,
        status: int,
        body: bytes,
        kind: str = "application/json; charset=utf-8",
        *,
        length: int | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> None:
        self.send_response(status)
        headers = {"Content-Type": kind, "Content-Length": str(len(body) if length is None else length)}
        for name, value in {**headers, **(extra or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base class's name
        """Requests hold keys; what arrived is in the journal."""


def make_robot(base: str, kind: str, token: str, **settings: Any) -> Robot:
    """A robot whose URL has its provider's own form; `settings` are Robot's."""
    forms = {
        "dingtalk": "/robot/send?access_token={}",
        "wecom": "/cgi-bin/webhook/send?key={}",
        "feishu": "/open-apis/bot/v2/hook/{}",
        "webhook": "/webhook/{}",
        "any": "/any/{}",
    }
    return Robot(kind, token, base + forms[kind].format(token), **settings)

"""A master that listens, and pods of real processes for real agents to watch."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest
from pydantic import ValidationError

from master.reports import ReportBody

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "fct_a-token-of-this-pod"

# what the local runtime's supervisor does, as far as an agent sees it
SUPERVISOR = """
import ctypes, json, os, sys
from datetime import UTC, datetime
folder, command = sys.argv[1], sys.argv[2:]
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # child subreaper
log = os.open(folder + "/pod.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
main = os.fork()
if main == 0:
    os.setsid()
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.execvp(command[0], command)
spec = json.load(open(folder + "/spec.json"))
with open(folder + "/pod.new", "w") as file:
    json.dump(spec | {"pid": os.getpid(), "main_pid": main, "log": folder + "/pod.log"}, file)
os.rename(folder + "/pod.new", folder + "/pod.json")
while True:
    try:
        pid, status = os.wait()
    except ChildProcessError:
        break
    code = os.waitstatus_to_exitcode(status)
    with open(folder + "/exits.jsonl", "a") as file:
        signal = -code if code < 0 else None
        told = {"pid": pid, "exit_code": None if signal else code, "signal": signal}
        file.write(json.dumps(told | {"at": datetime.now(UTC).isoformat()}) + "\\n")
"""


def wait_until(ask: Callable[[], Any], what: str, within_s: float = 15.0) -> Any:
    """The first true answer; a failure that says what was waited for."""
    deadline = time.monotonic() + within_s
    while not (answer := ask()):
        assert time.monotonic() < deadline, f"not within {within_s} s: {what}"
        time.sleep(0.01)
    return answer


@dataclass
class Post:
    """One report as it arrived."""

    at: float
    document: dict[str, Any]
    status: int

    @property
    def key(self) -> tuple[str, int]:
        return self.document["boot"], self.document["seq"]


@dataclass
class Master:
    """Answers agents as told: `status` for each report, `want` on the replies, or not at all."""

    status: int = 200
    want: dict[str, Any] = field(default_factory=dict)
    judge: Callable[[dict[str, Any]], int] | None = None
    garbage: bytes | None = None
    posts: list[Post] = field(default_factory=list)
    port: int = 0
    refused: list[str] = field(default_factory=list)  # what the real master would not have taken
    connections: set[socket.socket] = field(default_factory=set)
    _server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def open(self) -> None:
        handler = type("Handler", (_Handler,), {"master": self})
        self._server = _Server(("127.0.0.1", self.port), handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        """Be gone, with all connections."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()
            for connection in list(self.connections):
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def taken(self) -> list[Post]:
        return [post for post in list(self.posts) if post.status == 200]

    def observations(self, kind: str) -> list[dict[str, Any]]:
        """Of reports taken, in the order in which they came, each report once."""
        once = {post.key: post.document for post in self.taken()}
        return [one for document in once.values() for one in document["observations"] if one["kind"] == kind]

    def wait_for(
        self, kind: str, where: Callable[[dict[str, Any]], Any] = bool, within_s: float = 15.0
    ) -> dict[str, Any]:
        """The first such observation."""
        found: list[dict[str, Any]] = wait_until(
            lambda: [one for one in self.observations(kind) if where(one)], f"{kind} observed", within_s
        )
        return found[0]


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A killed agent's connection is reset; all else is a fault of the test."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    master: Master

    def setup(self) -> None:
        super().setup()
        self.master.connections.add(self.connection)

    def finish(self) -> None:
        self.master.connections.discard(self.connection)
        super().finish()

    def do_POST(self) -> None:
        master = self.master
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if len(body) < int(self.headers["Content-Length"]):
            self.close_connection = True  # the agent was killed half-way
            return
        document = json.loads(body)
        try:
            ReportBody.model_validate(document)
        except ValidationError as error:
            master.refused.append(str(error))
        status = master.judge(document) if master.judge else master.status
        if self.path != "/api/v1/agent/reports" or self.headers["Authorization"] != f"Bearer {TOKEN}":
            status = 401
        master.posts.append(Post(time.monotonic(), document, status))
        body = json.dumps({"ack": document["seq"], "want": master.want}).encode()
        self.send_response(status)
        body = master.garbage if master.garbage is not None else body
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@dataclass
class Pod:
    """A supervisor with what it runs, and the agent beside it."""

    folder: Path
    master: Master
    _started: list[subprocess.Popen[bytes]] = field(default_factory=list)
    agent: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.folder / "pod.log"

    @property
    def description(self) -> dict[str, Any]:
        described: dict[str, Any] = json.loads((self.folder / "pod.json").read_text())
        return described

    def run(self, *command: str, rank: int = 0, nproc: int = 1, env: dict[str, str] | None = None) -> int:
        """Start the pod; its main process."""
        spec = {"rank": rank, "world_size": 1, "nproc": nproc, "progress": str(self.folder / "progress")}
        (self.folder / "spec.json").write_text(json.dumps(spec))
        self._start([sys.executable, "-c", SUPERVISOR, str(self.folder), *command], env or {})
        wait_until((self.folder / "pod.json").exists, "pod.json")
        return int(self.description["main_pid"])

    def python(self, code: str, **options: Any) -> int:
        """A pod of one Python program."""
        return self.run(sys.executable, "-u", "-c", code, **options)

    def once_seen(self, code: str) -> str:
        """A program that goes on with `code` once the agent has found it."""
        seen = str(self.folder / "seen")
        return f"import os, time\nwhile not os.path.exists({seen!r}): time.sleep(0.01)\n{code}"

    def watch_till_seen(self) -> int:
        """Start an agent, wait until it tells of a process, and let that one go on; its pid."""
        self.watch()
        pid = int(self.master.wait_for("process_started")["data"]["pid"])
        (self.folder / "seen").touch()
        return pid

    def watch(self, *, close_fds: bool = True, **env: str) -> subprocess.Popen[bytes]:
        """Start an agent for the pod."""
        told = {
            "FAULTCAST_SERVER": self.master.url,
            "FAULTCAST_AGENT_TOKEN": TOKEN,
            "FAULTCAST_POD_DIR": str(self.folder),
        }
        with (self.folder / "agent.log").open("ab") as log:
            self.agent = self._start(
                [sys.executable, "-m", "agent"], told | env, stderr=log, close_fds=close_fds
            )
        return self.agent

    def agent_log(self) -> str:
        return (self.folder / "agent.log").read_text()

    def say(self, text: str | bytes) -> None:
        """Append to the pod's log as training would."""
        with self.log.open("ab") as log:
            log.write(text.encode() if isinstance(text, str) else text)

    def stop(self) -> None:
        """Ends all that was started, and what that started: torchrun gives each rank a session of its own."""
        below = [child for one in self._started for child in _children(one.pid)]
        for process in reversed(self._started):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
            process.wait()
        for child in below:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()

    def _start(
        self,
        command: list[str],
        env: dict[str, str],
        *,
        stderr: Any = subprocess.DEVNULL,
        close_fds: bool = True,
    ) -> subprocess.Popen[bytes]:
        started = subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | env,
            stdin=subprocess.DEVNULL,
            stderr=stderr,
            close_fds=close_fds,
        )
        self._started.append(started)
        return started


def _children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


@pytest.fixture
def master() -> Iterator[Master]:
    found = Master()
    found.open()
    yield found
    found.close()
    assert found.refused == []


@pytest.fixture
def absent_master() -> Iterator[Master]:
    """Its port is known, but nobody listens there until it is opened."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    found = Master(port=port)
    yield found
    found.close()
    assert found.refused == []


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Callable[[Master], Pod]]:
    made: list[Pod] = []

    def make(master: Master) -> Pod:
        folder = tmp_path / f"pod-{len(made)}"
        folder.mkdir()
        made.append(Pod(folder, master))
        return made[-1]

    yield make
    for pod in made:
        pod.stop()


@pytest.fixture
def pod(pods: Callable[[Master], Pod], master: Master) -> Pod:
    return pods(master)


@pytest.fixture
def until() -> Callable[..., Any]:
    return wait_until

"""Asks the API server of the cluster whose pod this is: a list, and what changes after it.

Address, authority and token are what Kubernetes gives each pod (kubernetes.io: Accessing the Kubernetes API
from a Pod; API Concepts, "Efficient detection of changes"). The token is read each time, since it rotates.
"""

import contextlib
import http.client
import json
import random
import re
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_CONNECT_S = 5.0
_WATCH_S = (240, 360)  # a watch is asked for anew so often, spread as client-go does
_MAX_LIST, _MAX_CHANGE = 8 << 20, 4 << 20  # bytes; etcd takes objects of 1.5 MiB
_PIECE = 64 << 10
_KEEPALIVE = {socket.TCP_KEEPIDLE: 30, socket.TCP_KEEPINTVL: 10, socket.TCP_KEEPCNT: 3}
_UNSAFE, _ESCAPED = re.compile(r"([\\,=])"), r"\\\1"  # in a field selector's value


class UnavailableError(Exception):
    """No answer that could be used; the text says why, and holds nothing that was answered."""


class GoneError(UnavailableError):
    """The list is too old to go on from: ask for a new one."""


@dataclass(frozen=True)
class Cluster:
    """Where the API server is, the service account's folder (`token`, `ca.crt`), for how long to wait."""

    host: str
    port: int
    account: Path = ACCOUNT
    answer_s: float = 15.0


@dataclass(frozen=True)
class Collection:
    """What is asked for: `kind` in the plural, as roles name it; `fields` that must be equal."""

    kind: str
    path: str
    fields: Mapping[str, str]

    @property
    def selector(self) -> str:
        return ",".join(f"{name}={_UNSAFE.sub(_ESCAPED, value)}" for name, value in self.fields.items())


def this_cluster(env: Mapping[str, str]) -> Cluster | None:
    """By the variables that each pod of a cluster has; None outside of one."""
    host, port = env.get("KUBERNETES_SERVICE_HOST", ""), env.get("KUBERNETES_SERVICE_PORT", "")
    is_port = port.isascii() and port.isdecimal() and 0 < int(port[:6]) < 1 << 16
    return Cluster(host, int(port)) if host and is_port else None


Change = tuple[str, Mapping[str, Any], str]
"""`ADDED`, `MODIFIED`, `DELETED` or `BOOKMARK`; the object; its version."""


class Api:
    """One connection for each question. All methods but `interrupt` are called by one thread."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._connection: http.client.HTTPSConnection | None = None
        self._sock: ssl.SSLSocket | None = None

    def fetch(self, what: Collection, limit: int) -> tuple[list[Mapping[str, Any]], str]:
        """The objects, at most `limit` of them, and the version after which changes are new.

        Raises:
            UnavailableError: nothing that could be used came.
        """
        response = self._ask(what, {"limit": str(limit)})
        try:
            with response:
                document = _document(self._whole(response))
        except (OSError, http.client.HTTPException) as error:
            raise UnavailableError(_said(error)) from None
        finally:
            self._close()
        objects, version = document.get("items"), _version(document)
        if not isinstance(objects, list) or not version:
            raise UnavailableError("the answer is no list")
        return [one for one in objects if isinstance(one, dict)], version

    def watch(self, what: Collection, version: str) -> Iterator[Change]:
        """What changes after that version, until the server ends it, which it does within minutes.

        Raises:
            GoneError: there is no going on from that version.
            UnavailableError: nothing that could be used came, or it broke off.
        """
        for_s = random.randint(*_WATCH_S)  # noqa: S311  only spreads the agents
        asked = {"watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true"}
        return self._changes(self._ask(what, asked | {"timeoutSeconds": str(for_s)}, for_s))

    def interrupt(self) -> None:
        """From another thread: whoever waits for an answer need not any more."""
        if (sock := self._sock) is not None:
            with contextlib.suppress(OSError):  # closed meanwhile
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def _changes(self, response: http.client.HTTPResponse) -> Iterator[Change]:
        try:
            with response:
                while line := response.readline(_MAX_CHANGE + 1):
                    yield _change(line)
        except (OSError, http.client.HTTPException) as error:
            raise UnavailableError(_said(error)) from None
        finally:
            self._close()

    def _ask(self, what: Collection, asked: Mapping[str, str], watch_s: int = 0) -> http.client.HTTPResponse:
        token, context = self._credentials()
        headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/json",
            "User-Agent": "faultcast",
        }
        target = f"{what.path}?{urlencode({'fieldSelector': what.selector, **asked})}"
        host, port = self._cluster.host, self._cluster.port
        self._connection = http.client.HTTPSConnection(host, port, timeout=_CONNECT_S, context=context)
        try:
            self._connection.connect()
            self._sock = self._connection.sock
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in _KEEPALIVE.items():
                self._sock.setsockopt(socket.IPPROTO_TCP, option, value)
            self._sock.settimeout(self._cluster.answer_s)
            self._connection.request("GET", target, headers=headers)
            response = self._connection.getresponse()
            self._sock.settimeout(watch_s + self._cluster.answer_s)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._close()
            raise UnavailableError(_said(error)) from None
        if response.status != HTTPStatus.OK:
            response.close()
            self._close()
            raise _refusal(response.status, what)
        return response

    def _credentials(self) -> tuple[str, ssl.SSLContext]:
        """Read anew each time: tokens rotate, and authorities may."""
        account = self._cluster.account
        try:
            token = (account / "token").read_text(encoding="ascii").strip()
            context = ssl.create_default_context(cafile=account / "ca.crt")
        except (OSError, ValueError) as error:
            raise UnavailableError(
                f"the service account in {account} cannot be read ({_said(error)}): "
                "give the pod one, and leave automountServiceAccountToken on"
            ) from None
        # Python 3.13 wants extensions that clusters' authorities lack (kubernetes-client/python, issue 2394).
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        return token, context

    def _whole(self, response: http.client.HTTPResponse) -> bytes:
        """All of an answer that may neither be endless nor take for ever."""
        body, until = bytearray(), time.monotonic() + self._cluster.answer_s
        while piece := response.read1(_PIECE):
            body += piece
            if len(body) > _MAX_LIST:
                raise UnavailableError(f"the answer is longer than {_MAX_LIST >> 20} MiB")
            if time.monotonic() > until:
                raise UnavailableError(f"the answer takes longer than {self._cluster.answer_s:.0f} s")
        return bytes(body)

    def _close(self) -> None:
        self._sock = None
        if self._connection is not None:
            self._connection.close()


def _refusal(status: int, what: Collection) -> UnavailableError:
    match status:
        case 401:
            return UnavailableError("HTTP 401: the API server does not accept the service account's token")
        case 403:
            return UnavailableError(f"HTTP 403: allow the service account `list` and `watch` of {what.kind}")
        case 410:
            return GoneError("HTTP 410: what was listed is too old to go on from")
        case _:
            return UnavailableError(f"HTTP {status}")


def _change(line: bytes) -> Change:
    if len(line) > _MAX_CHANGE:
        raise UnavailableError(f"a change is longer than {_MAX_CHANGE >> 20} MiB")
    document = _document(line)
    what, changed = document.get("type"), document.get("object")
    if not isinstance(what, str) or not isinstance(changed, dict):
        raise UnavailableError("the answer tells no changes")
    if what == "ERROR":
        is_gone = changed.get("code") == HTTPStatus.GONE
        raise (GoneError if is_gone else UnavailableError)(
            f"the watch failed: {_number(changed.get('code'))}"
        )
    return what, changed, _version(changed)


def _document(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise UnavailableError("the answer is no JSON object")
    return document


def _version(document: Mapping[str, Any]) -> str:
    metadata = document.get("metadata")
    version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    return version if isinstance(version, str) else ""


def _number(code: object) -> str:
    return f"code {code}" if isinstance(code, int) else "no code"


def _said(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not good by the cluster's authority: {error.verify_message}"
    return type(error).__name__

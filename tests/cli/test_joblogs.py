"""`faultcast job logs`: whole, followed to the end, through restarts."""

from collections.abc import Mapping
from typing import Any

import pytest

from master.cli import joblogs
from master.cli.client import Client
from master.cli.errors import CommandError


class Job(Client):
    """A job whose log grows by one piece with each look; plays the server behind the client.

    `runs`: the pieces of each run, "" for a look that finds nothing new. A run is over after its pieces.
    """

    def __init__(self, *runs: list[str], starting: int = 0) -> None:
        super().__init__("http://127.0.0.1:1", "token")
        self._runs = [list(pieces) for pieces in runs]
        self._starting = starting  # looks that find no pod yet
        self._run = 0
        self._offset = 0

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        if not path.endswith("/logs"):
            return {"status": self._status(), "run": self._run}
        assert query is not None
        if self._starting:
            self._starting -= 1
            raise CommandError("no pod in run 0")
        run = self._run if query["run"] is None else query["run"]
        if query["limit"] == 1:  # a look whether there is a log at all
            return {"run": run}
        return self._piece(run, query["offset"])

    def _status(self) -> str:
        if self._starting:
            return "Created"
        return "Running" if any(self._runs[self._run :]) else "Failed"

    def _piece(self, run: int, offset: int) -> dict[str, Any]:
        pieces = self._runs[run]
        if not pieces and self._run < len(self._runs) - 1 and run == self._run:
            self._run += 1  # the master has begun the next one
        text = pieces.pop(0) if pieces else ""
        return {
            "run": run, "offset": offset, "next_offset": offset + len(text), "text": text,
            "ended": not pieces and not text,
        }  # fmt: skip


@pytest.fixture(autouse=True)
def no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joblogs, "LOOK_EVERY_S", 0)


def printed(capsys: pytest.CaptureFixture[str], job: Job, **given: Any) -> str:
    joblogs.logs(job, "job_1", **given)
    return capsys.readouterr().out


def test_a_long_log_is_printed_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, Job(["a", "b", "c"])) == "abc"


def test_without_follow_it_ends_where_the_log_does_now(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, Job(["a", "", "later"])) == "a"


def test_following_waits_for_what_comes(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, Job(["a", "", "", "b"]), follow=True) == "ab"


def test_following_goes_on_with_the_next_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, Job(["a"], ["b", "", "c"]), follow=True) == "abc"


def test_following_one_run_ends_with_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, Job(["a"], ["b"]), follow=True, run=0) == "a"


def test_following_waits_for_the_first_pod(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, Job(["a"], starting=3), follow=True) == "a"


def test_without_follow_a_job_without_pods_is_refused() -> None:
    with pytest.raises(CommandError, match="no pod"):
        joblogs.logs(Job(["a"], starting=3), "job_1")

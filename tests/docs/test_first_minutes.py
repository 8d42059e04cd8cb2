"""The README's five minutes, typed as they stand there: what it promises a newcomer is true."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import urllib3

ROOT = Path(__file__).parents[2]
LIMIT_S = 90
STANDIN, SERVER = "8643", "8642"  # the ports that the README uses


def blocks(readme: str) -> list[str]:
    """The shell blocks of the chapter, in order."""
    text = (ROOT / readme).read_text(encoding="utf-8")
    chapter = re.split(r"^## ", text, flags=re.MULTILINE)[3]
    return [
        re.sub(r"^ {3}", "", block, flags=re.MULTILINE)
        for block in re.findall(r"```sh\n(.*?)```", chapter, re.DOTALL)
    ]


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return str(probe.getsockname()[1])


def test_both_languages_type_the_same() -> None:
    def typed(readme: str) -> list[str]:
        return [re.sub(r" +# .*|'(\S*[^\x00-\x7f]\S*|Hello.*?)'", "", block) for block in blocks(readme)]

    assert typed("README.md") == typed("README.zh.md")


class Terminal:
    """Runs blocks with ports and folder of this test in the place of the README's."""

    def __init__(self, folder: Path) -> None:
        self.ports = {STANDIN: free_port(), SERVER: free_port()}
        self.data_dir = folder / "data"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("FAULTCAST_")}
        self.env = kept | {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "FAULTCAST_DATA_DIR": str(self.data_dir),
            "FAULTCAST_BIND": f"127.0.0.1:{self.ports[SERVER]}",
            "FAULTCAST_SERVER": f"http://127.0.0.1:{self.ports[SERVER]}",
            "FAULTCAST_LANGUAGE": "en",
        }

    def run(self, block: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["bash", "-c", self._here(block)],
            env=self.env, capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip

    @contextmanager
    def background(self, block: str, first_word: str) -> Iterator[str]:
        """Until the end of the block; answers the first line that it prints."""
        words = re.sub(r"^((?:\w+=\S+ )*)(.*)", r"\1exec \2", self._here(block).strip())
        with subprocess.Popen(
            ["bash", "-c", words], env=self.env, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            try:
                assert line.startswith(first_word)
                yield line
            finally:
                process.terminate()
                process.wait(LIMIT_S)

    def page(self, path: str) -> urllib3.BaseHTTPResponse:
        """A page of the console, as the admin sees it."""
        token = (self.data_dir / "admin.token").read_text().strip()
        cookie = {"Cookie": f"faultcast_session={token}"}
        return urllib3.request("GET", f"http://127.0.0.1:{self.ports[SERVER]}{path}", headers=cookie)

    def _here(self, block: str) -> str:
        for written, ours in self.ports.items():
            block = block.replace(written, ours)
        return block


@pytest.mark.e2e
def test_the_five_minutes_are_true(tmp_path: Path) -> None:
    _, standin, up, channel, alert, job = blocks("README.md")
    terminal = Terminal(tmp_path)
    with terminal.background(standin, "{"), terminal.background(up, "ready http://127.0.0.1:"):
        made = terminal.run(channel)
        assert made.returncode == 0, made.stderr
        assert "delivered" in made.stdout

        published = terminal.run(alert)
        assert published.returncode == 0, published.stderr
        assert "1 delivery" in published.stdout

        failed = terminal.run(job)
        assert re.search("first ended as Failed: .*ValueError: bad batch", failed.stderr)
        assert "user_code_error" in failed.stdout
        assert "ValueError: bad batch" in failed.stdout

        arrived = urllib3.request(
            "GET", f"http://127.0.0.1:{terminal.ports[STANDIN]}/_messages"
        ).data.decode()
        assert "Hello from my first alert" in arrived
        assert "first" in terminal.page("/").data.decode()
        job_id = re.search(r"/jobs/(job_\w+)", terminal.page("/").data.decode())
        assert job_id
        log = terminal.page(f"/jobs/{job_id[1]}/logs")
        assert log.headers["content-type"].startswith("text/plain")
        assert b"ValueError: bad batch" in log.data

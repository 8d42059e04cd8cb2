"""The flags of `channel create` become a config; secrets come from files too."""

from pathlib import Path
from typing import Any

import pytest

from master.cli.channels import ChannelFlags, channel_config
from master.cli.errors import CommandError


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({"webhook_url": "https://x/y"}, {"webhook_url": "https://x/y"}, id="short form"),
        pytest.param({"to": ["a@x", "b@x"]}, {"to": ["a@x", "b@x"]}, id="recipients"),
        pytest.param({"config": '{"keyword": "k"}'}, {"keyword": "k"}, id="JSON"),
        pytest.param({"config": "keyword: k"}, {"keyword": "k"}, id="YAML"),
        pytest.param({"fields": ["at_all=true", "n=3"]}, {"at_all": True, "n": 3}, id="values that are JSON"),
        pytest.param({"fields": ['at_mobiles=["1"]']}, {"at_mobiles": ["1"]}, id="a list"),
        pytest.param({"fields": ["headers.X-A=b=c"]}, {"headers": {"X-A": "b=c"}}, id="a field within one"),
        pytest.param(
            {"config": '{"keyword": "k", "secret": "old"}', "fields": ["keyword=set"], "secret": "new"},
            {"keyword": "set", "secret": "new"},
            id="config, then --set, then the short forms",
        ),
    ],
)
def test_config(given: dict[str, Any], expected: dict[str, Any]) -> None:
    assert channel_config(ChannelFlags(**given)) == expected


def test_secrets_are_read_from_files(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret\n", encoding="utf-8")
    (tmp_path / "config").write_text('{"at_all": false}', encoding="utf-8")
    flags = ChannelFlags(config=f"@{tmp_path}/config", secret=f"@{tmp_path}/secret")
    assert channel_config(flags) == {"at_all": False, "secret": "s3cret"}


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"fields": ["at_all"]}, id="no ="),
        pytest.param({"fields": ["a=1", "a.b=2"]}, id="a field within a value"),
        pytest.param({"config": "[1]"}, id="config is a list"),
        pytest.param({"secret": "@/nowhere"}, id="no such file"),
    ],
)
def test_refused(given: dict[str, Any]) -> None:
    with pytest.raises(CommandError):
        channel_config(ChannelFlags(**given))

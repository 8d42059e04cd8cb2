"""The flags of `channel create` become a config; secrets come from files too."""

from pathlib import Path
from typing import Any

import pytest

from master.cli.channelflags import ChannelFlags, channel_config
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
        pytest.param(
            {
                "provider": "aliyun",
                "to": ["+8613800001111", "+8613900001111"],
                "template_id": "SMS_1",
                "sign_name": "训练",
                "credential": ["access_key_id=a", "access_key_secret=b=c"],
                "param": ["code={{ job.name }}", "why={{ a if b == c else d }}"],
                "region": "cn-hangzhou",
                "endpoint": "https://x",
            },
            {
                "provider": "aliyun",
                "to": ["+8613800001111", "+8613900001111"],
                "template_id": "SMS_1",
                "sign_name": "训练",
                "credentials": {"access_key_id": "a", "access_key_secret": "b=c"},
                "params": {"code": "{{ job.name }}", "why": "{{ a if b == c else d }}"},
                "region": "cn-hangzhou",
                "endpoint": "https://x",
            },
            id="a text by named params",
        ),
        pytest.param(
            {
                "provider": "tencent",
                "app_id": "1400",
                "param": ["{{ title }}", "{{ a == b }}"],
                "play_times": "2",
            },
            {
                "provider": "tencent",
                "app_id": "1400",
                "params": ["{{ title }}", "{{ a == b }}"],
                "play_times": 2,
            },
            id="a call by counted params",
        ),
        pytest.param(
            {"provider": "twilio", "sender": "+15005550006", "called_show_number": "0571"},
            {"provider": "twilio", "from": "+15005550006", "called_show_number": "0571"},
            id="from",
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


def test_a_credential_is_read_from_a_file_and_joins_those_of_config(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("k3y\n", encoding="utf-8")
    flags = ChannelFlags(
        config='{"credentials": {"secret_id": "id"}}', credential=[f"secret_key=@{tmp_path}/key"]
    )
    assert channel_config(flags) == {"credentials": {"secret_id": "id", "secret_key": "k3y"}}


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"fields": ["at_all"]}, id="no ="),
        pytest.param({"fields": ["a=1", "a.b=2"]}, id="a field within a value"),
        pytest.param({"config": "[1]"}, id="config is a list"),
        pytest.param({"secret": "@/nowhere"}, id="no such file"),
        pytest.param({"credential": ["secret_key"]}, id="a credential without a name"),
        pytest.param({"credential": ["secret_key=@/nowhere"]}, id="no such file of a credential"),
        pytest.param({"param": ["a=1", "2"]}, id="some params with names"),
        pytest.param({"param": ["a=1", "a=2"]}, id="a param twice"),
    ],
)
def test_refused(given: dict[str, Any]) -> None:
    with pytest.raises(CommandError):
        channel_config(ChannelFlags(**given))

"""Adapters of other packages: found by entry point; unfit ones are left out, once and aloud."""

import logging
import sys
from datetime import timedelta
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from channels.plugins import GROUP, Plugins, found

FAX = """
from datetime import timedelta

from channels.base import Adapter, ChannelConfig, Limit, Part

class FaxConfig(ChannelConfig):
    number: str

class Fax(Adapter):
    kind = "fax"
    Config = FaxConfig

    def parts(self, message, config):
        return [Part(1, 1, {}, message)]

    def send(self, part, config, network, now, only=None):
        raise NotImplementedError

class Nameless(Fax):
    kind = "telex"

class Mute(Adapter):
    kind = "fax"
    Config = FaxConfig

class Untyped(Fax):
    Config = dict

class Hasty(Fax):
    limits = (20,)

class Closed(Fax):
    limits = (Limit(0, timedelta(minutes=1)),)

class Timed(Fax):
    limits = (Limit(5, 60),)

class Odd(Fax):
    format = "morse"

class Timeless(Fax):
    expires_after = 60

class Limitless(Fax):
    limits = None

class Ding(Fax):
    kind = "dingtalk"

def broken():
    raise RuntimeError("made badly")

made = Fax()
"""


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fc_fax.py").write_text(FAX, encoding="utf-8")
    (tmp_path / "fc_bad.py").write_text("import nowhere_to_be_found", encoding="utf-8")
    (tmp_path / "fc_exit.py").write_text("raise SystemExit(3)", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("fc_fax", "fc_bad", "fc_exit"):
        sys.modules.pop(name, None)


def point(value: str, name: str = "fax") -> EntryPoint:
    return EntryPoint(name, value, GROUP)


@pytest.mark.parametrize("value", ["fc_fax:Fax", "fc_fax:made"], ids=["a class", "an instance"])
def test_a_fit_one_is_found(value: str) -> None:
    (adapter,) = found([point(value)], taken=()).values()
    assert adapter.kind == "fax"
    assert adapter.expires_after == timedelta(hours=24)


@pytest.mark.parametrize(
    ("value", "name", "why"),
    [
        pytest.param("fc_bad:Fax", "fax", "ModuleNotFoundError: No module named", id="does not import"),
        pytest.param("fc_exit:Fax", "fax", "SystemExit: 3", id="ends the process"),
        pytest.param("fc_fax:Fix", "fax", "AttributeError", id="no such name"),
        pytest.param("fc_fax:Mute", "fax", "TypeError", id="methods missing"),
        pytest.param("fc_fax:broken", "fax", "no subclass of channels.base.Adapter", id="a function"),
        pytest.param("fc_fax:Nameless", "fax", "`kind` must be 'fax'", id="another kind"),
        pytest.param("fc_fax:Untyped", "fax", "`Config` must be", id="no config"),
        pytest.param("fc_fax:Hasty", "fax", "`limits` must be", id="no limits"),
        pytest.param("fc_fax:Closed", "fax", "at least one send", id="a limit of nothing"),
        pytest.param("fc_fax:Timed", "fax", "at least one send", id="a limit in no time"),
        pytest.param("fc_fax:Limitless", "fax", "class attributes", id="None for limits"),
        pytest.param("fc_fax:Odd", "fax", "`format` must be one of markdown", id="unknown format"),
        pytest.param("fc_fax:Timeless", "fax", "`expires_after`", id="a number for a time"),
        pytest.param("fc_fax:Fax", "FAX!", "a kind is a word", id="no word"),
        pytest.param("fc_fax:Ding", "dingtalk", "Faultcast's own", id="one of ours"),
    ],
)
def test_an_unfit_one_is_left_out_with_one_line(
    value: str, name: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert found([point(value, name)], taken={"dingtalk"}) == {}
    (record,) = caplog.records
    assert why in record.getMessage()
    assert "\n" not in record.getMessage()


def test_two_packages_of_one_kind_are_both_left_out_and_others_stay(caplog: pytest.LogCaptureFixture) -> None:
    points = [point("fc_fax:Fax"), point("fc_fax:made"), point("fc_fax:Nameless", "telex")]
    assert list(found(points, taken=())) == ["telex"]
    assert len(caplog.records) == 2


def test_they_are_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def entry_points(*, group: str) -> list[EntryPoint]:
        asked.append(group)
        return [point("fc_fax:Fax")]

    monkeypatch.setattr("channels.plugins.entry_points", entry_points)
    plugins = Plugins(taken=())
    assert list(plugins.adapters) == list(plugins.adapters) == ["fax"]
    assert asked == [GROUP]

"""A secret is not to be seen in any form."""

import base64
import html
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.redaction import clip, in_header, in_url, redact

CANARY = "CANARY+/=q7<Zk&x9 训"
B64 = base64.b64encode


@pytest.mark.parametrize(
    "form",
    [
        pytest.param(CANARY, id="plain"),
        pytest.param(CANARY.lower(), id="lower-case"),
        pytest.param(quote(CANARY, safe=""), id="percent"),
        pytest.param(quote(CANARY, safe="").lower(), id="percent-lower-case"),
        pytest.param(quote(quote(CANARY, safe=""), safe=""), id="percent-twice"),
        pytest.param(quote(CANARY), id="percent-but-slashes"),
        pytest.param(quote_plus(CANARY), id="form"),
        pytest.param(html.escape(CANARY), id="html"),
        pytest.param(json.dumps(CANARY)[1:-1], id="json-ascii"),
        pytest.param(B64(CANARY.encode()).decode(), id="base64"),
        pytest.param(base64.urlsafe_b64encode(CANARY.encode()).decode(), id="base64-urlsafe"),
        pytest.param(CANARY.encode().hex(), id="hex"),
    ],
)
def test_forms(form):
    assert redact(f"before {form} after", [CANARY]).startswith("before ***")
    assert form not in redact(f"before {form} after", [CANARY])


@pytest.mark.parametrize("before", ["", "a", "ab", "user:", "\x00user\x00"])
def test_base64_of_a_text_that_holds_it(before):
    coded = B64(f"{before}{CANARY};tail".encode()).decode()
    shown = redact(f"AUTH PLAIN {coded}", [CANARY])
    assert "***" in shown
    assert B64(CANARY.encode()).decode()[4:16] not in shown


@given(st.text(min_size=4, max_size=40), st.text(max_size=20), st.text(max_size=20))
def test_no_text_lets_it_through(secret, before, after):
    assert secret not in redact(before + secret + after, [secret]).replace("***", "\x00")


def test_short_secrets_do_not_wipe_out_words():
    assert redact("a robot", ["a", "", "bot"]) == "a robot"


def test_the_longest_goes_first():
    assert redact("token-123456", ["token-123456", "123456"]) == "***"


def test_what_is_secret_in_a_url():
    found = in_url("https://hooks.example.com/services/T0001/B0002/abcDEF?access_token=XYZ%2B1#frag")
    for piece in ("T0001", "B0002", "abcDEF", "XYZ+1", "/services/T0001/B0002/abcDEF"):
        assert piece in found
    assert "services" not in found
    assert "hooks.example.com" not in found


def test_the_user_of_a_mail_server_is_no_secret_its_password_is():
    found = in_url("smtp://alerts%40example.com:p%40ss%2Fword@mail.example.com")
    assert "p@ss/word" in found
    assert "alerts@example.com" not in found


@pytest.mark.parametrize("url", ["", "http://[", "::", "http://x:y:z/"])
def test_urls_that_are_none(url):
    assert isinstance(in_url(url), tuple)


def test_what_is_secret_in_a_header():
    assert "TOKEN" in in_header("Bearer TOKEN")
    assert "password" in in_header("Basic " + B64(b"user:password").decode())


def test_clipped_at_four_kilobytes_and_not_inside_a_character():
    shown = redact("训" * 3000, [])
    assert len(shown.encode()) <= 4096
    assert shown.endswith("训…")
    assert clip("short") == "short"


@pytest.mark.parametrize("offset", range(-40, 5))
def test_a_secret_at_the_end_of_what_is_kept(offset):
    """However the text before it shrinks by what was hidden in it."""
    secret = "CANARYsecret0123456789"
    text = (secret + " ") * 30 + "x" * (4096 - 30 * (len(secret) + 1) + offset) + secret + "y" * 9000
    assert "CANARY" not in redact(text, [secret])


@pytest.mark.parametrize("letter", ["İ", "ı", "ſ", "K"])
def test_a_secret_in_odd_letters_is_hidden_too(letter: str) -> None:
    plain = {"İ": "i", "ı": "i", "ſ": "s", "K": "k"}[letter]
    assert redact(f"key={letter}token-x7", [f"{plain}token-x7"]) == "key=***"


def test_a_secret_that_is_not_ascii_is_hidden() -> None:
    assert redact("the key is ÄPFEL-7 here", ["äpfel-7"]) == "the key is *** here"

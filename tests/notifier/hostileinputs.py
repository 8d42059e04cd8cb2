"""Alerts and digests that say anything, for `tests/notifier/hostility.py`."""

import random
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

from notifier.items import ITEMS
from notifier.rendering import OwnWords
from notifier.wording import AlertView
from tests.notifier.messages import AT, EVENT, JOB, bare

# Each of them is one character to a reader.
CLUSTERS = (
    "👩‍👩‍👧", "🇨🇳", "🇩🇪", "e\u0301", "각", "\u1100\u1161\u11a8", "क्षि",
    "👍🏽", "❤️", "நி", "ก็", "1️⃣", "o\u0302\u0323",
)  # fmt: skip
HOSTILE = (
    "<at id=all></at>", '<at user_id="all">all</at>', "<@all>", "<@zhangsan>", "@all @13911112222",
    "@here", "[sign in](https://evil.example)", "[a\nb](https://evil.com)",
    "![x](https://evil.com/x.png)", "<https://evil.com>", "[x]: https://evil.com",
    "see https://evil.com/login?x=1", "www.evil.com", "evil.cn/pay", "call 13911112222",
    "<script>alert(1)</script>", "</pre><img src=x onerror=alert(1)>",
    '"><a href="https://evil.com">x</a>', '<font color="warning">x',
    "**bold** `code` ~~gone~~ __under__", "```\nfence\n```", "# h\n> q\n- l\n1. n\n---",
    "| a | b |\n| - | - |", "&lt;at id=all&gt; &#60;at&#62;", "\\[x\\](https://evil.com) \\",
    "{{ 7*7 }} {% raw %} {# #}", "{count} {0.__class__} %s %(x)s",
    "\x1b[31mred\x1b[0m \u202eevil\u202c \x00 \u200b \ud800", "r\rn\nls\u2028ps\u2029", ":DONE: :smile:",
    "\r\nBcc: evil@evil.com", "**", "*", "\\", "](", "<", ">", "&", "@", "[查看详情]", "\ue000\ue001",
)  # fmt: skip


@dataclass(frozen=True)
class Given:
    """One input. `is_sound`: culprit and decision are as usual; `is_clusters`: its words are CLUSTERS."""

    views: tuple[AlertView, ...]
    language: str
    own: OwnWords | None
    is_plain: bool
    is_shortened: bool
    is_sound: bool
    is_clusters: bool
    is_folded: bool


OWN = (
    OwnWords(
        "{{ job }}: {{ what }}",
        "**{{ headline }}** {{ reason }}\n{{ text }}\n[x]({{ link }}) {{ labels }}",
    ),
    OwnWords(
        "",
        "{% for n, v in labels %}{{ n }}={{ v }} {% endfor %}.{% for e in evidence %}\n> {{ e }}{% endfor %}",
    ),
)  # fmt: skip
_WORDS = st.lists(st.text(max_size=24) | st.sampled_from(HOSTILE), max_size=4).map("".join)


@st.composite
def _given(draw: st.DrawFn) -> Given:
    words, seed = [draw(_WORDS), draw(_WORDS)], draw(st.integers(0, 2**48))
    return _made(words, random.Random(seed))  # noqa: S311


GIVEN = _given()


def _made(words: list[str], chance: random.Random) -> Given:
    is_clusters = chance.random() < 0.06
    if is_clusters:
        words = ["".join(chance.choices(CLUSTERS, k=chance.choice((1, 9, 9, 60, 200, 1000)))) for _ in words]
    elif chance.random() < 0.06:
        words = [one * chance.choice((9, 9, 30, 300)) for one in words]
    is_sound = chance.random() < 0.5
    count = 1 if chance.random() < 0.9 else 60 if chance.random() < 0.02 else chance.choice((2, 2, 3, 9))
    own = chance.choice(OWN) if chance.random() < 0.05 else None
    views = tuple(_view(words, chance, is_sound, is_clusters, number) for number in range(count))
    return Given(
        views,
        chance.choice(("zh", "en")),
        own,
        is_plain=chance.random() < 0.2,
        is_shortened=chance.random() < 0.05,
        is_sound=is_sound,
        is_clusters=is_clusters and own is None,
        is_folded=chance.random() < 0.1,
    )


def _view(
    words: list[str], chance: random.Random, is_sound: bool, is_clusters: bool, number: int
) -> AlertView:
    def any_of(usual: Any) -> Any:
        """The usual, or something that nobody expects there."""
        strange = () if is_clusters else (None, 7, [words[0]], {"zh": words[1]})
        odd = chance.choice((words[0], words[1], words[0] + words[1], *strange))
        return usual if chance.random() < 0.4 else odd

    event: Any = {name: any_of(value) for name, value in EVENT.items() if chance.random() < 0.9}
    event["evidence"] = [
        {name: any_of(name) for name in ("rank", "node", "source", "text")} for _ in range(4)
    ]
    if is_sound:
        event |= {"culprit": EVENT["culprit"], "decision": EVENT["decision"] | {"why": any_of("x")}}
    return bare(
        chance.choice((*ITEMS, "custom", "custom")),
        alert_id=f"alr_{number}",
        severity=chance.choice(("info", "warning", "error", "critical", words[0])),
        status=chance.choice(("firing", "firing", "firing", "resolved")),
        title=any_of("disk full"),
        text=any_of("df says 97 %"),
        scope=any_of("default/research"),
        created_at=AT + timedelta(seconds=number),
        resolved_at=AT + timedelta(minutes=2),
        labels={str(any_of("team")): any_of("nlp") for _ in range(3)},
        job={**JOB, "name": any_of("llm"), "run": any_of(1)},
        event=event if is_sound or chance.random() < 0.8 else None,
        thread="alr_1",
        trigger=chance.choice(("alert", "alert", "escalation", "remind")),
        open_s=chance.choice((None, 0.0, 300.0, 1e8, -1.0)),
        repeats=chance.choice((0, 3, 10**9)),
    )

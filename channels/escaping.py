"""Makes data literal: what a log line or a label says can neither format, link nor call anybody.

Where a provider honours no escape character, U+200B (nothing to see) breaks the sequence that it parses.
"""

import re

from channels.graphemes import border

GAP = "\u200b"

_ANSI = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,1000}(?:\x07|\x1b\\)|[@-Z\\^_])|\x9b[0-?]*[ -/]*[@-~]"
)
_BREAKS = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
# Control characters, bidirectional overrides, zero-width blanks, lone surrogates, invisible tags.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff\ufff9-\uffff"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
_LEADING_BLANKS = re.compile(r"(?m)^[ \t]+")
_LINE_MARKS = re.compile(r"(?m)^([ \t]*)([#>+=-]|\d+(?=[.)]))")
_ENTITY = re.compile(r"&(?=#?\w+;)")
_LINE_START = re.compile(r"(?m)^([ \t]*)(?=[#>])")
_EMOJI_NAME = re.compile(r":(?=[A-Za-z_]+:)")

# What chat clients make links of by themselves: schemes, names under the usual top levels, names with a path.
_SCHEME = re.compile(
    r"(?i)(?<![^\W_])(?:tel|sms|mailto|javascript|data|dingtalk|lark|weixin)(?=:)(?!:/)|(?=:/)"
)
_HOST = re.compile(
    r"(?i)(?<=[\w\u0080-\uffff-])\.(?=(?:com|cn|net|org|gov|edu|io|cc|co|me|tv|top|xyz|info|biz|vip|app|dev|ai|site|online"
    r"|shop|store|club|tech|fun|live|work|link|click|icu|ltd|pro|mobi|asia|hk|tw|jp|kr|sg|uk|us|eu|de|fr|ru|in|tk"
    r"|ml|ga|cf|gq|pw|ly|gl|gg|sh|to|is|im|la|so|zip|mov)(?![^\W_]|-))|(?<=www)\.|(?<=\w)\.(?=[a-z]{2,}[:/][\w/])"
)
SHORTEST_PHONE = 7
_PHONE = re.compile(
    r"(?<![^\W_])(\+\d{2,3}|\d{3}|\d{4}(?=-\d{7}))(?=(?:\d{4,14}|-\d{7,8}|[ -]?\d{3,4}[ -]?\d{4})(?![^\W_]))"
)


def clean(text: str) -> str:
    """Without escape sequences, control and direction characters; every line break is one newline."""
    if text.isprintable():  # none of them is
        return text
    return _INVISIBLE.sub("", _BREAKS.sub("\n", _ANSI.sub("", text)))


def writable(text: str) -> str:
    """Without what neither UTF-8 nor a database can hold; escapes and markup stay."""
    return re.sub("[\x00\ud800-\udfff]", "", text)


def one_line(text: str, limit: int) -> str:
    """A title: clean, one line, at most `limit` characters."""
    words = " ".join(clean(text).split())
    return words if len(words) <= limit else words[: border(words, limit - 1)] + "…"


def unlinked(text: str) -> str:
    """Clean text in which addresses and phone numbers can be read but not tapped."""
    text = clean(text)
    if ":" in text:
        text = _SCHEME.sub(r"\g<0>" + GAP, text)
    if "." in text:
        text = _HOST.sub(GAP + ".", text)
    return _PHONE.sub(r"\1" + GAP, text) if len(text) >= SHORTEST_PHONE else text


def unmention(text: str) -> str:
    """Plain text in which neither `@name` nor a tag such as `<at …>` or `<@id>` can call anybody, and that
    holds nothing to tap."""
    return unlinked(text).replace("@", "@" + GAP).replace("<", "<" + GAP)


def dingtalk(text: str) -> str:
    """For DingTalk's markdown, which honours backslashes before `*`, `_` and the like.

    Source: the `markdown` function of timonwong/prometheus-webhook-dingtalk's templates.
    """
    text = re.sub(r"[\\*_`~]", r"\\\g<0>", unlinked(text))
    text = _ENTITY.sub("&" + GAP, text).replace("<", "<" + GAP).replace("]", "]" + GAP)
    text = _LINE_MARKS.sub(lambda found: found[1] + GAP + found[2], text)
    # Four leading blanks would make a code block, and fewer are swallowed: keep a traceback's shape.
    text = _LEADING_BLANKS.sub(lambda found: found[0].replace("\t", "    ").replace(" ", "\u00a0"), text)
    return text.replace("@", "@" + GAP)


def wecom(text: str) -> str:
    """For WeCom's markdown, which knows no escape character: look-alikes for `*` and the backtick."""
    text = unlinked(text).replace("*", "∗").replace("`", "ˋ")
    text = text.replace("<", "<" + GAP).replace("]", "]" + GAP).replace("@", "@" + GAP)
    text += GAP if text.endswith("\\") else ""  # lest it be taken for an escape of our mark
    return _LINE_START.sub(r"\g<1>" + GAP, text)


def lark(text: str) -> str:
    """For lark_md, whose own escape is the numeric HTML entity.

    Source: open.feishu.cn/document/common-capabilities/message-card/message-cards-content/using-markdown-tags
    """
    text = re.sub(r"[&<>*_~`\[\]\\#]", lambda found: f"&#{ord(found[0])};", unlinked(text))
    text = re.sub(r"(?m)^([ \t]*)-", r"\g<1>&#45;", text)
    return _EMOJI_NAME.sub("&#58;", text).replace("@", "@" + GAP)

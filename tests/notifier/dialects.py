"""What each provider's client would make of a message: links, mentions, tags, and the words that are seen."""

import html
import re
from dataclasses import dataclass
from html.parser import HTMLParser

from markdown_it import MarkdownIt
from markdown_it.token import Token

GAP = "\u200b"
_LINK = re.compile(r"(!?)\[([^\]\n]*)\]\(([^)\s]*)\)")
_TAG = re.compile(r"<(/?[A-Za-z@!][^>\n]*)>")
_CALL = re.compile(r"@[^\s\u200b@]")


@dataclass(frozen=True)
class Seen:
    """`shown`: the words without markup and without the gaps that break it."""

    links: tuple[str, ...]
    tags: tuple[str, ...]
    calls: tuple[str, ...]
    bold: int
    shown: str


def dingtalk(text: str) -> Seen:
    tokens = [token for top in MarkdownIt("commonmark").parse(text) for token in (top, *(top.children or ()))]
    return Seen(
        links=tuple(
            str(token.attrs.get("href") or token.attrs.get("src"))
            for token in tokens
            if token.type in ("link_open", "image")
        ),
        tags=tuple(token.content for token in tokens if token.type in ("html_inline", "html_block")),
        calls=tuple(_CALL.findall(text)),
        bold=sum(token.type == "strong_open" for token in tokens),
        shown=_shown("".join(_words(token) for token in tokens)),
    )


def _words(token: Token) -> str:
    if token.type in ("text", "code_inline", "code_block", "fence", "html_inline", "html_block"):
        return token.content
    return "\n" if token.type in ("softbreak", "hardbreak", "paragraph_close", "heading_close") else ""


def wecom(text: str) -> Seen:
    return Seen(
        links=tuple(found[2] for found in _LINK.findall(text)),
        tags=tuple(_TAG.findall(text)),
        calls=tuple(_CALL.findall(text)),
        bold=len(re.findall(r"\*\*[^*\n]+\*\*", text)),
        shown=_shown(re.sub(r"(?m)^> ", "", _LINK.sub(r"\2", text)).replace("**", "")),
    )


def lark(text: str) -> Seen:
    return Seen(
        links=tuple(found[2] for found in _LINK.findall(text)),
        tags=tuple(_TAG.findall(text)),
        calls=tuple(_CALL.findall(text)),
        bold=len(re.findall(r"\*\*[^*\n]+\*\*", text)),
        shown=_shown(html.unescape(_LINK.sub(r"\2", text).replace("**", ""))),
    )


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.links: list[str] = []
        self.tags: list[str] = []
        self.said: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.tags += [f"{tag} {name}" for name, _ in attrs if name.startswith("on") or name == "src"]
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "action")]

    def handle_data(self, data: str) -> None:
        self.said.append(data)


def mail(text: str) -> Seen:
    page = _Page()
    page.feed(text)
    page.close()
    return Seen(tuple(page.links), tuple(page.tags), (), page.tags.count("b"), _shown("".join(page.said)))


def _shown(text: str) -> str:
    return text.replace(GAP, "").replace("\u00a0", " ")


READERS = {"dingtalk": dingtalk, "wecom": wecom, "feishu": lark, "email": mail}

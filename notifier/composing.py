"""Puts the facts of an alert into the form that a channel wants.

The words are the built-in forms' (notifier/forms.py), or a user's own (notifier/templating.py); where those
fail it is told in the built-in ones.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from channels import speech
from channels.base import Adapter, Message, Sheet
from notifier import templating
from notifier.facts import Facts
from notifier.forms import PLAIN, Border, Form, Raw, fill
from notifier.templating_child import MAX_OUTPUT
from notifier.wording import MAX_TITLE, RESOLVED, AlertView, Link, Speaker, clip, one_line, severity_of

QUOTES = {"markdown": "> ", "lark": "┃ "}  # lark_md knows no quotation
COLOURS = {"info": "#3056d3", "warning": "#d98a00", "error": "#b42318", "critical": "#7a0c12"}
RESOLVED_COLOUR = "#12805c"
FIRING = "firing"
PLAIN_FORMATS = ("text", "sms", "speech")  # a message's `plain` is its `text`
WITHOUT_LINK = ("sms", "speech")  # providers refuse addresses, and nobody can listen to one
SMS_LENGTH = {"zh": 70, "en": 160}  # one text message
SMS_DIGEST_LENGTH = {"zh": 268, "en": 612}  # four
SPEECH_LENGTH = 350  # Tencent's longest variable
SMALL_PRINT = ("labels", "time", "items")


@dataclass(frozen=True)
class OwnWords:
    """Templates of a user's own. `title` may be empty."""

    title: str
    text: str


@dataclass(frozen=True)
class Rendered:
    """`template_error`: what went wrong with the template; the message is the built-in text then."""

    message: Message
    template_error: str | None = None


@dataclass(frozen=True)
class Composition:
    """One message in the making. `names`: the forms to look for, without their suffix; the first wins."""

    view: AlertView
    adapter: Adapter
    speaker: Speaker
    border: Border
    names: Sequence[str]
    own: OwnWords | None = None

    def rendered(self, facts: Facts, document: Mapping[str, Any]) -> Rendered:
        facts = {**facts, "note": ""}
        message = self._in_own_words(facts, document) if self.own is not None else None
        if message is None:
            message = self._message(facts, document)
        return Rendered(message, self.border.errors[0] if self.border.errors else None)

    @property
    def _form(self) -> Form:
        """The adapter's own."""
        suffix = {"text": "txt", "lark": "md", "markdown": "md"}.get(self.adapter.format, self.adapter.format)
        escape = _escape(self.adapter, self.adapter.format, self.speaker.language)
        return Form(suffix, escape, QUOTES.get(self.adapter.format, ""))

    def _message(self, facts: Facts, document: Mapping[str, Any]) -> Message:
        """In the built-in words."""
        form = self._form
        if form.suffix == "html":
            plain = text = self._body(PLAIN, facts)
            html = None if self.border.errors and not facts["note"] else self._html(form, facts)
            return self._put(facts, document, text=text, plain=plain, html=html)
        if self.adapter.format in QUOTES:
            plain, text = self._body(PLAIN, facts), self._body(form, facts)
            sheet = None if "alerts" in facts else self._sheet(facts)
            return self._put(facts, document, text=text, plain=plain, sheet=sheet)
        text = self._shortened(self._body(form, facts), "alerts" in facts)
        plain = self._body(PLAIN, facts) if form.suffix == "txt" and self._has_marks else text
        return self._put(facts, document, text=text, plain=plain)

    @property
    def _has_marks(self) -> bool:
        """Whether plain text has to be made literal for this adapter."""
        return type(self.adapter).escape is not Adapter.escape

    def _in_own_words(self, facts: Facts, document: Mapping[str, Any]) -> Message | None:
        """The user's templates filled; nothing, and the error noted, if they fail."""
        assert self.own is not None  # noqa: S101
        given = {"title": self.own.title, "text": self.own.text}
        filled = templating.fill({name: source for name, source in given.items() if source}, facts)
        faults = [f"{name}: {fault}" for name, fault in filled.faults.items()]
        text = "" if faults else templating.written(filled.texts["text"], self._form.escape).strip()
        if not text:
            self.border.errors.append((faults or ["text: the template gives no text for this alert"])[0])
            error = self.border.errors[-1][:200]
            facts["note"] = self.speaker.words["template_failed"].format(error=error)
            return None
        title = one_line(templating.written(filled.texts.get("title", ""), str), MAX_TITLE)
        facts["title"] = title or facts["title"]
        if self.adapter.format in PLAIN_FORMATS:
            return self._put(facts, document, text=text, plain=text)
        plain = self._body(PLAIN, facts)
        if self.adapter.format != "html":
            return self._put(facts, document, text=text, plain=plain)
        html = fill(("forms/own",), self._form, {**facts, **self._frame(self._form), "body": Raw(text)})
        return self._put(facts, document, text=plain, plain=plain, html=html)

    def _put(self, facts: Facts, document: Mapping[str, Any], **forms: Any) -> Message:
        return Message(
            id=self.view.delivery_id,
            title=facts["title"],
            severity=severity_of(self.view.severity),
            status=self.view.status,
            link=None if self.adapter.format in WITHOUT_LINK else facts["link"],
            link_label=self.speaker.words["labels"]["link"],
            ack_link=None if self.adapter.format in WITHOUT_LINK else facts["ack"],
            ack_label=self.speaker.words["labels"]["ack"],
            thread=self.view.thread,
            document=document,
            **forms,
        )

    def _html(self, form: Form, facts: Facts) -> str | None:
        """A mail without its HTML part can be read all the same."""
        errors = len(self.border.errors)
        html = self._body(form, facts)
        return html if len(self.border.errors) == errors else None

    def _sheet(self, facts: Facts) -> Sheet | None:
        escape, small = self._form.escape, {self.speaker.words["labels"][name] for name in SMALL_PRINT}
        rows = [(label, escape(value)) for label, value in (*facts["head"], *facts["tail"])]
        return Sheet(
            lead=escape(facts["headline"]),
            rows=tuple(row for row in rows if row[0] not in small),
            words="\n".join(escape(text) for text in (facts["text"], facts["note"]) if text),
            evidence=tuple(escape(line) for line in facts["evidence"]),
            evidence_label=self.speaker.words["labels"]["evidence"],
            notes=tuple(
                f"{label}{self.speaker.words['colon']}{value}" for label, value in rows if label in small
            ),
        )

    def _shortened(self, text: str, is_digest: bool) -> str:
        """One text message is short, and nobody listens to a long call."""
        language = self.speaker.language
        if self.adapter.format == "speech":
            return speech.tidy(text, SPEECH_LENGTH)
        if self.adapter.format != "sms":
            return text
        limit = (SMS_DIGEST_LENGTH if is_digest else SMS_LENGTH)[language]
        text = clip("\n".join(" ".join(line.split()) for line in text.splitlines() if line.strip()), limit)
        # One character beyond GSM 03.38 makes every one of them cost twice.
        return text if not text.replace("…", "").isascii() else text.replace("…", ".")

    def _body(self, form: Form, facts: Facts) -> str:
        def filled() -> str:
            return fill(self.names, form, {**facts, **self._frame(form)})

        return self.border.attempt(filled, lambda: self._built_in(form, facts))

    def _frame(self, form: Form) -> Facts:
        """What forms know besides the facts."""
        over, words = self.view.status == RESOLVED, self.speaker.words
        return {
            "quote": Raw(form.quote),
            "colon": words["colon"],
            "labels_of": words["labels"],
            "language": self.speaker.language,
            "over": over,
            "grade": words["over"] if over else words["severities"][severity_of(self.view.severity)],
            "colour": RESOLVED_COLOUR if over else COLOURS[severity_of(self.view.severity)],
        }

    def _built_in(self, form: Form, facts: Facts) -> str:
        """What is told when the template fails: all that matters, a line each, and that it failed."""
        colon = self.speaker.words["colon"]
        lines = [facts["headline"], *(f"{label}{colon}{value}" for label, value in facts["head"])]
        lines += [facts["link"], facts["ack"], facts["text"]]
        lines += [f"{label}{colon}{value}" for label, value in facts["tail"]] + list(facts["evidence"])
        for one in facts.get("alerts", ()):
            lines += [f"{one['time']} {one['title']}", one["line"]]
        lines.append(self.speaker.words["template_failed"].format(error=self.border.errors[-1][:200]))
        said = (line if isinstance(line, Link) else form.escape(str(line)) for line in lines if line)
        return clip("\n".join(said), MAX_OUTPUT)


@cache
def _escape(adapter: Adapter, form: str, language: str) -> Callable[[str], str]:
    """How values are made literal; in what is read aloud, made words."""
    if form == "sms":
        return lambda text: speech.sms(adapter.escape(text))
    if form == "speech":
        return lambda text: speech.spoken(adapter.escape(text), language)
    return adapter.escape

"""Fills users' templates, as a program of its own in which there is nothing worth stealing.

A JSON object a line comes in, one goes out (`notifier/templating.py` asks). Jinja's sandbox keeps templates
from climbing out but not from `'x' * 10**9` or loops in loops: memory and processor time are capped here,
and whoever passes the cap ends this process. It imports nothing of ours.
"""

import codecs
import contextlib
import difflib
import json
import resource
import signal
import sys
import traceback
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import jinja2.debug  # noqa: F401  now: later on no file can be opened
from jinja2 import ChainableUndefined, Template, TemplateSyntaxError, Undefined, UndefinedError, meta, nodes
from jinja2.exceptions import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import missing

MAX_OUTPUT = 64 * 1024  # characters
MAX_MEMORY = 256 * 1024 * 1024
MAX_CPU_S = 1.0
MAX_SAID = 300
NAME = "<template>"
# Around each value that came out of an expression: whoever asked makes it literal in its own dialect.
OPEN, CLOSE = "\ue000", "\ue001"
_MARKS = str.maketrans("", "", OPEN + CLOSE)
# What markupsafe escapes is HTML only, and what it calls safe is not safe in our dialects.
LEFT_OUT = ("lipsum",)  # reads a file
UNSAFE_FILTERS = ("safe", "escape", "e", "forceescape", "xmlattr", "urlize", "tojson")
_FULL = '{"errors":{"":[null,"MemoryError: the template takes more than 256 MB"]},"texts":{}}'


class _Link(str):
    """Our own link goes into the text as it is."""


class _Strict(ChainableUndefined):
    """When a template is saved: a text has no parts, so `job.name` is a mistake, not an empty text."""

    def __init__(
        self, hint: Any = None, obj: Any = missing, name: Any = None, exc: Any = UndefinedError
    ) -> None:
        super().__init__(hint, obj, name, exc)
        if isinstance(obj, str) and isinstance(name, str):
            raise UndefinedError(f"a text has no `.{name}`: all facts are plain texts or lists")


def literal(value: Any) -> str:
    """A value as it is marked; everything that is no template source is one."""
    if isinstance(value, _Link):
        return str(value)
    text = "" if value is None else str(value)
    if len(text) > MAX_OUTPUT:
        raise TemplateError(f"a value of more than {MAX_OUTPUT} characters")
    return f"{OPEN}{text.translate(_MARKS)}{CLOSE}"


def environment(undefined: type[Undefined]) -> ImmutableSandboxedEnvironment:
    made = ImmutableSandboxedEnvironment(
        finalize=literal, undefined=undefined, trim_blocks=True, lstrip_blocks=True
    )
    for name in UNSAFE_FILTERS:
        del made.filters[name]
    for name in LEFT_OUT:
        del made.globals[name]
    return made


LENIENT, STRICT = environment(ChainableUndefined), environment(_Strict)


@lru_cache(maxsize=256)
def compiled(source: str, *, is_strict: bool) -> Template:
    return (STRICT if is_strict else LENIENT).from_string(source.translate(_MARKS))


def filled(template: Template, facts: Mapping[str, Any]) -> str:
    pieces, size = [], 0
    for piece in template.generate(facts):
        size += len(piece)
        if size > MAX_OUTPUT:
            raise TemplateError(f"gives more than {MAX_OUTPUT} characters")
        pieces.append(piece)
    return "".join(pieces).strip("\n")


def stranger(source: str, known: list[str]) -> tuple[int, str] | None:
    """The first name that is neither a fact nor made by the template itself: its line, and what is wrong."""
    tree = STRICT.parse(source)
    unknown = meta.find_undeclared_variables(tree) - set(known) - set(STRICT.globals)
    for node in tree.find_all(nodes.Name):
        if node.name in unknown:
            near = difflib.get_close_matches(node.name, known, 1, 0.5)
            mend = f"did you mean `{near[0]}`?" if near else f"give one of {', '.join(known)}"
            return node.lineno, f"there is no fact `{node.name}`; {mend}"
    return None


def fault(error: Exception) -> tuple[int | None, str]:
    """Where and what, on one line."""
    said = " ".join(f"{type(error).__name__}: {error}".split())[:MAX_SAID]
    if isinstance(error, TemplateSyntaxError):
        return error.lineno, said
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if NAME in str(frame.filename)
    ]
    return (lines[-1] if lines else None), said


def answer(asked: Mapping[str, Any]) -> dict[str, Any]:
    """{templates: {name: source}, facts, is_strict} → {texts: {name: text}, errors: {name: [line, said]}}."""
    facts, is_strict = asked["facts"], bool(asked.get("is_strict"))
    for name in ("link", "ack"):
        if facts.get(name):
            facts[name] = _Link(facts[name])
    texts: dict[str, str] = {}
    errors: dict[str, tuple[int | None, str]] = {}
    for name, source in asked["templates"].items():
        try:
            found = stranger(source, sorted(facts)) if is_strict else None
            if found is not None:
                errors[name] = found
                continue
            texts[name] = filled(compiled(source, is_strict=is_strict), facts)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001  a border: whatever a template does, it is told
            errors[name] = fault(error)
    return {"texts": texts, "errors": errors}


def confine() -> None:
    """From here on: little memory, no new file, no other process."""
    codecs.lookup("unicode_escape")  # jinja asks for it when it is too late to read its file
    limits = {
        resource.RLIMIT_AS: MAX_MEMORY,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_NPROC: 0,
        resource.RLIMIT_NOFILE: 3,
    }
    for name, limit in limits.items():
        with contextlib.suppress(ValueError, OSError):  # macOS knows some of them in name only
            resource.setrlimit(name, (limit, limit))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a ^C is for whoever started us


def main() -> None:
    confine()
    print("ready", flush=True)  # noqa: T201
    for line in sys.stdin:
        signal.setitimer(signal.ITIMER_PROF, MAX_CPU_S)
        try:
            said = json.dumps(answer(json.loads(line)))
        except MemoryError:
            print(_FULL, flush=True)  # noqa: T201
            return
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(said, flush=True)  # noqa: T201


if __name__ == "__main__":
    main()

"""The file of `faultcast apply`: YAML or JSON, read with the lines of its places and secrets from outside."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import BaseModel, ValidationError

from master.cli.errors import CommandError
from master.cli.values import read_text
from notifier.channels import ChannelBody
from notifier.oncalls import OncallBody
from notifier.problems import of_validation
from notifier.rules import AlertConfigModel
from notifier.silencebook import SilenceBody

if TYPE_CHECKING:
    from yaml.nodes import Node

# In this order they are made: lists name channels, rules name both.
SECTIONS: Mapping[str, type[BaseModel]] = {
    "channels": ChannelBody,
    "oncall": OncallBody,
    "rules": AlertConfigModel,
    "silences": SilenceBody,
}
OWNERS = ("pool", "job")
MAX_PLACES = 100_000  # anchors may make a small file large
MAX_DEPTH = 50
QUOTED = "give a text, in quotes: YAML takes it for a number, a truth value or nothing"
_VARIABLE = re.compile(r"\$(\$)?\{([^}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Place = tuple[int | str, ...]


@dataclass(frozen=True)
class Entry:
    """One thing that shall be. `owner`: whose rules they are, ("pool" or "job", its name)."""

    section: str
    place: Place
    body: dict[str, Any]
    owner: tuple[str, str] = ("", "")


class File:
    """What the file asks for, checked as far as that needs no server.

    Raises:
        CommandError: names the file, the line, the field and the mend.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._lines: dict[Place, int] = {}
        self._left = MAX_PLACES
        document = self._read(read_text("--file", path))
        known = (*SECTIONS, "scope")
        for name in document:
            if name not in known:
                raise self.error((name,), f"no such field; there are {', '.join(known)}")
        self._scope = document.get("scope")
        self.entries = tuple(entry for section in SECTIONS for entry in self._entries(section, document))
        self._check_once()

    def error(self, place: Place, words: str) -> CommandError:
        """What is wrong at that place, or else at the nearest around it."""
        near = next(place[:n] for n in range(len(place), -1, -1) if place[:n] in self._lines or not n)
        name = ".".join(str(part) for part in place)
        return CommandError(
            f"{self._path} line {self._lines.get(near, 1)}: {f'{name}: ' if name else ''}{words}"
        )

    def _read(self, text: str) -> dict[str, Any]:
        try:
            node = yaml.compose(text, yaml.SafeLoader)
            document = self._value(node, ()) if node is not None else {}
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = mark.line + 1 if mark else 1
            words = getattr(error, "problem", None) or "unreadable"
            raise CommandError(f"{self._path} line {line}: neither YAML nor JSON ({words})") from None
        except RecursionError:
            raise CommandError(f"{self._path}: is nested too deeply") from None
        if not isinstance(document, dict):
            raise self.error((), f"give a mapping of {', '.join(SECTIONS)}")
        return document

    def _value(self, node: "Node", place: Place) -> Any:
        """The node as JSON would have it; dates stay texts."""
        self._left -= 1
        if self._left < 0 or len(place) > MAX_DEPTH:
            raise self.error(place, "is too large or nested too deeply")
        self._lines.setdefault(place, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, place)
        if isinstance(node, yaml.SequenceNode):
            return [self._value(one, (*place, n)) for n, one in enumerate(node.value)]
        if node.tag == "tag:yaml.org,2002:timestamp":
            return node.value
        value = yaml.SafeLoader("").construct_object(node)
        if isinstance(value, str):
            return self._filled(value, place)
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            raise self.error(place, "is nothing that JSON has; put it in quotes") from None
        return value

    def _mapping(self, node: "yaml.MappingNode", place: Place) -> dict[str, Any]:
        yaml.SafeLoader("").flatten_mapping(node)
        found: dict[str, Any] = {}
        for key, value in node.value:
            name = str(key.value)
            if name in found:
                raise self.error((*place, name), f"is given twice, again in line {key.start_mark.line + 1}")
            self._lines[(*place, name)] = key.start_mark.line + 1
            found[name] = self._value(value, (*place, name))
        return found

    def _filled(self, text: str, place: Place) -> str:
        """`${NAME}` from the environment; `$${` is a plain `${`."""

        def value(found: re.Match[str]) -> str:
            if found[1]:
                return found[0][1:]
            if not _NAME.fullmatch(found[2]):
                raise self.error(place, "${…} wants the name of an environment variable; $${ is a plain ${")
            if found[2] not in os.environ:
                raise self.error(
                    place, f"the environment has no {found[2]}: set it, or write $${{{found[2]}}}"
                )
            return os.environ[found[2]]

        return _VARIABLE.sub(value, text)

    def _entries(self, section: str, document: Mapping[str, Any]) -> Iterator[Entry]:
        given = document.get(section) or []
        if not isinstance(given, list):
            raise self.error((section,), "give a list: […]")
        for n, body in enumerate(given):
            place = (section, n)
            if not isinstance(body, dict):
                raise self.error(place, "give an object: {…}")
            yield self._entry(section, place, body)

    def _entry(self, section: str, place: Place, body: dict[str, Any]) -> Entry:
        owner = ("", "")
        if section == "rules":
            owner = self._owner(place, body)
            body = {name: value for name, value in body.items() if name not in OWNERS}
        elif self._scope is not None:
            body = {"scope": self._scope, **body}
        if section == "silences" and body.get("duration_s") is not None:
            raise self.error((*place, "duration_s"), "a file is applied again and again: give ends_at")
        try:
            SECTIONS[section].model_validate(body)
        except ValidationError as error:
            faults = of_validation(error, under="", model=SECTIONS[section]).errors
            # A slip in a name is told before what it leaves missing.
            field, words = min(faults, key=lambda fault: not fault[1].startswith("no such field"))
            raise self.error((*place, *_parts(field)), QUOTED if words == "give a text" else words) from None
        return Entry(section, place, body, owner)

    def _check_once(self) -> None:
        """What stands in a file twice would be changed to and fro each time that it is applied."""
        seen: dict[tuple[object, ...], Place] = {}
        for entry in self.entries:
            if entry.section == "silences":
                continue
            key = entry.owner if entry.section == "rules" else (entry.body.get("scope"), entry.body["name"])
            first = seen.setdefault(key, entry.place)
            if first != entry.place:
                which = entry.owner[0] if entry.section == "rules" else "name"
                words = f"stands in line {self._lines[first]} already: give it once"
                raise self.error((*entry.place, which), words)

    def _owner(self, place: Place, body: Mapping[str, Any]) -> tuple[str, str]:
        given = [(kind, body[kind]) for kind in OWNERS if kind in body]
        if len(given) != 1 or not isinstance(given[0][1], str) or not given[0][1]:
            raise self.error(place, "whose rules? give pool: NAME or job: ID, one of them")
        return given[0]

    def refused(self, entry: Entry, error: CommandError) -> CommandError:
        """What the server said of an entry, with the line."""
        if not error.faults:
            return self.error(entry.place, str(error))
        field, words = error.faults[0]
        return self.error((*entry.place, *_parts(field)), words)


def _parts(field: str) -> Place:
    """`a.0.b` as a place."""
    return tuple(int(part) if part.isdigit() else part for part in field.split(".") if part)

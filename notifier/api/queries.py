"""What a route's address may ask for. A parameter that it does not take, or takes once, is refused by name:
whoever misspells a filter or `dry_run` would otherwise get what was not asked for."""

from collections import Counter
from collections.abc import Iterator
from types import UnionType
from typing import Any, Union, get_args, get_origin

from fastapi import Request
from fastapi.dependencies.models import Dependant
from pydantic import BaseModel

from notifier.problems import Problem, clipped

_LISTS = (list, tuple, set, frozenset)


def check_query(request: Request) -> None:
    """Raises a problem."""
    given = Counter(name for name, _ in request.query_params.multi_items())
    if not given:
        return
    known = dict(_taken(request.scope["route"].dependant))
    there_are = f"there are {', '.join(sorted(known))}" if known else "this address takes none"
    faults = [(name, f"no such parameter; {there_are}") for name in given if name not in known]
    faults += [
        (name, f"stands there {count} times; give one")
        for name, count in given.items()
        if count > 1 and known.get(name) is False
    ]
    if faults:
        raise Problem(422, errors=[(clipped(name), mend) for name, mend in faults])


def _taken(route: Dependant) -> Iterator[tuple[str, bool]]:
    """Name of each parameter, and whether it may stand there more than once."""
    for one in route.query_params:
        annotation = one.field_info.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            for name, field in annotation.model_fields.items():
                yield field.alias or name, _is_list(field.annotation)
        else:
            yield one.alias, _is_list(annotation)
    for part in route.dependencies:
        yield from _taken(part)


def _is_list(annotation: Any) -> bool:
    shapes = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    return any((get_origin(shape) or shape) in _LISTS for shape in shapes)

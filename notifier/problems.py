"""Everything that is refused is refused the same way: an RFC 9457 problem document that names the mend.

No web framework here: a worker imports this too (`notifier/api/refusals.py` answers with them).
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticCustomError

from notifier.faultwords import naming_fields, placed, settled


class Problem(Exception):  # noqa: N818  RFC 9457 calls it so
    """An answer that is no success. `errors` names each field and what is wrong with it."""

    def __init__(
        self,
        status: int,
        title: str = "",
        detail: str = "",
        *,
        errors: Sequence[tuple[str, str]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.status = status
        self.title = title or HTTPStatus(status).phrase
        self.errors = tuple(errors)
        self.detail = detail or "; ".join(f"{field}: {message}" for field, message in errors) or self.title
        self.headers = dict(headers or {})
        super().__init__(self.detail)

    def document(self) -> dict[str, Any]:
        return {
            "type": "about:blank",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "errors": [{"field": field, "message": message} for field, message in self.errors],
        }


def invalid(field: str, message: str) -> Problem:
    """One field of the request is wrong; `message` says what to give instead."""
    return Problem(422, errors=[(field, message)])


def not_found(what: str, name: str) -> Problem:
    """There is none of that name, or it lies outside the token's scope: the two look the same."""
    return Problem(404, detail=f"no {what} {clipped(name)}")


def conflict(detail: str) -> Problem:
    return Problem(409, detail=detail)


def of_validation(error: ValidationError, *, under: str, model: type[BaseModel] | None = None) -> Problem:
    """What pydantic found in a part of the body that is parsed later than the rest, such as `config`.

    `model`: whose fields are named where one is given that there is not.
    """
    faults = [fault if model is None else _known(model, fault) for fault in error.errors()]
    return Problem(422, errors=settled(field_and_mend([under, *fault["loc"]], fault) for fault in faults))


def field_and_mend(where: Sequence[int | str], fault: Mapping[str, Any]) -> tuple[str, str]:
    field, mend = placed(where, str(fault["msg"]))
    return clipped(field), mend


def _known(model: type[BaseModel], fault: Mapping[str, Any]) -> Mapping[str, Any]:
    error = naming_fields(model, fault)["type"]
    return {**fault, "msg": error.message() if isinstance(error, PydanticCustomError) else fault["msg"]}


def clipped(text: str, most: int = 200) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"

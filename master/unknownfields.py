"""Refuses a field that nobody knows by its name, and says which one was probably meant."""

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import InitErrorDetails, PydanticCustomError


class Strict(BaseModel):
    """A part of a body in camelCase."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, hide_input_in_errors=True
    )

    @model_validator(mode="wrap")
    @classmethod
    def _name_what_was_meant(cls, given: Any, handler: Callable[[Any], Any]) -> Any:
        try:
            return handler(given)
        except ValidationError as error:
            faults = [_reworded(cls, fault) for fault in error.errors(include_url=False)]
            raise ValidationError.from_exception_data(cls.__name__, faults) from None


def _reworded(model: type[BaseModel], fault: Any) -> InitErrorDetails:
    message = fault["msg"]
    if fault["type"] == "extra_forbidden" and len(fault["loc"]) == 1:
        known = [field.alias or name for name, field in model.model_fields.items()]
        near = get_close_matches(str(fault["loc"][0]), known, n=1)
        message = f"unknown field; {f'did you mean {near[0]}?' if near else 'remove it'}"
    error = PydanticCustomError(fault["type"], "{message}", {"message": message})
    return InitErrorDetails(type=error, loc=fault["loc"], input=None)

"""What every operation may answer besides its success, written into the OpenAPI document once for all."""

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from notifier.api.refusals import MEDIA_TYPE

PREFIX = "/api/v1"
_PROBLEM = {
    "type": "object",
    "description": "RFC 9457 problem document",
    "required": ["type", "title", "status", "detail", "errors"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["field", "message"],
                "properties": {"field": {"type": "string"}, "message": {"type": "string"}},
            },
        },
    },
}
_ALWAYS = {
    "401": "no valid token",
    "403": "the token's role does not allow it",
    "404": "there is none, or it lies outside the token's scope",
    "409": "it does not go with what is there",
    "422": "a field is wrong: `errors` names it and the mend",
    "503": "the database is away or busy: try again after `Retry-After`",
}
_WITH_BODY = {
    "400": "malformed JSON",
    "413": "too large a body",
    "415": "not JSON",
}
_WITH_ETAG = {"412": "`If-Match` names another version"}


def describe(app: FastAPI) -> None:
    """Replaces the app's OpenAPI document by one whose every error is a problem document."""

    def build() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = get_openapi(
                title=app.title, version=app.version, description=app.description, routes=app.routes
            )
            schemas = schema.setdefault("components", {}).setdefault("schemas", {})
            for unused in ("HTTPValidationError", "ValidationError"):
                schemas.pop(unused, None)
            schemas["Problem"] = _PROBLEM
            for operation in _operations(schema):
                _add_problems(operation)
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = build  # type: ignore[method-assign]  # the way FastAPI's documentation shows


def problem_response(description: str) -> dict[str, Any]:
    """For the `responses` of a route that has a refusal of its own."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {"description": description, "content": content}


def _operations(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path, methods in schema.get("paths", {}).items():
        if path.startswith(PREFIX):
            yield from methods.values()


def _add_problems(operation: dict[str, Any]) -> None:
    named = dict(_ALWAYS)
    parameters = {parameter["name"].lower() for parameter in operation.get("parameters", [])}
    if "requestBody" in operation:
        named |= _WITH_BODY
    if "if-match" in parameters:
        named |= _WITH_ETAG
    responses = operation.setdefault("responses", {})
    responses.pop("422", None)  # FastAPI's own form of it
    for status, description in named.items():
        responses.setdefault(status, problem_response(description))

"""The few things that the console does: each a form of our own page, each what the API would do."""

from fastapi import APIRouter

router = APIRouter(include_in_schema=False)

"""Why a delivery waits for its turn, in words that are read again when it is planned anew. Pure."""

import re

WAITS = "waits for its turn"
_WAITS_FOR = re.compile(f"{WAITS}: it takes ([0-9]) messages")


def waits_for(sends: int) -> str:
    """Why a delivery waits that takes so many messages."""
    return f"{WAITS}: it takes {sends} messages" if sends > 1 else WAITS


def waited_for(why: str) -> int:
    """How many messages it takes, where that was found out."""
    found = _WAITS_FOR.search(why)
    return int(found[1]) if found else 1

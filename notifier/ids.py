"""Identifiers that sort by time: `<prefix>_<10 characters of time><16 of chance>`, Crockford base 32.

Within one process they grow strictly, so that two rows of one transaction keep their order.
"""

import secrets
import threading
from datetime import datetime

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [high + low for high in _ALPHABET for low in _ALPHABET]
_RANDOM_BITS = 80
_lock = threading.Lock()
_last = 0


def new_id(prefix: str, now: datetime) -> str:
    """A new identifier for `now`, such as `dlv_01jdvw0c3k…`; later calls give greater ones."""
    global _last  # noqa: PLW0603  the last value is what makes ids of one process grow
    with _lock:
        value = int(now.timestamp() * 1000) << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS - 1)
        _last = max(value, _last + 1)
        value = _last
    return _written(prefix, value)


def first_id(prefix: str, moment: datetime) -> str:
    """Not greater than any `new_id` of that moment or later: turns a span of time into a span of keys."""
    value = max(0, int(moment.timestamp() * 1000)) << _RANDOM_BITS
    return _written(prefix, value)


def _written(prefix: str, value: int) -> str:
    return f"{prefix}_" + "".join([_PAIRS[value >> shift & 1023] for shift in range(120, -1, -10)])

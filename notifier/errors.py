"""What may be told of an error of ours. Needs nothing but the standard library, so it can be told of any."""

from pathlib import Path


def kind_and_place(error: BaseException) -> str:
    """`ValueError in rules.py:12`; an error's own words may hold a secret."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f" in {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace else ""
    return f"{type(error).__name__}{place}"

"""What is told beside a line: the traceback it ends, else what the rank said before."""

from agent.context import KEPT_LINES, Context

TRACEBACK = [
    "Traceback (most recent call last):",
    '  File "train.py", line 3, in <module>',
    "    step()",
    "ValueError: bad batch",
]


def said(context: Context, lines: list[str], rank: int | None = 0) -> list[str]:
    """Add all; the context of the last."""
    before: list[str] = []
    for line in lines:
        before = context.add(rank, line, line)
    return before


def test_a_plain_line_comes_with_those_before_it() -> None:
    assert said(Context(), [f"step {n}" for n in range(20)]) == [f"step {n}" for n in range(9, 19)]


def test_the_line_that_ends_a_traceback_comes_with_it() -> None:
    assert said(Context(), ["step 1", *TRACEBACK]) == TRACEBACK[:-1]


def test_prefixed_tracebacks_of_two_ranks_do_not_mix() -> None:
    context = Context()
    for line in TRACEBACK[:-1]:
        for rank in (0, 1):
            context.add(rank, f"[rank{rank}]: {line}", line)
    assert context.add(1, "[rank1]: ValueError", "ValueError") == [f"[rank1]: {x}" for x in TRACEBACK[:-1]]


def test_chained_tracebacks_are_kept_together() -> None:
    chain = "During handling of the above exception, another exception occurred:"
    context = Context()
    said(context, [*TRACEBACK, "", chain, "", *TRACEBACK[:-1], "KeyError: 1"])
    assert context.last_lines(0) == [*TRACEBACK, "", chain, "", *TRACEBACK[:-1], "KeyError: 1"]


def test_a_long_traceback_keeps_its_head_and_its_end() -> None:
    frames = [f"  File x, line {n}" for n in range(500)]
    before = said(Context(), [TRACEBACK[0], *frames, "RecursionError: too deep"])
    assert before[0] == TRACEBACK[0]
    assert before[-1] == frames[-1]
    assert len(before) < 40


def test_the_last_lines_are_of_the_rank_and_of_nobody_known() -> None:
    context = Context()
    context.add(0, "zero", "zero")
    context.add(1, "one", "one")
    context.add(None, "who?", "who?")
    assert context.last_lines(0) == ["zero", "who?"]


def test_a_ranks_own_lines_are_not_pushed_away_by_the_launchers() -> None:
    context = Context()
    own = [f"step {n}" for n in range(KEPT_LINES)]
    for line in own:
        context.add(0, line, line)
    for n in range(100):
        context.add(None, f"launcher {n}", f"launcher {n}")
    assert context.last_lines(0) == own


def test_the_last_lines_keep_a_traceback_that_others_have_pushed_away() -> None:
    context = Context()
    said(context, TRACEBACK)
    said(context, [f"bye {n}" for n in range(KEPT_LINES)])
    assert context.last_lines(0) == [*TRACEBACK, *(f"bye {n}" for n in range(KEPT_LINES))]


def test_a_traceback_of_long_ago_is_not_the_last_word() -> None:
    context = Context()
    said(context, TRACEBACK)
    said(context, [f"step {n}" for n in range(5000)])
    assert "ValueError: bad batch" not in context.last_lines(0)


def test_a_traceback_without_end_is_kept_as_far_as_it_came() -> None:
    context = Context()
    said(context, TRACEBACK[:-1])
    assert context.last_lines(0) == TRACEBACK[:-1]


def test_a_rank_that_said_nothing_has_no_last_lines() -> None:
    assert Context().last_lines(3) == []

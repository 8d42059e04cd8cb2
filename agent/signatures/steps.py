"""Reads the step number out of the progress lines that trainers commonly print."""

import re

_NUMBER = r"(?P<step>\d[\d,]{0,15})"
_WORD = r"(?:global[_ ]?step|train[_ ]?step|iteration|step|iter)"
# Megatron `iteration 9118/ 200000 |`, `step 10 | loss`, `step=3 train/loss=`, nanoGPT `iter 512: loss`,
# `[Step 20]`, `global_step 7`; tqdm `41%|##  | 6212/15150 [`; `[3/1000] Forward`.
_FORMS = (
    re.compile(
        rf"(?:^|[\s\[(|]){_WORD}\s{{0,3}}[=:#\[]?\s{{0,12}}{_NUMBER}(?![\w.])",
        re.IGNORECASE,
    ),
    re.compile(rf"\d%\|[^|]{{0,200}}\|\s*{_NUMBER}/\d+ \["),
    re.compile(rf"\[\s*{_NUMBER}/\d+\]"),
)
_HINTS = ("step", "iter", "Step", "Iter", "STEP", "%|", "/")
_MAX_LINE = 2000


def step_of(line: str) -> int | None:
    """The step that a progress line tells, or None where the line is no such line."""
    if not any(hint in line for hint in _HINTS):
        return None
    for form in _FORMS:
        if found := form.search(line[:_MAX_LINE]):
            return int(found["step"].replace(",", ""))
    return None


def is_progress(line: str) -> bool:
    """A line that training prints as it goes on, with or without a step number."""
    return step_of(line) is not None or ("'loss':" in line and "'epoch':" in line)

"""Every report that we know of has a test here that cites it."""

import re
from pathlib import Path

REPORTS = [f"D-S{n:02}" for n in range(1, 22)]
ROWS = [n for n in range(1, 26) if n != 23]  # 23: repeats and reminders of what goes on firing


def test_every_report_is_cited() -> None:
    here = Path(__file__)
    text = "".join(path.read_text(encoding="utf-8") for path in here.parent.glob("test_*.py") if path != here)
    assert [report for report in REPORTS if report not in text] == []
    found = re.findall(r"[Rr]ows? (\d+)(?: and (\d+))?", text)
    cited = {int(number) for pair in found for number in pair if number}
    assert [row for row in ROWS if row not in cited] == []

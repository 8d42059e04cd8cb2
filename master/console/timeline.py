"""Where things lie in the console's pictures: times become positions. Pure; the templates only draw."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

WIDTH = 1100.0
LEFT, RIGHT = 70.0, 1096.0  # between them time runs in the job's picture
STEP_TOP, STEP_BOTTOM = 68.0, 140.0
GAP = 2.0
PHASE_MIN = 118.0  # so that a phase's words find room beneath it
TICKS = 5
LABEL_ROOM = 170.0  # a fault's words need so much before the next one's begin


@dataclass(frozen=True)
class RunFacts:
    """One run as far as the picture needs it."""

    n: int
    started_at: datetime
    first_step_at: datetime | None
    ended_at: datetime | None
    first_step: int | None
    last_step: int | None
    last_step_at: datetime | None


@dataclass(frozen=True)
class Mark:
    """A fault in the picture; `level` is the row of its words."""

    id: str
    at: datetime
    label: str
    serious: bool
    x: float = 0.0
    level: int = 0
    leftward: bool = False


@dataclass(frozen=True)
class Bar:
    n: int
    x: float
    width: float
    running: bool


@dataclass(frozen=True)
class Tick:
    x: float
    at: datetime
    anchor: str


@dataclass(frozen=True)
class Life:
    """The picture of a job: runs above, faults beneath, the steps reached as a line."""

    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...]
    lines: tuple[str, ...]  # one polyline per run: step over time
    pauses: tuple[tuple[float, float], ...]  # (x, width) in which no step was made between two runs
    ticks: tuple[Tick, ...]
    top_step: int | None
    spans_days: bool  # the time of day alone would not tell


def life(runs: Sequence[RunFacts], marks: Sequence[Mark], now: datetime) -> Life | None:
    """None while there is nothing to draw."""
    if not runs:
        return None
    start = min(run.started_at for run in runs)
    ends = [run.ended_at or now for run in runs] + [mark.at for mark in marks]
    scale = _Scale(start, max(*ends, start + timedelta(seconds=1)))
    top = max((run.last_step for run in runs if run.last_step is not None), default=None)
    return Life(
        bars=tuple(_bar(run, scale, now) for run in runs),
        marks=_placed(marks, scale),
        lines=tuple(filter(None, (_line(run, scale, top) for run in runs))),
        pauses=tuple(_pauses(runs, scale)),
        ticks=tuple(_ticks(scale)),
        top_step=top,
        spans_days=scale.end - scale.start > timedelta(hours=20),
    )


@dataclass(frozen=True)
class _Scale:
    start: datetime
    end: datetime

    def x(self, moment: datetime) -> float:
        share = (moment - self.start) / (self.end - self.start)
        return round(LEFT + (RIGHT - LEFT) * min(max(share, 0.0), 1.0), 1)


def _bar(run: RunFacts, scale: _Scale, now: datetime) -> Bar:
    x = scale.x(run.started_at)
    return Bar(run.n, x, max(scale.x(run.ended_at or now) - x - GAP, 2.0), run.ended_at is None)


def _placed(marks: Sequence[Mark], scale: _Scale) -> tuple[Mark, ...]:
    """Words of faults that lie close together go on rows of their own."""
    free_from = [0.0, 0.0, 0.0]
    placed = []
    for mark in sorted(marks, key=lambda one: one.at):
        x = scale.x(mark.at)
        leftward = x + LABEL_ROOM > WIDTH
        begin = x - LABEL_ROOM if leftward else x
        level = next((row for row, free in enumerate(free_from) if free <= begin), len(free_from) - 1)
        free_from[level] = begin + LABEL_ROOM
        placed.append(Mark(mark.id, mark.at, mark.label, mark.serious, x, level, leftward))
    return tuple(placed)


def _line(run: RunFacts, scale: _Scale, top: int | None) -> str | None:
    if not top or None in {run.first_step_at, run.last_step_at, run.last_step}:
        return None
    points = [(run.first_step_at, run.first_step or 0), (run.last_step_at, run.last_step)]
    return " ".join(f"{scale.x(at)},{_y(step, top)}" for at, step in points if at and step is not None)


def _y(step: int, top: int) -> float:
    return round(STEP_BOTTOM - (STEP_BOTTOM - STEP_TOP) * min(step / top, 1.0), 1)


def _pauses(runs: Sequence[RunFacts], scale: _Scale) -> list[tuple[float, float]]:
    ordered = sorted(runs, key=lambda run: run.n)
    pauses = []
    for before, after in pairwise(ordered):
        begin = before.last_step_at or before.ended_at
        end = after.first_step_at
        if begin is not None and end is not None and end > begin:
            pauses.append((scale.x(begin), max(scale.x(end) - scale.x(begin), 1.0)))
    return pauses


def _ticks(scale: _Scale) -> list[Tick]:
    span = scale.end - scale.start
    anchors = ["start", *["middle"] * (TICKS - 2), "end"]
    moments = [scale.start + span * n / (TICKS - 1) for n in range(TICKS)]
    return [Tick(scale.x(at), at, anchor) for at, anchor in zip(moments, anchors, strict=True)]


@dataclass(frozen=True)
class Phase:
    """A stretch of an incident. `name`: detect, decide, stop, start, reload."""

    name: str
    seconds: float
    x: float = 0.0
    width: float = 0.0


@dataclass(frozen=True)
class Moments:
    """What is known of one incident, in the order in which it should happen."""

    fault: datetime
    detected: datetime
    decided: datetime
    stopped: datetime | None = None  # the broken run had ended
    started: datetime | None = None  # the next run had begun
    training: datetime | None = None  # steps again


def phases(moments: Moments) -> tuple[Phase, ...]:
    """Fault → detected → decided → stopped → started → training again; what is not known yet is left out."""
    known = [
        ("detect", moments.detected),
        ("decide", moments.decided),
        ("stop", moments.stopped),
        ("start", moments.started),
        ("reload", moments.training),
    ]
    found, before = [], moments.fault
    for name, at in known:
        if at is None:
            continue
        found.append(Phase(name, max((at - before).total_seconds(), 0.0)))
        before = max(at, before)
    return _laid_out(found)


def _laid_out(found: Sequence[Phase]) -> tuple[Phase, ...]:
    """Each as wide as it lasted, yet wide enough for its words."""
    total = sum(phase.seconds for phase in found) or 1.0
    spare = WIDTH - PHASE_MIN * len(found)
    placed, x = [], 0.0
    for phase in found:
        width = PHASE_MIN + spare * phase.seconds / total
        placed.append(Phase(phase.name, phase.seconds, round(x, 1), round(width - GAP, 1)))
        x += width
    return tuple(placed)

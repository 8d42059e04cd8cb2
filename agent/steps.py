"""The step rhythm in a log: which numbers are steps of training, and when they move on.

Only an increasing number is progress. Repeated output, evaluation and loading are not.
"""

import re
from collections import deque
from dataclasses import dataclass, field

GLOBAL, STEP, BATCH, BAR = 4, 3, 2, 1  # how much a form is to be trusted; the most trusted that moves wins
_HINTS = ("step", "iter", "epoch", "it/s", "s/it", "batch")
_NUMBER = r"(?P<step>\d{1,12})(?![\d]*\.\d|\w|%)"
_WORD = r"(?<![\w-])"
_EPOCH_WORD = r"epoch(?:\(train\))?"
# Each with what is in every line that it fits: to look for that costs a tenth.
_FORMS = tuple(
    (form, hints, re.compile(pattern, re.IGNORECASE))
    for form, hints, pattern in (
        (GLOBAL, ("global",), _WORD + r"""global[_ -]?steps?["']?[\s:=|#\[(]{1,12}""" + _NUMBER),
        (
            STEP,
            ("step", "iter"),
            _WORD + r"(?:train(?:ing)?[_ ])?(?:steps?|iteration|iter)(?:\(train\))?"
            r"""["']?[\s:=|#\[]{1,12}""" + _NUMBER,
        ),
        # `Train Epoch: 1 [640/60000 (1%)]`, `Epoch: [0][  10/5005]`, `Epoch(train) [1][ 50/1000]`
        (
            BATCH,
            ("epoch",),
            _WORD + _EPOCH_WORD + r"[\s:=]{0,4}\[?\s{0,4}\d{1,7}\]?[\s,:|]{0,4}"
            r"\[\s{0,8}" + _NUMBER + r"\s{0,8}/",
        ),
        (BATCH, ("batch",), _WORD + r"batch[\s:\[]{1,12}" + _NUMBER + r"\s{0,8}(?:/|of\b)"),
        (BAR, (" [",), r"\|\s{0,8}" + _NUMBER.replace(r"|\w|%", "") + r"/\d{1,12} \["),  # tqdm
    )
)
_EPOCH = re.compile(_WORD + _EPOCH_WORD + r"""["']?[\s:=\[#]{0,6}(\d{1,7})(?!\.?\d)""", re.IGNORECASE)
# before the number: it counts something else than steps of training
_NOT_TRAINING = re.compile(
    r"resum|restor|load|eval|valid|\btest|predict|infer|generat|warm|sanity|download|tokeniz|preproc"
    r"|\bmap\b|\bfilter|compil|captur|shard|extract|cach|skip|total|max|number of|every|\bper |remaining"
    r"|accumul|save_",
    re.IGNORECASE,
)
_NEAR = 40  # characters before the number in which that counts; a progress bar's title may stand farther off
_STALE_S = 120.0  # a more trusted form that stands still for so long gives way to another
_RATE_S = 30.0


@dataclass(frozen=True, slots=True)
class Mark:
    form: int
    step: int
    epoch: int | None


def find(body: str) -> Mark | None:
    """The step that a line tells of, by the most trusted form."""
    lowered = body.lower()
    if "/" not in lowered and not any(hint in lowered for hint in _HINTS):
        return None
    for form, hints, pattern in _FORMS:
        if not any(hint in lowered for hint in hints) or (match := pattern.search(body)) is None:
            continue
        number_at = match.start("step")
        if _NOT_TRAINING.search(body, 0 if form == BAR else max(0, number_at - _NEAR), number_at):
            return None
        epoch = _EPOCH.search(body) if "epoch" in lowered else None
        return Mark(form, int(match["step"]), int(epoch[1]) if epoch else None)
    return None


@dataclass
class _Counter:
    """One form's numbers, made to grow over epochs that count from the start again."""

    base: int = 0
    epoch: int | None = None
    high: int = -1
    streak: list[int] = field(default_factory=list)

    def advance(self, mark: Mark) -> int | None:
        if (
            mark.epoch is not None
            and self.epoch is not None
            and mark.epoch > self.epoch
            and mark.step <= self.high
        ):
            self._start_over()
        self.epoch = mark.epoch if mark.epoch is not None else self.epoch
        if mark.step <= self.high and not self._counts_anew(mark.step):
            return None
        self.high, self.streak = mark.step, []
        return self.base + mark.step

    def _counts_anew(self, step: int) -> bool:
        """An epoch whose number no line tells: small numbers that grow three times running."""
        self.streak = [*self.streak, step] if self.streak and step > self.streak[-1] else [step]
        if len(self.streak) < 3 or self.streak[0] > self.high // 2:
            return False
        self._start_over()
        return True

    def _start_over(self) -> None:
        self.base += self.high
        self.high, self.streak = -1, []


class Rhythm:
    """The steps of one training process (or of a pod whose lines name no rank)."""

    def __init__(self) -> None:
        self.step: int | None = None
        self.moved_at = 0.0
        self._form = 0
        self._counters: dict[int, _Counter] = {}
        self._recent: deque[tuple[float, int]] = deque(maxlen=64)

    def note(self, mark: Mark, at: float) -> bool:
        """Whether this is progress; `at` in seconds of any clock that only grows."""
        step = self._counters.setdefault(mark.form, _Counter()).advance(mark)
        if step is None or (mark.form < self._form and at - self.moved_at < _STALE_S):
            return False
        if mark.form != self._form:
            self._recent.clear()
        self.step, self.moved_at, self._form = step, at, mark.form
        self._recent.append((at, step))
        return True

    def rate(self) -> float | None:
        """Steps a second, lately."""
        if not self._recent:
            return None
        last_at, last = self._recent[-1]
        first_at, first = next(entry for entry in self._recent if last_at - entry[0] <= _RATE_S)
        return round((last - first) / (last_at - first_at), 4) if last_at - first_at >= 0.5 else None

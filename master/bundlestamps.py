"""When a line of a log was written, by whatever stamp it carries: full dates, dates without a year, a clock
alone, seconds since boot, seconds since 1970."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum

_HEAD, _JSON_HEAD = 200, 4000
_NAMES = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_MONTHS = {name: at for at, name in enumerate(_NAMES, start=1)}
_MONTH = f"(?P<name>{'|'.join(_MONTHS)})"
_CLOCK = r"(?P<H>[01]\d|2[0-4]):(?P<M>[0-5]\d):(?P<S>[0-6]\d)(?:[.,](?P<f>\d{1,9}))?"
_ZONE = r"(?P<zone>\s?Z\b|\s?[+-]\d\d:?\d\d\b)?"
_FULL = tuple(
    re.compile(form)
    for form in (
        rf"(?<![\d.])(?P<y>20\d\d)[-/](?P<m>\d\d)[-/](?P<d>\d\d)[T _]{_CLOCK}{_ZONE}",
        rf"(?<!\w)[IWEF](?P<y>20\d\d)(?P<m>\d\d)(?P<d>\d\d) {_CLOCK}",  # glog with a year
        rf"(?<!\d)(?P<d>\d\d?)[/-]{_MONTH}[/-](?P<y>20\d\d)[: ]{_CLOCK}{_ZONE}",
        rf"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) {_MONTH} +(?P<d>\d\d?) {_CLOCK} (?:[A-Z]{{3,5}} )?(?P<y>20\d\d)",
    )
)
_YEARLESS = (
    re.compile(rf"(?<!\w){_MONTH} +(?P<d>\d\d?) {_CLOCK}"),
    re.compile(rf"(?<!\w)[IWEF](?P<m>\d\d?)(?P<d>\d\d) {_CLOCK}"),  # glog; torch writes E901 for September
)
_ALONE = re.compile(rf"(?<![\w.:+<-]){_CLOCK}(?![\d:<])")
_EPOCH = re.compile(
    r"""^\s*(?:\{.*?["'](?:ts|time|timestamp|@timestamp|created|epoch|t)["']\s*:\s*["']?|\[?)"""
    r"(?P<epoch>1[4-9]\d{8}(?:\.\d{1,9})?|1[4-9]\d{11})(?=[\]\s,}\"']|$)"
)
_UPTIME = re.compile(r"^\s*(?:<\d+>)?\[\s*(?P<seconds>\d{1,9}\.\d{1,9})\]|^\d+,\d+,(?P<micros>\d{1,16}),")
_NOWHERE = datetime(2000, 1, 1, tzinfo=UTC)


class Sort(IntEnum):
    """How much of a moment a stamp tells, most first."""

    FULL = 0
    YEARLESS = 1
    CLOCK = 2
    UPTIME = 3
    NONE = 4


@dataclass(frozen=True)
class Stamp:
    """What is not told is that of 1 January 2000; no zone is UTC."""

    sort: Sort
    at: datetime
    is_zoned: bool = False


def stamp_of(text: str) -> Stamp | None:
    """The stamp at a line's beginning, if it has one that can be read."""
    head = text[: _JSON_HEAD if text.lstrip()[:1] == "{" else _HEAD]
    if not any(char.isdigit() for char in head):
        return None
    try:
        return _read(head)
    except (ValueError, OverflowError):  # the 31st of June, the year 9999
        return None


def _read(head: str) -> Stamp | None:
    if ":" in head:
        for form in _FULL:
            if found := form.search(head):
                is_zoned = bool(found.groupdict().get("zone"))
                return Stamp(Sort.FULL, _moment(found, year=int(found["y"])), is_zoned)
    if found := _EPOCH.match(head):
        number = float(found["epoch"])
        at = datetime.fromtimestamp(number / 1000 if number > 1e11 else number, UTC)
        return Stamp(Sort.FULL, at, is_zoned=True)
    if ":" in head:
        for form in _YEARLESS:
            if found := form.search(head):
                return Stamp(Sort.YEARLESS, _moment(found, year=_NOWHERE.year))
    if found := _UPTIME.match(head):
        seconds = float(found["seconds"]) if found["seconds"] else int(found["micros"]) / 1e6
        return Stamp(Sort.UPTIME, _NOWHERE + timedelta(seconds=seconds))
    if found := _ALONE.search(head[:60]):
        return Stamp(Sort.CLOCK, _moment(found, year=_NOWHERE.year))
    return None


def _moment(found: re.Match[str], *, year: int) -> datetime:
    named = found.groupdict()
    month = _MONTHS[named["name"]] if named.get("name") else int(named.get("m") or 1)
    base = datetime(year, month, int(named.get("d") or 1), tzinfo=UTC)
    micros = int(((named["f"] or "") + "000000")[:6])
    clock = timedelta(
        hours=int(named["H"]), minutes=int(named["M"]), seconds=int(named["S"]), microseconds=micros
    )
    return base + clock - _offset(named.get("zone"))


def _offset(zone: str | None) -> timedelta:
    digits = (zone or "").strip().replace(":", "")
    if digits in ("", "Z"):
        return timedelta(0)
    away = timedelta(hours=int(digits[1:3]), minutes=int(digits[3:5]))
    return -away if digits[0] == "-" else away


class FileClock:
    """The moment that a file has come to, line by line, on the file's own clock.

    What no stamp tells passes in small steps: a line is a millisecond, a step of training five seconds, so
    that what training did after an error stands after it.
    """

    LINE, STEP = timedelta(milliseconds=1), timedelta(seconds=5)
    _HALF_DAY, _HALF_YEAR = timedelta(hours=12), timedelta(days=183)

    def __init__(self) -> None:
        self.sort = Sort.NONE
        self.at = _NOWHERE
        self.is_zoned = False

    def see(self, stamp: Stamp | None) -> bool:
        """Takes a line's stamp; False where it tells nothing of this file's clock."""
        if stamp is None or stamp.sort > self.sort:
            return stamp is not None and self._completed(stamp)
        self.is_zoned = self.is_zoned or stamp.is_zoned
        if stamp.sort < self.sort:
            self.sort, self.at = stamp.sort, stamp.at
            return True
        at = stamp.at
        if self.sort is Sort.CLOCK:
            at += (self.at - at) // timedelta(days=1) * timedelta(days=1) if self.at > at else timedelta(0)
            if self.at - at > self._HALF_DAY:
                at += timedelta(days=1)
        elif self.sort is Sort.YEARLESS and self.at - at > self._HALF_YEAR:  # New Year
            at = _in_year(at, self.at.year + 1)
        self.at = at
        return True

    def pass_lines(self, count: int) -> None:
        if self.sort is Sort.NONE:
            self.at += self.LINE * min(count, 1_000_000)

    def pass_step(self) -> None:
        if self.sort is Sort.NONE:
            self.at += self.STEP

    def _completed(self, stamp: Stamp) -> bool:
        """A date without its year, in a file whose year is known."""
        if self.sort is not Sort.FULL or stamp.sort is not Sort.YEARLESS:
            return False
        at = _in_year(stamp.at, self.at.year)
        if abs(at - self.at) > self._HALF_YEAR:
            at = _in_year(at, self.at.year + (1 if at < self.at else -1))
        if abs(at - self.at) > timedelta(days=1):  # quoted from somewhere
            return False
        self.at = at
        return True


def _in_year(at: datetime, year: int) -> datetime:
    try:
        return at.replace(year=year)
    except ValueError:  # the 29th of February
        return (at - timedelta(days=1)).replace(year=year)


def shift(sort: Sort, end: datetime, reference: datetime | None) -> timedelta:
    """What is added to a file's own times so that it ends where the others do, as far as its sort leaves it
    open. `reference`: the end of those whose times are known; None: there are none."""
    if reference is None or sort is Sort.FULL:
        return timedelta(0)
    if sort is Sort.CLOCK:
        return timedelta(days=round((reference - end) / timedelta(days=1)))
    if sort is Sort.YEARLESS:
        years = (_in_year(end, reference.year + more) for more in (-1, 0, 1))
        return min(years, key=lambda at: abs(at - reference)) - end
    return reference - end

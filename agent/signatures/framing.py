"""Takes off what launchers, loggers and libraries write in front of a line's own words."""

import contextlib
import json
import re
from dataclasses import dataclass

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# Container logs: `2026-01-12T03:00:04.1Z stdout F `; any logger: `2026-01-12 03:00:04,123 `.
_STAMP = re.compile(
    r"\[?\d{4}-\d\d-\d\d[T _]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?\s*"
    r"(?:std(?:out|err) [FP] )?(?:- )?"
)
_PROGRAM = re.compile(r"\[[a-z][\w-]{1,30}\] (?=\d{4}-\d\d-\d\d[T ])")  # torchtitan's `[titan] 2026-…`
# `[rank3]:` of torch; `[default3]:` of torchrun, `[1,3]<stderr>:` of mpirun, `(RayWorkerWrapper pid=7)`.
_RANK = re.compile(r"\[rank(\d+)\]:\s?")
_TEE = re.compile(
    r"\[(?:default(?P<local>\d+)|[A-Za-z_]\w*?\d+|\d+)\]:\s?|\[\d+,\d+\]<std(?:out|err)>:\s?|"
    r"\(\w+ pid=\d+[^)]*\)\s*|\(raylet(?:, ip=[\w.:]+)?\)\s*"
)
_NCCL = re.compile(
    r"(?P<host>[\w.-]+):(?P<pid>\d+):\d+ \[(?P<dev>-?\d+)\] (?:[\w./-]+:\d+ )?(?:\(\w+\) )?"
    r"NCCL (?P<level>WARN|INFO|TRACE|ABORT|VERSION|ERROR) "
)
# `[E901 05:20:03.445 ProcessGroupNCCL.cpp:684] `, older `[E ProcessGroupNCCL.cpp:414] `; in exceptions too.
_C10 = re.compile(
    r"\[(?P<level>[IWEF])\d{0,8}\s?[\d:. ]{0,40}(?P<file>[A-Za-z_][\w.]{0,80}\.(?:cpp|hpp|cu|h)):\d+\]\s*"
)
_GROUP = re.compile(r"\[(?:PG [^\]]*?Rank (\d+)|Rank (\d+)|PG[^\]]*|c10d)\]:?\s*")
# `E1129 15:58:00.825000 19613 torch/…/api.py:1002] `; `WARNING:torch.distributed.elastic.…:`.
_GLOG = re.compile(
    r"(?P<level>[IWEF])\d{4}(?: [\d:.]+)?(?: \d+)? (?P<file>\S{1,200}?\.(?:py|cc|cpp)):\d+\]\s*"
)
_WORDS = "DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL"
_DATE = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?"
_PYLOG = re.compile(
    # `[trainer][ERROR] - `; `trainer.loop - ERROR - `; `| ERROR    | trainer.loop:run:88 - ` (loguru)
    rf"(?:\[[\w.]{{1,80}}\]){{1,2}}\[(?P<level>{_WORDS})\]\s*(?:-\s*)?"
    rf"|[a-z_][\w.]{{0,80}} - (?P<level_then>{_WORDS}) - "
    rf"|\|\s*(?P<level_bar>{_WORDS})\s*\|\s*\S{{1,160}}:\S{{1,80}}:\d+ - "
    # `ERROR: `, `[ERROR] `, `ERROR 2026-01-12 03:00:04,1 x.py:12] `, `ERROR:root:`
    rf"|\[?(?P<level_first>{_WORDS})\]?"
    rf"(?:\s*[:|-]\s*|\s+)(?:{_DATE}\s+)?"
    r"(?:(?!\S{1,160}\.py:\d)(?P<name>[a-z_][\w.]{0,120}\.[\w.]{1,80}):\s*|(?<=:)[a-z_]\w{0,40}:(?=\S))?"
)
_PLACE = re.compile(r"\[?[\w./-]{1,160}\.py:\d+\]?:?\s+|[\w./-]{1,160}\.py:\d+\]\s*")
# Whoever collects logs writes before each line whose it is: `srun --label`, pdsh, compose, syslog.
_LABEL = re.compile(
    r"(?P<rank>\d{1,6}): (?=\D)"
    r"|\[rank: (?P<lightning>\d{1,6})\]\s*"
    r"|(?:[A-Z][a-z]{2} +\d+ [\d:]{8} )[\w.-]{1,80} [\w./-]{1,60}(?:\[\d+\])?: (?!NVRM)"
    r"|[a-z][a-z0-9.-]{0,60}\d[a-z0-9.-]{0,40}(?:: | +\| )"
    r"|(?!nvidia-)[a-z][a-z0-9]{0,30}(?:-[a-z0-9]{1,30}){1,6}(?:: | +\| )"
)
_CLOCK = re.compile(r"\[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?\s+(?:- )?")
_LOGFMT = re.compile(r'(?:time|ts)=\S+ level=(?P<level>\w+) (?:[\w.]+=\S+ )*?msg="(?P<said>(?:[^"\\]|\\.)*)"')
_SAID = ("msg", "message", "log", "event")
_RAISED_IN = ("exc_info", "exception", "traceback", "stack_trace", "stacktrace", "error", "err")
_TYPE, _VALUE = ("exc_type", "type"), ("exc_value", "message")
_BESIDE = frozenset(
    (
        "level",
        "levelname",
        "severity",
        "lvl",
        "stream",
        "ts",
        "time",
        "timestamp",
        "asctime",
        "logger",
        "name",
    )
)
# `2026-06-30-03:00:11 (PID:6345, Device:0, RankID:0) ERR02200 `
_NPU = re.compile(r"\d{4}-\d\d-\d\d-[\d:]{8} \(PID:(?P<pid>\d+), Device:-?\d+, RankID:(?P<rank>-?\d+)\) ")
_BARE_FILE = re.compile(r"(?P<file>torch/[\w/.]{1,120}\.py):\d+\]\s*")
# `dmesg -x` `kern  :warn  : `; dmesg `[  812.117] `, /dev/kmsg `3,842,1843308145,-;`,
# journal `Jan 12 03:00:05 node-a kernel: `.
_FACILITY = re.compile(r"[a-z]{3,8}\s*:(?:emerg|alert|crit|err|warn|notice|info|debug)\s*:\s*")
_KMSG = re.compile(r"\d+,\d+,\d+,[^;]*;")
_JOURNAL = re.compile(r"(?:[A-Z][a-z]{2}\s+\d+ [\d:]+|\d{4}-\S{1,40}) \S+ kernel:\s*")
_CTIME = re.compile(r"\[[A-Z][a-z]{2} [A-Z][a-z]{2} +\d{1,2} [\d:]{8} \d{4}\]\s*")  # `dmesg -T`
_SUBSYSTEM = re.compile(r"[A-Za-z][\w./-]{1,40}(?:[ @][\w.:-]{1,40})?: ")
_UPTIME = re.compile(r"(?:<\d+>)?\[\s*\d+\.\d+\]\s*(?:\[[^\]]*\]\s*)?")
_WRAPPERS = re.compile(
    r"(?:\s*what\(\):\s+"
    r"|(?:[a-zA-Z_][\w.]{0,80}\.)?(?:DistBackendError|RuntimeError|AcceleratorError): (?=\[PG |\[Rank )"
    # a leaf of an exception group
    r"|\s*(?:\|\s+)+(?=[A-Za-z_][\w.]{0,80}(?:Error|Exception|ExceptionGroup)\b)"
    r"|Process group watchdog thread terminated with exception: "
    r"|Exception(?: \(either an error or timeout\): |: (?=\[PG |\[Rank )))"
)
_RAISED = re.compile(r"(?:[a-zA-Z_][\w.]{0,80})?(?:Error|Exception): ")
_EXCEPTION = re.compile(r"(?:[a-zA-Z_][\w.]{0,80})?(?:Error|Exception|Interrupt|Exit)\b")
_LEVEL_GROUPS = ("level", "level_then", "level_bar", "level_first")
_LEVELS = {
    "WARN": "W",
    "WARNING": "W",
    "ERROR": "E",
    "CRITICAL": "F",
    "FATAL": "F",
    "DEBUG": "D",
    "TRACE": "D",
}


@dataclass
class Framed:
    """A line taken apart. `origin`: nccl | c10d | elastic | log | kernel | plain."""

    body: str
    origin: str = "plain"
    level: str = ""
    rank: str = ""
    host: str = ""
    pid: str = ""
    device: str = ""
    local_rank: str = ""

    def said(self) -> str:
        """The body without the name of the exception that carries it."""
        found = _RAISED.match(self.body)
        return self.body[found.end() :] if found else self.body

    def facts(self) -> dict[str, str]:
        """What the framing itself names of the writer."""
        named = {
            "line_rank": self.rank,
            "line_host": self.host,
            "line_pid": self.pid,
            "line_device": self.device,
            "line_local_rank": self.local_rank,
        }
        return {key: value for key, value in named.items() if value}


def framed(line: str) -> Framed:
    """A line of a training log without its framing."""
    framing = Framed(_ANSI.sub("", line).strip() if "\x1b" in line else line.strip())
    if not framing.body.startswith("{"):
        _take(framing, _PROGRAM)
        _take(framing, _STAMP)
    _structured(framing)
    _take(framing, _STAMP)
    if found := _take(framing, _LABEL):
        framing.rank = found["rank"] or found["lightning"] or ""
        _take(framing, _STAMP)
    _take(framing, _CLOCK)
    if found := _take(framing, _RANK):
        framing.rank = found[1]
        _take(framing, _STAMP)
    elif not _C10.match(framing.body):
        if tee := _take(framing, _TEE):
            framing.local_rank = tee["local"] or ""
        if found := _take(framing, _RANK):
            framing.rank = found[1]
    if not _nccl(framing) and not _c10(framing) and _logger(framing):
        _behind_level(framing)
    framing.body = framing.body.lstrip()
    _unwrap(framing)
    return framing


def _behind_level(framing: Framed) -> None:
    """Whose a line is, where loggers put it last."""
    if found := _take(framing, _NPU):
        framing.pid, framing.rank = found["pid"], found["rank"] if found["rank"].isdigit() else ""
    elif not framing.rank and (found := _take(framing, _RANK)):
        framing.rank = found[1]


def kernel_framed(line: str) -> Framed:
    """A line of a kernel log without its stamps."""
    framing = Framed(line.strip(), origin="kernel")
    # whoever collects writes a stamp of its own before the journal's
    for form in (_FACILITY, _KMSG, _JOURNAL, _STAMP, _JOURNAL, _CTIME, _UPTIME):
        _take(framing, form)
    return framing


def own_words(line: str, source: str = "log") -> str:
    """A line without what was written before it. `source`: "log" or "kernel"."""
    return (kernel_framed(line) if source == "kernel" else framed(line)).body


def is_kernel_line(line: str) -> bool:
    """Whether a line carries a kernel log's stamps: for files whose kind is not known."""
    text = line.strip()
    text = text[found.end() :] if (found := _FACILITY.match(text)) else text
    if (stamp := _CTIME.match(text)) and _SUBSYSTEM.match(text, stamp.end()):
        return True  # any program stamps so; the kernel tells the subsystem next
    return bool(found or _KMSG.match(text) or _JOURNAL.match(text) or _UPTIME.match(text))


def _take(framing: Framed, pattern: re.Pattern[str]) -> re.Match[str] | None:
    found = pattern.match(framing.body)
    if found:
        framing.body = framing.body[found.end() :]
    return found


def _nccl(framing: Framed) -> bool:
    found = _take(framing, _NCCL)
    if not found:
        return False
    framing.origin, framing.level = "nccl", _LEVELS.get(found["level"], "I")
    framing.host, framing.pid, framing.device = found["host"], found["pid"], found["dev"]
    return True


def _c10(framing: Framed) -> bool:
    found = _take(framing, _C10)
    if found:
        framing.origin, framing.level = "c10d", found["level"]
    return bool(found)


def _logger(framing: Framed) -> bool:
    found = _take(framing, _GLOG) or _take(framing, _BARE_FILE)
    if found:
        framing.origin = "elastic" if "elastic" in found["file"] or "torch/" in found["file"] else "log"
        framing.level = found.groupdict().get("level") or ""
        return True
    found = _take(framing, _PYLOG)
    if found:
        named = next(found[name] for name in _LEVEL_GROUPS if found[name]).upper()
        framing.origin = "elastic" if "torch" in (found["name"] or "") else "log"
        framing.level = _LEVELS.get(named, named[0])
        _take(framing, _PLACE)
    return bool(found)


def _structured(framing: Framed) -> None:
    """A line of JSON or logfmt: its message and level."""
    if framing.body.startswith("{"):
        with contextlib.suppress(ValueError, RecursionError):
            _from_json(framing, json.loads(framing.body))
    elif found := _LOGFMT.match(framing.body):
        framing.body, framing.origin = found["said"].replace('\\"', '"'), "log"
        framing.level = _level(found["level"])


def _from_json(framing: Framed, told: object) -> None:
    """Loggers' and container runtimes' lines; what a data set holds looks different."""
    if not isinstance(told, dict) or not _BESIDE & told.keys():
        return
    said = next((told[name] for name in _SAID if isinstance(told.get(name), str)), None)
    if said is not None:
        level = next((told[name] for name in ("level", "levelname", "severity", "lvl") if name in told), "")
        framing.body, framing.origin = said.strip(), "log"
        framing.level = _level(str(level)) if level else ""
        if framing.level in ("E", "F") and (raised := _raised_in(told)):
            framing.body = raised


def _raised_in(told: dict[str, object]) -> str:
    """What a logger adds of an exception ends in the exception itself; its message only says that one was."""
    for name in _RAISED_IN:
        raised = told.get(name)
        raised = raised[0] if isinstance(raised, list) and raised else raised
        if isinstance(raised, dict):  # structlog: exc_type, exc_value; ECS: type, message
            kind, words = (_text_of(raised, keys) for keys in (_TYPE, _VALUE))
            raised = f"{kind}: {words}" if kind else ""
        rows = raised.strip().splitlines() if isinstance(raised, str) else []
        if rows and _EXCEPTION.match(rows[-1].strip()):
            return rows[-1].strip()
    return ""


def _text_of(told: dict[str, object], keys: tuple[str, ...]) -> str:
    return next((text for key in keys if isinstance(text := told.get(key), str)), "")


def _level(word: str) -> str:
    return _LEVELS.get(word.upper(), word.upper()[:1])


def _unwrap(framing: Framed) -> None:
    """Exceptions quote one another; the innermost words tell (nccl issue 795)."""
    for _ in range(6):
        found = _take(framing, _GROUP)
        if found:
            framing.rank = framing.rank or found[1] or found[2] or ""
        elif not _take(framing, _WRAPPERS):
            return

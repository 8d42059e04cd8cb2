"""What the master asks for on its replies: the job's own fault patterns, every rank's stack."""

from agent import proc
from agent.core import Core, Heard
from agent.journal import note
from agent.logprobe import LogProbe
from agent.redact import command_line
from agent.signatures import Scanner, Sieve
from agent.stacks import Collector, Target
from agent.workers import Workers

_PATIENCE_S = 1.0  # for the first reply, so that no line is read before the job's patterns are known


class Wants:
    """Obeys replies. A request is answered once, however often it is repeated until the answer arrives."""

    def __init__(self, core: Core, logs: LogProbe, patterns: tuple[str, ...], now: float) -> None:
        self.patterns: tuple[str, ...] = ()
        self._core = core
        self._logs = logs
        self._collector = Collector(core.post)
        self._awaited_seq: int | None = None
        self._patient_until = now + _PATIENCE_S
        if patterns:
            self.use(patterns)

    def use(self, patterns: tuple[str, ...]) -> None:
        """Look for these patterns from now on."""
        self._patient_until = 0.0
        if patterns == self.patterns:
            return
        try:
            self._logs.use(Scanner(patterns), Sieve(patterns))
            self.patterns = patterns
        except ValueError as error:
            note("patterns_refused", why=str(error))

    def may_read(self, now: float) -> bool:
        """Whether logs may be read: the patterns are known, or the master is not heard."""
        return now >= self._patient_until

    def obey(self, heard: Heard, workers: Workers | None) -> None:
        told = heard.reply.want.get("patterns")
        self.use(
            tuple(one for one in told if isinstance(one, str)) if isinstance(told, list) else self.patterns
        )
        if self._awaited_seq is not None:
            if heard.boot != self._core.outbox.boot or heard.seq < self._awaited_seq:
                return  # asked before the master had the stacks that are on their way
            self._awaited_seq = None
        if heard.reply.want.get("stacks") is True and not self._collector.busy:
            self._collector.begin(_targets(workers))

    def answer(self) -> None:
        """Put the stacks that have been collected."""
        stacks = self._core.posted()
        if stacks:
            self._awaited_seq = self._core.put(stacks)


def _targets(workers: Workers | None) -> list[Target]:
    if workers is None:
        return []
    return [
        Target(
            worker.rank,
            worker.pid,
            tuple((pid, command_line(proc.argv(pid))) for pid in workers.children(worker.pid)),
        )
        for worker in workers.live()
    ]

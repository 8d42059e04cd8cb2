"""What the demo tells while it runs: a line for each thing that happens, then each fault's time line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.table import Table

from notifier.clock import utcnow

Words = dict[str, str]

TEXT: dict[str, Words] = {
    "start": {"zh": "启动", "en": "start"},
    "train": {"zh": "训练", "en": "training"},
    "fault": {"zh": "注入故障", "en": "fault"},
    "found": {"zh": "检测", "en": "detected"},
    "decided": {"zh": "决策", "en": "decided"},
    "told": {"zh": "通知", "en": "told"},
    "again": {"zh": "恢复训练", "en": "again"},
    "bad": {"zh": "失败", "en": "failed"},
    "done": {"zh": "完成", "en": "done"},
    "table": {
        "zh": "每个故障的时间线（故障后的秒数）",
        "en": "Each fault's time line (seconds after the fault)",
    },
    "log": {"zh": "投递日志", "en": "Delivery log"},
}
OTHER_LANGUAGE = {
    "zh": "This demo and its messages speak Chinese; for English: FAULTCAST_LANGUAGE=en make demo",
    "en": "演示与消息为英文；中文请用：FAULTCAST_LANGUAGE=zh make demo",
}
WIDTH = 130
STYLES = {
    "fault": "red",
    "found": "red",
    "decided": "yellow",
    "told": "cyan",
    "again": "green",
    "bad": "bold red",
}


@dataclass(frozen=True)
class Lived:
    """One fault from injection to training again; every moment by this machine's clock."""

    name: str
    words: Words
    injected_at: datetime
    event: Mapping[str, Any]
    first_message_at: str
    again_at: str

    def row(self) -> dict[str, Any]:
        """The row of the demo's last line (CONTRACT 1)."""
        return {
            "injected": self.name,
            "fault_class": self.event["fault_class"],
            "detected_s": self._after(self.event["detected_at"]),
            "decided_s": self._after(self.event["decided_at"]),
            "first_message_s": self._after(self.first_message_at),
            "training_again_s": self._after(self.again_at),
        }

    def _after(self, moment: str) -> float:
        return round((datetime.fromisoformat(moment) - self.injected_at).total_seconds(), 3)


class Story:
    """Speaks Chinese or English to whoever watches."""

    def __init__(self, language: str) -> None:
        self.language = language
        self._console = Console(highlight=False)
        if not self._console.is_terminal:
            self._console.width = WIDTH
        self._began = utcnow()

    def tell(self, what: str, words: str) -> None:
        seconds = (utcnow() - self._began).total_seconds()
        label = TEXT[what][self.language]
        self._console.print(f"[dim]{seconds:6.1f} s[/dim]  ", end="")
        self._console.print(f"{label}  ", style=STYLES.get(what, "bold"), end="")
        self._console.print(words, markup=False, soft_wrap=True)

    def time_lines(self, faults: Sequence[Lived]) -> None:
        table = Table(title=TEXT["table"][self.language], title_justify="left")
        for column in (
            "injected",
            "fault_class",
            "culprit",
            "detected",
            "decided",
            "first message",
            "training again",
        ):
            table.add_column(
                column, justify="left" if column in {"injected", "fault_class", "culprit"} else "right"
            )
        for fault in faults:
            row = fault.row()
            culprit = fault.event["culprit"]
            where = " · ".join(
                f"{key} {culprit[key]}" for key in ("rank", "node") if culprit[key] is not None
            )
            seconds = [
                f"{row[key]:.2f}"
                for key in ("detected_s", "decided_s", "first_message_s", "training_again_s")
            ]
            table.add_row(fault.words[self.language], row["fault_class"], where or "–", *seconds)
        self._console.print(table)

    def delivery_log(self, deliveries: Sequence[Mapping[str, Any]]) -> None:
        table = Table(title=TEXT["log"][self.language], title_justify="left")
        for column in ("time", "item", "channel", "state", "tries", "took"):
            table.add_column(column)
        for one in reversed(deliveries):
            took = "–" if one["latency_s"] is None else f"{one['latency_s']:.3f} s"
            at = one["created_at"][11:23]
            table.add_row(at, one["item"], one["channel"], one["state"], str(one["attempt_count"]), took)
        self._console.print(table)

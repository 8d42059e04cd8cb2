"""What a judgement of somebody's input found: faults, each with its field and mend, and warnings."""

from dataclasses import dataclass, field


@dataclass
class Findings:
    faults: list[tuple[str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def refuse(self, name: str, message: str) -> None:
        self.faults.append((name, message))

    def warn(self, name: str, message: str) -> None:
        self.warnings.append(f"{name}: {message}")


def listed(names: frozenset[str] | set[str]) -> str:
    shown_names = sorted(names)[:10]
    return ", ".join(shown_names) + (" …" if len(names) > len(shown_names) else "") or "none"

"""A node's network ports by /sys: RDMA ports that leave ACTIVE, ports that lose their carrier.

Only changes count: a port that never was up while this agent lived is one without a cable. InfiniBand's lost
carrier is a fault, Ethernet's a hint (Meta's GCM, link-flaps).
"""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agent.findings import Condition, Finding

ACTIVE = "ACTIVE"
_SMALL = 64


@dataclass(frozen=True)
class RdmaPort:
    """`state`: INIT, ARMED, ACTIVE, DOWN; `downed`: how often the link went down, None where not counted."""

    state: str
    downed: int | None = None


@dataclass(frozen=True)
class Ports:
    """By name: `mlx5_0/1` (device, port) and `eth0`. A network port without a word on its carrier is switched
    off by somebody and not listed."""

    rdma: Mapping[str, RdmaPort] = field(default_factory=dict)
    carrier: Mapping[str, bool] = field(default_factory=dict)


def read_ports(sys: Path = Path("/sys")) -> Ports:
    """What /sys tells now."""
    rdma: dict[str, RdmaPort] = {}
    for port in sorted((sys / "class/infiniband").glob("*/ports/*")):
        state = _word(port / "state").partition(":")[2].strip()
        downed = _word(port / "counters/link_downed")
        if state:
            name = f"{port.parents[1].name}/{port.name}"
            rdma[name] = RdmaPort(state, int(downed) if downed.isdecimal() else None)
    carrier: dict[str, bool] = {}
    for net in sorted((sys / "class/net").glob("*")):
        if (net / "device").exists() and (told := _word(net / "carrier")) in ("0", "1"):
            carrier[net.name] = told == "1"
    return Ports(rdma, carrier)


def look(before: Ports, after: Ports) -> list[Finding]:
    """What went wrong between the two."""
    found: list[Finding] = []
    for name, port in before.rdma.items():
        now = after.rdma.get(name)
        state = now.state if now is not None else "gone"
        if port.state == ACTIVE and state != ACTIVE:
            found.append(_finding("link.port_down", "RDMA", name, f"is down: {ACTIVE}, now {state}"))
        elif now is not None and state == ACTIVE and port.state == ACTIVE and _more(port.downed, now.downed):
            found.append(_finding("link.flapped", "RDMA", name, "went down and up again"))
    for name, up in before.carrier.items():
        if up and after.carrier.get(name) is False:
            found.append(_finding("link.carrier_lost", "network", name, "lost its carrier"))
    return found


@dataclass
class LinkProbe:
    """Looks again and again; remembers which ports were ever up."""

    sys: Path = Path("/sys")
    were_up: frozenset[str] = frozenset()
    _before: Ports | None = None

    def look(self) -> tuple[list[Finding], list[Condition]]:
        """What is new, and what stands."""
        after = read_ports(self.sys)
        found = look(self._before, after) if self._before is not None else []
        self._before = after
        self.were_up |= {name for name, port in after.rdma.items() if port.state == ACTIVE}
        self.were_up |= {name for name, up in after.carrier.items() if up}
        return found, [*self._rdma_down(after), *self._carrier_lost(after)]

    def _rdma_down(self, ports: Ports) -> list[Condition]:
        return [
            Condition("rdma_port_down", name, "error", f"RDMA port {name} is {port.state}")
            for name, port in ports.rdma.items()
            if port.state != ACTIVE and name in self.were_up
        ]

    def _carrier_lost(self, ports: Ports) -> list[Condition]:
        return [
            Condition("carrier_lost", name, "warning", f"network port {name} has no carrier")
            for name, up in ports.carrier.items()
            if not up and name in self.were_up
        ]


def _more(was: int | None, now: int | None) -> bool:
    return was is not None and now is not None and now > was


def _finding(signature: str, kind: str, name: str, text: str) -> Finding:
    return Finding(signature, f"{kind} port {name} {text}", {"device": name})


def _word(path: Path) -> str:
    """A small file's text; "" where it is not there or says nothing (a port that is switched off)."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        return file.read(_SMALL).decode("ascii", "replace").strip()
    return ""

"""The mechanism of a fault in few words, and its fingerprint: no ranks, no places, no times."""

import re
import signal

from master.casefile import Cause
from master.diagnosis.chorus import Hearsay
from master.diagnosis.exits import signal_name
from master.diagnosis.hang import Hang
from master.diagnosis.signs import CUSTOM, Sign
from master.diagnosis.silence import Silence

_SHORT = 120
_QUOTED = re.compile(r"'[^']{0,200}'|\"[^\"]{0,200}\"|`[^`]{0,200}`")
_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+")
_PATHS = re.compile(r"(?:/[\w.+-]+){2,}")
_FRAMING = re.compile(r"^(?:\[[^\]]{0,80}\]:?\s*|\S+:\d+:\d+ \[\d+\] )+")
Words = tuple[str, str]  # zh, en
# What victims feel, by the sign's name.
_FELT: dict[str, Words] = {
    "nccl.ib_": ("与其通信时 InfiniBand 请求出错", "InfiniBand requests to it failed"),
    "gloo.timeout": ("等待对端超时", "waiting for a peer timed out"),
    "gloo.mismatch": ("收到的数据长度与期望不符", "a rank received data of another size than it expected"),
    "gloo.": ("对端关闭了连接", "a peer closed the connection"),
    "nccl.": ("对端关闭了连接", "a peer closed the connection"),
    "c10d.store_lost": ("0 号进程的存储已断开", "the store on rank 0 went away"),
    "c10d.store_unreachable": ("连接会合地址超时", "connecting to the rendezvous timed out"),
    "c10d.rendezvous": ("连接会合地址失败", "connecting to the rendezvous failed"),
    "c10d.watchdog_timeout": ("参与者不齐", "not all ranks reported"),
    "python.connection": ("对端关闭了连接", "a peer closed the connection"),
}


def what(lead: Sign) -> Words:
    """The lead sign in few words."""
    if lead.is_a("exit."):
        return _of_end(lead)
    if lead.is_a("pod_", "node_lost"):
        return _of_pod(lead)
    text = _cut(lead.captured.get("pattern", "")) if lead.name == CUSTOM else _said(lead)
    number = lead.captured.get("code") or lead.name.partition(".")[2]
    if lead.is_a("xid.") and number.isdigit():
        text = f"Xid {number}"
    return text, text


def _of_end(lead: Sign) -> Words:
    code = lead.name.removeprefix("exit.code.")
    if code == "None":
        return "退出码未知", "exit code unknown"
    if code != lead.name:
        return f"退出码 {code}", f"exit code {code}"
    if lead.name == "exit.killed" and lead.cause is Cause.EXTERNAL_STOP:
        return "SIGKILL，未见内存不足的迹象", "SIGKILL, with no sign of want of memory"
    found = re.search(r"signal (\d+)", lead.text)
    name = f"{found[1]}, {signal_name(int(found[1]))}" if found else _cut(lead.text)
    return f"信号 {name}", f"signal {name}"


def _of_pod(lead: Sign) -> Words:
    if lead.name == "pod_vanished":
        return "不见踪影，且无退出码", "gone without an exit code"
    if by := lead.captured.get("by"):
        return f"操作者 {_cut(by)}", f"by {_cut(by)}"
    return (_cut(lead.captured.get("reason") or lead.text),) * 2


def _said(sign: Sign) -> str:
    return _cut(_FRAMING.sub("", sign.text.strip()))


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _SHORT else text[: _SHORT - 1] + "…"


def what_of_silence(gone: Silence) -> Words:
    """The state in words."""
    return {
        "T": ("已被暂停（状态 T）", "stopped (state T)"),
        "Z": ("已成僵尸（状态 Z）", "a zombie (state Z)"),
        "X": ("已死亡（状态 X）", "dead (state X)"),
        "D": ("卡在内核中（状态 D）", "stuck in the kernel (state D)"),
        "gone": ("进程消失，退出方式未知", "gone, and nobody saw how it ended"),
    }.get(gone.state, ("没有心跳", "silent"))


def what_of_hearsay(heard: Hearsay) -> Words:
    """Why this reading of the symptoms."""
    reasons = {
        "lagging": ("该 rank 的集合通信序号落后", "its collective sequence number lags behind all others"),
        "absent": ("其余 rank 均已报超时，唯其没有", "all others reported the time-out, it did not"),
        "mismatch": ("同一序号上的集合通信不同", "it called another collective at the same number"),
        "misled": (
            "所选网卡的地址其他节点无法到达",
            "it chose an interface whose address no other node can reach",
        ),
        "joined": (
            "所有 rank 都已加入，集合通信未能完成，怀疑网络",
            "all ranks joined and it never finished, so the network is suspected",
        ),
    }
    if not heard.signs:
        return reasons[heard.why]
    first = heard.signs[0]
    if first.is_a("exit.stopped"):
        number = first.name.rpartition(".")[2]
        return (f"信号 {number}", f"signal {number}")
    if first.is_a("elastic.death_signal"):
        number = first.captured.get("signal") or first.captured.get("got") or ""
        return (f"信号 {number}", f"signal {number}")
    if heard.why in reasons:
        return reasons[heard.why]
    return next((words for name, words in _FELT.items() if first.is_a(name)), (_said(first),) * 2)


def what_of_hang(stuck: Hang) -> Words:
    """How it stands still."""
    seconds = round(stuck.quiet.total_seconds())
    how = {
        "spinning": ("在原地空转", "spins in one place"),
        "blocked": ("阻塞不动", "is blocked"),
        "outside": ("在等待外部", "waits for something outside"),
        "everyone": ("所有 rank 都在通信中等待", "every rank waits in a collective"),
        "device": ("所有 rank 都停在原地等待设备", "every rank stands at one place and waits for its device"),
        "left": ("其余 rank 在等待已经结束的进程", "the others wait for a process that has ended"),
        "unseen": ("无法取得调用栈", "no stack could be read"),
    }.get(stuck.doing)
    if how is None:
        return "没有新的步数", "no new step"
    return f"{seconds} 秒没有进展，{how[0]}", f"no progress for {seconds} s, {how[1]}"


def fingerprint(cause: Cause, lead: Sign) -> str:
    """The mechanism, the same whenever and wherever it happens."""
    if lead.is_a("python."):
        text = _PATHS.sub("/…", _QUOTED.sub("'…'", _said(lead)))
        return f"{cause}/{_NUMBERS.sub('#', text)}"
    if lead.name == "exit.crashed":
        found = re.search(r"signal (\d+)", lead.text)
        return f"{cause}/exit.signal.{found[1] if found else int(signal.SIGSEGV)}"
    if lead.name == CUSTOM:
        return f"{cause}/{_cut(lead.captured.get('pattern', ''))}"
    return f"{cause}/{lead.name}"

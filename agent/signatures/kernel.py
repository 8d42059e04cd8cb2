"""What the kernel says of GPUs, links, memory, disks. It reaches no container: the node's agent reads it.

Xid meanings: NVIDIA's Xid catalogue as generated into leptonai/gpud (catalog_generated.go, xid-errors page).
"""

from agent.signatures.model import Isolate, Role, Signature, Trigger

_PID = r"(?:pid='?(?P<pid>\d+|<unknown>)'?, )?"
_XID = r"NVRM: Xid \((?:PCI:)?(?P<device>[0-9a-fA-F:.]+)\)[^,]*?: "

_GPU = (46, 48, 61, 62, 64, 79, 95, 109, 110, 119, 120, 136, 140, 143, 156, 158)
_NVLINK = (74, 155)
_APPLICATION = (13, 31, 32, 69)  # usually the program's own: they weigh beside its CUDA error
_AFTERMATH = (43, 44, 45)  # clean-up after another error
_PRECURSOR = (63, 92)  # rows remapped: nothing to be done now


def _hard(name: str, pattern: str, cause: str, source: str) -> Signature:
    """A fault of the machine, whether or not training felt it yet."""
    return Signature(
        name,
        pattern,
        cause,
        Role.CULPRIT,
        source,
        kernel=True,
        trigger=Trigger.AT_ONCE,
        hardware=True,
        isolate=Isolate.ALWAYS,
    )


def _soft(name: str, pattern: str, cause: str, source: str) -> Signature:
    """A fault of the machine that counts once training suffers: it may pass, or be another's."""
    return Signature(
        name, pattern, cause, Role.CULPRIT, source, kernel=True, hardware=True, isolate=Isolate.ALWAYS
    )


def _aside(name: str, pattern: str, cause: str, source: str) -> Signature:
    """Weighs beside other evidence only."""
    return Signature(name, pattern, cause, Role.EVIDENCE, source, kernel=True, trigger=Trigger.NEVER)


def _xid(code: int) -> str:
    return f"{_XID}{code}, {_PID}.*"


KERNEL = (
    *(_hard(f"xid.{code}", _xid(code), "gpu_hardware", "Xid catalogue") for code in _GPU),
    *(_hard(f"xid.{code}", _xid(code), "nvlink_fabric", "Xid catalogue") for code in _NVLINK),
    *(
        Signature(f"xid.{code}", _xid(code), "user_code_error", Role.CULPRIT, "Xid catalogue", kernel=True)
        for code in _APPLICATION
    ),
    *(_aside(f"xid.{code}", _xid(code), "", "Xid catalogue") for code in (*_AFTERMATH, *_PRECURSOR)),
    # Contained: it ends the process that it struck, and no other (catalogue: restart the application).
    _soft("xid.94", _xid(94), "gpu_hardware", "Xid catalogue"),
    # NVLink 5: the text says whether it is fatal (`Fatal`, `Nonfatal`).
    _hard("xid.nvlink5", rf"{_XID}(?P<code>14[4-9]|150), .*\bFatal\b.*", "nvlink_fabric", "gpud"),
    # 154 follows a primary Xid within seconds and overrides the catalogue's advice.
    _aside("xid.action_none", rf"{_XID}154, .*to 0x0 .*", "", "gpud"),
    _soft("xid.action", rf"{_XID}154, .*to 0x\d+ \((?P<action>[^)]*)\).*", "gpu_hardware", "gpud"),
    _aside("xid.other", rf"{_XID}(?P<code>\d+)(?:, {_PID}.*)?", "gpu_hardware", "Xid catalogue"),
    # Without a number, over several lines: NVSentinel 155.
    _hard("gpu.off_bus", r"(?:NVRM: )?.*fallen off the bus.*", "gpu_hardware", "gpud 1209"),
    _hard(
        "gpu.init_failed",
        r"NVRM: .*(?i:rm_?init_?adapter failed).*",
        "gpu_hardware",
        "open-gpu-kernel-modules",
    ),
    _aside(
        "nvswitch.nonfatal", r"nvidia-nvswitch\d+: SXid .*(?i:non-?fatal).*", "nvlink_fabric", "gpud sxid"
    ),
    _hard("nvswitch.fatal", r"nvidia-nvswitch\d+: SXid .*\bFatal\b.*", "nvlink_fabric", "gpud sxid"),
    _soft(
        "pcie.fatal",
        r".*AER: Uncorrect\w+ \(Fatal\).*|"
        r"pcieport .*(?:DPC: containment event|pciehp: .*(?:Link Down|Card not present)).*",
        "gpu_hardware",
        "Linux: drivers/pci: aer.c, dpc.c, pciehp",
    ),
    # It floods restricted functions and means nothing.
    Signature("nic.noise", r".*mlx5_cmd_(?:out_err|check).*", "", Role.BENIGN, "gpud", kernel=True),
    _hard(
        "nic.module",
        r"mlx5_core (?P<device>\S+?):? .*(?:Port module event\[error\]|insufficient power on the PCIe).*",
        "network_ib",
        "gpud infiniband",
    ),
    _soft(
        "nic.health",
        r"mlx5_core (?P<device>\S+?):? .*(?:health compromised|device's health|fatal error|"
        r"health recovery flow (?:aborted|failed)|internal error state|Cable unplugged|"
        r"timeout\. Will cause a leak).*",
        "network_ib",
        "Linux: mlx5 health.c, cmd.c",
    ),
    _soft(
        "nic.efa",
        r"(?:infiniband )?efa[_ ].*(?:Keep alive watchdog timeout|didn't send any completion for admin cmd|"
        r"Wait for completion \(polling\) timeout).*",
        "network_ib",
        "Linux: drivers/infiniband/hw/efa: the adapter answers no more",
    ),
    # InfiniBand and RoCE ports; a plain Ethernet port (`eth0`, `ens5`) is no training network by itself.
    _soft(
        "link.down",
        r"(?:mlx\d_\S+|ib\S*|.*\bib\d\S*|bnxt_en|irdma)(?:: | )(?:(?P<device>\S+?):? )?.*"
        r"(?i:link (?:is )?down|lost carrier|port \d+ is down|link_downed).*",
        "network_ib",
        "GCM link-flaps; lit-llama 380",
    ),
    _soft(
        "link.bond_down",
        r"(?:bonding: )?\S+: now running without any active interface.*",
        "network_tcp",
        "Linux: drivers/net/bonding: its last port is gone",
    ),
    _aside(
        "link.ethernet_down",
        r".*(?i:nic link is down|: link is down|link status definitely down|lost carrier).*|"
        r"ena .*: Keep alive watchdog timeout.*|NETDEV WATCHDOG: .*transmit queue \d+ timed out.*",
        "network_tcp",
        "GCM link-flaps: warns beside lost connections; ena_netdev.c, sch_generic.c",
    ),
    _aside(
        "link.up",
        r".*(?i:link (?:is |status definitely )?up\b|gained carrier|: active interface up).*",
        "",
        "GCM link-flaps",
    ),
    Signature(
        "memory.killed",
        r".*(?:Memory cgroup out of memory|Out of memory): Killed process (?P<pid>\d+) \((?P<name>[^)]*)\).*|"
        r"oom-kill:constraint=.*|.*\binvoked oom-killer.*",
        "host_oom",
        Role.CULPRIT,
        "gpud memory/kmsg_matcher.go",
        kernel=True,
        retryable=False,
    ),
    Signature(
        "crash.kernel_segfault",
        r"(?:traps: )?(?P<name>\S+)\[(?P<pid>\d+)\](?::| ) ?(?:segfault at|trap |general protection).*",
        "segfault",
        Role.CULPRIT,
        "gpud nccl kmsg_matcher",
        kernel=True,
        isolate=Isolate.HOST_EVIDENCE,
    ),
    _soft(
        "disk.error",
        r".*(?:blk_update_request: (?:critical \w+|I/O) error|I/O error, dev \w+|nvme nvme\d+: .*timeout|"
        r"nvme nvme\d+: (?:controller is down|Removing after probe failure)|Buffer I/O error on dev|"
        r"EXT4-fs error|XFS .*(?:I/O error|Shutting down)|Remounting filesystem read-only).*",
        "storage_error",
        "GCM io-errors",
    ),
    Signature(
        "storage.server",
        r".*(?:LustreError: |Lustre: .* was lost; in progress|nfs: server \S+ not responding|"
        r"ceph: mds\d+ hung|VFS: \S+ has not responded in).*",
        "storage_error",
        Role.CULPRIT,
        "common knowledge",
        kernel=True,
    ),
    _aside(
        "storage.server_back",
        r".*(?:nfs: server \S+ OK|Lustre: .*Connection restored|ceph: mds\d+ came back).*",
        "",
        "common knowledge",
    ),
    _hard("kernel.panic", r"Kernel panic.*", "node_down", "gpud os kmsg_matcher"),
    _soft(
        "kernel.oops",
        r".*(?:event severity: fatal|BUG: unable to handle|detected hard LOCKUP|"
        r"general protection fault.* \[#\d+\]).*",
        "node_down",
        "Linux: APEI, oops, NMI watchdog",
    ),
    _soft(
        "memory.machine_check",
        r".*(?:mce: \[Hardware Error\]|EDAC .*\bUE\b).*",
        "node_down",
        "common knowledge",
    ),
    _aside("kernel.lockup", r".*(?:soft lockup - CPU#\d+ stuck|VFS: file-max limit).*", "", "gpud os"),
    # A process stuck in the kernel (state D).
    _aside(
        "kernel.blocked_task",
        r"INFO: task (?P<name>[^:]+):(?P<pid>\d+) blocked for more than .*",
        "",
        "gpud os",
    ),
)

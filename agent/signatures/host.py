"""What a node's agent finds out by itself (agent/findings.py): NVML, control groups, links, disks.

Their lines are our own words, so the forms below read what agent/{gpus,links,disks,oom}.py write.
"""

from agent.signatures.model import Isolate, Role, Signature, Trigger

_GPU = r"NVML: GPU (?P<device>\S+?)(?:: | )"


def _of_machine(name: str, pattern: str, cause: str, source: str, trigger: Trigger) -> Signature:
    return Signature(
        name,
        pattern,
        cause,
        Role.CULPRIT,
        source,
        kernel=True,
        trigger=trigger,
        hardware=True,
        isolate=Isolate.ALWAYS,
    )


def _hard(name: str, pattern: str, cause: str, source: str) -> Signature:
    """A fault of the machine, whether or not training felt it yet."""
    return _of_machine(name, pattern, cause, source, Trigger.AT_ONCE)


def _soft(name: str, pattern: str, cause: str, source: str) -> Signature:
    """A fault of the machine that counts once training suffers."""
    return _of_machine(name, pattern, cause, source, Trigger.IF_STUCK)


def _aside(name: str, pattern: str, cause: str, source: str) -> Signature:
    """Weighs beside other evidence only."""
    return Signature(name, pattern, cause, Role.EVIDENCE, source, kernel=True, trigger=Trigger.NEVER)


HOST = (
    _hard("gpu.lost", _GPU + "is lost.*", "gpu_hardware", "NVML_ERROR_GPU_IS_LOST; Xid 79"),
    _hard("gpu.remap_failed", _GPU + "a row could not be remapped.*", "gpu_hardware", "Xid 64"),
    # So it was when the agent began: whoever gave the node back may know of it.
    _soft("gpu.found_lost", _GPU + "was found lost.*", "gpu_hardware", "NVML_ERROR_GPU_IS_LOST"),
    # Contained or not, NVML does not say: what was hit ends by itself (Xid 94, 95), what was not goes on.
    _soft("gpu.ecc", _GPU + r"\d+ uncorrectable ECC error.*", "gpu_hardware", "Xid 48, 94, 95, 140"),
    _soft("gpu.reset_required", _GPU + "needs a reset.*", "gpu_hardware", "NVML_ERROR_RESET_REQUIRED"),
    _soft("gpu.driver_silent", "NVML: the driver gives no answer.*", "gpu_hardware", "Xid 119: gpud"),
    _aside("gpu.remap_pending", _GPU + "rows wait to be remapped.*", "", "Xid 63"),
    _aside("gpu.retire_pending", _GPU + "pages wait to be retired.*", "", "Xid 63"),
    _soft("nvlink.down", _GPU + r"NVLink \d+ is down.*", "nvlink_fabric", "Xid 74"),
    _aside("nvlink.errors", _GPU + r"NVLink \d+ had errors: .*", "nvlink_fabric", "DCGM health: NVLink"),
    # RDMA ports are training's network; a plain Ethernet port is it now and then.
    _soft("link.port_down", r"RDMA port (?P<device>\S+) is down.*", "network_ib", "GCM link-flaps"),
    _aside("link.flapped", r"RDMA port (?P<device>\S+) went down and up.*", "network_ib", "GCM link-flaps"),
    _aside("link.carrier_lost", r"network port (?P<device>\S+) lost its carrier.*", "", "GCM link-flaps"),
    _soft(
        "disk.read_only",
        r"file system of (?P<path>\S+) has become read-only.*",
        "storage_error",
        "GCM io-errors",
    ),
    _aside("disk.full", r"file system of (?P<path>\S+) is full.*", "storage_error", "ronin 51"),
    # The counter of a control group: of a pod's own, whether its sidecar or the node's agent reads it.
    Signature(
        "memory.killed_in_cgroup",
        r"memory cgroup (?P<cgroup>\S+): \d+ process(?:es)? killed for want of memory.*",
        "host_oom",
        Role.CULPRIT,
        "Linux: cgroup-v2, memory.events",
        kernel=True,
        retryable=False,
    ),
)

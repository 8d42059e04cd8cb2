"""What other accelerators than NVIDIA's say: AMD (ROCm, amdgpu) and Ascend (CANN, torch_npu)."""

from agent.signatures.model import Isolate, Role, Signature, Trigger

_AMD = r"amdgpu (?P<device>[0-9a-fA-F:.]+): (?:amdgpu: )?(?:\{\d+\})?"

_QUEUE = r"Queue 0x\w+ [Aa]borting with error ?: ?HSA_STATUS_ERROR_"


def _kernel(name: str, pattern: str, source: str, role: Role = Role.CULPRIT) -> Signature:
    """Of a machine: a fault counts once training suffers, for the driver resets the device by itself."""
    is_fault = role is Role.CULPRIT
    return Signature(
        name,
        pattern,
        "gpu_hardware" if is_fault else "",
        role,
        source,
        kernel=True,
        trigger=Trigger.IF_STUCK if is_fault else Trigger.NEVER,
        hardware=is_fault,
        isolate=Isolate.ALWAYS if is_fault else Isolate.NEVER,
    )


def _felt(name: str, pattern: str, cause: str, source: str, *, retryable: bool = True) -> Signature:
    """What others' faults feel like."""
    return Signature(name, pattern, cause, Role.SYMPTOM, source, retryable=retryable)


ACCELERATORS = (
    _kernel("amd.poison", _AMD + r".*\bpoison\b.*\bpid:? ?(?P<pid>\d+).*", "amdgpu: RAS poison consumption"),
    _kernel(
        "amd.uncorrectable",
        _AMD + r"(?:.*\b[1-9]\d* (?:new )?uncorrectable hardware errors? detected.*|"
        r".*uncorrectable hardware error ?\(ERREVENT.*)",
        "amdgpu_ras.c; of none it says `0 uncorrectable hardware errors`",
    ),
    _kernel("amd.reset_failed", _AMD + r".*GPU reset.*(?:\bfailed\b|ret = -\d+).*", "amdgpu_device.c"),
    _kernel("amd.reset", _AMD + r".*(?:GPU reset begin|VRAM is lost).*", "amdgpu_device.c", Role.EVIDENCE),
    _kernel("amd.ring_timeout", _AMD + r".*ring \S+ timeout.*", "amdgpu_job.c", Role.EVIDENCE),
    # A queue that stops may be the program's or the device's: the kernel tells.
    Signature(
        "cuda.rocm_exception",
        r"HW Exception by GPU node-\d+ .*|.*" + _QUEUE + "EXCEPTION.*",
        "gpu_hardware",
        Role.CULPRIT,
        "ROCR-Runtime: runtime.cpp; clr: rocdevice.cpp",
        isolate=Isolate.HOST_EVIDENCE,
    ),
    Signature(
        "cuda.illegal_access_rocm",
        r"Memory access fault by GPU node-\d+ .*|.*" + _QUEUE + r"(?:MEMORY|ILLEGAL)_\w+.*",
        "user_code_error",
        Role.CULPRIT,
        "ROCR-Runtime: the same as CUDA's illegal memory access",
        isolate=Isolate.HOST_EVIDENCE,
    ),
    Signature(
        "npu.ecc",
        r".*(?i:HBM multi[- ]bit ECC).*|.*error code is 507054\b.*",
        "gpu_hardware",
        Role.CULPRIT,
        "CANN: aclError 507054",
        trigger=Trigger.AT_ONCE,
        hardware=True,
        isolate=Isolate.HOST_EVIDENCE,
    ),
    Signature(
        "npu.oom",
        r"NPU out of memory\..*|(?:.*\b)?EL0004: .*|.*error code is 2070(?:01|18)\b.*",
        "cuda_oom",
        Role.CULPRIT,
        "torch_npu; CANN: aclError 207001, 207018",
        retryable=False,
    ),
    _felt("npu.peer", r".*SUSPECT REMOTE ERROR.*|.*error code is 507057\b.*", "network_tcp", "CANN"),
    _felt("npu.timeout", r"(?:.*\b)?EI0002: .*", "nccl_timeout", "HCCL: a peer did not notify in time"),
    _felt("npu.socket", r"(?:.*\b)?EI0006: .*", "network_tcp", "HCCL: no socket to a peer in time"),
    _felt(
        "npu.mismatch",
        r"(?:.*\b)?EI0005: .*",
        "desync",
        "HCCL: arguments differ between ranks",
        retryable=False,
    ),
    _felt(
        "npu.other",
        r".*\bNPU (?:function )?error\b.*error code is \d+.*|.*\bcall (?:acl|hccl) api failed.*",
        "unknown",
        "torch_npu: whose it is it does not say",
    ),
)

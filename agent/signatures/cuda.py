"""What CUDA says through a training process, and the boilerplate that hangs on it."""

from agent.signatures.model import Isolate, Role, Signature, Trigger

CUDA = (
    Signature(
        "benign.advice",
        r"(?:CUDA kernel errors might be|For debugging consider passing|"
        r"Compile with `TORCH_USE_CUDA_DSA`|Search for `cudaError).*",
        "",
        Role.BENIGN,
        "c10/cuda/CUDAException.cpp",
    ),
    Signature(
        "benign.handled",
        r".*(?:\(caught by|\bretrying\b|will retry|falling back|\bskipp(?:ed|ing)\b|"
        r"\b[Ii]gnor(?:ed|ing)\b).*",
        "",
        Role.BENIGN,
        "an error that the program says it has dealt with",
    ),
    Signature(
        "cuda.ecc",
        r"CUDA [Ee]rror: uncorrectable ECC error.*",
        "gpu_hardware",
        Role.CULPRIT,
        "ml-eng; jade-hpc 194",
        trigger=Trigger.AT_ONCE,
        hardware=True,
        isolate=Isolate.ALWAYS,
    ),
    Signature(
        "cuda.nvlink",
        r"CUDA [Ee]rror: uncorrectable NVLink error.*",
        "nvlink_fabric",
        Role.CULPRIT,
        "cudaErrorNvlinkUncorrectable",
        trigger=Trigger.AT_ONCE,
        hardware=True,
        isolate=Isolate.ALWAYS,
    ),
    Signature(
        "cuda.gpu_lost",
        r"(?:CUDA [Ee]rror: |nvidia-smi: )?(?:GPU (?:has fallen off the bus|is lost)|"
        r"Unable to determine the device handle for (?:GPU|gpu) ?\S*: (?:GPU is lost|Unknown Error)).*",
        "gpu_hardware",
        Role.CULPRIT,
        "nvidia-smi, NVML_ERROR_GPU_IS_LOST",
        hardware=True,
        isolate=Isolate.ALWAYS,
    ),
    Signature(
        "cuda.oom",
        r"(?:CUDA|HIP|NPU|XPU|HPU|MLU|MUSA|MPS)(?: backend)? out of memory\b.*|"
        r".*(?:CUDA|HIP) (?:driver )?[Ee]rror: out of memory.*|"
        r".*CUDA_ERROR_OUT_OF_MEMORY.*|(?:[\w.]+\.)?OutOfMemoryError: .*|"
        r"No executable batch size found.*|.*RESOURCE_EXHAUSTED: Out of memory.*|"
        r".*PT_DEVMEM Allocation failed.*",
        "cuda_oom",
        Role.CULPRIT,
        "ml-eng; FunASR 2006; accelerate/utils/memory.py; XLA; Gaudi",
        retryable=False,
    ),
    Signature(
        "cuda.assert_line",
        r".*\.cu[h]?:\d+: .*(?:block|thread): \[.*Assertion.*failed\.?",
        "user_code_error",
        Role.CULPRIT,
        "nccl 1504",
        retryable=False,
    ),
    Signature(
        "cuda.assert",
        r"CUDA [Ee]rror: device-side assert triggered.*",
        "user_code_error",
        Role.CULPRIT,
        "nccl 1504",
        retryable=False,
    ),
    Signature(
        "cuda.env",
        r"CUDA [Ee]rror: (?:no kernel image is available|invalid device function|PTX).*|"
        r".*(?:CUDA driver version is insufficient|NVIDIA driver on your system is too old|"
        r"forward compatibility was attempted|unsupported display driver / cuda driver|"
        r"is not compatible with the current PyTorch installation|"
        r"detected CUDA version .* mismatches|compiled with different CUDA major versions).*",
        "env_mismatch",
        Role.CULPRIT,
        "common knowledge",
        retryable=False,
    ),
    Signature(
        "cuda.user",
        r"CUDA [Ee]rror: (?:misaligned address|invalid configuration|invalid argument|"
        r"invalid device ordinal|the launch timed out).*",
        "user_code_error",
        Role.CULPRIT,
        "common knowledge",
        retryable=False,
    ),
    Signature(
        "cuda.fork",
        r"Cannot re-initialize CUDA in forked subprocess.*",
        "user_code_error",
        Role.CULPRIT,
        "common knowledge",
        retryable=False,
    ),
    Signature(
        "cuda.fabric",
        r".*(?:[Ee]rror 802: system not yet initialized|system not yet initialized).*",
        "nvlink_fabric",
        Role.CULPRIT,
        "35710: the fabric manager is not up",
        hardware=True,
        isolate=Isolate.ALWAYS,
    ),
    Signature(
        "cuda.fabric_manager",
        r".*(?:nv-fabricmanager\S* (?:.* )?(?:fatal error|failed to configure)|"
        r"nvidia-fabricmanager\.service: (?:Main process exited.*FAILURE|Failed with result)).*|"
        r"detected NVSwitch fatal error.*|failed to configure all the available GPUs or NVSwitches.*",
        "nvlink_fabric",
        Role.CULPRIT,
        "fabric manager guide: its log, and systemd's word of it",
        hardware=True,
        isolate=Isolate.ALWAYS,
    ),
    Signature(
        "cuda.container_start",
        r".*(?:nvidia-container-cli: .*error|nvml error: driver (?:not loaded|/library version mismatch)).*",
        "container_gpu_lost",
        Role.CULPRIT,
        "nvidia-container-toolkit: no container of that node can start",
        hardware=True,
        isolate=Isolate.ALWAYS,
    ),
    Signature(
        "cuda.driver",
        r".*(?:NVIDIA-SMI has failed because it couldn't communicate|"
        r"Failed to initialize NVML: (?:Driver/library version mismatch|Driver Not Loaded)).*",
        "container_gpu_lost",
        Role.CULPRIT,
        "nvidia-smi: the node's driver is away or was changed under it",
        hardware=True,
        isolate=Isolate.HOST_EVIDENCE,
    ),
    Signature(
        "cuda.container",
        r".*(?:Failed to initialize NVML: (?:Unknown Error|Insufficient Permissions)|"
        r"NVMLError_Unknown: Unknown Error).*",
        "container_gpu_lost",
        Role.CULPRIT,
        "nvidia-container-toolkit: devices lost after systemd reload",
    ),
    Signature(
        "cuda.devices_missing",
        r".*\b(?P<seen>\d+) GPUs? \(requested \D*(?P<wanted>\d+)\).*|"
        r".*(?i:expected) (?P<wanted_first>\d+) GPUs?,?(?: but)? (?:found|got|saw) (?:only )?"
        r"(?P<seen_then>\d+).*",
        "container_gpu_lost",
        Role.EVIDENCE,
        "device counts beside what was asked for",
        trigger=Trigger.NEVER,
    ),
    Signature(
        "cuda.no_device",
        r"(?:CUDA [Ee]rror: no CUDA-capable device is detected|No CUDA GPUs are available|"
        r"Found no NVIDIA driver|ProcessGroupNCCL is only supported with GPUs, no GPUs found).*|"
        r"(?:nvidia-smi: )?No devices were found",
        "container_gpu_lost",
        Role.CULPRIT,
        "hf_hub 4134, LlamaFactory 8968",
        hardware=True,
        isolate=Isolate.HOST_EVIDENCE,
    ),
    Signature(
        "cuda.busy",
        r".*CUDA-capable device(?:\(s\) is/are|s are) busy or unavailable.*",
        "container_gpu_lost",
        Role.CULPRIT,
        "nvrx 18: a leftover process holds the device",
        isolate=Isolate.HOST_EVIDENCE,
    ),
    Signature(
        "cuda.illegal_access",
        r"CUDA [Ee]rror: (?:an illegal memory access|an illegal instruction|unspecified launch failure).*",
        "user_code_error",
        Role.CULPRIT,
        "152780: application or device; host evidence decides",
        isolate=Isolate.HOST_EVIDENCE,
    ),
    # Libraries fail to set themselves up where memory is short.
    Signature(
        "cuda.library_memory",
        r".*\b(?:CUBLAS|CUDNN|CUSOLVER)_STATUS_(?:ALLOC_FAILED|NOT_INITIALIZED).*",
        "cuda_oom",
        Role.CULPRIT,
        "nvrx registry",
        retryable=False,
    ),
    Signature(
        "cuda.library",
        r".*\b(?:CUBLAS|CUDNN|CUSOLVER)_STATUS_(?:EXECUTION_FAILED|INTERNAL_ERROR).*",
        "unknown",
        Role.CULPRIT,
        "nvrx registry",
        isolate=Isolate.HOST_EVIDENCE,
    ),
    Signature(
        "cuda.other",
        r"CUDA [Ee]rror: (?P<error>.*)",
        "gpu_hardware",
        Role.CULPRIT,
        "ml-eng: driver or device, and a check of neither without the kernel's word",
        isolate=Isolate.HOST_EVIDENCE,
    ),
)

"""What a training process says of memory, files and crashes."""

from agent.signatures.model import Isolate, Role, Signature

_WORKER = r"DataLoader worker \(pid(?:\(s\))? (?P<pid>\d+).*\)"

PROCESS = (
    Signature(
        "shm.bus_error",
        r"(?:ERROR: )?(?:Unexpected bus error encountered in worker|"
        r"DataLoader worker \(pid.*\) is killed by signal: Bus error).*",
        "shm_exhausted",
        Role.CULPRIT,
        "5040, 108861; mmsegmentation 1356",
        retryable=False,
    ),
    Signature(
        "shm.full",
        r".*(?:unable to (?:mmap|open|allocate) shared memory|No space left on device.*/dev/shm|"
        r"/dev/shm.*No space left|unable to \w+(?: to)? file </torch_\S+: No space left).*",
        "shm_exhausted",
        Role.CULPRIT,
        "common knowledge",
        retryable=False,
    ),
    Signature(
        "dataloader.killed",
        rf"{_WORKER} is killed by signal: Killed.*",
        "host_oom",
        Role.CULPRIT,
        "piper 779: nobody else kills data loaders",
        retryable=False,
    ),
    Signature(
        "dataloader.crashed",
        rf"{_WORKER} is killed by signal: (?:Segmentation|Aborted|Floating|Illegal).*",
        "segfault",
        Role.CULPRIT,
        "common knowledge",
        isolate=Isolate.HOST_EVIDENCE,
    ),
    Signature(
        "dataloader.gone",
        rf"{_WORKER} exited unexpectedly.*",
        "host_oom",
        Role.CULPRIT,
        "piper 779: most often for want of memory",
    ),
    Signature(
        "storage.full",
        r".*(?:\[Errno (?:28|122)\]|No space left on device|Disk quota exceeded|database or disk is full).*",
        "storage_error",
        Role.CULPRIT,
        "ronin 51",
        retryable=False,
        isolate=Isolate.HOST_EVIDENCE,
    ),
    Signature(
        "storage.transient",
        r".*(?:\[Errno (?:5|70|107|108|110|112|116|121)\]|Stale file handle|"
        r"Cannot send after transport endpoint shutdown|"
        r"Transport endpoint is not connected|Input/output error|Remote I/O error).*",
        "storage_error",
        Role.CULPRIT,
        "transformers 9732, nnUNet 1254",
        isolate=Isolate.HOST_EVIDENCE,
    ),
    Signature(
        "storage.read_only",
        r".*(?:\[Errno 30\]|Read-only file system).*",
        "storage_error",
        Role.CULPRIT,
        "common knowledge",
        isolate=Isolate.HOST_EVIDENCE,
    ),
    Signature(
        "checkpoint.write",
        r".*PytorchStreamWriter failed writing.*",
        "storage_error",
        Role.CULPRIT,
        "returnn 1829",
    ),
    Signature(
        "checkpoint.torn",
        r".*PytorchStreamReader failed.*|EOFError: Ran out of input.*|(?:[\w.]+\.)?UnpicklingError.*|"
        r"(?:[\w.]+\.)?(?:SafetensorError: Error while deserializing|BadZipFile|"
        r"ReadError: unexpected end of data).*|.*unexpected EOF, expected \d+ more bytes.*|"
        r".*Unable to (?:synchronously )?open file \(.*(?:signature not found|truncated file).*",
        "storage_error",
        Role.CULPRIT,
        "a checkpoint or a part of the data cut short by an earlier crash",
        retryable=False,
    ),
    Signature(
        "memory.host",
        r"(?:[\w.]+\.)?(?:_ArrayMemoryError|MemoryError)\b.*|"
        r".*(?:\[Errno 12\]|Cannot allocate memory|DefaultCPUAllocator: can't allocate memory).*",
        "host_oom",
        Role.CULPRIT,
        "common knowledge",
        retryable=False,
    ),
    Signature(
        "crash.segfault",
        r"(?:Fatal Python error: Segmentation fault|.*Segmentation fault(?: \(core dumped\))?|"
        r"!!!+ Segfault encountered.*).*",
        "segfault",
        Role.CULPRIT,
        "torch elastic errors",
        isolate=Isolate.HOST_EVIDENCE,
    ),
    Signature(
        "crash.heap",
        r"(?:\S+: )?(?:double free or corruption|(?:free|malloc|realloc|munmap_chunk)\(\): [a-z]|"
        r"corrupted (?:size|double-linked)|\*\*\* stack smashing detected|malloc\.c:\d+: ).*",
        "segfault",
        Role.CULPRIT,
        "glibc ends a process whose memory is overwritten",
        isolate=Isolate.HOST_EVIDENCE,
    ),
    Signature(
        "crash.aborted",
        r"Fatal Python error: Aborted.*",
        "segfault",
        Role.CULPRIT,
        "faulthandler: C++ gave up, what it said before says why",
    ),
    Signature("crash.fatal", r"Fatal Python error: (?P<error>.*)", "segfault", Role.CULPRIT, "faulthandler"),
    Signature(
        "crash.terminate",
        r"terminate called (?:after throwing an instance of|without an active exception|recursively).*",
        "unknown",
        Role.SYMPTOM,
        "libstdc++",
    ),
    Signature(
        "env.library",
        r".*(?:undefined symbol: |version `[\w.]+' not found|cannot open shared object file|"
        r"exec format error).*",
        "env_mismatch",
        Role.CULPRIT,
        "common knowledge",
        retryable=False,
    ),
)

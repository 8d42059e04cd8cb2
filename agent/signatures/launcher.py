"""What launchers (torchrun, shells) say, and Python's own exceptions: what stands last in the table."""

from agent.signatures.model import Role, Signature, Trigger

LAUNCHER = (
    Signature(
        "elastic.sending_signal",
        r"(?:Sending process|Closing process) (?P<pid>\d+) (?:closing|via) signal (?P<signal>\w+).*",
        "external_stop",
        Role.EVIDENCE,
        "88251, flytekit 2064",
        trigger=Trigger.NEVER,
    ),
    Signature(
        "elastic.forced_kill",
        r"Unable to shutdown process (?P<pid>\d+) via .*",
        "external_stop",
        Role.EVIDENCE,
        "nvdiffrecmc 21: the launcher's own SIGKILL",
        trigger=Trigger.NEVER,
    ),
    Signature(
        "elastic.death_signal",
        r".*(?:Received (?P<signal>\d+) death signal|Process \d+ got signal: (?P<got>\d+)).*",
        "external_stop",
        Role.SYMPTOM,
        "MOSS 237, determined 8915",
    ),
    Signature(
        "elastic.failed",
        r"failed \(exitcode: (?P<exitcode>-?\d+)\) local_rank: (?P<local_rank>\d+) \(pid: (?P<pid>\d+)\)"
        r"(?: of binary: (?P<binary>\S+))?.*",
        "unknown",
        Role.CULPRIT,
        "elastic/multiprocessing/api.py",
    ),
    Signature(
        "elastic.root_cause",
        r"Root Cause \(first observed failure\):",
        "",
        Role.EVIDENCE,
        "elastic/multiprocessing/errors",
        trigger=Trigger.NEVER,
    ),
    Signature(
        "elastic.summary_rank",
        r"rank\s+: (?P<rank>\d+) \(local_rank: (?P<local_rank>\d+)\)",
        "",
        Role.EVIDENCE,
        "elastic/multiprocessing/errors",
        trigger=Trigger.NEVER,
    ),
    Signature(
        "elastic.summary_exit",
        r"exitcode\s+: (?P<exitcode>-?\d+) \(pid: (?P<pid>\d+)\).*",
        "",
        Role.EVIDENCE,
        "elastic/multiprocessing/errors",
        trigger=Trigger.NEVER,
    ),
    Signature(
        "elastic.signal_received",
        r"Signal (?P<signal>\d+) \(\w+\) received by PID (?P<pid>\d+)",
        "",
        Role.EVIDENCE,
        "elastic/multiprocessing/errors",
        trigger=Trigger.NEVER,
    ),
    Signature(
        "elastic.child_failed",
        r"(?:[\w.]+\.)?ChildFailedError:?.*",
        "unknown",
        Role.EVIDENCE,
        "elastic/multiprocessing/errors",
        trigger=Trigger.NEVER,
    ),
    Signature(
        "shm.df",
        r"df /dev/shm: .*100%.*|.*/dev/shm\s.*\b100%.*",
        "shm_exhausted",
        Role.EVIDENCE,
        "df",
        trigger=Trigger.NEVER,
    ),
    Signature(
        "user.not_found",
        r"(?:.*: )?(?:line \d+: )?\S+: command not found|\S*python\d*(?:\.\d+)?: can't open file.*",
        "user_code_error",
        Role.CULPRIT,
        "shell",
        retryable=False,
    ),
    Signature(
        "user.arguments",
        r"\S+: error: (?:unrecognized arguments|the following arguments|argument ).*",
        "user_code_error",
        Role.CULPRIT,
        "argparse",
        retryable=False,
    ),
    Signature(
        "user.diverged",
        r"(?i:(?:\w+ )?loss is (?:tensor\()?(?:nan|[+-]?inf)\b.*, (?:stopping|exiting|aborting)\b).*",
        "user_code_error",
        Role.CULPRIT,
        "detr, mae and their many heirs: engine.py, which then calls sys.exit(1)",
        retryable=False,
        levels="IWEF",
    ),
    Signature(
        "job.finished",
        r"`Trainer\.fit` stopped: `max_\w+=\d+` reached\.|\[after training is done\].*|"
        r"(?i:training (?:is |has )?(?:done|finished|completed?))"
        r"(?:[.!]| successfully.*|\. Do not forget to share your model.*)?",
        "",
        Role.EVIDENCE,
        "Lightning, Megatron, transformers, torchtitan: what follows is tear-down",
        trigger=Trigger.NEVER,
        levels="IWEF",
    ),
    Signature(
        "benign.at_exit",
        r"AssertionError: can only test a child process|ImportError: sys\.meta_path is None.*",
        "",
        Role.BENIGN,
        "DataLoader.__del__ and others, ignored while Python shuts down",
    ),
    Signature(
        "python.traceback",
        r"Traceback \(most recent call last\):",
        "",
        Role.EVIDENCE,
        "Python",
        trigger=Trigger.NEVER,
    ),
    Signature(
        "python.interrupt",
        r"(?:[\w.]+\.)?KeyboardInterrupt\b.*",
        "external_stop",
        Role.SYMPTOM,
        "Python: SIGINT",
    ),
    Signature(
        "python.connection",
        r"(?:[\w.]+\.)?(?:Connection(?:Reset|Refused|Aborted)?Error|BrokenPipeError|"
        r"socket\.timeout|ProtocolError)\b.*|(?:RuntimeError: |"
        r"OSError: )?(?:Connection reset by peer|Connection closed by peer|Broken pipe|"
        r"Socket Timeout|Connection refused)\b.*",
        "network_tcp",
        Role.SYMPTOM,
        "Python",
    ),
    Signature(
        "storage.object_store",
        r"botocore\.exceptions\.(?:\w*(?:Timeout|Connection|Endpoint|Streaming)\w*Error|ClientError: .*\((?:"
        r"SlowDown|InternalError|ServiceUnavailable|Throttl\w+|RequestLimitExceeded|RequestTimeout|5\d\d)\)).*|"
        r"google\.(?:api_core|cloud)\.exceptions\.(?:ServiceUnavailable|TooManyRequests|InternalServerError|"
        r"GatewayTimeout|DeadlineExceeded|RetryError|BadGateway)\b.*|"
        r"azure\.core\.exceptions\.Service(?:Request|Response)(?:Timeout)?Error\b.*|"
        r"oss2\.exceptions\.(?:RequestError|ServerError)\b.*|fsspec\.exceptions\.FSTimeoutError.*|"
        r"OSError: \[Errno 16\] Please reduce your request rate.*",
        "storage_error",
        Role.CULPRIT,
        "the SDKs' own words for a store that is busy or away, once their retries are over",
        levels="EF",
    ),
    Signature(
        "net.outside",
        r"(?:requests|urllib3|httpx|httpcore|aiohttp)\.[\w.]*(?:(?:Connect|Connection|Read|Write|Pool)\w*|"
        r"MaxRetry|NewConnection|Proxy|SSL|ServerDisconnected|ChunkedEncoding)(?:Error|Timeout)\b.*|"
        r"(?:requests|httpx|huggingface_hub|urllib)\.[\w.]*HTTP\w*Error: (?:HTTP Error )?(?:429|5\d\d)\b.*",
        "network_tcp",
        Role.CULPRIT,
        "the words of HTTP clients: what they lost is outside of the job",
        levels="EF",
    ),
    Signature(
        "python.import",
        r"(?:ModuleNotFoundError|ImportError)\b.*",
        "user_code_error",
        Role.CULPRIT,
        "Python",
        retryable=False,
        levels="EF",
    ),
    Signature(
        "python.path",
        r"(?:FileNotFoundError|PermissionError|NotADirectoryError|IsADirectoryError)\b.*",
        "user_code_error",
        Role.CULPRIT,
        "nvrx registry: on every node the program's, on one node a mount's",
        retryable=False,
        levels="EF",
    ),
    Signature(
        "python.exception",
        # no shorter words: `iteration` and `default` stand in every line of some logs
        r"(?:[A-Za-z_]\w*\.)*(?P<type>[A-Z]\w*(?:Error|Exception|Failure|ExceptionGroup)|Exception|"
        r"SystemExit|GeneratorExit|StopIteration|StopAsyncIteration)(?:: (?P<message>.*))?|"
        r"(?:[a-z_]\w*\.)*(?:error|errors|exception|exceptions|exc)\.(?P<named>[A-Z]\w*)(?:: [^\d\s].*)?",
        "user_code_error",
        Role.CULPRIT,
        "Python",
        retryable=False,
        levels="EF",
    ),
)

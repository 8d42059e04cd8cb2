"""What the NCCL backend of torch.distributed says. Issue numbers are of pytorch unless named."""

from agent.signatures.model import Isolate, Role, Signature, Trigger

_COUNTERS = r"last enqueued NCCL work: (?P<enqueued>-?\d+), last completed NCCL work: (?P<completed>-?\d+).*"

WATCHDOG = (
    Signature(
        "c10d.watchdog_timeout",
        r".*(?:Watchdog caught collective operation timeout: |Collective )WorkNCCL\(SeqNum=(?P<seq>\d+), "
        r"OpType=(?P<op>\w+)(?:, NumelIn=(?P<numel>\d+))?.*",
        "nccl_timeout",
        Role.SYMPTOM,
        "ProcessGroupNCCL.cpp; accelerate 2912",
        trigger=Trigger.AT_ONCE,
    ),
    # The first of its lines may be all that a log kept: it says what it waited for as well.
    Signature(
        "c10d.work_counters_late",
        r"Timeout at NCCL work: (?P<work>\d+), " + _COUNTERS,
        "nccl_timeout",
        Role.SYMPTOM,
        "ProcessGroupNCCL.cpp; accelerate 2912",
        trigger=Trigger.AT_ONCE,
    ),
    # Of an error it is said as well: there others' words weigh more.
    Signature(
        "c10d.work_counters",
        r".*detected by watchdog at work: (?P<work>\d+), " + _COUNTERS,
        "nccl_timeout",
        Role.SYMPTOM,
        "ProcessGroupNCCL.cpp; accelerate 2912",
    ),
    Signature(
        "c10d.desync",
        r".*ranks that caused the desync are: *\[(?P<ranks>[\d, ]+)\](?P<how>.*)",
        "desync",
        Role.CULPRIT,
        "TORCH_NCCL_DESYNC_DEBUG=1",
        trigger=Trigger.AT_ONCE,
        isolate=Isolate.HOST_EVIDENCE,
    ),
    Signature(
        "c10d.desync_ranks",
        r"(?:- )?\[(?P<ranks>[\d, ]+)\] (?P<how>finished collective #\d+, but didn't join collective.*|"
        r"joined but didn't finish collective.*)",
        "desync",
        Role.CULPRIT,
        "TORCH_NCCL_DESYNC_DEBUG=1: the report over several lines",
        trigger=Trigger.AT_ONCE,
        isolate=Isolate.HOST_EVIDENCE,
    ),
    Signature(
        "c10d.monitored_barrier",
        r"(?:\[Rank \d+\]:? ?)?Ranks? (?P<ranks>[\d, ]+) failed to pass monitoredBarrier.*",
        "hang",
        Role.CULPRIT,
        "nccl 849",
        trigger=Trigger.AT_ONCE,
    ),
    Signature(
        "c10d.monitored_barrier_victim",
        r"Rank \d+ successfully reached monitoredBarrier.*",
        "hang",
        Role.SYMPTOM,
        "nccl 849",
    ),
    Signature(
        "c10d.collective_mismatch",
        r"Detected mismatch between collectives on ranks.*",
        "desync",
        Role.CULPRIT,
        "common knowledge",
        retryable=False,
    ),
    Signature(
        "c10d.ddp_unused",
        r"Expected to have finished reduction in the prior iteration.*",
        "user_code_error",
        Role.CULPRIT,
        "common knowledge",
        retryable=False,
    ),
    Signature(
        "c10d.hang_in_driver",
        r".*watchdog got stuck for \d+ seconds without making progress.*",
        "hang",
        Role.SYMPTOM,
        "PR 115888: may be a false positive by its own words",
    ),
    Signature(
        "c10d.heartbeat_monitor",
        r".*(?:Heartbeat monitor timed out|First PG on this rank that detected no heartbeat).*",
        "hang",
        Role.SYMPTOM,
        "sglang 1691",
    ),
    Signature(
        "c10d.dump_signal",
        r"Received a dump signal.*",
        "nccl_timeout",
        Role.EVIDENCE,
        "llamafactory 8261",
        trigger=Trigger.NEVER,
    ),
    Signature(
        "c10d.boilerplate",
        r"(?:Some NCCL operations have failed or timed out|"
        r"To avoid data inconsistency, we are taking|Stop watchdog).*",
        "nccl_timeout",
        Role.EVIDENCE,
        "ProcessGroupNCCL.cpp",
        trigger=Trigger.NEVER,
    ),
    Signature(
        "c10d.nccl_config",
        r".*(?:ncclInvalidUsage|ncclInvalidArgument|NCCL error.*invalid (?:usage|argument)|"
        r"invalid usage \(run with NCCL_DEBUG).*",
        "nccl_config",
        Role.CULPRIT,
        "init.cc",
        retryable=False,
    ),
    Signature(
        "c10d.nccl_remote",
        r"(?:.*NCCL error.*|ncclRemoteError.*)(?:remote process exited|remote process exiting|"
        r"network error|Connection reset by peer|Connection closed by remote peer|Broken pipe).*",
        "network_tcp",
        Role.SYMPTOM,
        "init.cc:3429",
    ),
    Signature(
        "c10d.nccl_internal",
        r"(?:.*NCCL error.*)?(?:ncclInternalError|internal error - please report).*|ncclInternalError.*",
        "unknown",
        Role.SYMPTOM,
        "nccl 795: may hide a remote error",
    ),
    Signature(
        "c10d.nccl_system",
        r"(?:.*NCCL error.*)?(?:unhandled system error|ncclSystemError).*",
        "network_tcp",
        Role.SYMPTOM,
        "ml-eng",
        isolate=Isolate.HOST_EVIDENCE,
    ),
    Signature(
        "c10d.nccl_cuda",
        r"(?:.*NCCL error.*)?(?:unhandled cuda error|ncclUnhandledCudaError).*",
        "unknown",
        Role.SYMPTOM,
        "init.cc",
    ),
    Signature(
        "c10d.nccl_aborted",
        r"NCCL communicator was aborted.*|.*communicator encountered a fatal error.*",
        "unknown",
        Role.SYMPTOM,
        "common.cc:32",
    ),
    Signature("c10d.nccl_error", r".*NCCL error\b.*", "unknown", Role.SYMPTOM, "ml-eng"),
)

"""One calm sentence that says what happened, and one that says what to do, in Chinese and English.

`{who}` is the culprit, `{what}` the mechanism in the log's own short words.
"""

from master.casefile import Cause, Culprit

Sentences = tuple[str, str, str, str]  # reason zh, reason en, advice zh, advice en

BY_CAUSE: dict[Cause, Sentences] = {
    Cause.GPU_HARDWARE: (
        "{who}的 GPU 出现硬件故障（{what}）",
        "A GPU of {who} failed ({what})",
        "将该节点移出调度，检查或复位 GPU 后再恢复",
        "Keep the node out of scheduling until its GPU has been checked or reset",
    ),
    Cause.NVLINK_FABRIC: (
        "{who}的 NVLink 互联出现故障（{what}）",
        "The NVLink fabric of {who} failed ({what})",
        "检查该节点的 NVLink 与 Fabric Manager",
        "Check NVLink and the fabric manager of that node",
    ),
    Cause.NETWORK_IB: (
        "{who}的 InfiniBand/RoCE 网络出现故障（{what}）",
        "The InfiniBand or RoCE network of {who} failed ({what})",
        "检查该节点的网卡、线缆与交换机端口",
        "Check that node's adapter, cable and switch port",
    ),
    Cause.NETWORK_TCP: (
        "训练进程之间的连接中断，{who}（{what}）",
        "Training processes lost their connection; {who} ({what})",
        "查看对端进程是否先行退出；若无，检查网络",
        "See whether a peer ended first; if none did, check the network",
    ),
    Cause.NCCL_TIMEOUT: (
        "集合通信超时，{who}（{what}）",
        "A collective operation timed out; {who} ({what})",
        "若被点名的 rank 反复落后，检查其数据与节点；若无人被点名，检查网络",
        "If the named rank lags again, look at its data and node; if none is named, check the network",
    ),
    Cause.NCCL_CONFIG: (
        "{who}的 NCCL 配置有误（{what}）",
        "NCCL is misconfigured on {who} ({what})",
        "修正 NCCL_SOCKET_IFNAME 等环境变量或设备分配后重新提交",
        "Correct NCCL_SOCKET_IFNAME and the like, or the device assignment, and submit again",
    ),
    Cause.DESYNC: (
        "各 rank 的集合通信不一致，{who}（{what}）",
        "The ranks' collectives do not match; {who} ({what})",
        "检查代码中随 rank 而异的分支与数据长度",
        "Look for branches and data lengths that differ between ranks",
    ),
    Cause.CUDA_OOM: (
        "{who}显存不足（{what}）",
        "{who} ran out of GPU memory ({what})",
        "减小 batch 或序列长度、开启重计算，或确认没有残留进程占用显存",
        "Lower the batch or sequence length, recompute activations, or end leftover processes on the GPU",
    ),
    Cause.HOST_OOM: (
        "{who}因主机内存不足被终止（{what}）",
        "{who} was ended for want of host memory ({what})",
        "提高内存配额，或减少 DataLoader 的 worker 数与缓存",
        "Raise the memory limit, or use fewer DataLoader workers and smaller caches",
    ),
    Cause.USER_CODE_ERROR: (
        "{who}的训练代码报错（{what}）",
        "The training code of {who} failed ({what})",
        "按报错修正代码或数据后重新提交",
        "Mend the code or the data as the error says, and submit again",
    ),
    Cause.STORAGE_ERROR: (
        "{who}读写存储失败（{what}）",
        "{who} failed to read or write storage ({what})",
        "检查剩余空间、配额与挂载",
        "Check free space, quota and mounts",
    ),
    Cause.SHM_EXHAUSTED: (
        "{who}的共享内存 /dev/shm 不足（{what}）",
        "{who} ran out of shared memory in /dev/shm ({what})",
        "调大 /dev/shm（emptyDir medium: Memory）或减少 DataLoader worker",
        "Enlarge /dev/shm (emptyDir medium: Memory) or use fewer DataLoader workers",
    ),
    Cause.SEGFAULT: (
        "{who}进程崩溃（{what}）",
        "{who} crashed ({what})",
        "若再次出现，用 core 文件定位本地代码，并核对库版本",
        "If it returns, find the native code by a core file and compare library versions",
    ),
    Cause.RENDEZVOUS_FAILURE: (
        "各进程未能会合，请看{who}（{what}）",
        "The processes did not find together; look at {who} ({what})",
        "查看 0 号 Pod 为何未就绪，确认端口未被占用",
        "See why pod 0 was not ready, and that the port is free",
    ),
    Cause.POD_EVICTED: (
        "{who}被驱逐（{what}）",
        "{who} was evicted ({what})",
        "若因自身超用被驱逐，请提高资源请求；否则无需处理",
        "If it was evicted for its own use, raise its requests; otherwise nothing is to be done",
    ),
    Cause.POD_DELETED: (
        "{who}被删除（{what}）",
        "{who} was deleted ({what})",
        "确认是否为人为操作",
        "Find out whether someone meant to",
    ),
    Cause.PREEMPTED: (
        "{who}被更高优先级的任务抢占（{what}）",
        "{who} was preempted by work of higher priority ({what})",
        "无需处理，资源到位后自动继续",
        "Nothing is to be done; it goes on when there is room",
    ),
    Cause.EXTERNAL_STOP: (
        "{who}被外部信号终止（{what}）",
        "{who} was ended by a signal from outside ({what})",
        "确认是谁发出的信号：人、终端或调度系统",
        "Find out who sent the signal: a person, a terminal or a scheduler",
    ),
    Cause.NODE_DOWN: (
        "{who}失联（{what}）",
        "{who} is out of reach ({what})",
        "检查该节点的电源、内核与网络",
        "Check power, kernel and network of that node",
    ),
    Cause.HEARTBEAT_LOST: (
        "{who}不再推进，其进程{what}",
        "{who} makes no progress; its process is {what}",
        "查看是谁暂停了该进程，或它卡在内核何处",
        "Find out who stopped the process, or where in the kernel it is stuck",
    ),
    Cause.HANG: (
        "训练停滞，{who}（{what}）",
        "Training stands still; {who} ({what})",
        "对照调用栈查看被点名的 rank 卡在哪里",
        "Compare the stacks and see where the named rank is stuck",
    ),
    Cause.CONTAINER_GPU_LOST: (
        "{who}的容器失去 GPU（{what}）",
        "The container of {who} lost its GPUs ({what})",
        "重建容器；若仍如此，检查该节点的驱动与容器运行时",
        "Make the container anew; if that does not help, check driver and container runtime of the node",
    ),
    Cause.ENV_MISMATCH: (
        "{who}的软件环境不匹配（{what}）",
        "The software of {who} does not match ({what})",
        "统一各 Pod 的镜像、驱动与库版本",
        "Give all pods the same image, driver and library versions",
    ),
    Cause.CUSTOM_PATTERN: (
        "{who}的日志出现自定义异常关键字（{what}）",
        "A custom fault pattern appeared in the log of {who} ({what})",
        "按该关键字的含义处理；若重启过于频繁，请收紧关键字",
        "Act on what the pattern means; narrow it if it restarts too often",
    ),
    Cause.UNKNOWN: (
        "{who}异常退出，原因未明（{what}）",
        "{who} failed for an unknown reason ({what})",
        "查看该进程最后的日志",
        "Read the last lines of its log",
    ),
}

VANISHED, STOPPED = "pod_vanished", "pod_stopped"
# Where the sign itself says more than its cause.
BY_SIGN: dict[str, Sentences] = {
    VANISHED: (
        "{who}不见踪影，且无退出码",
        "{who} is gone and left no exit code",
        "查看该机器当时是否重启，或有人结束了进程",
        "See whether the machine was restarted, or someone ended its processes",
    ),
    STOPPED: (
        "{who}随 Faultcast 服务一同停止",
        "{who} was stopped together with the Faultcast server",
        "无需处理；若不希望任务随服务恢复，请先停止任务",
        "Nothing is to be done; stop a job first if it shall not come back with the server",
    ),
}

# Sentences in which nobody is the subject read otherwise.
_NOBODY = {
    Cause.NETWORK_TCP: ("未能确定起因于谁", "where it began cannot be told"),
    Cause.NCCL_TIMEOUT: ("无法确定是哪个 rank", "no rank can be named"),
    Cause.DESYNC: ("无法确定是哪个 rank", "no rank can be named"),
    Cause.HANG: ("无法确定是哪个 rank", "no rank can be named"),
    Cause.RENDEZVOUS_FAILURE: ("0 号 Pod", "pod 0"),
}
_SUSPECT = (Cause.NETWORK_TCP, Cause.NCCL_TIMEOUT, Cause.DESYNC, Cause.HANG)


def sentences(
    cause: Cause, culprit: Culprit, what_zh: str, what_en: str, *, name: str = ""
) -> tuple[dict[str, str], dict[str, str]]:
    """Reason and advice, each {"zh", "en"}. `name`: of the sign that led to them."""
    reason_zh, reason_en, advice_zh, advice_en = BY_SIGN.get(name) or BY_CAUSE[cause]
    who_zh, who_en = _who(cause, culprit)
    en = reason_en.format(who=who_en, what=what_en)
    return (
        {"zh": reason_zh.format(who=who_zh, what=what_zh) + "。", "en": en[0].upper() + en[1:] + "."},
        {"zh": advice_zh + "。", "en": advice_en + "."},
    )


def _who(cause: Cause, culprit: Culprit) -> tuple[str, str]:
    zh, en = _named(culprit)
    if not zh:
        return _NOBODY.get(cause, ("任务", "the job"))
    if cause in _SUSPECT:
        return f"起因指向 {zh}", f"the cause points at {en}"
    return zh if zh.endswith("）") else f"{zh} ", en


def _named(culprit: Culprit) -> tuple[str, str]:
    if culprit.rank is not None:
        if culprit.node:
            return (
                f"rank {culprit.rank}（节点 {culprit.node}）",
                f"rank {culprit.rank} on node {culprit.node}",
            )
        return f"rank {culprit.rank}", f"rank {culprit.rank}"
    if culprit.pod and culprit.pod != culprit.node:
        place = f"（节点 {culprit.node}）" if culprit.node else ""
        return f"Pod {culprit.pod}{place}", f"pod {culprit.pod}" + (
            f" on node {culprit.node}" if culprit.node else ""
        )
    return (f"节点 {culprit.node}", f"node {culprit.node}") if culprit.node else ("", "")

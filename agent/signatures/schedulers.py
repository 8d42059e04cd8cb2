"""What batch systems and other launchers than torchrun say: Slurm, mpirun, DeepSpeed."""

from agent.signatures.model import Isolate, Role, Signature, Trigger

_CANCELLED = r"(?:slurmstepd: )?(?:error: )?\*\*\* (?:JOB|STEP) .* CANCELLED AT .*"

SCHEDULERS = (
    # Ray ends the tasks of a node that runs short of memory, and tells the driver on another node.
    Signature(
        "ray.oom_workers",
        r".*\b[1-9]\d* Workers \(tasks / actors\) killed due to memory pressure \(OOM\)"
        r"(?:.*\bIP: (?P<at_host>[\w.:]+?)\).*|.*)",
        "host_oom",
        Role.CULPRIT,
        "Ray memory monitor: raylet",
        retryable=False,
    ),
    Signature(
        "ray.oom_place",
        r"Memory on the node \(IP: (?P<at_host>[\w.:]+?),.* exceeds the memory usage threshold.*",
        "host_oom",
        Role.CULPRIT,
        "Ray memory monitor: it says which node",
        retryable=False,
    ),
    Signature(
        "ray.oom",
        r"(?:ray\.exceptions\.)?OutOfMemoryError: Task was killed due to the node running low on memory"
        r"(?:.*\(IP: (?P<at_host>[\w.:]+?)[,)](?:.*killed this worker \(.*\brank=(?P<ranks>\d+)\b.*|.*)|.*)|"
        r"ray\.exceptions\.OutOfMemoryError\b.*",
        "host_oom",
        Role.CULPRIT,
        "Ray memory monitor",
        retryable=False,
    ),
    Signature(
        "ray.preempted",
        r"(?:.*\bnode (?P<at_host>[\w.-]+) .*)?.*(?i:\bdrain).*\b(?:DRAIN_NODE_REASON_)?PREEMPTION\b.*|"
        r".*the actor's node was preempted.*",
        "preempted",
        Role.CULPRIT,
        "Ray: DrainNode, ActorDiedError",
        trigger=Trigger.AT_ONCE,
    ),
    Signature(
        "ray.peer_died",
        r"(?:ray\.exceptions\.)?(?:ActorDiedError|ActorUnavailableError|RayActorError|WorkerCrashedError|"
        r"NodeDiedError|OwnerDiedError|LocalRayletDiedError)\b.*",
        "unknown",
        Role.SYMPTOM,
        "ray.exceptions: the driver tells of a worker that is gone",
    ),
    Signature(
        "cloud.notice",
        r".*(?i:\b(?:spot (?:instance )?(?:interruption|termination) notice|preemption notice received|"
        r"instance (?:is being|will be) (?:preempted|reclaimed)|kind\W+SPOT_ITN)\b).*",
        "preempted",
        Role.EVIDENCE,
        "what watches a cloud's metadata writes into the machine's journal: aws-node-termination-handler",
        trigger=Trigger.NEVER,
        levels="IWEF",
    ),
    # A result that another GPU does not come to; whoever says so sits on the other one.
    Signature(
        "gpu.rerun_differs",
        r".*(?i:second rerun).*?(?:obtained on node (?P<at_host>[\w.-]+), device (?P<at_device>\d+).*)?"
        r"Possible persistent error.*",
        "gpu_hardware",
        Role.CULPRIT,
        "megatron/core/rerun_state_machine.py",
        trigger=Trigger.AT_ONCE,
        hardware=True,
        isolate=Isolate.HOST_EVIDENCE,
    ),
    Signature(
        "slurm.oom",
        r"(?:slurmstepd: )?(?:error: )?Detected \d+ oom[_-]kill events? in .*",
        "host_oom",
        Role.CULPRIT,
        "nvrx registry",
        retryable=False,
    ),
    Signature(
        "slurm.oom_task",
        r"srun: error: (?P<at_host>[^\s:]+): tasks? (?P<ranks>[\d,]+): Out Of Memory.*",
        "host_oom",
        Role.CULPRIT,
        "srun names host and task",
        retryable=False,
    ),
    Signature(
        "slurm.node_failure_on",
        r"srun: error: Node failure on (?P<at_host>\S+).*",
        "node_down",
        Role.CULPRIT,
        "srun",
        trigger=Trigger.AT_ONCE,
        hardware=True,
    ),
    Signature(
        "slurm.node_failure",
        _CANCELLED + "DUE TO NODE FAILURE.*",
        "node_down",
        Role.CULPRIT,
        "slurmstepd",
        trigger=Trigger.AT_ONCE,
        hardware=True,
    ),
    Signature(
        "slurm.preempted",
        _CANCELLED + "DUE TO (?:PREEMPTION|JOB REQUEUE).*",
        "preempted",
        Role.CULPRIT,
        "slurmstepd",
        trigger=Trigger.AT_ONCE,
    ),
    Signature(
        "slurm.time_limit",
        _CANCELLED + "DUE TO TIME LIMIT.*",
        "external_stop",
        Role.CULPRIT,
        "slurmstepd",
        trigger=Trigger.AT_ONCE,
    ),
    # Who asked for it: scancel itself, slurmctld's log, sacct and scontrol afterwards.
    Signature(
        "slurm.stopped_by",
        r"scancel: (?:job|Terminating job) .*|.*\bREQUEST_KILL_JOB JobId=\S+ uid \d+.*|"
        r".*\bState=CANCELLED by \d+.*",
        "external_stop",
        Role.CULPRIT,
        "Slurm: scancel.c, proc_req.c, sacct",
        trigger=Trigger.AT_ONCE,
        levels="IWEF",
    ),
    Signature(
        "slurm.cancelled",
        _CANCELLED,
        "external_stop",
        Role.SYMPTOM,
        "slurmstepd",
        trigger=Trigger.AT_ONCE,
    ),
    Signature(
        "srun.failed",
        r"srun: error: (?P<host>[^\s:]+): task (?P<rank>\d+): (?:Exited with exit code (?P<exitcode>\d+)|"
        r"(?P<how>Killed|Segmentation fault|Aborted|Bus error|Floating point exception|"
        r"Illegal instruction)).*",
        "unknown",
        Role.CULPRIT,
        "srun",
    ),
    Signature(
        "mpi.failed",
        r".*process rank (?P<rank>\d+) with PID \d+ on node (?P<host>\S+) exited on signal (?P<signal>\d+).*",
        "unknown",
        Role.CULPRIT,
        "Open MPI",
    ),
    Signature(
        "deepspeed.killing",
        r"(?:\[launch\.py:\S+ )?Killing subprocess (?P<pid>\d+)",
        "",
        Role.EVIDENCE,
        "deepspeed/launcher/launch.py: all of its workers, in the order of their local ranks",
        trigger=Trigger.NEVER,
        levels="IWEF",
    ),
    # The command beside it is always that of the last local rank, whoever failed.
    Signature(
        "deepspeed.failed",
        r".*exits with return code = (?P<exitcode>-?\d+)",
        "unknown",
        Role.CULPRIT,
        "deepspeed/launcher/launch.py",
    ),
)

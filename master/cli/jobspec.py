"""The flags of `job create` as a CreateJob body (CONTRACT 3); flags win over the file."""

from collections.abc import Mapping, Sequence
from typing import Any

from master.cli.errors import CommandError
from master.cli.jobflags import JobFlags
from master.cli.values import boolean, pairs, read_document, read_text

Body = dict[str, Any]


def job_body(flags: JobFlags) -> Body:
    """The body to post. Raises CommandError where flags contradict each other."""
    body = read_document("--job-file", flags.job_file) if flags.job_file else {}
    spec = body.get("jobSpec", {})
    if not isinstance(spec, dict):
        raise CommandError("jobSpec: a mapping is wanted")
    _set(body, name=flags.name, queue=flags.queue, resourcePoolId=flags.pool, priority=flags.priority)
    _set(body, faultTolerance=boolean("--enable-fault-tolerance", flags.enable_fault_tolerance))
    _set_command(body, spec, flags)
    _set_framework(body, flags.framework)
    _set_fault_tolerance_args(body, flags.fault_tolerance_args)
    spec.update(_spec(spec, flags))
    _merge(body, "labels", ("key", "value"), pairs("--label", flags.label or ()))
    _set_datasource(body, flags)
    if flags.alert:
        body["alertConfig"] = alert_config(flags.alert)
    if spec:
        body["jobSpec"] = spec
    return body


def _spec(spec: Body, flags: JobFlags) -> Body:
    changed = dict(spec)
    _set(changed, image=flags.image, replicas=flags.replicas, nprocPerNode=flags.nproc_per_node)
    _set(changed, enableRDMA=boolean("--enable-rdma", flags.enable_rdma))
    _set(changed, enableBCCL=boolean("--enable-bccl", flags.enable_bccl))
    _set(changed, hostNetwork=boolean("--host-network", flags.host_network))
    _set(changed, privileged=boolean("--privileged", flags.privileged), restartPolicy=flags.restart_policy)
    _merge(changed, "envs", ("name", "value"), pairs("--env", flags.env or (), last_wins=True))
    _merge(changed, "resources", ("name", "quantity"), _quantities(flags.gpu or ()))
    return changed


def _set(target: Body, **given: Any) -> None:
    target.update({name: value for name, value in given.items() if value is not None})


def _set_command(body: Body, spec: Body, flags: JobFlags) -> None:
    if flags.command is not None and flags.script_file is not None:
        raise CommandError("--command and --script-file: give one of them, not both")
    command = flags.command
    if flags.script_file is not None:
        command = read_text("--script-file", flags.script_file)
    if command is not None:
        spec.pop("command", None)
        body["command"] = command
    if not (body.get("command") or spec.get("command")):
        raise CommandError("--command: what the job runs is missing: give --command or --script-file")


def _set_framework(body: Body, framework: str | None) -> None:
    if framework is not None:
        body.pop("jobType", None)
        body["jobFramework"] = framework


def _set_fault_tolerance_args(body: Body, args: str | None) -> None:
    if args is not None:
        body.pop("faultToleranceConfig", None)
        body["faultToleranceArgs"] = args


def _quantities(given: Sequence[str]) -> dict[str, int]:
    quantities = {}
    for name, count in pairs("--gpu", given).items():
        if not (count.isascii() and count.isdigit()):
            raise CommandError(f"--gpu: {name}={count}: the count must be a whole number")
        quantities[name] = int(count)
    return quantities


def _merge(target: Body, field: str, names: tuple[str, str], given: Mapping[str, Any]) -> None:
    """A list of two-field objects in which what was given replaces what has the same key."""
    if not given:
        return
    key, value = names
    old = target.get(field) or []
    if not isinstance(old, list):
        raise CommandError(f"{field}: a list of {{{key}, {value}}} is wanted")
    kept = [part for part in old if not (isinstance(part, dict) and part.get(key) in given)]
    target[field] = [*kept, *({key: name, value: given[name]} for name in given)]


def _set_datasource(body: Body, flags: JobFlags) -> None:
    given = {
        "type": flags.ds_type,
        "name": flags.ds_name,
        "sourcePath": flags.ds_sourcepath,
        "mountPath": flags.ds_mountpath,
    }
    source = {name: value for name, value in given.items() if value is not None}
    if source:
        body["datasources"] = [source]


def alert_config(alerts: Sequence[str]) -> Body:
    """What `--alert` says as an alertConfig."""
    return {"rules": [_rule(text) for text in alerts]}


def _rule(text: str) -> Body:
    """`CHANNEL[:item,item…]` as one rule."""
    channel, _, items = text.partition(":")
    if not channel.strip():
        raise CommandError(f"--alert: {text} names no channel: write --alert CHANNEL:jobFT,jobFailed")
    rule: Body = {"channels": [channel.strip()]}
    chosen = [item.strip() for item in items.split(",") if item.strip()]
    return rule | ({"items": chosen} if chosen else {})

"""The flags of `job create` and `job check`: those of Baidu's `aihc job create` (CLI 1.6), and ours."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

BOOLEAN = "[=true|false]"


def _flag(*names: str, text: str, metavar: str | None = None) -> Any:
    return typer.Option(*names, help=text, metavar=metavar, show_default=False)


def _switch(name: str, text: str) -> Any:
    return _flag(name, text=text, metavar=BOOLEAN)


Text = str | None
Texts = list[str] | None


@dataclass(frozen=True, kw_only=True)
class JobFlags:
    """What was given; None means not given. Switches are texts: `--enable-rdma` and `--enable-rdma=false`."""

    job_file: Annotated[
        Text,
        _flag("--job-file", "-f", text="CreateJob body, JSON or YAML; flags win.", metavar="FILE"),
    ] = None
    pool: Annotated[Text, _flag("--pool", "-p", text="Resource pool [default: default].")] = None
    queue: Annotated[Text, _flag("--queue", "-q", text="Queue of the pool [default: default].")] = None
    name: Annotated[Text, _flag("--name", text="The job's name.")] = None
    priority: Annotated[Text, _flag("--priority", text="low, normal or high [default: normal].")] = None
    command: Annotated[Text, _flag("--command", text="What each pod runs.")] = None
    script_file: Annotated[
        Text,
        _flag("--script-file", text="A file with what each pod runs.", metavar="FILE"),
    ] = None
    image: Annotated[Text, _flag("--image", text="Container image.")] = None
    framework: Annotated[Text, _flag("--framework", text="PyTorchJob (default) or pytorch.")] = None
    replicas: Annotated[int | None, _flag("--replicas", text="Pods [default: 1].")] = None
    nproc_per_node: Annotated[
        int | None, _flag("--nproc-per-node", text="Training processes in each pod.")
    ] = None
    gpu: Annotated[Texts, _flag("--gpu", text="Accelerators per pod; repeatable.", metavar="NAME=COUNT")] = (
        None
    )
    label: Annotated[Texts, _flag("--label", text="A label; repeatable.", metavar="K=V")] = None
    env: Annotated[Texts, _flag("--env", text="An environment variable; repeatable.", metavar="K=V")] = None
    enable_fault_tolerance: Annotated[Text, _switch("--enable-fault-tolerance", "Fault tolerance.")] = None
    fault_tolerance_args: Annotated[
        Text, _flag("--fault-tolerance-args", text='One string, "--enable-hang-detection=true …".')
    ] = None
    ds_type: Annotated[Text, _flag("--ds-type", text="Data source: its type.")] = None
    ds_name: Annotated[Text, _flag("--ds-name", text="Data source: its name.")] = None
    ds_mountpath: Annotated[Text, _flag("--ds-mountpath", text="Data source: path in the pod.")] = None
    ds_sourcepath: Annotated[Text, _flag("--ds-sourcepath", text="Data source: path at the source.")] = None
    enable_rdma: Annotated[Text, _switch("--enable-rdma", "RDMA.")] = None
    enable_bccl: Annotated[Text, _switch("--enable-bccl", "BCCL.")] = None
    host_network: Annotated[Text, _switch("--host-network", "The host's network.")] = None
    privileged: Annotated[Text, _switch("--privileged", "Privileged pods.")] = None
    restart_policy: Annotated[
        Text, _flag("--restart-policy", text="Only Never goes with fault tolerance.")
    ] = None
    alert: Annotated[
        Texts, _flag("--alert", text="Who is told, and of what; repeatable.", metavar="CHANNEL[:item,item…]")
    ] = None

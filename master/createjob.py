"""The body of `POST /jobs`, Baidu's CreateJob form (CONTRACT 3): shapes and bounds."""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from master.unknownfields import Strict
from notifier.documents import Flag, Real, matching

MAX_COMMAND = 100_000  # one argument of execve takes 128 KiB
MAX_VALUE = 64_000
MAX_REPLICAS = 1024
MAX_NPROC = 1024
NAME = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _as_text(value: object) -> object:
    """YAML job files hold `value: 1` and `value: true` where a text is meant."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def _command(value: object) -> object:
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words) or not words:
        raise ValueError("give a text for the shell, or a list of words (texts) without one")
    if sum(len(word.encode(errors="replace")) for word in words) > MAX_COMMAND:
        raise ValueError(f"has more than {MAX_COMMAND} bytes; put the script into the image or a file")
    return value if isinstance(value, str) else tuple(words)


def _named(value: str) -> str:
    if not re.fullmatch(NAME, value):
        raise ValueError("give 1 to 63 of A-Z, a-z, 0-9, '.', '_', '-', with a letter or digit at both ends")
    return value


Text = Annotated[str, BeforeValidator(_as_text), Field(max_length=MAX_VALUE)]
Short = Annotated[str, BeforeValidator(_as_text), Field(max_length=253)]
Name = Annotated[str, AfterValidator(_named), WithJsonSchema({"type": "string", "pattern": f"^{NAME}$"})]
Command = Annotated[str | tuple[str, ...], BeforeValidator(_command)]


class Resource(Strict):
    name: Annotated[str, Field(min_length=1, max_length=253)]
    quantity: Annotated[Real, Field(ge=0, le=1e15)]


class Env(Strict):
    name: Annotated[
        str,
        *matching(
            r"^[A-Za-z_][A-Za-z0-9_.-]{0,252}$", "give letters, digits, '_', '.', '-', first a letter or '_'"
        ),
    ]
    value: Text = ""


class Label(Strict):
    key: Annotated[str, Field(min_length=1, max_length=253)]
    value: Short = ""


def _labels(labels: tuple[Label, ...]) -> tuple[Label, ...]:
    for label in labels:
        if any(other.key == label.key and other.value != label.value for other in labels):
            raise ValueError(f"{label.key[:63]} is given twice, with different values: give it once")
    return labels


class DataSourceUse(Strict):
    type: Annotated[str, Field(min_length=1, max_length=63)]
    name: Annotated[str, Field(max_length=253)] = ""
    source_path: Annotated[str, Field(max_length=4096)] = ""
    mount_path: Annotated[str, Field(max_length=4096)] = ""


class PodTemplate(Strict):
    """`jobSpec`. What the local runtime does not need is taken all the same, with a warning."""

    command: Command | None = None
    image: Annotated[str, Field(max_length=1024)] | None = None
    replicas: Annotated[int, Field(ge=1, le=MAX_REPLICAS, strict=True)] = 1
    nproc_per_node: Annotated[int, Field(ge=1, le=MAX_NPROC, strict=True)] | None = None
    resources: Annotated[tuple[Resource, ...], Field(max_length=64)] = ()
    envs: Annotated[tuple[Env, ...], Field(max_length=1000)] = ()
    enable_rdma: Annotated[Flag | None, Field(alias="enableRDMA")] = None
    enable_bccl: Annotated[Flag | None, Field(alias="enableBCCL")] = None
    host_network: Flag | None = None
    privileged: Flag | None = None
    restart_policy: Annotated[str, Field(max_length=63)] | None = None

    @property
    def policy(self) -> str:
        return self.restart_policy or "Never"


def _one_or_many(value: object) -> object:
    return [value] if isinstance(value, str) else value


class FaultToleranceConfig(Strict):
    enabled_hang_detection: Flag | None = None
    hang_detection_timeout_minutes: Real | None = None
    fault_tolerance_limit: Annotated[int, Field(strict=True)] | None = None
    custom_fault_tolerance_pattern: (
        Annotated[list[str], Field(max_length=1000), BeforeValidator(_one_or_many)] | None
    ) = None


class CreateJob(Strict):
    """The whole body."""

    name: Name
    resource_pool_id: Annotated[str, Field(max_length=253)] | None = None
    queue: Annotated[str, Field(min_length=1, max_length=253)] = "default"
    job_type: Annotated[str, Field(max_length=63)] | None = None
    job_framework: Annotated[str, Field(max_length=63)] | None = None
    command: Command | None = None
    job_spec: PodTemplate = PodTemplate()
    labels: Annotated[tuple[Label, ...], Field(max_length=64), AfterValidator(_labels)] = ()
    priority: Annotated[Literal["low", "normal", "high"], BeforeValidator(_lower)] = "normal"
    datasources: Annotated[tuple[DataSourceUse, ...], Field(max_length=64)] = ()
    fault_tolerance: Flag | None = None
    fault_tolerance_args: Annotated[str, Field(max_length=16_384)] | None = None
    fault_tolerance_config: FaultToleranceConfig | None = None
    alert_config: dict[str, Any] | None = None
    retention_period: Short | None = None
    enable_bccl: Flag | None = None
    tensorboard_config: dict[str, Any] | None = None

"""Which alerts of Prometheus speak of a node or of what is built into it, and of which node. Pure.

Where the names are from: node-mixin (prometheus/node_exporter, docs/node-mixin), kubernetes-mixin
(kubernetes-monitoring/kubernetes-mixin, alerts/kubelet.libsonnet), samber/awesome-prometheus-alerts,
NVIDIA/dcgm-exporter (metrics and labels), kubernetes/kube-state-metrics (label `node`).
"""

import re
from collections.abc import Collection, Iterator, Mapping

CHOICE = "faultcast"  # a label by which a rule's author decides: `node`, `alert`
NODE, ALERT = "node", "alert"
# The most telling first: an `instance` is often the address of whoever was scraped about the node.
NODE_LABELS = (
    "node",  # kube-state-metrics, kubernetes-mixin
    "kubernetes_node",  # relabelled service discovery, as many charts have it
    "Hostname",  # dcgm-exporter
    "nodename",  # node_exporter's node_uname_info
    "node_name",
    "hostname",
    "host",
    "exported_node",
    "exported_instance",
    "instance",  # node_exporter: host:port
)
_FAMILIES = re.compile(
    r"(Kube|Kubernetes)?Node[A-Z]"  # node-mixin, kubernetes-mixin: NodeRAIDDegraded, KubeNodeNotReady
    r"|Kubelet[A-Z]"  # kubernetes-mixin: KubeletTooManyPods, KubeletDown
    r"|Host[A-Z]"  # awesome-prometheus-alerts: HostEdacUncorrectableErrorsDetected
    r"|Smart[A-Z]"  # awesome-prometheus-alerts: SmartCriticalWarning
)
# Parts that only a node has, whatever the alert is called.
_PARTS = re.compile(
    r"gpu|dcgm|nvidia|nv_?link|nv_?switch|fabric_?manager|infini_?band|rdma|mlx5|nvme|edac|machine_?check",
    re.IGNORECASE,
)
_WORDS = frozenset({"xid", "sxid", "ecc", "ib", "roce", "hca", "nic", "pcie", "raid", "psu", "bmc", "ipmi"})
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def speaks_of_node(labels: Mapping[str, str]) -> bool:
    """By the author's own label, or else by the alert's name, or a GPU's serial among its labels."""
    choice = labels.get(CHOICE, "").strip().lower()
    if choice in {NODE, ALERT}:
        return choice == NODE
    name = labels.get("alertname", "")
    words = {word.lower() for word in _WORD.findall(name)}
    return bool(
        _FAMILIES.match(name)
        or _PARTS.search(name)
        or words & _WORDS
        or labels.get("UUID", "").startswith("GPU-")  # dcgm-exporter
    )


def names_in(labels: Mapping[str, str]) -> Iterator[str]:
    """What may be a node's name, the likeliest first: as given, without a port, without a domain."""
    for label in NODE_LABELS:
        given = labels.get(label, "").strip()
        if given:
            host = re.sub(r":\d{1,5}$", "", given)
            yield from dict.fromkeys((given, host, host.partition(".")[0]))


def node_of(labels: Mapping[str, str], known: Collection[str]) -> str | None:
    """The node that it speaks of, if there is such a node."""
    return next((name for name in names_in(labels) if name in known), None)

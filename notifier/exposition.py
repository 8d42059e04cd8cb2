"""All figures in Prometheus' text form.

Workers and server are processes of their own: with `PROMETHEUS_MULTIPROC_DIR` set (by `faultcast up`)
they count into shared files, and any of them can show the sum.
"""

import os
from collections.abc import Iterator
from wsgiref.simple_server import WSGIServer

from prometheus_client import REGISTRY, CollectorRegistry, generate_latest, start_http_server
from prometheus_client.core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from notifier import metrics
from notifier.gauges import Queue
from notifier.settings import SHARED_FIGURES
from notifier.storage import Store


def exposition(store: Store, *more: Collector, names: bool = False) -> bytes:
    """All figures in Prometheus' text form; with `names` also those that name channels."""
    ours = CollectorRegistry()
    for collector in (Queue(store), *more):
        ours.register(collector)
    ours.register(_Counted(names=names))
    return generate_latest(ours)


def serve(host: str, port: int) -> WSGIServer:
    """Shows what this process counted, at any path: for a worker without a server beside it.

    Raises:
        OSError: the address cannot be had.
    """
    shown = CollectorRegistry()
    shown.register(_Counted(names=False))
    server, _ = start_http_server(port, host, shown)
    return server


class _Counted(Collector):
    """What all processes of this installation, or this one alone, have counted."""

    def __init__(self, *, names: bool) -> None:
        self._names = names
        metrics.begin()

    def collect(self) -> Iterator[Metric]:
        source: CollectorRegistry | MultiProcessCollector = REGISTRY
        if os.environ.get(SHARED_FIGURES):
            source = MultiProcessCollector(CollectorRegistry())  # type: ignore[no-untyped-call]
        for family in source.collect():  # type: ignore[no-untyped-call, unused-ignore]
            if self._names or not family.name.startswith(metrics.NAMES_CHANNELS):
                yield family

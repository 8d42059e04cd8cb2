"""The faults that the demo injects into its live job: five of the kit's (master/inject)."""

from master.inject import find

FAULTS = tuple(
    find(name) for name in ("rank_killed", "rank_stopped", "rank_spins", "gpu_lost", "pod_deleted")
)

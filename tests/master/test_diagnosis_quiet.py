"""What diagnose() must stay calm about."""

import pytest

from master.casefile import Diagnosis
from tests.master.story import OFF_BUS, Story, steady, xid

CUDA_OOM = "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
LINK_DOWN = "[1.2] mlx5_core 0000:c1:00.0 ib0: Link down"
DEATH_SIGNAL = "WARNING: Received 15 death signal, shutting down workers"


def succeeded() -> Story:
    story = steady()
    for rank in (0, 1):
        story.exited(rank, 30, code=0).pod_exited(rank, 30.1, 0)
    return story


QUIET = {
    "training that steps": (steady(), 30.4),
    "success": (succeeded(), 90),
    "a process that ended well before its launcher did": (
        steady().idle().exited(1, 30, code=0).state(1, "gone"),
        45,
    ),
    "a zombie whose end is not told yet": (steady().idle().state(1, "Z"), 38),
    "one pod that ended well while the other trains": (
        steady().exited(1, 30, code=0).pod_exited(1, 30.1, 0),
        33,
    ),
    "an exception that the program handled": (
        steady().logged(0, 20, "[rank0]: ValueError: bad sample, skipped"),
        40,
    ),
    "GPU memory that the program handled": (steady().logged(1, 20, CUDA_OOM), 34),
    "a row remapped by the GPU": (steady().kernel("node-a", 29, xid(63, "Row Remapper")), 34),
    "the clean-up Xid 45": (steady().kernel("node-a", 29, xid(45, "Ch 00000010")), 34),
    "an application's Xid 31 that nobody felt": (steady().kernel("node-a", 29, xid(31, "MMU Fault")), 34),
    "a link that went down and hurt nobody": (steady().kernel("node-a", 20, LINK_DOWN), 31),
    "an Xid of a node that is not ours": (steady().kernel("node-z", 29, OFF_BUS), 34),
    "a start that takes long without a line": (Story().idle(), 14 * 60),
    "a stop signal that nobody died of": (steady().logged(0, 29, DEATH_SIGNAL), 31),
    "state D for a moment": (steady().idle().state(0, "D"), 40),
    "a stopped rank that steps": (steady().state(1, "T", cpu=True), 34),
    "silence of an agent while its pod lives": (steady(), 31),
}


@pytest.mark.parametrize(("story", "when"), QUIET.values(), ids=QUIET.keys())
def test_no_fault_is_called(story: Story, when: float) -> None:
    assert not isinstance(story.judged(when), Diagnosis)

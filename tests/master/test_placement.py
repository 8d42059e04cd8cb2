"""On which nodes the pods of a run go."""

import pytest

from master.placement import place

THREE = ("node-1", "node-2", "node-3")


@pytest.mark.parametrize(
    ("count", "ready", "busy", "preferred", "expected"),
    [
        pytest.param(2, THREE, (), (), ["node-1", "node-2"], id="spread"),
        pytest.param(4, THREE, (), (), ["node-1", "node-2", "node-3", "node-1"], id="more pods than nodes"),
        pytest.param(2, THREE, ("node-1", "node-1", "node-2"), (), ["node-3", "node-2"], id="least loaded"),
        pytest.param(2, ("node-2",), (), (), ["node-2", "node-2"], id="one node left"),
        pytest.param(2, (), (), (), [], id="no node"),
        pytest.param(2, THREE, (), ("node-3", "node-1"), ["node-3", "node-1"], id="those of the run before"),
        pytest.param(
            2, ("node-1", "node-2"), (), ("node-3", "node-2"), ["node-1", "node-2"], id="one is isolated"
        ),
        pytest.param(1, THREE, ("node-9", "node-9"), (), ["node-1"], id="pods on nodes that are gone"),
    ],
)
def test_place(count: int, ready: tuple, busy: tuple, preferred: tuple, expected: list[str]) -> None:
    assert place(count, ready, busy=busy, preferred=preferred) == expected

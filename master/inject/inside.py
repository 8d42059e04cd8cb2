"""Faults that the training script plays along with: a file beside its progress file asks for one.

The script looks for `inject.<rank>` in the folder of FAULTCAST_PROGRESS between two steps, takes it away and
does what it says: `{"fault": "rank_spins", "seconds": 20}`. The bundled `master/demo/train.py` does so.
"""

import json
import os
import time

from master.cli.errors import FAILED, CommandError
from master.inject.ground import Scene
from master.inject.outside import Strike, done, rank_of
from master.inject.wish import Done, Wish

TAKEN_WITHIN_S = 10.0
_LOOK_EVERY_S = 0.02


def asking(name: str, *, seconds: float | None = None, rank: int | None = None) -> Strike:
    """Asks the script of a rank for a fault; `seconds` and `rank` where the wish names none."""

    def strike(scene: Scene, wish: Wish) -> Done:
        struck = rank if wish.rank is None and rank is not None else rank_of(scene, wish)
        lasting = seconds if wish.seconds is None else wish.seconds
        _ask(scene, struck, {"fault": name, "seconds": lasting})
        return done(scene, struck, "its script took the request")

    return strike


def _ask(scene: Scene, rank: int, request: dict[str, object]) -> None:
    scene.process(rank)  # it is ours and lives
    path = scene.pod_of(rank).folder / f"inject.{rank}"
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(request), encoding="ascii")
    draft.replace(path)
    deadline = time.monotonic() + TAKEN_WITHIN_S
    while path.exists():
        if time.monotonic() > deadline:
            path.unlink(missing_ok=True)
            raise CommandError(
                f"rank {rank}: nobody took {request['fault']} within {TAKEN_WITHIN_S:.0f} s: it needs a "
                "training script that looks for it between two steps, such as master/demo/train.py",
                FAILED,
            )
        time.sleep(_LOOK_EVERY_S)

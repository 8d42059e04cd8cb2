"""Which numbers in a log are steps of training, and when they are progress."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.progress import _last_number
from agent.steps import BAR, BATCH, GLOBAL, STEP, Mark, Rhythm, find


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("step 120", Mark(STEP, 120, None), id="bare"),
        pytest.param("step=120, loss=2.3", Mark(STEP, 120, None), id="equals"),
        pytest.param('{"step": 120, "loss": 2.3}', Mark(STEP, 120, None), id="json"),
        pytest.param("{'loss': 2.3, 'step': 120, 'epoch': 0.5}", Mark(STEP, 120, None), id="python-dict"),
        pytest.param(
            " iteration     9118/  200000 | consumed samples: 4668 | elapsed time per iteration (ms): 40.1",
            Mark(STEP, 9118, None),
            id="megatron",
        ),
        pytest.param("[Epoch 1] lr 0.1 step: 33", Mark(STEP, 33, 1), id="epoch-and-step"),
        pytest.param("iter 120: loss 2.31, time 3ms", Mark(STEP, 120, None), id="nanogpt"),
        pytest.param("steps: 10 loss: 1.2 iter time (s): 0.4", Mark(STEP, 10, None), id="deepspeed"),
        pytest.param("[train] step 12/100 loss 3.0", Mark(STEP, 12, None), id="of-many"),
        pytest.param("Iter(train) [  50/1000]  lr: 1e-3", Mark(STEP, 50, None), id="mmengine"),
        pytest.param("epoch 2 global_step=700 step=3", Mark(GLOBAL, 700, 2), id="global-first"),
        pytest.param("Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.3", Mark(BATCH, 640, 1), id="mnist"),
        pytest.param("Epoch: [0][  10/5005]\tTime 0.1", Mark(BATCH, 10, 0), id="imagenet"),
        pytest.param("batch 7 of 90", Mark(BATCH, 7, None), id="batch-of"),
        pytest.param(" 12%|█▏     | 120/1000 [00:12<01:30, 9.7it/s]", Mark(BAR, 120, None), id="tqdm"),
        pytest.param("Epoch 3:  12%|█▏  | 120/1000 [00:12<00:1", Mark(BAR, 120, 3), id="lightning"),
        pytest.param("saved checkpoint at step 100", Mark(STEP, 100, None), id="checkpoint"),
        pytest.param("max_steps=1000", None, id="a-setting"),
        pytest.param("total steps: 1000", None, id="a-total"),
        pytest.param("warmup steps: 100", None, id="warm-up"),
        pytest.param("gradient accumulation steps: 4", None, id="accumulation"),
        pytest.param("step time 0.52 s", None, id="a-duration"),
        pytest.param("step 0.52", None, id="a-fraction"),
        pytest.param("resuming from step 100", None, id="resuming"),
        pytest.param("loaded checkpoint of iteration 100", None, id="loading"),
        pytest.param("[eval] step 33 loss 2", None, id="evaluation"),
        pytest.param("Validation DataLoader 0:  50%|█████  | 5/10 [00:01<00:01", None, id="validation-bar"),
        pytest.param("Loading checkpoint shards: 50%|█ | 1/2 [00:01<00:01", None, id="loading-bar"),
        pytest.param("number of skipped iterations:   0", None, id="skipped"),
        pytest.param("global batch size: 512", None, id="batch-size"),
        pytest.param("epochs=3 batch=32 lr=0.1", None, id="options"),
        pytest.param("saved 3/7 shards", None, id="other-fractions"),
        pytest.param("", None, id="empty"),
    ],
)
def test_reading_a_line(line: str, expected: Mark | None) -> None:
    assert find(line) == expected


@given(st.text(max_size=200))
def test_no_line_breaks_the_reading(line: str) -> None:
    mark = find(line)
    assert mark is None or mark.step >= 0


def progress(*steps: int, form: int = STEP, every_s: float = 1.0) -> list[int | None]:
    """The steps reported after each of these, None where there was no progress."""
    rhythm = Rhythm()
    return [
        rhythm.step if rhythm.note(Mark(form, step, None), at * every_s) else None
        for at, step in enumerate(steps)
    ]


def test_only_growing_numbers_are_progress() -> None:
    assert progress(5, 6, 6, 4, 7) == [5, 6, None, None, 7]


def test_epochs_that_count_from_the_start_again_go_on() -> None:
    assert progress(100, 200, 300, 1, 2, 3, 4) == [100, 200, 300, None, None, 303, 304]


def test_a_slower_ranks_lines_are_no_new_epoch() -> None:
    assert progress(100, 99, 101, 100, 102, 101) == [100, None, 101, None, 102, None]


def test_a_named_epoch_starts_anew_at_once() -> None:
    rhythm = Rhythm()
    marks = [Mark(STEP, 9, 1), Mark(STEP, 1, 2), Mark(STEP, 2, 2)]
    assert [rhythm.note(mark, at) for at, mark in enumerate(marks)] == [True, True, True]
    assert rhythm.step == 11


def test_the_more_trusted_form_wins_while_it_moves() -> None:
    rhythm = Rhythm()
    assert rhythm.note(Mark(BAR, 640, None), 0)
    assert rhythm.note(Mark(STEP, 10, None), 1)
    assert not rhythm.note(Mark(BAR, 1280, None), 2)
    assert rhythm.step == 10
    assert rhythm.note(Mark(BAR, 1920, None), 500)  # the other has stood still for long


def test_the_rate_is_of_late() -> None:
    rhythm = Rhythm()
    for at in range(100):
        rhythm.note(Mark(STEP, at if at < 50 else 50 + (at - 50) * 10, None), float(at))
    assert rhythm.rate() == 10.0


@given(st.lists(st.integers(0, 1000), max_size=60))
def test_what_is_reported_grows(steps: list[int]) -> None:
    told = [step for step in progress(*steps) if step is not None]
    assert told == sorted(set(told))


def test_a_progress_file_with_digits_of_another_kind_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "progress"
    path.write_text("41\n²\n", encoding="utf-8")
    assert _last_number(path) == 41

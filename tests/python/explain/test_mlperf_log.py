"""A prediction against results of MLPerf Training: the times that were drawn come back."""

from __future__ import annotations

import random
import statistics
from pathlib import Path

import made_mllog as made
import pytest
from thorough import usually

import armillary as arm
from armillary import training_log
from armillary.errors import InputError

BATCH = 8


@pytest.mark.parametrize("seed", range(usually(15, 300)))
def test_drawn_results_come_back(seed: int, tmp_path: Path) -> None:
    """Blocks, evaluations with parts of an epoch, or times of steps. Times are whole ms there."""
    chance = random.Random(seed)
    write = chance.choice((made.blocks, made.evaluations, made.timings))
    drawn = [chance.uniform(0.3, 20.0) for _ in range(chance.randint(2, 20))]
    batch = chance.choice((1, 8, 768, 55296))
    path = tmp_path / "result_0.txt"
    path.write_text("Loading\n" + write(drawn, batch), encoding="utf-8")
    assert training_log.is_log(path)
    log = training_log.read(path)
    assert log.framework == "MLPerf Training"
    assert [each.time_s for each in log.steps] == pytest.approx(drawn, rel=1e-4)
    assert {each.batch for each in log.steps} == {batch}
    assert log.median_s() == pytest.approx(statistics.median(drawn[1:]), rel=1e-4)
    said = [note for note in log.notes if "mean of the steps of a block" in note]
    assert bool(said) == (write is not made.timings)


REAL = """\
:::MLLOG {"namespace": "", "time_ms": 1715848254167, "event_type": "POINT_IN_TIME", "key": \
"global_batch_size", "value": 8, "metadata": {"file": "/workspace/x.py", "lineno": 215}}
:::MLLOG {"namespace": "", "time_ms": 1715848320425, "event_type": "INTERVAL_START", "key": \
"block_start", "value": null, "metadata": {"file": "/workspace/x.py", "lineno": 146, \
"samples_count": 0}}
:::MLLOG {"namespace": "", "time_ms": 1715849118295, "event_type": "INTERVAL_END", "key": \
"block_stop", "value": null, "metadata": {"file": "/workspace/x.py", "lineno": 112, \
"samples_count": 1536}}
:::MLLOG {"namespace": "", "time_ms": 1715849156597, "event_type": "INTERVAL_START", "key": \
"block_start", "value": null, "metadata": {"file": "/workspace/x.py", "lineno": 129, \
"samples_count": 1536}}
:::MLLOG {"namespace": "", "time_ms": 1715849352664, "event_type": "INTERVAL_END", "key": \
"block_stop", "value": null, "metadata": {"file": "/workspace/x.py", "lineno": 112, \
"samples_count": 1920}}
"""


def test_a_published_result_agrees_with_its_throughput(tmp_path: Path) -> None:
    """Lines of ASUSTeK, ESC_N8A-E12, llama2_70b_lora, result_0.txt (MLPerf Training v4.0). Its
    throughput is 1.958973805780254 samples a second in the second block."""
    path = tmp_path / "result_0.txt"
    path.write_text(REAL, encoding="utf-8")
    [first, second] = training_log.read(path).steps
    assert second.time_s == pytest.approx(8 / 1.958973805780254, rel=1e-3)
    assert first.time_s == pytest.approx(797.870 / 192)


def test_it_stands_next_to_a_prediction(tmp_path: Path) -> None:
    predicted = arm.simulate("llama-3-8b", "dgx-h100", tp=8, sp=True, global_batch=BATCH)
    step = predicted.step_time_ns / 1e9
    path = tmp_path / "result_1.txt"
    path.write_text(made.blocks([9.0, *[1.2 * step] * 8], BATCH), encoding="utf-8")
    found = arm.compare(predicted, path).data
    [row] = found["measured"]
    assert (row["framework"], row["steps"]) == ("MLPerf Training", 8)
    assert row["ratio"] == pytest.approx(1.2, rel=1e-3)
    assert any("mean of the steps of a block: 50 to 50 steps" in each for each in found["warnings"])
    path.write_text(made.blocks([9.0, *[1.2 * step] * 8], 16), encoding="utf-8")
    with pytest.raises(InputError, match="its steps have 16 samples, the predicted one 8"):
        arm.compare(predicted, path)


GOOD = made.blocks([1.0, 2.0], 8)
TIMED = made.timings([1.0, 2.0], 8)
BATCHED = made.line("global_batch_size", 10, 8)
BERT = (
    BATCHED + made.line("run_start", 20)
    + made.line("eval_stop", 30, 150407, epoch_num=150407)
    + made.line("eval_start", 90, 300607, epoch_num=300607)
    + made.line("train_samples", 99, 1950366)
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GOOD.replace(BATCHED, ""), "global_batch_size is not in the log"),
        (GOOD.replace(BATCHED, made.line("global_batch_size", 10, 2.5)), "not a whole number"),
        (GOOD.replace(BATCHED, made.line("global_batch_size", 10, "8")), "is not in the log"),
        (GOOD.replace(BATCHED, made.line("global_batch_size", 10, -8)), "is not in the log"),
        (GOOD + made.line("global_batch_size", 10, 16), "has a second global_batch_size"),
        (GOOD + GOOD, "begins a second run"),
        (GOOD.replace('"time_ms": 1000,', '"time_ms": "x",', 1), "has no key, or no time_ms"),
        (GOOD.replace('"time_ms": 1000,', '"time_ms": 1e300,', 1), "has no key, or no time_ms"),
        (GOOD.replace('"time_ms": 1000,', "", 1), "has no key, or no time_ms"),
        (GOOD.replace('"namespace": "",', '"namespace" "",', 1), "is not a whole line"),
        (":::MLLOG {" + "[" * 5000 + "}", "is not a whole line"),
        (BATCHED, "does not say when how many samples were trained"),
        (GOOD.replace("samples_count", "samples"), "does not say when how many samples"),
        (GOOD.replace('"samples_count": ', '"samples_count": -'), "does not say when how many"),
        (BERT, "does not say when how many samples were trained"),
        (TIMED.replace('timing": 1.0', 'timing": 0'), "a train_step_timing that is not a time"),
        (TIMED.replace('timing": 1.0', 'timing": NaN'), "a train_step_timing that is not a time"),
        (TIMED.replace('timing": 1.0', 'timing": 1e9'), "a step of 1e+09 s"),
        (TIMED.replace('timing": 1.0', f'timing": 1{"0" * 400}'), "that is not a time"),
    ],
)
def test_other_results_are_refused(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "result_0.txt"
    path.write_text(text, encoding="utf-8")
    assert training_log.is_log(path)
    with pytest.raises(InputError) as error:
        training_log.read(path)
    [problem] = error.value.problems
    assert said in f"{problem.place} {problem.message}"
    assert problem.help


def test_an_aborted_run_says_so(tmp_path: Path) -> None:
    path = tmp_path / "result_0.txt"
    path.write_text(GOOD.replace('"success"', '"aborted"'), encoding="utf-8")
    assert "the run was aborted" in training_log.read(path).notes

"""A prediction against logs of training: the numbers that were drawn come back."""

from __future__ import annotations

import json
import random
import statistics
from pathlib import Path

import pytest
from conftest import Armillary
from thorough import usually

import armillary as arm
from armillary import training_log
from armillary.errors import InputError

BATCH, DEVICES, SEQUENCE = 16, 8, 8192
TOKENS = BATCH * SEQUENCE / DEVICES


@pytest.fixture(scope="module")
def predicted() -> arm.Result:
    return arm.simulate("llama-3-8b", "dgx-h100", tp=8, sp=True, global_batch=BATCH)


def megatron(times: list[float], chance: random.Random) -> str:
    """Lines that Megatron-LM prints every few iterations, with others between them."""
    every = chance.choice((1, 10, 100))
    return "".join(
        f" [2026-11-30 12:00:{at:02d}] iteration {every * (at + 1):8d}/    5000 | consumed "
        f"samples: {BATCH * at:12d} | elapsed time per iteration (ms): {1e3 * each:.1f} | learning "
        f"rate: 1.0E-05 | global batch size: {BATCH:5d} | lm loss: 1.0E+01 |\n"
        f"time (ms) | forward-compute: {each:.2f}\n"
        for at, each in enumerate(times)
    )


def nemo(times: list[float], _: random.Random) -> str:
    """A progress bar, which returns to the beginning of its line."""
    return "".join(f"Epoch 0: 1/9 [00:08, train_step_timing in s={each:.4f}]\r" for each in times)


def titan(times: list[float], chance: random.Random) -> str:
    """Lines of all ranks, in colours or not, and of a validation."""
    red, blue, plain = ("\x1b[31m", "\x1b[34m", "\x1b[0m") if chance.random() < 0.5 else ("",) * 3
    lines = []
    for at, each in enumerate(times):
        step = f"{red}step: {10 * at + 1:2}  loss: 11.2  memory: 71.5GiB(90.1%)"
        lines += [
            f"[rank{rank}]:[titan] {step}  {blue}tps: {round(TOKENS / each):,}  tflops: 1.0{plain}"
            for rank in range(2)
        ]
        lines.append(f"[rank0]:[titan] validate {step}  tps: 9,999")
    return "\n".join(lines)


@pytest.mark.parametrize("seed", range(usually(12, 300)))
def test_drawn_logs_are_read(seed: int, predicted: arm.Result, tmp_path: Path) -> None:
    """All but the first of a log; the median and the deciles by Python's own functions."""
    chance = random.Random(seed)
    write = chance.choice((megatron, nemo, titan))
    drawn = [chance.uniform(0.05, 60.0) for _ in range(chance.randrange(1, 30))]
    path = tmp_path / "train.log"
    path.write_text("Lightning 2.4\n" + write(drawn, chance), encoding="utf-8")
    times = drawn[1:] or drawn
    rough = {megatron: 1e-3, nemo: 1e-3, titan: 1e-2}[write]
    found = arm.compare(predicted, path).data
    [row] = found["measured"]
    assert row["steps"] == len(times)
    assert row["step_ns"] == pytest.approx(1e9 * statistics.median(times), rel=rough)
    assert row["slowest_ns"] == pytest.approx(1e9 * max(times), rel=rough)
    assert row["ratio"] == pytest.approx(row["step_ns"] / predicted.step_time_ns)
    assert row["tokens_per_s"] == pytest.approx(BATCH * SEQUENCE / row["step_ns"] * 1e9)
    if len(times) > 1:
        deciles = statistics.quantiles(times, n=10, method="inclusive")
        ends = [row["low_ns"] / 1e9, row["high_ns"] / 1e9]
        assert ends == pytest.approx([deciles[0], deciles[-1]], rel=rough)
    interval = found["predicted"]["interval"]
    within = interval["low_ns"] <= row["step_ns"] <= interval["high_ns"]
    assert row["within_interval"] == within
    assert any("the spread says little" in each for each in found["warnings"]) == (len(times) <= 5)


def test_words_json_and_page_say_the_same(
    predicted: arm.Result, armillary: Armillary, tmp_path: Path
) -> None:
    """A step of 1.1 times the predicted one."""
    (tmp_path / "p.json").write_text(predicted.to_json(), encoding="utf-8")
    step = 1.1 * predicted.step_time_ns / 1e9
    (tmp_path / "train.log").write_text(megatron([9.0] + [step] * 9, random.Random(0)), "utf-8")
    run = armillary("compare", "p.json", "train.log", "--json", "m.json", "--report", "m.html")
    assert run.returncode == 0, run.stderr
    assert "The measured step takes 10.0 % longer than predicted, within" in run.stdout
    found = json.loads((tmp_path / "m.json").read_text(encoding="utf-8"))
    assert found["schema"] == "armillary.measured-step/1"
    assert found["measured"][0]["ratio"] == pytest.approx(1.1, rel=1e-3)
    assert "10.0 % longer" in (tmp_path / "m.html").read_text(encoding="utf-8")


def test_steps_of_another_batch_are_left_out(predicted: arm.Result, tmp_path: Path) -> None:
    """A ramp of the batch, as Megatron-LM has it."""
    line = "iteration {}/ 9 | elapsed time per iteration (ms): {} | global batch size: {} |\n"
    rows = [(1, 9000, 8), (2, 1500, 8), (3, 3000, 16), (4, 3100, 16)]
    path = tmp_path / "train.log"
    path.write_text("".join(line.format(*row) for row in rows), encoding="utf-8")
    found = arm.compare(predicted, path).data
    assert found["measured"][0]["step_ns"] == 3.05e9
    assert any("1 step of another batch is left out" in each for each in found["warnings"])


LINE = "elapsed time per iteration (ms): 1000.0 | global batch size: 32 |\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is neither a result nor a log"),
        ("iteration 1/2 | loss: 3\n", "is neither a result nor a log"),
        ("elapsed time per iteration (ms): nan\n", "is neither a result nor a log"),
        ("validate step: 3  loss: 2.0  tps: 7,000\n", "is neither a result nor a log"),
        (LINE * 3, "its steps have 32 samples, the predicted one 16"),
        ("elapsed time per iteration (ms): 0.0\n" * 2, "a step of 0 s"),
        ("elapsed time per iteration (ms): 1e30\n" * 2, "a step of 1e+27 s"),
        ("step: 7  loss: 1.0  tps: 0\n", "step 7: a step of 0 s"),
        ("train_step_timing in s: 0\n", "a step of 0 s"),
        ("\x80 train_step_timing in s: 2\n", "is not UTF-8"),
    ],
)
def test_other_files_are_refused(
    text: str, said: str, predicted: arm.Result, tmp_path: Path
) -> None:
    """Each with a way out."""
    path = tmp_path / "train.log"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError) as error:
        arm.compare(predicted, path)
    assert said in str(error.value), str(error.value)
    assert all(problem.help for problem in error.value.problems)


def test_logs_do_not_stand_next_to_results(predicted: arm.Result, tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(LINE, encoding="utf-8")
    with pytest.raises(InputError, match="logs next to other files"):
        arm.compare(predicted, predicted, path)


def test_a_rate_is_no_time_without_the_tokens_of_a_step(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("step: 7  loss: 1.0  tps: 7,000\n", encoding="utf-8")
    with pytest.raises(InputError, match="the tokens of a step are not known"):
        training_log.read(path)
    assert training_log.read(path, 14_000).median_s() == 2.0

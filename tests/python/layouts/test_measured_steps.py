"""Searches after steps of the job were measured, and files of such steps."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from armillary.errors import InputError
from armillary.layouts import MeasuredStep, search
from armillary.layouts.measured_file import read_steps
from armillary.layouts.page import page
from armillary.layouts.result import LayoutPlan
from armillary.layouts.run import plan_layouts
from armillary.layouts.search import Search
from armillary.model.files import load_model

_JOB: dict[str, Any] = {
    "global_batch": 32,
    "seq": 2048,
    "layout": {"tp": (1, 2), "pp": (1, 2), "zero": (1,)},
}
_ARGS = """--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --group-query-attention
--num-query-groups 8 --ffn-hidden-size 14336 --seq-length 2048 --max-position-embeddings 8192
--normalization RMSNorm --swiglu --position-embedding-type rope --disable-bias-linear
--untie-embeddings-and-output-weights --vocab-size 128256 --make-vocab-size-divisible-by 1
--rotary-base 500000 --bf16 --micro-batch-size 1 --global-batch-size 32
--tensor-model-parallel-size 2 --use-distributed-optimizer --nproc-per-node 8 --nnodes 2
--attention-dropout 0 --hidden-dropout 0 --transformer-impl transformer_engine
"""
_LOG = (
    " [2026-11-30] iteration        1/ 100 | elapsed time per iteration (ms): 9000.0 | x\n"
    " [2026-11-30] iteration        2/ 100 | elapsed time per iteration (ms): 1500.0 | x\n"
    " [2026-11-30] iteration        3/ 100 | elapsed time per iteration (ms): 1700.0 | x\n"
    " [2026-11-30] iteration        4/ 100 | elapsed time per iteration (ms): 1600.0 | x\n"
)


def test_a_measured_step_recentres_and_reorders() -> None:
    """Steps that take twice the simulated time make all others longer, by less. A layout that is
    measured to be fast comes first."""
    plain = search("llama-3-8b", "dgx-h100-16n", 16, **_JOB)
    third = plain.best[2]
    stopped = Search.after(cast("Search", SimpleNamespace(late=lambda work: None)), plain, [])
    assert stopped.best == plain.best and stopped.stopped
    assert stopped.warnings[-1].startswith("the search was stopped before measured steps")

    def measured(factor: float) -> LayoutPlan:
        step = MeasuredStep(third.options, factor * third.step_ns / 1e9)
        return search("llama-3-8b", "dgx-h100-16n", 16, measured=[step], **_JOB)

    slow = measured(2.0)
    assert [each.measured_ns for each in slow.measured] == pytest.approx([2 * third.step_ns])
    assert slow.measured[0].simulated_ns == third.step_ns
    others = [each for each in slow.best if each.options != third.options]
    for each in others:
        assert each.expected_ns is not None and each.low_ns is not None
        assert each.high_ns is not None
        assert each.step_ns < each.expected_ns < 2 * each.step_ns
        assert each.low_ns < each.expected_ns < each.high_ns
    assert slow.moved and slow.best[-1].options == third.options
    assert [each.step_ns for each in others] == sorted(each.step_ns for each in others)
    fast = measured(0.5)
    assert fast.winner.options == third.options
    assert fast.winner.expected_ns == fast.winner.low_ns == pytest.approx(third.step_ns / 2)
    made = page({"version": "", **fast.to_dict()})
    assert "Its step was measured" in (made.verdict or "")
    assert "the fastest simulated step" in (made.verdict or "")


def test_a_file_of_steps(tmp_path: Path) -> None:
    """Options, or launch flags; seconds, or the median of a log without its first step."""
    (tmp_path / "args.sh").write_text(
        "torchrun pretrain_gpt.py " + _ARGS.replace("\n", " "), encoding="utf-8"
    )
    (tmp_path / "train.log").write_text(_LOG, encoding="utf-8")
    file = tmp_path / "steps.yml"
    file.write_text(
        "steps:\n- {layout: {tp: 2, dp: 8}, step: 1.5 s}\n- {launch: args.sh, log: train.log}\n",
        encoding="utf-8",
    )
    one, two = read_steps(file, load_model("llama-3-8b"), 16)
    assert (one.options, one.step_s) == ({"tp": 2, "dp": 8}, 1.5)
    assert two.step_s == pytest.approx(1.6)
    assert two.options["tp"] == 2 and two.options["framework"] == "megatron-lm"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "steps"),
        ("steps: []", "1 to 16 steps"),
        ("steps: 3", "1 to 16 steps"),
        ("step: 3", "step"),
        ("steps: [{step: 3 s}]", "needs either layout or launch"),
        ("steps: [{layout: {}, launch: x, step: 3 s}]", "needs either layout or launch"),
        ("steps: [{layout: {tp: 2}}]", "needs either step or log"),
        ("steps: [{layout: {tp: 2}, step: 3 s, log: x}]", "needs either step or log"),
        ("steps: [{layout: {tp: 2}, step: 3}]", "3"),
        ("steps: [{layout: {tp: 2}, step: -3 s}]", "-3 s"),
        ("steps: [{layout: {tp: 2}, step: 9000000 s}]", "a step of 9e+06 s"),
        ("steps: [{layout: [tp], step: 3 s}]", "not a mapping"),
        ("steps: [{layout: {tp: 2}, log: nothing.log}]", "nothing.log"),
        ("steps: [{layout: {tp: 2}, log: steps.yml}]", "states no time of a step"),
        ("steps: [{launch: nothing.sh, step: 3 s}]", "nothing.sh"),
        ("steps: [{launch: steps.yml, step: 3 s}]", "has the words of no known format"),
        ("steps: [{layout: {tp: 2}, step: 3 s, speed: 3}]", "speed"),
    ],
)
def test_wrong_files_are_refused(text: str, said: str, tmp_path: Path) -> None:
    """Each is an error that names the value."""
    file = tmp_path / "steps.yml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as error:
        read_steps(file, load_model("llama-3-8b"), 16)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tp": 2, "dp": 4}, "8, but layouts are planned for 16"),
        ({"tp": 2, "dp": 8, "global_batch": 64}, "64, but layouts are planned for 32"),
        ({"tp": 2, "dp": 8, "seq": 4096}, "4096, but layouts are planned for 2048"),
        ({"tp": 3, "dp": 5}, "tp"),
        ({"tpp": 2, "dp": 8}, "tpp"),
    ],
)
def test_steps_of_other_jobs_are_refused(options: dict[str, object], said: str) -> None:
    """Other ranks, batches, lengths, and layouts that are none."""
    with pytest.raises(InputError) as error:
        search(
            "llama-3-8b",
            "dgx-h100-16n",
            16,
            measured=[MeasuredStep(options, 3.0, "steps.yml: steps[0]")],
            **_JOB,
        )
    assert said in str(error.value)


def test_steps_of_one_machine_say_nothing_of_several() -> None:
    """Several numbers of ranks are refused."""
    step = MeasuredStep({"tp": 2, "dp": 8}, 3.0)
    with pytest.raises(InputError, match="several machines"):
        plan_layouts("llama-3-8b", "dgx-h100-16n", (16, 32), measured=[step])

"""Predicted steps against measured ones, on the runs that are quick to predict; bounds are
claims about ours. `python -m armillary_lab.pages.accuracy --check v2` predicts all runs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import yaml
from thorough import usually

from armillary import Platform
from armillary.platform import presets
from armillary_lab.measured.training import Training, trainings
from armillary_lab.predict.training_steps import TimePrediction, predict
from armillary_lab.score import training_steps


def predicted(
    group: str, where: Callable[[Training], bool] = lambda run: True, most: int = usually(12, 24)
) -> list[TimePrediction]:
    """Predictions of about `most` runs of a group, evenly drawn from its list."""
    runs = [run for run in trainings() if run.group == group and where(run)]
    found = (predict(run) for run in runs[:: max(1, round(len(runs) / most))])
    return [each for each in found if each is not None]


def median(found: Sequence[TimePrediction]) -> float:
    return training_steps.percent(statistics.median(abs(each.log) for each in found))


@pytest.mark.parametrize(
    ("group", "where", "bound"),
    [
        ("vtrain_single", lambda run: True, 12),
        ("mosaic_llmfoundry", lambda run: True, 7),
        ("internevo", lambda run: run.gpus <= 128, 8),
        ("simumax_b200", lambda run: run.global_batch <= 64, 8),
        ("nanotron_h100", lambda run: run.nodes == 1, 5),
        ("nanotron_h100", lambda run: 2 <= run.nodes <= 16, 8),
        ("nanotron_h100", lambda run: run.nodes == 64, 10),
        ("megatron_sc21", lambda run: run.pp <= 4, 5),
        ("megatron_seqsel_a100", lambda run: run.pp <= 8, 12),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_median_error(group: str, where: Callable[[Training], bool], bound: float) -> None:
    found = predicted(group, where)
    print(f"{group}: {len(found)} runs, median error {median(found):.1f} %, bound {bound} %")
    assert found
    assert median(found) < bound


def test_configurations_of_one_node_are_ranked() -> None:
    """vTrain's 12 layers of 2,048 on 8 A100, whatever the batch."""
    found = predicted(
        "vtrain_single", lambda run: run.model.name == "gpt-12x2048" and run.gpus == 8, 1000
    )
    assert len(found) > 20
    assert training_steps.agreement(found) > 0.95
    assert training_steps.lost(found) <= training_steps.BEST


def _made(ours: float, measured: float, room: bool = True) -> TimePrediction:
    return TimePrediction(trainings()[0], ours, measured, room)


def test_rank_correlation_by_hand() -> None:
    """Ranks 1, 2, 3 against 1, 3, 2: 1 - 6 (0 + 1 + 1) / (3 * 8) = 0.5; equal values share their
    mean rank."""
    assert training_steps.agreement([_made(1, 1), _made(2, 9), _made(3, 5)]) == pytest.approx(0.5)
    assert training_steps.agreement([_made(1, 1), _made(1, 1), _made(3, 5)]) == pytest.approx(1)
    assert training_steps.agreement([_made(2, 1), _made(2, 3), _made(2, 5)]) == 0


def test_what_our_best_loses() -> None:
    runs = [_made(1, 12, room=False), _made(2, 11), _made(3, 10)]
    assert training_steps.lost(runs) == pytest.approx(10)  # the first leaves no room in memory
    assert training_steps.percent(math.log(0.5)) == pytest.approx(100)


def test_only_runs_that_are_said_to_be_blocked_change_without_it() -> None:
    """Two stages of 4 micro-batches: each host sends and receives one message a micro-batch, one
    after the other."""
    names = (
        "nanotron_3B_n512_dp64_pp2_tp4_mbs1_ga4_z1",
        "nanotron_3B_n16_dp8_pp2_tp1_mbs1_ga32_z1",
    )
    runs = [predict(run) for name in names for run in trainings() if run.name == name]
    blocked, free = (each for each in runs if each is not None)
    quiet, same = training_steps._unblocked([blocked, free], "analytical")
    assert blocked.ours - quiet.ours > 4 * 2 * 0.29
    assert same == free


def test_rows_say_what_holds() -> None:
    rows = list(
        training_steps._errors("two", [_made(1.1, 1), _made(1, 1.2)], "analytical", goal=True)
    )
    assert [round(row.ours, 1) for row in rows] == [14.9, 20.0]
    assert [row.verdict for row in rows] == ["fails", "fails"]


def test_intervals_of_steps_are_counted_by_group() -> None:
    """GPUs, number formats, kinds of model and numbers of GPUs each divide all left-out runs."""
    left = list(training_steps._left_out("analytical"))
    rows = [row for row in left if row.setup.startswith("within 80 % intervals of steps: ")]
    counts = [int(row.setup.rpartition("(")[2].rstrip(")")) for row in rows]
    within = [round(count * row.ours / 100) for count, row in zip(counts, rows, strict=True)]
    groups = [5, 3, 2, 3]
    assert len(rows) == 1 + sum(groups)
    at = 1
    for size in groups:
        part = slice(at, at + size)
        assert (sum(counts[part]), sum(within[part])) == (counts[0], within[0])
        at += size
    several = [row.setup for row in left if row.setup.startswith("mlperf left out, ")]
    assert len(several) == 2 * 4
    assert not [row for row in left if row.setup.startswith("torchtitan left out, ")]


def test_one_efficiency_model_a_generation() -> None:
    """Presets of the same GPU generation compute alike but for their data sheets."""
    found: dict[str, Any] = {}
    for preset in presets():
        npu = yaml.CSafeLoader(Platform.load(preset).to_yaml()).get_single_data()["npu"]
        compute = npu["compute"]
        if isinstance(compute, dict) and "tiles" in compute and "A100" not in preset:
            name = str(npu["name"])
            generation = next(
                key
                for key in (
                    "A100",
                    "H100",
                    "H200",
                    "H800",
                    "V100",
                    "B200",
                    "B300",
                    "L40S",
                    "4090",
                    "RTX",
                )
                if key in name.replace("GB", "B")
            )
            # DeepSeek's multiplications of 8 bits are not NVIDIA's (H800).
            kept = ("peak_by_type", "efficiency_by_type", "fitted_on")
            same = {key: value for key, value in compute.items() if key not in kept}
            gemm = float(same["efficiency"].pop("gemm")) * float(same.pop("sustained", 1))
            if "B200" in name or "B300" in name:
                # How fast multiplications are depends on the power that a GPU has.
                assert 0.4 <= gemm <= 0.75
            else:
                same["gemm"] = round(gemm, 4)
            # What an H800 has left next to communication is DeepSeek-V3's own choice of
            # multiprocessors. The others lose nothing.
            slowdown = same.pop("comm_overlap_slowdown")
            same |= {} if generation == "H800" or slowdown == 0 else {"slowdown": slowdown}
            alike = {"H200": "H100", "H800": "H100", "B300": "B200"}.get(generation, generation)
            assert found.setdefault(alike, same) == same, preset
    assert {"A100", "H100", "B200"} <= set(found)

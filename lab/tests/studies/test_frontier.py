"""The largest published trainings."""

from __future__ import annotations

import pytest

from armillary.platform import Platform
from armillary.workload import footprints
from armillary_lab.studies import deepseek_v3, llama_405b
from armillary_lab.studies.frontier import FrontierStep, step


@pytest.fixture(scope="module")
def deepseek() -> FrontierStep:
    return step(deepseek_v3.RUN)


def test_deepseek_v3_as_its_report_says(deepseek: FrontierStep) -> None:
    """180 K GPU hours for 10^12 tokens and 19.9 s a step within 10 %, in 80 GB."""
    print(
        f"{deepseek.seconds:.2f} s a step, {deepseek.gpu_hours / 1e3:.1f} K GPU hours, "
        f"{deepseek.most / 1e9:.1f} GB"
    )
    assert deepseek.ranks == 2048
    assert deepseek.gpu_hours == pytest.approx(deepseek_v3.GPU_HOURS, rel=0.1)
    assert deepseek.seconds == pytest.approx(deepseek_v3.SECONDS, rel=0.1)
    assert deepseek.most < deepseek_v3.CAPACITY


def test_published_operations(deepseek: FrontierStep) -> None:
    """432 and 385 TFLOP/s at 19.926 s a step are the model's operations without multi-token
    prediction."""
    rows = {row.setup: row for row in deepseek_v3.published(deepseek, "analytical")}
    for name in ("operations a token", "operations a token, half of all scores"):
        assert rows[name].ratio == pytest.approx(1, abs=0.005)
    assert rows["fullest GPU"].verdict == "holds"


def test_what_makes_it_fit() -> None:
    """Without recomputation, or with results of experts kept, a GPU would need more than it has."""
    for options in (
        {"recompute_modules": None},
        {"framework_set": {"gates_inside": False}},
        {"fp8_activations": False},
    ):
        found = footprints("deepseek-v3", **{**deepseek_v3.RUN.options, **options})
        assert max(memory.total for memory in found) > deepseek_v3.CAPACITY


@pytest.mark.parametrize("name", list(llama_405b.PUBLISHED))
def test_llama_3(name: str) -> None:
    """Within 4 % of 430 and 400 TFLOP/s; with 131,072 tokens, where attention's kernels count most,
    within 15 % of 380. All of it fits."""
    paper, options = llama_405b.PUBLISHED[name]
    found = step(llama_405b.run(options))
    print(f"{name}: {found.tflops:.1f} TFLOP/s, published {paper:g}")
    assert found.tflops == pytest.approx(paper, rel=0.15 if "131,072" in name else 0.04)
    assert found.most < 80e9


@pytest.mark.parametrize("name", list(deepseek_v3.VARIED))
def test_variations_fit_and_change_something(name: str) -> None:
    """Options and settings are known, and something of the workload or the platform differs."""
    options, settings = deepseek_v3.VARIED[name]
    changed = deepseek_v3.RUN.varied(options, settings)
    assert len(footprints("deepseek-v3", **changed.options)) == 16
    platforms = [
        Platform.load(each.platform, each.settings).describe()
        for each in (deepseek_v3.RUN, changed)
    ]
    assert changed.options != deepseek_v3.RUN.options or platforms[0] != platforms[1]

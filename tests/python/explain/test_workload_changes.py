"""Changes of the workload that `explain` tries: each is feasible, and repeats as printed."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from thorough import usually

import armillary as arm
from armillary.cli import parsing
from armillary.errors import ImpossibleError
from armillary.explain import whatif, workload_changes
from armillary.report.chart import Chart
from armillary.workload import build, load_model, needed_memory

PIPELINE = {"virtual_stages", "schedule", "pp"}
MODEL = "megatron-1.7b"
LAYERS = 24
REVIEWED: dict[str, Any] = {"tp": 8, "pp": 4, "dp": 4, "zero": 1, "sp": True}
REVIEWED["framework_set"] = {"saved": "fused", "loss": "fused"}


def platform(ranks: int, capacity: float | None = None) -> arm.Platform:
    """That number of H100 on a switch, with this memory in bytes."""
    held = {} if capacity is None else {"npu.memory.capacity": f"{int(capacity)} B"}
    return arm.Platform.load("dgx-h100", {**held, "topology": f"SW({ranks})"})


def run(options: Mapping[str, Any], capacity: float | None = None) -> arm.Result:
    made = build(MODEL, **options)
    return arm.simulate(made, platform(made.ranks, capacity), detail=True)


def tried(result: arm.Result) -> list[dict[str, Any]]:
    """The changes of the workload that an explanation tries."""
    return [each for each in result.explain(seconds=1e9).data["what_if"] if each["options"]]


def repeated(options: Mapping[str, Any], command: str, capacity: float | None) -> arm.Result:
    """The run with the options that are printed, as a command line gives them."""
    return run({**options, **parsing.parse(MODEL, shlex.split(command))}, capacity)


@pytest.fixture(scope="module")
def reviewed() -> arm.Result:
    """Four stages and 16 micro-batches: the bubble is 3 / (16 + 3) of the step."""
    return arm.simulate("llama-3-70b", "dgx-h100-16n", detail=True, **REVIEWED)


@pytest.fixture(scope="module")
def reviewed_changes(reviewed: arm.Result) -> list[dict[str, Any]]:
    return tried(reviewed)


def test_a_bubble_of_16_percent_gets_advice_on_the_pipeline(reviewed: arm.Result) -> None:
    verdict = reviewed.verdict()
    assert "pipeline bubble 15.8%" in verdict.sentence
    helps = verdict.facts["helps"]
    assert {*helps["options"]} & {"virtual_stages", "global_batch", "micro_batch"}
    assert f"({helps['command']}) would help most: " in verdict.sentence
    given = parsing.parse("llama-3-70b", shlex.split(helps["command"]))
    again = arm.simulate("llama-3-70b", "dgx-h100-16n", **{**REVIEWED, **given})
    assert again.step_time_ns == helps["step_ns"]
    assert again.fits == "yes"


def test_virtual_stages_gain_what_the_formula_says(
    reviewed: arm.Result, reviewed_changes: list[dict[str, Any]]
) -> None:
    """The step is 1 + (p - 1) / (v m) of its work: Narayanan et al. 2021, section 2.2."""
    found = {each["options"].get("virtual_stages"): each for each in reviewed_changes}
    for chunks in (4, 5, 10, 20):
        ratio = (1 + 3 / (16 * chunks)) / (1 + 3 / 16)
        assert found[chunks]["step_ns"] / reviewed.step_time_ns == pytest.approx(ratio, rel=0.03)


def test_a_larger_batch_is_compared_by_its_samples(
    reviewed: arm.Result, reviewed_changes: list[dict[str, Any]]
) -> None:
    """Twice the micro-batches: (1 + 3 / 32) / (1 + 3 / 16) of the time of a sample."""
    [twice] = [each for each in reviewed_changes if each["options"] == {"global_batch": 128}]
    assert twice["samples"] == 128
    assert twice["same_samples_ns"] == twice["step_ns"] / 2
    assert twice["gain_ns"] == reviewed.step_time_ns - twice["step_ns"] / 2
    ratio = (1 + 3 / 32) / (1 + 3 / 16)
    assert twice["same_samples_ns"] / reviewed.step_time_ns == pytest.approx(ratio, rel=0.03)


DRAWN = {
    "tp": st.sampled_from([1, 2, 4]),
    "pp": st.sampled_from([1, 2, 4]),
    "dp": st.sampled_from([1, 2]),
    "micro_batch": st.sampled_from([1, 2, 4]),
    "zero": st.integers(0, 2),
    "recompute": st.sampled_from(["none", "selective", "full"]),
    "schedule": st.sampled_from(["1f1b", "gpipe", "zb-h1", "interleaved"]),
    "sp": st.booleans(),
}


@settings(max_examples=usually(4, 50))
@given(
    drawn=st.fixed_dictionaries(DRAWN),
    waves=st.sampled_from([1, 2, 4]),
    stated=st.booleans(),
    room=st.sampled_from([0.6, 0.98, 1.1, 4.0]),
)
def test_every_advice_is_feasible_and_repeats(
    drawn: dict[str, Any], waves: int, stated: bool, room: float
) -> None:
    options = {**drawn, "virtual_stages": 2 if drawn["schedule"] == "interleaved" else 1}
    if stated:
        options["global_batch"] = drawn["micro_batch"] * drawn["dp"] * drawn["pp"] * waves
    try:
        needed = needed_memory(MODEL, **options)
    except ImpossibleError:
        needed = None
    assume(needed is not None)
    capacity = room * (needed or 0)
    result = run(options, capacity)
    found = tried(result)
    assert len(found) <= workload_changes.MOST
    for each in found:
        again = repeated(options, each["command"], capacity)
        assert again.step_time_ns == each["step_ns"]
        assert again.report["ranks"] == result.report["ranks"]
        assert again.fits == each["fits"] in ("yes", "near")
        assert each["gain_ns"] == pytest.approx(
            result.step_time_ns * (1 - result.tokens_per_s / again.tokens_per_s),  # type: ignore[operator]
            abs=1e-6 * result.step_time_ns,
        )
        if drawn["pp"] == 1:
            assert not PIPELINE & {*each["options"]}
    helps = result.verdict().facts["helps"]
    assert not helps or not helps["options"] or helps["fits"] == "yes"


def test_without_a_pipeline_no_advice_is_about_one() -> None:
    result = run({"tp": 2, "dp": 4, "global_batch": 8, "recompute": "full"})
    found = tried(result)
    assert found
    assert not PIPELINE & {key for each in found for key in each["options"]}
    assert "pipeline" not in str(result.explain())


RECOMPUTING: dict[str, Any] = {
    **{"tp": 2, "dp": 4, "micro_batch": 8, "global_batch": 64, "recompute": "full"},
}


def test_less_is_recomputed_where_memory_allows() -> None:
    helps = run(RECOMPUTING).verdict().facts["helps"]
    assert helps["options"] == {"recompute": "none"}
    none = needed_memory(MODEL, **{**RECOMPUTING, "recompute": "none"})
    assert none is not None
    tight = run(RECOMPUTING, none / 1.2)
    assert tight.fits == "yes"
    assert "recompute" not in {key for each in tried(tight) for key in each["options"]}
    left_out = tight.explain().data["left_out"]
    assert any("--recompute none" in each for each in left_out)
    assert len(left_out) == len({*left_out}), "each reason once"


@pytest.mark.parametrize("method", ["block", "uniform"])
def test_fewer_layers_are_recomputed_where_memory_allows(method: str) -> None:
    """None of each part, or half of those that are; all of them where memory is short."""
    options = {**RECOMPUTING, "recompute_layers": 2, "recompute_method": method}
    counts = {each["options"].get("recompute_layers") for each in tried(run(options))}
    assert counts - {None} == {0, 1 if method == "block" else LAYERS // 2}
    all_ = needed_memory(MODEL, **{**RECOMPUTING, "recompute_layers": LAYERS})
    needed = needed_memory(MODEL, **options)
    assert all_ is not None and needed is not None
    if method == "block":
        mended = run(options, (all_ + needed) / 1.9).explain().data["what_if"]
        assert any(each["options"] == {"recompute_layers": LAYERS} for each in mended)


def test_what_may_not_fit_is_said_and_comes_last() -> None:
    none = needed_memory(MODEL, **{**RECOMPUTING, "recompute": "none"})
    assert none is not None
    explanation = run(RECOMPUTING, none).explain(seconds=1e9)
    found = {each["command"]: each["fits"] for each in explanation.data["what_if"]}
    assert found["--recompute none"] == "near"
    fits = [*found.values()]
    assert "near" not in fits[: -fits.count("near")]
    assert "(--recompute none), which may not fit" in " ".join(str(explanation).split())
    for said in (explanation.data["verdict"], run(RECOMPUTING, none).verdict().facts):
        assert (said["helps"] or {}).get("fits") != "near"


def test_a_run_that_does_not_fit_hears_what_would() -> None:
    options = {"tp": 2, "dp": 4, "global_batch": 8}
    needed = needed_memory(MODEL, **options)
    less = needed_memory(MODEL, **options, zero=1)
    assert needed
    assert less
    result = run(options, (needed + less) / 2)
    assert result.fits == "no"
    verdict = result.verdict()
    assert verdict.facts["helps"]["fits"] == "yes"
    again = repeated(options, verdict.facts["helps"]["command"], (needed + less) / 2)
    assert (again.fits, again.step_time_ns) == ("yes", verdict.facts["helps"]["step_ns"])
    assert f"({verdict.facts['helps']['command']}) it would fit: " in verdict.sentence
    assert "--zero 1" in {each["command"] for each in tried(result)}


def test_what_no_single_option_mends_is_mended_by_two() -> None:
    options = {"tp": 2, "dp": 4, "global_batch": 8}
    two = needed_memory(MODEL, **options, zero=1, recompute="full")
    assert two
    result = run(options, two * 1.06)
    assert result.fits == "no"
    helps = result.verdict().facts["helps"]
    assert len(helps["options"]) > 1
    assert repeated(options, helps["command"], two * 1.06).fits == "yes"


@pytest.mark.parametrize(
    ("model", "options"), [("resnet-50", {"dp": 4}), ("dlrm-criteo-t3", {"dp": 4})]
)
def test_families_without_these_options_hear_nothing_of_them(
    model: str, options: Mapping[str, Any]
) -> None:
    result = arm.simulate(model, platform(4), detail=True, **options)
    explanation = result.explain(seconds=1e9)
    assert not [each for each in explanation.data["what_if"] if each["options"]]
    assert not [each for each in explanation.data["left_out"] if "options" in each]


def test_a_model_made_in_memory_is_not_changed_and_that_is_said() -> None:
    model = dataclasses.replace(load_model(MODEL), name="mine")
    result = arm.simulate(build(model, pp=4), platform(4), detail=True)
    explanation = result.explain(seconds=1e9)
    assert not [each for each in explanation.data["what_if"] if each["options"]]
    assert any("does not name the model" in each for each in explanation.data["left_out"])
    with pytest.raises(arm.InputError, match="not made of a model by its name"):
        result.again({}, options={"virtual_stages": 2})


def test_the_same_run_gets_the_same_advice_in_a_bounded_number_of_runs() -> None:
    result = run({"pp": 4, "global_batch": 8, "recompute": "full", "micro_batch": 2})
    first, second = result.explain(seconds=1e9), result.explain(seconds=1e9)
    assert first.data == second.data
    count = len(first.data["what_if"])
    assert count <= whatif.MOST
    assert f"Tried: {count} changes, each in a run of its own; at most {whatif.MOST}" in str(first)


def test_page_text_and_data_say_the_same() -> None:
    result = run({"pp": 4, "global_batch": 8})
    explanation = result.explain(seconds=1e9)
    best = explanation.data["verdict"]["helps"]
    assert best["options"]
    text = " ".join(str(explanation).split())
    for said in (text, explanation.html()):
        assert f"({best['command']}) would help most" in said
    assert "compared by the time of a sample" in text
    [chart] = [each for each in explanation.page.figures() if each.name == "gains"]
    assert isinstance(chart, Chart)
    rows = {row["change"]: row for row in chart.records()}
    assert rows[best["command"]]["saved_ns"] == best["gain_ns"]
    assert rows[best["command"]]["kind"] == "option of the workload"

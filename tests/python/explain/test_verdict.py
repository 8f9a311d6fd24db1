"""The verdict: what bounds a step, what would help most and by how much, the same for the same
run."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import pytest
from small import one, switch, training

import armillary as arm
from armillary.explain import changes
from armillary.explain.verdict import verdict
from armillary.repeat import Unrepeatable
from armillary.schema import Report

NPU = {"npu.peak": "100 TFLOPS", "npu.memory.bandwidth": "2 TB/s"}


def run(bandwidth: str, detail: bool = True, **more: str) -> arm.Result:
    chosen = {**NPU, **{key.replace("__", "."): value for key, value in more.items()}}
    platform = arm.Platform("R(4)", bandwidth=bandwidth, latency="1 us", settings=chosen)
    return arm.simulate(training(platform), platform, detail=detail)


def test_computing_bounds_a_step_on_a_fast_network() -> None:
    found = run("900 GB/s").verdict()
    assert found.facts["bound"] == "compute"
    assert found.sentence.startswith("Computing bounds the step (")
    assert found.facts["operation"] == "layer*.matmul"
    assert found.facts["helps"]["change"] == "10 % faster compute"
    assert "10 % faster compute would help most: " in found.sentence
    assert found.sentence.count(".") == found.sentence.rstrip(".").count(".") + 1, "one sentence"


def test_communication_bounds_a_step_on_a_slow_network() -> None:
    found = run("1 GB/s").verdict()
    assert found.facts["bound"] == "communication"
    assert found.facts["share"] > 0.9
    assert "Ring(4)" in found.facts["helps"]["change"]


def test_hosts_bound_a_step_of_small_kernels() -> None:
    found = run("900 GB/s", npu__launch="5 ms").verdict()
    assert found.facts["bound"] == "hosts"
    assert found.facts["helps"]["change"].startswith("launches that take no time")


def test_the_gain_is_what_the_run_says() -> None:
    result = run("900 GB/s")
    helps = result.verdict().facts["helps"]
    again = result.again(helps["settings"])
    assert helps["step_ns"] == again["step_time_ns"]
    assert (
        f"{(1 - again['step_time_ns'] / result.step_time_ns) * 100:.1f} %"
        in result.verdict().sentence
    )


def test_without_runs_it_says_what_bounds_the_step_alone() -> None:
    result = run("900 GB/s")
    assert "help" not in result.verdict(what_if=False).sentence
    assert verdict(result.report, Unrepeatable("its files are gone")).facts["helps"] is None
    assert run("900 GB/s", detail=False).verdict().sentence.endswith("% of the mean NPU's time).")


def test_the_same_run_has_the_same_verdict_after_as_many_runs() -> None:
    report = run("50 GB/s").report
    runs: list[Mapping[str, str]] = []

    def again(settings: Mapping[str, str], _detail: bool, _options: object) -> Report:
        runs.append(settings)
        return copy.deepcopy(report)

    first, second = verdict(report, again), verdict(report, again)
    assert first == second
    assert len(runs) == 12, "six each: no clock decides"
    assert "none of 6 changes tried would help" in first.sentence


def test_of_long_runs_fewer_changes_are_tried() -> None:
    report = run("50 GB/s").report
    report["counts"]["operations"] = 4 * 10**9
    report["symmetry"]["classes"] = 4
    runs: list[Mapping[str, str]] = []

    def again(settings: Mapping[str, str], _detail: bool, _options: object) -> Report:
        runs.append(settings)
        return report

    verdict(report, again)
    assert len(runs) == 2


def test_changes_that_bear_on_more_of_the_path_come_first() -> None:
    found = changes.likeliest(run("1 GB/s").report, 6)
    assert "bandwidth of Ring(4)" in found[0].what
    assert {change.derivative for change in found} == {True, False}
    assert all(change.reach_ns > 0 for change in found)


def test_what_does_not_fit_is_said_first() -> None:
    report = run("900 GB/s").report
    report["config"]["platform"]["npu"]["memory_capacity_bytes"] = 80_000_000_000
    report["memory_bytes"], report["fits"] = 151_000_000_000, "no"
    found = verdict(report)
    assert found.sentence.startswith(
        "It does not fit: an NPU would need 151.0 GB and has 80.00 GB; computing bounds"
    )
    assert found.facts["fits"] == "no"
    report["memory_bytes"], report["fits"] = 83_170_000_000, "near"
    found = verdict(report)
    assert found.sentence.startswith(
        "It may not fit, or be slow: an NPU would need 83.17 GB and has 80.00 GB, which is closer "
        "than memory is known (79.01 GB to 87.33 GB); computing bounds"
    )
    assert found.facts["fits"] == "near"


def test_a_choice_that_the_network_model_cannot_judge_is_not_proposed() -> None:
    """On a ring, direct sends across several links, which the analytical network lets others
    share."""
    platform = arm.Platform(
        "R(8)", bandwidth="25 GB/s", latency="1 us", settings={"collectives.all_reduce": "ring"}
    )
    explanation = one("all_reduce", 100_000_000, platform).explain()
    assert not [each for each in explanation.data["what_if"] if "direct instead" in each["change"]]
    assert any(
        "does not count (--backend link does)" in reason for reason in explanation.data["left_out"]
    )
    judged = one("all_reduce", 100_000_000, platform, "link").explain().data
    tried = [*(each["change"] for each in judged["what_if"]), *judged["left_out"]]
    assert any(each.startswith("direct instead of ring") for each in tried), "or its run warned"
    assert not any("does not count" in each for each in tried)


@pytest.mark.parametrize("field", ["warnings", "utilisation"])
def test_a_change_whose_run_warns_is_left_out(field: str) -> None:
    report = one("all_reduce", 1_000_000, switch("ring")).report

    def again(_settings: Mapping[str, str], _detail: bool, _options: object) -> Report:
        other = copy.deepcopy(report)
        other["step_time_ns"] /= 2
        if field == "warnings":
            other["warnings"] = ["a model outside its validity"]
        else:
            other["dimensions"][0]["utilisation"] = 2.0
        return other

    found = verdict(report, again)
    assert found.facts["helps"] is None


def test_explain_says_it_first() -> None:
    explanation = run("900 GB/s").explain()
    assert str(explanation).splitlines()[1].startswith("Computing bounds the step")
    assert explanation.data["verdict"]["bound"] == "compute"
    assert explanation.page.verdict.startswith("Computing bounds the step")


def test_the_page_of_a_run_says_it_below_the_title() -> None:
    page = run("900 GB/s").html()
    assert "Computing bounds the step (" in page
    assert "would help most" in page
    assert "would help most" not in run("900 GB/s").html(what_if=False)

"""The pages of `compare`, `explain` and `collective`: the numbers they are made for, and in a real
browser."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import accessibility
import pytest
from playwright.sync_api import Browser
from test_run_page import charts, look, tables
from thorough import some

import armillary as arm
from armillary import api
from armillary.model.files import load_model
from armillary.report import collective
from armillary.report.page import Page

PAGES = ["compare", "explain", "terms", "collective"]
SIZES = [2**power for power in range(13, 34, 2)]


def run(tp: int, dp: int = 1) -> arm.Result:
    """Four layers of a decoder on eight H100."""
    known = load_model("llama-3-8b")
    small = replace(known, fields={**known.fields, "layers": 4})
    made = arm.workload.build(small, tp=tp, dp=dp, seq=2048, sp=True)
    return arm.simulate(made, arm.Platform.load("dgx-h100"), detail=True)


@pytest.fixture(scope="module")
def compared() -> arm.explain.Comparison:
    """Two runs of which the second does twice the work."""
    return arm.compare(run(8), run(4, 2), names=["tp8", "tp4"])


def all_reduce(platform: arm.Platform) -> Page:
    rows = [api.collective_row("all_reduce", size, platform) for size in SIZES]
    return collective.page(rows, "all_reduce", platform.name, platform.npus, "analytical")


def test_the_bars_of_a_comparison_lead_from_one_step_to_the_other(
    compared: arm.explain.Comparison,
) -> None:
    rows = charts(compared.page)["waterfall"].records()
    [pair] = compared.data["pairs"]
    assert (rows[0]["to_ns"], rows[-1]["to_ns"]) == (pair["a_step_ns"], pair["b_step_ns"])
    assert [row["what"] for row in rows[1:-1]] == list(pair["causes"])
    for before, after in pairwise(rows[:-1]):
        assert after["from_ns"] == before["to_ns"], "each begins where the one before it ends"
    assert rows[-2]["to_ns"] == pytest.approx(pair["b_step_ns"], rel=1e-6)


def test_charts_of_operations_and_layers_show_what_changed(
    compared: arm.explain.Comparison,
) -> None:
    [pair] = compared.data["pairs"]
    first = pair["operations"][0]
    found = [
        row for row in charts(compared.page)["operations"].records() if row["name"] == first["name"]
    ]
    assert sum(row["change_ns"] for row in found) == pytest.approx(first["delta_ns"], rel=1e-6)
    layers = charts(compared.page)["layers"].records()
    total = sum(row["change_ns"] * row["layers"] for row in layers)
    assert total == pytest.approx(sum(each["delta_ns"] for each in pair["layers"]), rel=1e-6)
    assert [row["layer"] for row in layers][-1] == "step"


def test_which_is_faster_is_said_first(compared: arm.explain.Comparison) -> None:
    facts = {fact.label: fact.value for fact in compared.page.facts}
    assert "per sample" in compared.page.title
    assert set(facts) >= {"Step time", "Samples/s", "Tokens/s", "Time of a sample"}


def test_runs_that_are_alike_are_said_to_be() -> None:
    result = run(8)
    page = arm.compare(result, result).page
    assert page.verdict.endswith("No operation on the critical path changes its time.")


def test_several_runs_stand_in_one_table() -> None:
    results = [run(8), run(4, 2), run(2, 4)]
    page = arm.compare(*results, names=["tp8", "tp4", "tp2"]).page
    assert [row[0] for row in tables(page)["Runs"].rows] == ["tp8", "tp4", "tp2"]
    best = max(
        results,
        key=lambda each: each.report["config"]["workload"]["summary"]["batch"] / each.step_time_ns,
    )
    assert page.verdict.startswith(
        f"{['tp8', 'tp4', 'tp2'][results.index(best)]} is the fastest per sample"
    )
    assert len({chart.name for chart in page.figures()}) == len(page.figures())


def test_the_parts_of_an_explanation_sum_to_the_step() -> None:
    result = run(8)
    found = charts(result.explain().page)
    assert set(found) == {"path", "bounds", "gains"}
    assert found["path"].records()[-1]["to_ns"] == pytest.approx(result.step_time_ns)
    gains = found["gains"].records()
    assert [row["saved_ns"] for row in gains] == sorted(
        (row["saved_ns"] for row in gains), reverse=True
    )
    terms = charts(result.explain("all_gather", what_if=False).page)
    assert all(name.startswith("terms-") for name in terms)


def test_a_collective_is_drawn_with_its_bound_and_choices() -> None:
    platform = arm.Platform.load("dgx-h100", {"library.nvls.latency": "60 us"})
    page = all_reduce(platform)
    rows = charts(page)["busbw"].records()
    best = max(rows, key=lambda row: row["value"])
    assert {fact.label: fact.value for fact in page.facts}[
        "Best bus bandwidth"
    ] == f"{best['value']:.4g} GB/s"
    assert best["chosen"] == "NVLS Simple"
    assert best["bound"] is None, "a switch reduces"
    assert all(row["value"] < row["bound"] for row in rows if row["bound"])
    choices = tables(page)["By size"].rows
    assert [row[1:3] for row in choices] == [("Ring", "LL"), ("Ring", "LL128"), ("NVLS", "Simple")]
    assert len(tables(page)["Every size"].rows) == len(SIZES)


def test_no_bound_of_a_collective_is_beaten_and_one_is_reached() -> None:
    """A ring all-reduce in both directions sends what it must over all links; one direction is half
    as fast."""
    target = arm.Platform(
        "R(8)", bandwidth="50 GB/s", latency="0 ns", settings={"scheduler.endpoint_delay": "0 ns"}
    )
    row = api.collective_row("all_reduce", 2**30, target)
    assert row.lower_bound_us == pytest.approx(2**30 * 7 / 8 * 2 / 100e3)
    assert row.time_us >= row.lower_bound_us * (1 - 1e-9)
    full = arm.Platform("FC(8)", bandwidth="50 GB/s", per="link", latency="0 ns")
    row = api.collective_row("all_reduce", 2**30, full)
    assert row.time_us == pytest.approx(row.lower_bound_us, rel=1e-4)


def page_of(name: str, compared: arm.explain.Comparison) -> Page:
    """One of the pages."""
    if name == "compare":
        return compared.page
    if name == "collective":
        return all_reduce(arm.Platform.load("dgx-h100-16n"))
    return (
        run(8).explain().page
        if name == "explain"
        else run(8).explain("all_gather", what_if=False).page
    )


@pytest.mark.parametrize("name", some(PAGES))
def test_in_a_browser(
    name: str, tmp_path: Path, running: Browser, compared: arm.explain.Comparison
) -> None:
    page, file = page_of(name, compared), tmp_path / f"{name}.html"
    page.write(file)
    look(running, file, set(charts(page)), schemes=accessibility.schemes(PAGES.index(name)))

"""The load of links over time on the picture of a page."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import browser
import pytest
from playwright.sync_api import Browser, expect
from thorough import some

import armillary as arm
from armillary.errors import InputError
from armillary.report import load_colours, run_page
from armillary.report.reading import parse
from armillary.schema import Report

SCRIPT = Path(load_colours.__file__).with_name("load.js").read_text(encoding="utf-8")


def exchange(topology: str, backend: str) -> Report:
    """Two all-to-alls with computation between them: links send, rest, and send again."""
    platform = arm.Platform(
        topology,
        bandwidth="16 GB/s",
        latency="10 ns",
        settings={"collectives.all_to_all": "{algorithm: direct, flat: true}"},
    )
    program = arm.workload.Program()
    first = program.collective("first", [], "all_to_all", 1 << 18)
    idle = program.compute("idle", [first], duration_ps=20_000_000)
    program.collective("second", [idle], "all_to_all", 1 << 18)
    workload = arm.Workload.listed("exchange", [program], [0] * platform.npus, {})
    return arm.simulate(workload, platform, backend=backend, detail=True).report


@pytest.mark.parametrize("backend", ["link", "flow", "packet", "flit"])
def test_every_backend_with_links_has_them_over_time(backend: str) -> None:
    report = exchange("R(4)_R(4)", backend)
    assert report["picture"] is not None
    for cable in report["picture"]["cables"]:
        sends = bytes.fromhex(cable["sends"] or "")
        assert max(sends) <= 100
        assert sends[0] > 0 and sends[len(sends) // 2] == 0 and max(sends[-len(sends) // 4 :]) > 0
        assert report["network"] is not None
        busy = sum(sends) / 100 * report["network"]["bin_ns"]
        assert busy >= 0.9 * (cable["busy_ns"] or 0)


def test_folding_changes_nothing() -> None:
    platform = arm.Platform("R(4)_R(4)", bandwidth="16 GB/s", latency="10 ns")
    program = arm.workload.Program()
    program.collective("sum", [], "all_reduce", 1 << 18)
    workload = arm.Workload.listed("sum", [program], [0] * 16, {})
    found = [
        arm.simulate(workload, platform, backend="link", detail=True, fold=fold).report
        for fold in (True, False)
    ]
    assert found[0]["picture"] == found[1]["picture"]
    assert found[0]["dimensions"] == found[1]["dimensions"]


def test_the_page_of_a_large_network_stays_small(tmp_path: Path) -> None:
    """4,096 links: they are drawn in groups, and each has at most 128 bins of two digits."""
    platform = arm.Platform("R(32)_R(32)", bandwidth="16 GB/s", latency="10 ns")
    program = arm.workload.Program()
    program.collective("sum", [], "all_reduce", 1 << 24)
    workload = arm.Workload.listed("sum", [program], [0] * platform.npus, {})
    report = arm.simulate(workload, platform, backend="link", detail=True).report
    picture = report["picture"]
    assert picture is not None
    assert len(picture["cells"]) <= 256
    assert all(len(cable["sends"] or "") <= 256 for cable in picture["cables"])
    run_page.page(report).write(tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size < 2_000_000


def test_the_script_has_the_colours_of_the_legend() -> None:
    shades = re.findall(r'\[(\d+), "(#[0-9a-f]{6})"\]', SCRIPT)
    assert [(int(most) / 100, colour) for most, colour in shades] == list(load_colours.STEPS)
    assert f'UNUSED = "{load_colours.UNUSED}"' in SCRIPT


@pytest.mark.parametrize("topology", some(["R(4)_R(4)", "SW(8)"]))
def test_a_reader_moves_through_the_step(topology: str, running: Browser, tmp_path: Path) -> None:
    """With the keyboard: the beginning, the rest in the middle, and back to the whole step."""
    path = tmp_path / "page.html"
    whole = run_page.page(exchange(topology, "link"))
    platform = [section for section in whole.sections if section.title == "Platform"]
    replace(whole, sections=platform).write(path)
    with browser.visit(running, path) as seen:
        page = seen.page
        figure = page.locator("figure#platform")
        slider = figure.get_by_role("slider", name="Time")
        link = figure.locator("[data-sends]").first
        stroke = link.locator("[stroke]").first if topology == "SW(8)" else link
        over_the_step = stroke.get_attribute("stroke")
        expect(figure.locator("output")).to_have_text("Whole step")
        slider.press("ArrowRight")
        expect(figure.locator("output")).to_contain_text("From 0 ns to")
        assert stroke.get_attribute("stroke") != load_colours.UNUSED
        for _ in range(int(slider.get_attribute("max") or 0) // 2):
            slider.press("ArrowRight")
        assert stroke.get_attribute("stroke") == load_colours.UNUSED
        figure.get_by_role("button", name="Whole step").press("Enter")
        assert stroke.get_attribute("stroke") == over_the_step
        figure.get_by_role("button", name="Play").click()
        expect(figure.locator("output")).to_contain_text("From")
        assert seen.complaints == []
        assert seen.requests == []


def test_a_report_with_other_text_is_refused(report: Report) -> None:
    wrong = json.loads(json.dumps(report))
    wrong["dimensions"][0]["link_sends"] = "no"
    with pytest.raises(InputError, match="percents"):
        parse(json.dumps(wrong))

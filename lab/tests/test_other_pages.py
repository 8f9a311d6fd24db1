"""The pages of sweeps, designs, calibrations and studies, made by their verbs and read by a
checker, light or dark."""

from __future__ import annotations

from pathlib import Path

import accessibility
import browser
import pytest
from conftest import Armillary
from playwright.sync_api import Browser
from thorough import some

SWEEP = """\
workload: {model: resnet-50, options: {dp: 8}}
platform: dgx-h100
parameters:
  platform.scheduler.chunks: [1, 2, 4]
  platform.links[0].bandwidth: [50 GB/s, 100 GB/s]
"""
DESIGN = """\
npus: 64
npu: {peak: 234 TFLOPS}
workloads: [{model: transformer-17b, micro_batch: 16, zero: 2}]
topologies: [SW(8)_SW(8), R(8)_SW(8)]
bandwidth: 300 GB/s
latency: 500 ns
cost: multidim
"""
LOG = """\
# nThread 1 nGpus 8
# Collective test starting: all_reduce_perf
{ranks}
 1048576 262144 float sum -1 29.17 35.95 62.91 0 29.17 35.95 62.91 0
 1073741824 268435456 float sum -1 4295.61 249.96 437.43 0 4295.61 249.96 437.43 0
"""
CHIP = """\
topology: Ring(4)
links: {bandwidth: 16 GB/s, per: link, latency: 1 ns}
"""
VERBS = {
    "sweep": "sweep sweep.yml -o results --workers 1",
    "design": "design design.yml --report report.html",
    "calibrate": "calibrate nccl.log -p dgx-h100 -o mine.yml --report report.html",
    "study": "study b4 --report report.html",
    "traffic": "traffic -p chip.yml --backend link --size 64 --loads 10%,20% --report report.html",
}
TITLES = {
    "sweep": "resnet-50 on dgx-h100: step time by chunks and bandwidth",
    "design": "Designs for transformer-17b on 64 NPUs",
    "calibrate": "Calibration of dgx-h100",
    "traffic": "uniform traffic on chip",
}
BEYOND = """() => [...document.querySelectorAll('body *')].filter(each => {
    const box = each.getBoundingClientRect();
    return box.right > innerWidth + 1 && !each.closest('.scroll, .skip, svg, #vg-tooltip-element');
}).map(each => each.outerHTML.slice(0, 120))"""
"""Elements that stand out of the window, except within boxes that scroll by themselves."""


@pytest.mark.parametrize("verb", some(VERBS))
def test_nothing_grave_for_a_checker(
    verb: str, armillary: Armillary, tmp_path: Path, running: Browser
) -> None:
    ranks = "\n".join(
        f"#  Rank {i} Group 0 Pid 1 on host device {i} [0x0{i}] NVIDIA H100 80GB HBM3"
        for i in range(8)
    )
    for name, text in (
        ("sweep.yml", SWEEP),
        ("design.yml", DESIGN),
        ("nccl.log", LOG.format(ranks=ranks)),
        ("chip.yml", CHIP),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
    ran = armillary(*VERBS[verb].split())
    assert ran.returncode == 0, ran.stderr
    page = tmp_path / ("results/report.html" if verb == "sweep" else "report.html")
    schemes = accessibility.schemes([*VERBS].index(verb))
    with browser.visit(running, page) as seen:
        assert accessibility.violations(seen.page, *schemes) == []
        title = seen.page.locator("h1").inner_text()
        assert title == TITLES.get(verb, title)
        assert "/" not in title.replace("GB/s", "")
        assert verb != "traffic" or "latency, ns" in seen.page.locator("#latency").inner_html()
        browser.resize(seen, 390)
        assert seen.ask("document.documentElement.scrollWidth") == 390
        assert seen.page.evaluate(BEYOND) == []
        assert seen.complaints == []
        assert seen.requests == []
        seen.page.emulate_media(media="print")
        browser.resize(seen, 700)
        assert not seen.page.locator(".bar").is_visible()
        assert seen.page.evaluate(BEYOND) == []

"""The picture of a space against all of its layouts, one by one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from thorough import some

from armillary.layouts import page
from armillary.layouts.job import Job
from armillary.layouts.picture import picture
from armillary.layouts.search import Search, opened, search
from armillary.platform import Platform
from armillary.report.chart import Chart

PLATFORM = "dgx-h100-16n"
VALUES = {
    "tp": (1, 2, 4),
    "pp": (1, 4),
    "cp": (1, 2),
    "micro_batch": (1, 2),
    "schedule": ("1f1b",),
    "virtual_stages": (1, 2),
    "overlap_passes": (False,),
}


def _opened(model: str, near: bool) -> Search:
    target = Platform.load(PLATFORM, npus=32)
    experts = {"ep": (1, 4)} if model == "mixtral-8x7b" else {}
    layout = {**VALUES, **experts, "recompute_modules": (None, "layernorm")}
    return opened(Job.of(model, 32, global_batch=32, seq=4096, layout=layout, near=near), target)


@pytest.mark.parametrize(
    ("model", "near"),
    some([(model, near) for near in (False, True) for model in ("llama-3-70b", "mixtral-8x7b")], 3),
)
def test_cells_and_front_are_those_of_all_layouts(model: str, near: bool) -> None:
    """Each cell has the fastest of its layouts that fit; no layout is both faster and smaller than
    one of the front, and every other one is beaten by one of it."""
    found = _opened(model, near)
    core = found.space.parts.space
    front, cells = picture(found.space, found.limits, near, {}, [])
    core.search(found.limits, near, (core.layouts, 0), None)
    rows = [
        *core.fastest(0, core.layouts),
        *core.refused(found.limits, near, 2**63, core.layouts),
    ]
    assert len(rows) == core.layouts == sum(each.layouts for each in cells)
    most = found.limits[1 if near else 0]
    by_degrees: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for group, _, _, estimate, size, _, _ in rows:
        frame = found.space.frames[group]
        degrees = frame.tp, frame.pp, frame.cp, frame.ep
        by_degrees.setdefault(degrees, []).append((estimate, size))
    assert {(each.tp, each.pp, each.cp, each.ep) for each in cells} == {*by_degrees}
    for each in cells:
        of = by_degrees[each.tp, each.pp, each.cp, each.ep]
        fitting = [estimate for estimate, size in of if size <= most]
        assert each.layouts == len(of) and each.fitting == len(fitting)
        assert each.least_bytes == min(size for _, size in of)
        assert each.estimate_ns == (min(fitting) / 1e3 if fitting else None)
        assert (each.options is None) == (not fitting)
    fits = {(size, estimate) for of in by_degrees.values() for estimate, size in of if size <= most}
    best: list[tuple[int, float]] = []
    for size, estimate in sorted(fits):
        if not best or estimate / 1e3 < best[-1][1]:
            best.append((size, estimate / 1e3))
    assert [(each.memory_bytes, each.estimate_ns) for each in front] == best


def test_the_page_shows_both() -> None:
    """Simulated layouts are marked; a facet stands only where an option varies."""
    layout = {"tp": (1, 2), "pp": (1, 2), "cp": (1,), "zero": (0, 1)}
    found = search("llama-3-8b", PLATFORM, 16, global_batch=32, layout=layout, simulations=2)
    data: dict[str, Any] = json.loads(json.dumps(found.to_dict()))
    steps = {str(each["options"]): each["step_ns"] for each in data["best"]}
    for each in data["front"]:
        assert each["step_ns"] == steps.get(str(each["options"]))
    charts = {
        block.name: block
        for section in page.page(data).sections
        for block in section.parts
        if isinstance(block, Chart)
    }
    assert {*charts} == {"front", "space-pp"}
    assert isinstance(charts["front"].rows, list) and isinstance(charts["space-pp"].rows, list)
    kinds = [row["what"] for row in charts["front"].rows]
    assert kinds.count("simulated") == len(data["best"])
    grey = [row for row in charts["space-pp"].rows if row["step"] is None]
    assert all(row["layout"].startswith("none fits: ") for row in grey)
    assert all(chart.svg() for chart in charts.values())

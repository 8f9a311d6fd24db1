from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from armillary.errors import InputError
from armillary.report import reading
from armillary.schema import Report


def test_a_report_reads_back(report: Report, tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    file.write_text(json.dumps(report), encoding="utf-8")
    assert reading.read(file) == report


@pytest.mark.parametrize("field", ["detail", "network", "picture", "fits", "memory_bytes"])
def test_older_reports_are_read(report: Report, field: str) -> None:
    old: dict[str, Any] = dict(report)
    del old[field]
    assert reading.parse(json.dumps(old)).get(field, "missing") is None


def test_older_reports_have_nothing_outside(report: Report) -> None:
    old: dict[str, Any] = dict(report)
    del old["outside"]
    assert reading.parse(json.dumps(old))["outside"] == []


def test_older_dimensions_are_read(report: Report) -> None:
    old: dict[str, Any] = copy.deepcopy(dict(report))
    for dimension in old["dimensions"]:
        del dimension["link_busy_ns"]
    assert reading.parse(json.dumps(old)) == report


def test_older_classes_are_read(report: Report) -> None:
    old: dict[str, Any] = copy.deepcopy(dict(report))
    for each in old["classes"]:
        del each["at_peak_ns"]
    classes = reading.parse(json.dumps(old))["classes"]
    assert {each["at_peak_ns"] for each in classes} == {None}


CELL = {"name": "npu0", "last": "npu0", "count": 1, "failed": 0, "tier": 0, "at": [0, 1]}


@pytest.mark.parametrize(
    ("layout", "at", "ends", "word"),
    [
        ("spiral", [0, 0], [0, 0], "picture.layout is 'spiral'"),
        ("grid", [0], [0, 0], "picture.cells[0].at 1 coordinates"),
        ("grid", [0, 10**9], [0, 0], "picture.cells[0].at is too far out"),
        ("grid", [0, 0], [0, 7], "picture.cables[0] leads to no cell"),
    ],
)
def test_a_picture_that_can_t_be_drawn_is_refused(
    report: Report, layout: str, at: list[int], ends: list[int], word: str
) -> None:
    cable = dict.fromkeys(
        (
            "links",
            "failed",
            "slowest_gb_per_s",
            "fastest_gb_per_s",
            "least_latency_ns",
            "most_latency_ns",
        ),
        1,
    )
    drawn: dict[str, Any] = {**cable, "a": ends[0], "b": ends[1], "busy_ns": None, "bytes": None}
    picture = {"layout": layout, "cells": [{**CELL, "at": at}], "cables": [drawn], "sorts": []}
    assert word in said(json.dumps({**report, "picture": picture}))


def said(text: str | bytes) -> str:
    with pytest.raises(InputError) as caught:
        reading.parse(text, "r.json")
    (problem,) = caught.value.problems
    assert problem.file == "r.json"
    assert problem.help
    return f"{problem.place} {problem.message}"


def test_what_is_no_report_is_refused() -> None:
    assert "truncated" in said("{")
    assert "is None" in said("[]")
    assert "'armillary.check/1'" in said('{"schema": "armillary.check/1"}')
    assert said(b"\xff\xfe{}")


@pytest.mark.parametrize(
    ("path", "value", "word"),
    [
        (["classes", 0, "compute_ns"], "long", "$.classes[0].compute_ns"),
        (["detail", "layers", 1, "layer"], 7, "$.detail.layers[1].layer"),
        (
            ["config", "platform", "fabric", "dims", 0, "size"],
            None,
            "$.platform.fabric.dims[0].size",
        ),
        (["config", "workload", "summary", "flops"], "many", "$.workload.summary.flops"),
        (["config"], {}, "required field"),
    ],
)
def test_the_wrong_field_is_named(
    report: Report, path: list[Any], value: object, word: str
) -> None:
    wrong: Any = copy.deepcopy(report)
    at = wrong
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    assert word in said(json.dumps(wrong))


def _changed(report: Report, path: list[Any], value: object) -> str:
    wrong: Any = copy.deepcopy(report)
    at = wrong
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return json.dumps(wrong)


@pytest.mark.parametrize(
    ("path", "value", "place", "message"),
    [
        (
            ["detail", "collectives", 0, "phases", 0, "dim"],
            7,
            "detail.collectives[0].phases[0].dim",
            "no such dimension",
        ),
        (
            ["detail", "collectives", 0, "terms", 0, "dim"],
            2,
            "detail.collectives[0].terms[0].dim",
            "no such dimension",
        ),
        (["detail", "layers", 1, "rank_class"], 99, "detail.layers[1].rank_class", "no such class"),
        (["detail", "memory", 0, "rank_class"], 99, "detail.memory[0].rank_class", "no such class"),
        (["detail", "gantt", 0, "rank_class"], 99, "detail.gantt[0].rank_class", "no such class"),
        (["detail", "activity", "compute"], [0.5], "detail.activity.compute", "has 1 bins"),
        (["classes", 0, "compute_ns"], -1.0, "classes[0].compute_ns", "is -1.0"),
        (["step_time_ns"], -5.0, "step_time_ns", "is -5.0"),
        (["dimensions"], [], "config.platform.fabric.dims", "2 dimensions, where the report has 0"),
    ],
)
def test_parts_that_do_not_fit_one_another_are_named(
    report: Report, path: list[Any], value: object, place: str, message: str
) -> None:
    with pytest.raises(InputError) as caught:
        reading.parse(_changed(report, path, value), "r.json")
    found = {problem.place: problem for problem in caught.value.problems}
    assert message in found[place].message
    assert (found[place].file, bool(found[place].help)) == ("r.json", True)


@pytest.mark.parametrize("deep", ["[", '{"a":'])
def test_a_report_nested_too_deeply_is_refused(deep: str) -> None:
    assert "nested too deeply" in said('{"schema": ' + deep * 100_000)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can't be read: No such file"):
        reading.read(tmp_path / "none.json")

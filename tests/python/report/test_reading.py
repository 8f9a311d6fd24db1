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


def test_reports_without_detail_are_read(report: Report) -> None:
    old: dict[str, Any] = dict(report)
    del old["detail"]
    assert reading.parse(json.dumps(old))["detail"] is None


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
        (["config", "platform", "fabric", "dims", 0, "size"], None, "$.platform.fabric.dims[0].size"),
        (["config", "workload", "summary", "flops"], "many", "$.workload.summary.flops"),
        (["config"], {}, "required field"),
    ],
)
def test_the_wrong_field_is_named(report: Report, path: list[Any], value: object, word: str) -> None:
    wrong: Any = copy.deepcopy(report)
    at = wrong
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    assert word in said(json.dumps(wrong))


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can't be read: No such file"):
        reading.read(tmp_path / "none.json")

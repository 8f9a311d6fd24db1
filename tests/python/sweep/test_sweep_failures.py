"""Points that do not run: combinations that can't exist are no faults; both are said, grouped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import Armillary

import armillary as arm

pytestmark = pytest.mark.usefixtures("workers_in_copies")


def study(**parameters: list[Any]) -> dict[str, Any]:
    """megatron-1.7b has 24 layers, 24 heads and 8 NPUs here: 16 ranks do not exist, nor do 5
    stages."""
    return {
        "name": "grid",
        "workload": {"model": "megatron-1.7b", "options": {"global_batch": 16}},
        "platform": {"file": "dgx-h100"},
        "parameters": {f"workload.{name}": values for name, values in parameters.items()},
    }


def test_illegal_combinations_are_no_faults(armillary: Armillary, tmp_path: Path) -> None:
    path = tmp_path / "s.yml"
    path.write_text(yaml.safe_dump(study(tp=[1, 2, 5], dp=[4, 8])))
    ran = armillary("sweep", str(path), "-o", str(tmp_path / "r"), "--json", str(tmp_path / "j"))
    summary = json.loads((tmp_path / "j").read_text())
    assert (ran.returncode, summary["failed"], summary["impossible"]) == (0, 0, 4), ran.stderr
    assert "4 of 6 points can't exist, which is not a fault:" in ran.stderr
    assert "heads" in ran.stderr
    assert "Combinations that can't exist" in (tmp_path / "r/report.html").read_text()


def test_a_value_that_is_none_is_a_fault(armillary: Armillary, tmp_path: Path) -> None:
    path = tmp_path / "s.yml"
    path.write_text(yaml.safe_dump(study(dp=[8], recompute=["full", "fulll"])))
    ran = armillary("sweep", str(path), "-o", str(tmp_path / "r"), "--json", str(tmp_path / "j"))
    summary = json.loads((tmp_path / "j").read_text())
    assert (ran.returncode, summary["failed"], summary["impossible"]) == (1, 1, 0), ran.stderr
    assert "1 of 2 points failed:" in ran.stderr
    assert "fulll" in ran.stderr


def test_losers_say_what_they_lose() -> None:
    """1F1B on 2 stages and 4 micro-batches leaves (2 - 1) / (4 + 2 - 1) of the step empty
    (Narayanan et al. 2021, section 2.2)."""
    found = arm.sweep(study(pp=[1, 2], dp=[8, 4]), workers=1)
    assert (found.failed, found.impossible) == (0, 2)
    ran = found.table.filter(found.table["error"].is_null())
    by_stages = {row["workload.pp"]: row for row in ran.iter_rows(named=True)}
    assert by_stages[1]["bubble"] == 0
    assert abs(by_stages[2]["bubble"] - 1 / 5) < 0.01
    section = next(s for s in found.page().sections if s.title == "Why others are slower")
    table: Any = section.parts[-1]
    assert list(table.columns) == [
        "point: what differs",
        "step",
        "bubble",
        "compute",
        "exposed comm.",
        "idle",
    ]
    assert len(table.rows) == 2

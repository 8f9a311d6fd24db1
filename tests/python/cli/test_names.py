"""Names that are not UTF-8, and few open files: results, or exit code 2."""

from __future__ import annotations

from pathlib import Path

import odd_names
import pytest
from odd_names import BAD
from thorough import some

PLATFORM = "topology: Ring(2)\nlinks: {bandwidth: 1 GB/s, latency: 1 us, per: npu}\n"
ONE = ["collective", "all_reduce", "-b", "1M", "-e", "1M"]

VERBS = [
    ["check", "-p", BAD],
    ["check", BAD, "-p", "dgx-h100"],
    [*ONE, "-p", BAD],
    [*ONE, "-p", "p.yml", "--json", f"{BAD}.json"],
    [*ONE, "-p", "p.yml", "--report", f"{BAD}.html"],
    [*ONE, "-p", "p.yml", "--set", f"topology={BAD}"],
    [*ONE, "-p", f"{BAD}.yml", "--report", "r.html", "--json", "r.json"],
    ["run", BAD, "-p", "dgx-h100"],
    ["run", "llama-3-8b", "--tp", "2", "-p", f"{BAD}.yml", "--report", "r.html"],
    ["run", "llama-3-8b", "--tp", "2", "-p", "p.yml", "--timeline", f"{BAD}.pftrace"],
    ["workload", "llama-3-8b", "--tp", "2", "-o", BAD],
    ["workload", BAD, "-o", "out"],
    ["explain", BAD],
    ["report", BAD, "-o", "r.html"],
    ["compare", BAD, BAD],
    ["sweep", BAD],
    ["design", BAD],
    ["plan", BAD],
    ["import", BAD, "-o", "out"],
    ["calibrate", BAD, "-p", "dgx-h100"],
    ["traffic", "-p", BAD],
    ["traffic", "-p", "p.yml", "--pattern", f"{BAD}.csv"],
    ["platform", BAD],
    ["convert", BAD, "-o", "out"],
]


@pytest.mark.parametrize("arguments", some(VERBS), ids=lambda arguments: " ".join(arguments)[:40])
def test_names_that_are_not_utf_8(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "p.yml").write_text(PLATFORM, encoding="utf-8")
    (tmp_path / f"{BAD}.yml").write_text(PLATFORM, encoding="utf-8")
    odd_names.check(arguments, tmp_path)


def test_charts_are_left_out_where_few_files_may_be_open(tmp_path: Path) -> None:
    (tmp_path / "p.yml").write_text(PLATFORM, encoding="utf-8")
    code, said = odd_names.run([*ONE, "-p", "p.yml", "--report", "r.html"], tmp_path, 16)
    assert code in (0, 2), said
    assert "panicked" not in said
    assert "internal error" not in said
    assert "ulimit -n" in said

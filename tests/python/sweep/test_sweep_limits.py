"""Sweeps at the edges: counts beyond 64 bits, values that no study can hold, searches that find
nothing, journals that are none."""

from __future__ import annotations

import csv
import io
import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import toy_studies

import armillary as arm
from armillary.errors import InputError
from armillary.sweep import check, columns, load, points
from armillary.sweep.runner import Finished
from armillary.sweep.table import content, table

pytestmark = pytest.mark.usefixtures("workers_in_copies")

LLAMA = {
    "workload": {
        "model": "llama-3-405b",
        "options": {"tp": 8, "pp": 16, "dp": 128, "global_batch": 512, "zero": 1, "sp": True},
    },
    "platform": {"file": "dgx-h100-16n", "npus": 16384},
    "parameters": {"workload.recompute": ["none", "full"]},
}
"""A step of more than 2^63 FLOPs."""


def test_a_step_of_more_than_2_to_the_63_operations(tmp_path: Path) -> None:
    found = arm.sweep(LLAMA, tmp_path / "r", workers=1)
    summary = arm.workload.build("llama-3-405b", **LLAMA["workload"]["options"]).summary  # type: ignore[index]
    assert summary is not None
    assert summary.flops > 2**63
    assert (found.failed, found.table["model_flops"].to_list()) == (0, [summary.flops] * 2)
    assert load(tmp_path / "r").table.equals(found.table)
    assert arm.sweep(LLAMA, tmp_path / "r", workers=1, resume=True).table.equals(found.table)
    assert str(summary.flops) in found.table.write_csv()
    assert "Best points" in found.html()
    assert str(summary.flops) in found.table._repr_html_().replace("&nbsp;", "")


def results(**changes: object) -> dict[str, Any]:
    """Those of a run on one dimension."""
    found: dict[str, Any] = dict.fromkeys(columns.NUMBERS, 1.5)
    found |= dict.fromkeys((*columns.COUNTS, *columns.SIZES), 2) | {"fits": "yes"}
    found |= dict.fromkeys(columns.TEXTS, "00")
    return found | {"dim1_utilisation": 0.5, "dim1_busy_ns": 1.0, "dim1_bytes": 3} | changes


@pytest.mark.parametrize("count", [2**63, 2**64, 2**70 + 1, 10**38 - 1])
def test_counts_of_any_size_keep_every_digit(count: int, tmp_path: Path) -> None:
    row = Finished(
        0, [count], None, results(model_flops=count, memory_bytes=count, dim1_bytes=count)
    )
    assert columns.fault(row.results) == ""
    frame = table(["seed"], [row])
    (tmp_path / "t.parquet").write_bytes(content(frame, {}))
    back = pl.read_parquet(tmp_path / "t.parquet")
    assert back.equals(frame.to_polars())
    names = ["seed", "model_flops", "memory_bytes", "dim1_bytes"]
    assert back.select(names).row(0) == (count,) * 4
    cells = next(csv.DictReader(io.StringIO(frame.to_csv())))
    assert [cells[name] for name in names] == [str(count)] * 4


def test_a_count_that_no_table_holds_is_the_error_of_its_point() -> None:
    with pytest.raises(InputError, match=r"dim1_bytes: has 39 digits, more than the 38"):
        columns._require_room(results(dim1_bytes=10**38))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"parameters": {"platform.scheduler.chunks": {"from": 1, "to": 5_000_000}}},
            "has 5,000,000 whole numbers",
        ),
        ({"parameters": {"workload.passes": [10**40]}}, "the whole number is too large"),
        ({"name": "\ud800"}, "holds half of a surrogate pair"),
        ({"constraints": ['"\ud800" == chunks']}, "holds half of a surrogate pair"),
        ({"constraints": ["chunks < 1e999"]}, "a number in it is too large"),
        ({"constraints": ["chunks > inf"]}, "unknown name inf in 'chunks > inf'"),
        (
            {"workload": {"model": float("inf")}, "constraints": ["chunks > 0"]},
            "workload.model: is inf",
        ),
        (
            {"platform": {"file": "toy.yml", "npus": float("nan")}, "constraints": ["npus > 0"]},
            "platform.npus: is nan",
        ),
    ],
)
def test_values_that_no_study_can_have(
    tmp_path: Path, changes: dict[str, Any], expected: str
) -> None:
    toy_studies.files(tmp_path)
    study = {
        "parameters": {"platform.scheduler.chunks": [1]},
        "workload": "work",
        "platform": "toy.yml",
        **changes,
    }
    found = check(study)
    assert any(expected in str(problem) for problem in found), found


def test_what_no_file_can_hold_is_refused() -> None:
    assert "PosixPath is not JSON serializable" in str(check({"workload": Path("work")})[0])
    deep: list[Any] = []
    for _ in range(500):
        deep = [deep]
    assert "is nested too deeply" in str(check({"workload": deep})[0])


def test_a_random_search_that_finds_nothing_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(points, "_MISSES", 500)
    path = toy_studies.write(
        tmp_path,
        toy_studies.study(
            search={"kind": "random", "points": 1_000_000}, constraints=["chunks > 5"]
        ),
    )
    assert "leave 0 of the 1,000,000 points of 500 combinations" in str(check(path)[0])


def spoiled(tmp_path: Path, **changes: object) -> tuple[Path, Path]:
    """A finished sweep whose journal says something else of its second point."""
    path = toy_studies.write(tmp_path, toy_studies.study())
    arm.sweep(path, tmp_path / "r", workers=1)
    journal = tmp_path / "r/journal.jsonl"
    head, first, second, *rest = journal.read_text().splitlines()
    changed = {**json.loads(second), **changes}
    if "results" in changes:
        results = changes["results"]
        assert isinstance(results, dict)
        changed["results"] = {**json.loads(second)["results"], **results} if results else {}
    journal.write_text("\n".join([head, first, json.dumps(changed), *rest]) + "\n")
    return path, journal


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"index": -1}, "there is no point -1"),
        ({"index": 10**6}, "there is no point 1000000"),
        ({"index": 10**400}, "there is no such point"),
        ({"values": [1]}, "it has 1 values of 2 parameters"),
        ({"results": {}}, "step_time_ns is missing"),
        ({"results": {"step_time_ns": "x"}}, "step_time_ns is 'x', not a number from 0"),
        ({"results": {"step_time_ns": None}}, "step_time_ns is None"),
        ({"results": {"step_time_ns": [1]}}, "step_time_ns is"),
        ({"results": {"step_time_ns": -1.0}}, "step_time_ns is -1.0"),
        ({"results": {"step_time_ns": 10**400}}, "step_time_ns is a number of many digits"),
        ({"results": {"model_flops": 10**39}}, "model_flops is"),
        ({"results": {"ranks": 1.5}}, "ranks is 1.5, not a whole number from 0"),
        ({"results": {"fits": 1}}, "fits is 1, not yes, near or no"),
        ({"results": {"colour": 1}}, "colour is not a column of results"),
        ({"error": "e"}, "it has failed, and has results"),
    ],
)
def test_a_journal_that_was_changed_is_refused_and_kept(
    tmp_path: Path, changes: dict[str, Any], expected: str
) -> None:
    path, journal = spoiled(tmp_path, **changes)
    before = journal.read_bytes()
    with pytest.raises(InputError, match=f"line 3: is not a finished point: {expected}"):
        arm.sweep(path, tmp_path / "r", resume=True)
    assert journal.read_bytes() == before


@pytest.mark.parametrize(
    "content", [b"my own data, no newline", b"{}", b'{"a": 1}\n', b"\0" * 100, b"[" * 5000]
)
def test_a_file_that_is_no_journal_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    path = toy_studies.write(tmp_path, toy_studies.study())
    journal = tmp_path / "r/journal.jsonl"
    journal.parent.mkdir()
    journal.write_bytes(content)
    with pytest.raises(InputError, match="is not a journal of a sweep"):
        arm.sweep(path, tmp_path / "r", resume=True)
    assert journal.read_bytes() == content


def test_a_header_cut_off_goes_on(tmp_path: Path) -> None:
    path = toy_studies.write(tmp_path, toy_studies.study())
    arm.sweep(path, tmp_path / "r", workers=1)
    journal = tmp_path / "r/journal.jsonl"
    whole = journal.read_bytes()
    for size in (1, 50, whole.index(b"\n")):
        journal.write_bytes(whole[:size])
        assert arm.sweep(path, tmp_path / "r", workers=1, resume=True).table.height == 12
        assert journal.read_bytes() == whole


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds a process to RLIMIT_AS")
def test_a_limit_on_addresses_costs_the_charts_and_not_the_sweep(tmp_path: Path) -> None:
    """`ulimit -v`, as batch systems set it: V8 ended the process with SIGTRAP after the table was
    written."""
    path = toy_studies.write(tmp_path, toy_studies.study())
    command = [
        sys.executable,
        "-m",
        "armillary.cli",
        "sweep",
        str(path),
        "-o",
        str(tmp_path / "r"),
        "--workers",
        "1",
    ]

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (16 << 30, resource.RLIM_INFINITY))

    run = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit, check=False)
    assert (run.returncode, "12 points, 0 failed" in run.stdout) == (0, True), run.stderr
    assert run.stderr.count("charts are not drawn") == 1
    assert "Best first" in (tmp_path / "r/report.html").read_text()

"""Sweeps: the table, failures, kills, going on."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import toy_studies
from conftest import Armillary
from rich.console import Console
from thorough import usually

import armillary as arm
from armillary.cli import sweep as verb
from armillary.errors import InputError
from armillary.sweep import Status
from armillary.sweep import run as running
from armillary.sweep.columns import PARTS
from armillary.workload import build

pytestmark = pytest.mark.usefixtures("workers_in_copies")

POINTS = usually(200, 400)
MANY = {
    "x": {
        "set": "platform.links[1].bandwidth",
        "from": "10 GB/s",
        "to": "40 GB/s",
        "steps": POINTS,
    }
}


def test_every_row_is_what_simulate_says(tmp_path: Path) -> None:
    found = arm.sweep(toy_studies.write(tmp_path, toy_studies.study()), workers=2)
    assert (found.table.height, found.failed, found.refused) == (12, 0, 0)
    workload = arm.load(tmp_path / "work")
    for row in found.table.iter_rows(named=True):
        settings = {
            "scheduler.chunks": row["platform.scheduler.chunks"],
            "links[1].bandwidth": row["outer"],
        }
        report = arm.simulate(workload, arm.Platform.load(tmp_path / "toy.yml", settings)).report
        critical = max(report["classes"], key=lambda each: each["finish_ns"])
        assert row["step_time_ns"] == report["step_time_ns"]
        assert row["digest"] == report["digest"]
        assert row["compute_ns"] == critical["compute_ns"]
        assert row["exposed_comm_ns"] == critical["exposed_comm_ns"]
        assert row["dim2_utilisation"] == report["dimensions"][1]["utilisation"]
        assert row["error"] is None
        parts = [part for part in PARTS if part != "comm_ns"]
        assert sum(row[part] for part in parts) == pytest.approx(row["step_time_ns"])


def test_intervals_are_those_of_a_run() -> None:
    options = {"tp": 8, "global_batch": 8, "seq": 2048}
    study = {
        "workload": {"model": "llama-3-8b", "options": options},
        "platform": "dgx-h100",
        "parameters": {"workload.precision": ["bf16", "fp8"]},
    }
    found = arm.sweep(study)
    assert found.failed == 0
    for row in found.table.iter_rows(named=True):
        made = build("llama-3-8b", **options, precision=row["workload.precision"])
        interval = arm.simulate(made, "dgx-h100").interval
        assert interval is not None
        assert (row["step_low_ns"], row["step_high_ns"]) == interval.of(row["step_time_ns"])


def test_means_and_rates_of_a_pipeline() -> None:
    """Model FLOPs, samples and means against the summary and the report, by their definitions."""
    options = {"tp": 2, "pp": 2, "global_batch": 4}
    study = {
        "workload": {"model": "megatron-1.7b", "options": options},
        "platform": "dgx-h100",
        "parameters": {"workload.dp": [2]},
    }
    row = arm.sweep(study, workers=1).table.row(0, named=True)
    workload = arm.workload.build("megatron-1.7b", dp=2, **options)
    report = arm.simulate(workload, arm.Platform.load("dgx-h100")).report
    summary = workload.summary
    assert summary is not None
    seconds = report["step_time_ns"] / 1e9
    assert row["samples_per_s"] == pytest.approx(4 / seconds)
    assert row["mfu"] == pytest.approx(summary.flops / seconds / (8 * 989e12))
    mean = sum(each["compute_ns"] * each["count"] for each in report["classes"]) / 8
    assert row["mean_compute_ns"] == pytest.approx(mean)
    assert row["memory_bytes"] == max(entry.memory.total for entry in summary.classes)


def test_same_bytes_whatever_the_workers(tmp_path: Path) -> None:
    path = toy_studies.write(tmp_path, toy_studies.study())
    for workers in (1, 2, 3):
        arm.sweep(path, tmp_path / f"r{workers}", workers=workers)
    tables = {(tmp_path / f"r{workers}/table.parquet").read_bytes() for workers in (1, 2, 3)}
    assert len(tables) == 1


def test_a_failed_point_is_a_row(tmp_path: Path) -> None:
    parameters = {"platform.scheduler.chunks": [0, 1, "many", 2]}
    found = arm.sweep(
        toy_studies.write(tmp_path, toy_studies.study(parameters=parameters)), tmp_path / "r"
    )
    assert found.failed == 2
    assert found.table["error"].is_null().to_list() == [False, True, False, True]
    assert "scheduler.chunks" in found.table["error"][0]
    assert found.table["step_time_ns"].is_null().to_list() == [True, False, True, False]
    assert found.table["platform.scheduler.chunks"].to_list() == ["0", "1", "many", "2"]


def test_points_that_differ_in_dimensions_share_a_table(tmp_path: Path) -> None:
    parameters = {"topo": {"set": "platform.logical", "values": [[8], [2, 4], [2, 2, 2]]}}
    table = arm.sweep(toy_studies.write(tmp_path, toy_studies.study(parameters=parameters))).table
    assert table["topo"].to_list() == ["[8]", "[2, 4]", "[2, 2, 2]"]
    assert table["error"].null_count() == 3


def test_a_study_that_can_not_run_is_refused(tmp_path: Path) -> None:
    path = toy_studies.write(
        tmp_path, toy_studies.study(parameters={"platform.scheduler.chunk": [1, 2]})
    )
    with pytest.raises(InputError, match=r"scheduler.chunk"):
        arm.sweep(path, tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_progress_counts_up(tmp_path: Path) -> None:
    seen: list[Status] = []
    found = arm.sweep(toy_studies.write(tmp_path, toy_studies.study()), progress=seen.append)
    assert [each.done for each in seen] == sorted(each.done for each in seen)
    assert seen[-1].done == seen[-1].total == 12
    assert seen[-1].best_ns == found.table["step_time_ns"].min()


def children(pid: int) -> list[int]:
    return [
        int(each)
        for listed in Path(f"/proc/{pid}/task").glob("*/children")
        for each in listed.read_text().split()
    ]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def started(path: Path, folder: Path, lines: int, *arguments: str) -> subprocess.Popen[str]:
    """A sweep on the command line that has at least so many lines in its journal."""
    command = [
        sys.executable,
        "-m",
        "armillary.cli",
        "sweep",
        str(path),
        "-o",
        str(folder),
        *arguments,
    ]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    journal = folder / "journal.jsonl"
    while process.poll() is None and (
        not journal.is_file() or journal.read_bytes().count(b"\n") < lines
    ):
        time.sleep(0.005)
    return process


@pytest.mark.skipif(
    not Path("/proc/self/task").is_dir(), reason="children are found in /proc, which is Linux"
)
def test_killed_again_and_again_it_ends_as_if_never_killed(tmp_path: Path) -> None:
    path = toy_studies.write(tmp_path, toy_studies.study(parameters=MANY))
    whole = arm.sweep(path, tmp_path / "whole")
    folder, kept, kills = tmp_path / "killed", 0, 0
    for _ in range(3):
        process = started(path, folder, kept + 30, "-j", "2", *(["--resume"] if kept else []))
        workers = children(process.pid)
        kills += process.poll() is None
        process.kill()
        _, said = process.communicate()
        assert "Traceback" not in said
        lines = (folder / "journal.jsonl").read_bytes().split(b"\n")
        assert len(lines) - 1 > kept
        kept = len(lines) - 1
        assert all(json.loads(line) for line in lines[:-1])
        deadline = time.monotonic() + 20
        while any(map(alive, workers)) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not any(map(alive, workers)), "workers outlive the sweep"
    assert kills, "the sweep was over before it could be killed"
    resumed: list[Status] = []
    found = arm.sweep(path, folder, resume=True, progress=resumed.append)
    assert resumed[-1].resumed >= kept - 1
    assert found.table.equals(whole.table)
    assert (folder / "table.parquet").read_bytes() == (
        tmp_path / "whole/table.parquet"
    ).read_bytes()


@pytest.mark.parametrize("left", [1, 200])
def test_a_line_cut_off_anywhere_is_run_again(tmp_path: Path, left: int) -> None:
    path = toy_studies.write(tmp_path, toy_studies.study())
    arm.sweep(path, tmp_path / "r")
    before = (tmp_path / "r/table.parquet").read_bytes()
    journal = tmp_path / "r/journal.jsonl"
    content = journal.read_bytes()
    for size in (len(content) - left, left):  # in the last point, in the header
        journal.write_bytes(content[:size])
        (tmp_path / "r/table.parquet").unlink()
        arm.sweep(path, tmp_path / "r", resume=True)
        assert (tmp_path / "r/table.parquet").read_bytes() == before


@pytest.mark.skipif(
    not Path("/proc/self/task").is_dir(), reason="children are found in /proc, which is Linux"
)
def test_a_killed_worker_costs_one_point(tmp_path: Path) -> None:
    path = toy_studies.write(tmp_path, toy_studies.study(parameters=MANY))
    process = started(path, tmp_path / "r", 40, "-j", "2")
    os.kill(children(process.pid)[0], signal.SIGKILL)
    _, said = process.communicate()
    assert process.returncode == 1
    assert f"1 of {POINTS} points failed" in said
    table = pl.read_parquet(tmp_path / "r/table.parquet")
    assert table["index"].to_list() == list(range(POINTS))
    assert table["error"].drop_nulls().to_list() == ["the worker process ended with signal 9"]


def test_failed_points_run_again_when_asked(tmp_path: Path) -> None:
    """The file of a platform is missing for half of the points."""
    files = {"platform.file": ["toy.yml", "other.yml"], "platform.scheduler.chunks": [1, 2, 4]}
    path = toy_studies.write(tmp_path, toy_studies.study(platform="toy.yml", parameters=files))
    first = arm.sweep(path, tmp_path / "r")
    assert first.failed == 3
    assert arm.sweep(path, tmp_path / "r", resume=True).failed == 3
    assert len((tmp_path / "r/journal.jsonl").read_bytes().splitlines()) == 7
    again: list[Status] = []
    found = arm.sweep(path, tmp_path / "r", resume=True, retry_failed=True, progress=again.append)
    assert again[0].resumed == 3
    assert again[-1].done == 6
    assert found.table.drop("error").equals(first.table.drop("error"))
    assert len((tmp_path / "r/journal.jsonl").read_bytes().splitlines()) == 10


def test_a_point_that_ran_the_second_time_has_not_failed(tmp_path: Path) -> None:
    path = toy_studies.write(tmp_path, toy_studies.study())
    whole = arm.sweep(path, tmp_path / "r")
    journal = tmp_path / "r/journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    broken = json.loads(lines[5]) | {
        "error": "the worker process ended with signal 9",
        "results": {},
    }
    journal.write_bytes(b"".join([*lines[:5], json.dumps(broken).encode() + b"\n", *lines[6:]]))
    assert arm.sweep(path, tmp_path / "r", resume=True).failed == 1
    for _ in range(2):
        found = arm.sweep(path, tmp_path / "r", resume=True, retry_failed=True)
        assert found.failed == 0
        assert found.table.equals(whole.table)
    assert arm.sweep(path, tmp_path / "r", resume=True).failed == 0


def test_what_can_not_be_run_again_is_said(tmp_path: Path) -> None:
    path = toy_studies.write(tmp_path, toy_studies.study())
    with pytest.raises(InputError, match=r"retry_failed.*resume"):
        arm.sweep(path, tmp_path / "r", retry_failed=True)
    search = {"kind": "optuna", "points": 4, "minimize": "step_time_ns"}
    path = toy_studies.write(tmp_path, toy_studies.study(search=search))
    with pytest.raises(InputError, match="Optuna chose"):
        arm.sweep(path, tmp_path / "r", resume=True, retry_failed=True)


def test_checks_on_workers_find_what_one_process_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"platform.npus": [8, 16], "platform.scheduler.chunks": [1, 2, 0]}
    path = toy_studies.write(tmp_path, toy_studies.study(parameters=changes))
    alone, seen = running.check(path), list[Status]()
    monkeypatch.setattr(running, "_ALONE_S", -1.0)
    assert running.check(path, seen.append, workers=2) == alone
    assert len(alone) > 1
    assert [status.done for status in seen] == [1, 2, 3, 4, 5, 6]
    assert seen[-1].failed == 4


def test_progress_in_a_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line every ten seconds, of the points run since the sweep went on; none when it is over."""
    clock = iter([0.0, 4.0, 11.0, 11.0, 12.0, 30.0])
    monkeypatch.setattr(verb, "monotonic", lambda: next(clock))
    with verb._live() as progress:
        for done in (100, 1200, 1250, 2000):
            progress(Status(done, 2000, 3, 100, 1.0))
    assert capsys.readouterr().err == "1,200 of 2,000 points, 3 failed, 100.0/s, 0:00:08 left\n"


@pytest.mark.parametrize(
    "status", [Status(999_999, 1_000_000, 1_000_000, 0, 9.9e12), Status(0, 1, 0, 0, None)]
)
def test_the_live_table_fits_eighty_columns(status: Status) -> None:
    console = Console(width=80, file=io.StringIO(), record=True)
    console.print(verb._progress(status, 360_000.0))
    assert "\u2026" not in (text := console.export_text())
    assert len([line for line in text.splitlines() if line.strip()]) == 2


def test_in_a_notebook(tmp_path: Path) -> None:
    found = arm.sweep(toy_studies.write(tmp_path, toy_studies.study(name="<b>toy</b>")))
    html = found._repr_html_()
    assert "&lt;b&gt;toy&lt;/b&gt;</b>: 12 points" in html
    assert "<table" in html


def test_interrupted_it_keeps_what_is_done(tmp_path: Path) -> None:
    path = toy_studies.write(tmp_path, toy_studies.study(parameters=MANY))
    process = started(path, tmp_path / "r", 50)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130
    assert "points are kept; --resume continues" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"seed": 3}, "study.seed: is new since the sweep began"),
        ({"backend": "link"}, "study.backend: is new"),
        (
            {"parameters": {"platform.scheduler.chunks": [1, 2, 4]}},
            "study.parameters.outer: is gone",
        ),
        (
            {
                "parameters": {
                    **toy_studies.study()["parameters"],
                    "platform.scheduler.chunks": [1, 2],
                }
            },
            "study.parameters.platform.scheduler.chunks: is [1, 2], was [1, 2, 4]",
        ),
        (
            {"parameters": dict(reversed(toy_studies.study()["parameters"].items()))},
            "study.parameters: are in another order",
        ),
    ],
)
def test_another_study_does_not_go_on(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    arm.sweep(toy_studies.write(tmp_path, toy_studies.study()), tmp_path / "r")
    before = (tmp_path / "r/journal.jsonl").read_bytes()
    with pytest.raises(InputError) as raised:
        arm.sweep(
            toy_studies.write(tmp_path, toy_studies.study(**changes)), tmp_path / "r", resume=True
        )
    assert len(raised.value.problems) == 1
    assert said in str(raised.value)
    assert (tmp_path / "r/journal.jsonl").read_bytes() == before


def test_another_platform_file_does_not_go_on(tmp_path: Path) -> None:
    path = toy_studies.write(tmp_path, toy_studies.study())
    arm.sweep(path, tmp_path / "r")
    (tmp_path / "toy.yml").write_text(toy_studies.PLATFORM.replace("25 GB/s", "26 GB/s"))
    with pytest.raises(InputError, match=r"files.toy.yml: is .*, was"):
        arm.sweep(path, tmp_path / "r", resume=True)


def test_a_directory_in_use_or_used_is_refused(tmp_path: Path) -> None:
    import fcntl

    path = toy_studies.write(tmp_path, toy_studies.study())
    arm.sweep(path, tmp_path / "r")
    with pytest.raises(InputError, match="this directory holds a sweep"):
        arm.sweep(path, tmp_path / "r")
    with (tmp_path / "r/journal.jsonl").open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="in use by another process"):
            arm.sweep(path, tmp_path / "r", resume=True)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="can't be written"):
        arm.sweep(path, tmp_path / "file")


def test_a_damaged_journal_is_refused(tmp_path: Path) -> None:
    path = toy_studies.write(tmp_path, toy_studies.study())
    arm.sweep(path, tmp_path / "r")
    journal = tmp_path / "r/journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:3], b"{}\n", *lines[4:]]))
    with pytest.raises(InputError, match="line 4: is not a finished point"):
        arm.sweep(path, tmp_path / "r", resume=True)
    # Points are written as they finish, so any of them may be here.
    wrong = re.sub(rb'"\d+ GB/s"', b'"11 GB/s"', lines[1])
    assert wrong != lines[1]
    journal.write_bytes(b"".join([lines[0], wrong, *lines[2:]]))
    with pytest.raises(InputError, match="the journal of this study"):
        arm.sweep(path, tmp_path / "r", resume=True)


def test_points_of_one_workload_come_together(tmp_path: Path) -> None:
    found = running._read({
        "workload": {"model": "alexnet"},
        "platform": "dgx-h100",
        "parameters": {"platform.scheduler.chunks": [1, 2], "workload.dp": [4, 8]},
    })  # fmt: skip
    order = running._by_workload(found, running._first(found))
    assert [[values for _, values in group] for group in order] == [
        [(1, 4), (2, 4)],
        [(1, 8), (2, 8)],
    ]


def test_command_line(armillary: Armillary, tmp_path: Path) -> None:
    path = toy_studies.write(
        tmp_path, toy_studies.study(parameters={"platform.scheduler.chunks": [1, 0, 2]})
    )
    run = armillary("sweep", path, "-o", tmp_path / "r", "--csv", "-")
    assert run.returncode == 1
    assert "1 of 3 points failed" in run.stderr
    rows = list(csv.DictReader(run.stdout.splitlines()))
    assert [row["platform.scheduler.chunks"] for row in rows] == ["1", "0", "2"]
    assert (
        float(rows[0]["step_time_ns"])
        == pl.read_parquet(tmp_path / "r/table.parquet")["step_time_ns"][0]
    )
    again = armillary("sweep", path, "-o", tmp_path / "r", "--resume", "--json", "-")
    assert again.returncode == 1
    assert {key: json.loads(again.stdout)[key] for key in ("points", "failed", "refused")} == {
        "points": 3,
        "failed": 1,
        "refused": 0,
    }
    shown = armillary("sweep", path, "-o", tmp_path / "r", "--resume")
    assert "3 points, 1 failed" in shown.stdout


def test_command_line_check(armillary: Armillary, tmp_path: Path) -> None:
    good = toy_studies.write(tmp_path, toy_studies.study())
    assert armillary("sweep", good, "--check").stdout == "no problem found\n"
    bad = toy_studies.write(tmp_path, toy_studies.study(backend="ns3", seed=-1), "bad.yml")
    run = armillary("sweep", bad, "--check", "--json", "-")
    assert run.returncode == 2
    assert "2 problems" in run.stderr
    assert len(json.loads(run.stdout)["problems"]) == 2
    run = armillary("sweep", bad, "-o", tmp_path / "r")
    assert run.returncode == 2
    assert not (tmp_path / "r").exists()
    run = armillary("sweep", good)
    assert run.returncode == 2
    assert "--output" in run.stderr
    run = armillary("sweep", good, "-o", "r", "--executor", "slurm")
    assert run.returncode == 2
    assert "unknown executor 'slurm'" in run.stderr
    assert not (tmp_path / "r").exists()

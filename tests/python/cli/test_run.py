"""`armillary run`, as a user calls it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import toy
from conftest import Armillary

from armillary.schema import Report


@pytest.mark.parametrize("backend", ["analytical", "link"])
def test_golden(
    backend: str, armillary: Armillary, tmp_path: Path, golden: Callable[[str, str], None]
) -> None:
    toy.platform(tmp_path), toy.traces(tmp_path)
    run = armillary("run", "traces", "--platform", "toy.yml", "--backend", backend)
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    golden(f"run_{backend}.txt", run.stdout)


def test_machine_output(armillary: Armillary, tmp_path: Path) -> None:
    toy.platform(tmp_path), toy.traces(tmp_path)
    shown = armillary("run", "traces/trace.%d.et", "-p", "toy.yml", "--json", "-")
    written = armillary("run", "traces/trace", "-p", "toy.yml", "--json", "out.json", "--no-fold")
    assert (shown.returncode, written.returncode) == (0, 0), shown.stderr + written.stderr
    report: Report = json.loads(shown.stdout)
    assert shown.stdout.count('"traces/trace.%d.et"') == 1
    assert (tmp_path / "out.json").read_text() == shown.stdout.replace(
        "traces/trace.%d.et", "traces/trace"
    ), "folded and unfolded, found by pattern or prefix: the same bytes but for the path"
    assert report["schema"] == "armillary.report/1"
    assert set(report) == set(Report.__annotations__)
    assert len(report["digest"]) == 16
    assert report["ranks"] == sum(item["count"] for item in report["classes"]) == 8
    for item in report["classes"]:
        exposed = item["exposed_comm_ns"] + item["exposed_remote_ns"] + item["exposed_local_ns"]
        parts = (
            item["compute_ns"]
            + exposed
            + item["exposed_launch_ns"]
            + item["exposed_host_ns"]
            + item["idle_ns"]
        )
        assert parts == pytest.approx(report["step_time_ns"])


@pytest.mark.parametrize("form", ["compact", "chakra", "text"])
def test_the_result_says_where_the_workload_came_from(
    form: str, armillary: Armillary, tmp_path: Path
) -> None:
    made = str(tmp_path / "made")
    armillary("workload", "resnet-50", "--dp", "8", "--format", form, "-o", made, "-p", "dgx-a100")
    report: Report = json.loads(armillary("run", made, "-p", "dgx-a100", "--json", "-").stdout)
    assert report["config"]["workload"]["traces"] == made


def test_settings_override_the_platform(armillary: Armillary, tmp_path: Path) -> None:
    toy.platform(tmp_path), toy.traces(tmp_path)
    slow = armillary(
        "run", "traces", "-p", "toy.yml", "--json", "-", "--set", "links[1].bandwidth=1 GB/s"
    )
    fast = armillary("run", "traces", "-p", "toy.yml", "--json", "-")
    assert json.loads(slow.stdout)["step_time_ns"] > 2 * json.loads(fast.stdout)["step_time_ns"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "traces", "-p", "no-such-preset"], "no-such-preset"),
        (["run", "no-such-trace", "-p", "toy.yml"], "no-such-trace"),
        (["run", "traces", "-p", "toy.yml", "--set", "scheduler"], "--set scheduler"),
        (["run", "traces", "-p", "toy.yml", "--set", "scheduler.chunks=-1"], "scheduler.chunks"),
        (["run", "traces", "-p", "toy.yml", "--backend", "magic"], "magic"),
        (["run", "traces", "-p", "toy.yml", "--json", "no/such/dir.json"], "no/such/dir.json"),
        (["run", "traces", "-p", "toy.yml", "--json", "/dev/full"], "No space left on device"),
        (["run", "-p", "toy.yml"], "WORKLOAD"),
        (["fly"], "fly"),
    ],
    ids=lambda value: " ".join(value[1:]) if isinstance(value, list) else "",
)
def test_wrong_input(arguments: list[str], said: str, armillary: Armillary, tmp_path: Path) -> None:
    toy.platform(tmp_path), toy.traces(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    run = armillary(*arguments)
    assert run.returncode == 2
    assert said in run.stderr
    assert "Traceback" not in run.stderr
    assert sorted(tmp_path.rglob("*")) == before, "no file appears"


def test_a_rank_too_few(armillary: Armillary, tmp_path: Path) -> None:
    toy.platform(tmp_path), toy.traces(tmp_path)
    (tmp_path / "traces/trace.7.et").unlink()
    run = armillary("run", "traces", "-p", "toy.yml")
    assert run.returncode == 2
    assert run.stderr.startswith("error: ")


def test_stalled(armillary: Armillary, tmp_path: Path) -> None:
    toy.platform(tmp_path), toy.stalled(tmp_path)
    run = armillary("run", "stalled", "-p", "toy.yml", "--json", "out.json")
    assert run.returncode in (1, 2), "a missing send is found by the check or by the run"
    assert "rank 0" in run.stderr
    assert not (tmp_path / "out.json").exists()


LONG = [
    "collective",
    "all_reduce",
    "-b",
    "1G",
    "-e",
    "1G",
    "-p",
    "big.yml",
    "--backend",
    "link",
    "--no-fold",
    "--json",
    "out.json",
]
BIG = (
    "topology: R(16)_R(16)_R(16)\nlinks: {bandwidth: 50 GB/s, latency: 500 ns}\nscheduler: "
    "{chunks: 4096}\n"
)


def test_ctrl_c(tmp_path: Path) -> None:
    """Stops within a second or so, with a line and no file."""
    (tmp_path / "big.yml").write_text(BIG)
    run = subprocess.Popen(
        [sys.executable, "-m", "armillary.cli", *LONG],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(2)
    assert run.poll() is None, "the run is too short to be interrupted"
    run.send_signal(signal.SIGINT)
    _, said = run.communicate(timeout=60)
    assert run.returncode == 130
    assert said.endswith("\ninterrupted; no file was written\n")
    assert [path.name for path in tmp_path.iterdir()] == ["big.yml"]


def test_a_seed_warns_as_it_has_no_effect(armillary: Armillary, tmp_path: Path) -> None:
    """Packets have a seed of their own, `network.packet.seed`."""
    toy.platform(tmp_path), toy.traces(tmp_path)
    plain = armillary("run", "traces", "-p", "toy.yml", "--json", "plain.json")
    seeded = armillary("run", "traces", "-p", "toy.yml", "--json", "seeded.json", "--seed", "3")
    assert (plain.returncode, seeded.returncode) == (0, 0), plain.stderr + seeded.stderr
    assert "seed" not in plain.stderr
    first: Report = json.loads((tmp_path / "plain.json").read_text())
    second: Report = json.loads((tmp_path / "seeded.json").read_text())
    assert [warning for warning in second["warnings"] if "--seed has no effect" in warning]
    assert "warning: --seed has no effect" in seeded.stderr
    assert first["digest"] == second["digest"]

"""`armillary collective`, as a user calls it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import toy
from conftest import Armillary

from armillary import nccl

RING = (
    "topology: R(8)\nlinks: {bandwidth: 50 GB/s, latency: 1 us}\nscheduler: {chunks: 1, "
    "endpoint_delay: 0 ns}\n"
)


def test_golden(armillary: Armillary, tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    toy.platform(tmp_path)
    run = armillary(
        "collective", "all_reduce", "-b", "8", "-e", "8G", "-f", "8", "--platform", "toy.yml"
    )
    assert run.returncode == 0, run.stderr
    golden("collective.txt", run.stdout.replace(f" {version(run.stdout)}:", " VERSION:"))


def version(text: str) -> str:
    return text.split()[2].rstrip(":")


def test_a_ring_takes_what_the_formula_says(armillary: Armillary, tmp_path: Path) -> None:
    """Both ways round: 2(n-1) blocks of 10 MB of each rank over two links of 50 GB/s, at least 7 *
    200 us for 80 MB on 8 ranks; the farthest block goes 4 links of 1 us, twice: 1,408 us."""
    (tmp_path / "ring.yml").write_text(RING)
    run = armillary(
        "collective",
        "all_reduce",
        "-b",
        "80000000",
        "-e",
        "80000000",
        "-p",
        "ring.yml",
        "--json",
        "-",
    )
    [row] = json.loads(run.stdout)["rows"]
    assert row["time_us"] == pytest.approx(1408, abs=0.01)
    assert row["algbw"] == pytest.approx(80e6 / 1408e-6 / 1e9)
    assert row["busbw"] == pytest.approx(row["algbw"] * 1.75)


@pytest.mark.parametrize("kind", nccl.OPERATIONS)
def test_every_collective(kind: str, armillary: Armillary, tmp_path: Path) -> None:
    (tmp_path / "ring.yml").write_text(RING)
    run = armillary(
        "collective", kind, "-b", "1M", "-e", "2M", "-f", "2", "-p", "ring.yml", "--json", "-"
    )
    assert run.returncode == 0, run.stderr
    small, large = json.loads(run.stdout)["rows"]
    assert (small["size"], large["size"]) == (2**20, 2**21)
    assert 0 < small["time_us"] < large["time_us"]
    assert large["busbw"] <= 100.1, "no more than an NPU's two links carry"


def test_machine_output(armillary: Armillary, tmp_path: Path) -> None:
    (tmp_path / "ring.yml").write_text(RING)
    run = armillary(
        "collective", "alltoall", "-b", "1M", "-e", "1M", "-p", "ring.yml", "--json", "out.json"
    )
    assert "all_to_all" in run.stdout
    result = json.loads((tmp_path / "out.json").read_text())
    assert result["schema"] == "armillary.collective/1"
    assert result["config"]["platform"]["npus"] == 8
    assert len(result["rows"][0]["digest"]) == 16


def test_a_library_hands_messages_to_the_rail(armillary: Armillary) -> None:
    def choice(*more: str) -> list[str]:
        sizes = ("-b", "8K", "-e", "8K", "-p", "dgx-h100-16n")
        run = armillary("collective", "all_to_all", *sizes, *more, "--json", "-")
        [row] = json.loads(run.stdout)["rows"]
        return [row["algorithm"], row["protocol"]]

    assert choice() == ["PXN", "Simple"]
    assert choice("--set", "library.network.pxn=null") == ["Pairwise", "Simple"]


def test_a_node_made_larger_is_told(armillary: Armillary) -> None:
    run = armillary(
        "collective", "all_reduce", "-p", "dgx-h100", "--npus", "64", "--json", "out.json"
    )
    assert run.stderr.startswith("warning: npus: 64 makes Switch(8) a single node of Switch(64)")
    assert armillary("collective", "all_reduce", "-p", "dgx-h100", "--npus", "8").stderr == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ["barrier"],
        ["all_reduce", "-b", "x"],
        ["all_reduce", "-b", "2", "-e", "1"],
        ["broadcast", "-r", "8"],
        ["all_reduce", "-b", "99999999T", "-e", "99999999T"],
        ["all_reduce", "-d", "int7"],
    ],
    ids=" ".join,
)
def test_wrong_input(arguments: list[str], armillary: Armillary, tmp_path: Path) -> None:
    (tmp_path / "ring.yml").write_text(RING)
    run = armillary("collective", *arguments, "-p", "ring.yml")
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith("error: ")

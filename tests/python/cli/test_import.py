"""`armillary import`, as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path

from conftest import Armillary
from recorded import Recording, nccl


def traces(directory: Path) -> list[Path]:
    paths = []
    for rank in range(2):
        trace = Recording(rank, 2)
        trace.step(1, 0, 100)
        trace.kernel("gemm", 1, 10, 40)
        trace.kernel(
            "ncclDevKernel_AllReduce", 20, 42, 80, stream=20, **nccl("allreduce", 1000, [0, 1])
        )
        paths.append(trace.write(directory / f"rank{rank}.json"))
    return paths


def test_import_and_run(armillary: Armillary, tmp_path: Path) -> None:
    run = armillary("import", *traces(tmp_path), "-o", "out", "--json", "report.json")
    assert run.returncode == 0, run.stderr
    assert "2 ranks, 2 programs" in run.stdout
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert report["schema"] == "armillary.import/1"
    assert report["total"]["shares"] == {"device": 1.0, "launches": 1.0, "collectives": 1.0}
    platform = tmp_path / "p.yml"
    platform.write_text(
        "topology: Ring(2)\nlinks: [{bandwidth: 100 GB/s, latency: 1 us}]\n", encoding="utf-8"
    )
    replay = armillary("run", "out", "-p", platform, "--set", "scheduler.replay_only=true")
    assert "100.0 us" in replay.stdout, replay.stderr
    assert str(tmp_path) not in replay.stdout
    assert replay.stdout.count("warning: ") <= 1


def test_import_more_ranks_as_chakra(armillary: Armillary, tmp_path: Path) -> None:
    run = armillary(
        "import",
        *traces(tmp_path),
        "-o",
        "out",
        "--ranks",
        "4",
        "--format",
        "chakra",
        "--json",
        "-",
    )
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["ranks"] == 4
    assert len(list((tmp_path / "out").glob("*.et"))) == 4


def test_import_refuses(armillary: Armillary, tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text("[]", encoding="utf-8")
    run = armillary("import", "list.json", "missing.json", "-o", "out")
    assert run.returncode == 2
    assert "missing.json" in run.stderr
    assert "Traceback" not in run.stderr
    assert not (tmp_path / "out").exists()
    (tmp_path / "groups.json").write_text('{"a": 3}', encoding="utf-8")
    wrong = armillary("import", *traces(tmp_path), "-o", "out", "--groups", "groups.json")
    assert wrong.returncode == 2
    assert "not a mapping" in wrong.stderr

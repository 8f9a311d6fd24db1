"""From what `armillary bench` writes to a platform: values that made the measurements are found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Armillary

import armillary as arm
from armillary.calibrate import calibrate_links, read_bench
from armillary.errors import InputError

LATENCY, RATE = 20.0, 2000.0
"""us, bytes per us."""
PEAK, MEMORY = 50_000.0, 10_000.0
"""Operations and bytes per us."""
OVERHEAD = 30.0
LAYERS, SAMPLES = ((512, 256), (256, 64)), 1024


def measurements() -> dict[str, Any]:
    """A machine of two processes with these values."""
    sizes = [2**power for power in range(10, 25, 2)]
    exchanged = [
        {"transport": "exchange", "name": "all_to_all", "ranks": 2, "size": size}
        | {"time": LATENCY + size / 2 / RATE}
        for size in sizes
    ]
    other = [{**exchanged[0], "transport": "gloo", "time": 1e6}]
    gemms: list[dict[str, Any]] = []
    for inputs, outputs in LAYERS:
        for m, n, k in (
            (SAMPLES, outputs, inputs),
            (inputs, outputs, SAMPLES),
            (SAMPLES, inputs, outputs),
        ):
            us = 2 * m * n * k / PEAK
            gemms.append({"name": "p", "batch": 1, "m": m, "n": n, "k": k, "us": us})
    activated = sum(5 * SAMPLES * outputs * 4 for _, outputs in LAYERS) / (MEMORY / 2)
    mlp = sum(row["us"] for row in gemms) + activated + OVERHEAD * 5 * len(LAYERS)
    return {
        "schema": "armillary.bench/1",
        "machine": {"processor": "made up", "cores": 2, "memory_bytes": 2**34, "load": 0.0},
        "processes": 2,
        "gemms": gemms,
        # One stream at the full rate would set the bandwidth: half of it is what most reach.
        "streams": [
            {"op": "copy", "bytes": 10**7, "us": 10**7 / MEMORY},
            *({"op": "add", "bytes": 10**7, "us": 2 * 10**7 / MEMORY} for _ in range(4)),
        ],
        "embeddings": [
            {"op": "lookup", "bytes": 10**6, "us": 4 * 10**6 / MEMORY},
            {"op": "update", "bytes": 10**6, "us": 10 * 10**6 / MEMORY},
        ],
        "mlps": [
            {"name": "mlp", "samples": SAMPLES, "layers": LAYERS, "us": mlp},
            {"op": "optimizer", "bytes": 10**6, "us": 5 * 10**6 / MEMORY},
        ],
        "copies": [],
        "collectives": [*exchanged, *other],
    }


def test_links_are_found(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    path.write_text(json.dumps(measurements()))
    bench = read_bench(str(path))
    assert bench is not None and [table.collective for table in bench.collectives] == ["all_to_all"]
    found = calibrate_links(bench.base(), bench.collectives)
    rate, latency = found.parameters
    assert rate.fitted == pytest.approx(RATE / 1e3, rel=0.03)
    assert latency.fitted == pytest.approx(LATENCY, rel=0.03)
    assert rate.found and latency.found
    for row in found.residuals:
        assert row.fitted_us == pytest.approx(row.measured_us, rel=0.03)


def test_the_verb_makes_a_platform_of_the_machine(armillary: Armillary, tmp_path: Path) -> None:
    (tmp_path / "bench.json").write_text(json.dumps(measurements()))
    run = armillary("calibrate", "bench.json", "-o", "here.yml", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    # Both files together can be moved: the platform names its table as its neighbour.
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for name in ("here.yml", "here.gemm.csv"):
        (tmp_path / name).rename(moved / name)
    platform = arm.Platform.load(moved / "here.yml")
    npu = platform.describe()["npu"]
    compute = npu["compute_settings"]
    assert platform.npus == 2 and npu["compute"] == "measured"
    assert npu["memory_bandwidth"] == MEMORY * 1e6
    memory = {key: value / 1e6 for key, value in compute["memory_efficiency_ppm"].items()}
    expected = {"elementwise": 0.5, "embedding": 0.25, "embedding_update": 0.1, "optimizer": 0.2}
    for kind, part in expected.items():
        assert memory[kind] == pytest.approx(part, rel=0.03), kind
    assert compute["kernel_overhead_ps"] == pytest.approx(OVERHEAD * 1e6, rel=0.03)
    # A measured product takes what was measured, and what the framework adds.
    program = arm.workload.Program()
    program.gemm("product", [], m=SAMPLES, n=256, k=512, width=4)
    alone = arm.Workload.listed("one", [program], [0, 0], {})
    us = arm.simulate(alone, platform).step_time_ns / 1e3
    assert us == pytest.approx(2 * SAMPLES * 256 * 512 / PEAK + OVERHEAD, rel=1e-3)


def test_wrong_files_are_refused(armillary: Armillary, tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    path.write_text(json.dumps({**measurements(), "gemms": [{"m": "x"}]}))
    with pytest.raises(InputError, match="is damaged"):
        read_bench(str(path))
    path.write_text(json.dumps(measurements()))
    run = armillary("calibrate", "bench.json", "-p", "dgx-a100", cwd=tmp_path)
    assert run.returncode == 2 and "a platform of its own" in run.stderr
    (tmp_path / "a.csv").write_text("m,n,k,dtype,us\n8,8,8,fp16,1\n")
    run = armillary("calibrate", "a.csv", cwd=tmp_path)
    assert run.returncode == 2 and "no platform to calibrate" in run.stderr


def test_one_process_is_a_platform_of_one_npu(armillary: Armillary, tmp_path: Path) -> None:
    """Workloads of one rank run on it. Its notes do not contradict what was measured."""
    alone = {**measurements(), "processes": 1, "collectives": []}
    (tmp_path / "bench.json").write_text(json.dumps(alone))
    made = armillary("calibrate", "bench.json", "-o", "here.yml", "--json", "found.json")
    assert made.returncode == 0, made.stderr
    platform = arm.Platform.load(str(tmp_path / "here.yml"))
    assert platform.npus == 1
    notes = json.loads((tmp_path / "found.json").read_text())["notes"]
    assert notes == ["one process: the platform has one NPU, and no collective was measured"]
    run = armillary("run", "dlrm-small", "--dp", "1", "--global-batch", "64", "-p", "here.yml")
    assert run.returncode == 0, run.stderr


def test_two_processes_leave_nothing_open(armillary: Armillary, tmp_path: Path) -> None:
    (tmp_path / "bench.json").write_text(json.dumps(measurements()))
    made = armillary("calibrate", "bench.json", "--json", "-")
    assert json.loads(made.stdout)["notes"] == []

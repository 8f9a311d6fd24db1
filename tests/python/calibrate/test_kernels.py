"""Kernels as people publish them become parameters of an NPU: those that made them, or that say
what was measured."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import ROOT, Armillary

import armillary as arm
from armillary import _core
from armillary.calibrate import Kernel, calibrate_kernels, read_kernels
from armillary.calibrate.kernels import STREAMS, Bench
from armillary.calibrate.single_operation import ALONE, alone, times
from armillary.errors import InputError

PUBLISHED = ROOT / "tests/golden/gemm/kernels.csv"
FP8 = {"npu.compute": {"model": "roofline", "rates": {"fp8": "1979 TFLOPS"}}}
"""Of H100 and H200; NVIDIA's data sheets."""
BARE = {"npu.compute": "roofline"}
"""An NPU without anything known but its peaks."""
MACHINES = [
    ("A100 (ND A100 v4)", "dgx-a100-80gb", BARE),
    ("H100 (ND H100 v5)", "dgx-h100", FP8),
    ("H200 (ND H200 v5)", "hgx-h200", FP8),
]


def published(folder: Path, gpu: str) -> tuple[Kernel, ...]:
    """The kernels of one GPU (Azure/AI-benchmarking-guide), read from a file of their own."""
    with PUBLISHED.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["gpu"] == gpu]
    path = folder / "kernels.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    found = read_kernels(str(path))
    assert found is not None and found.skipped == 0
    return found.kernels


@pytest.mark.parametrize(("gpu", "preset", "settings"), MACHINES)
def test_published_kernels_are_met(
    tmp_path: Path, gpu: str, preset: str, settings: dict[str, object]
) -> None:
    """Six shapes and four streams each, within 5 %, which peaks alone miss by half; memory as
    BabelStream has it."""
    kernels = published(tmp_path, gpu)
    fit = calibrate_kernels(preset, kernels, settings)
    assert len(fit.residuals) == 10
    assert fit.error(lambda r: r.fitted_us) < 5
    assert fit.error(lambda r: r.given_us) > 40
    found = {parameter.key: parameter for parameter in fit.parameters}
    memory = found["npu.compute.memory_efficiency"]
    platform = arm.Platform.load(preset)
    rates = sorted(k.bytes / k.measured_us * 1e6 for k in kernels if k.shape is None)
    peak = platform.describe()["npu"]["memory_bandwidth"]
    assert rates[0] / peak * 0.97 < memory.fitted < rates[-1] / peak * 1.03
    assert memory.low <= memory.fitted <= memory.high
    assert any("6 shapes determine 3 parameters" in note for note in fit.open)


@pytest.mark.parametrize(("gpu", "preset", "settings"), MACHINES[1:2])
def test_large_shapes_left_out_are_told(
    tmp_path: Path, gpu: str, preset: str, settings: dict[str, object]
) -> None:
    """A shape of 8192 and more that the fit did not see is met within 15 %."""
    kernels = published(tmp_path, gpu)
    platform = arm.Platform.load(preset, settings)
    for left in kernels:
        if left.shape is None or min(left.shape[1:4]) < 8192:
            continue
        fit = calibrate_kernels(preset, [kernel for kernel in kernels if kernel != left], settings)
        (ours,) = Bench((left,), platform.changed(fit.settings), None).times({})
        assert abs(ours / left.measured_us - 1) < 0.15, left.what


def made(settings: Mapping[str, object], kernels: Sequence[Kernel]) -> list[Kernel]:
    """What an A100 of known parameters takes for `kernels`."""
    bench = Bench(tuple(kernels), arm.Platform.load("dgx-a100", {**BARE, **settings}), None)
    times = bench.times({})
    return [replace(kernel, measured_us=time) for kernel, time in zip(kernels, times, strict=True)]


SHAPES = [
    (1, m, n, k, 2)
    for m, n, k in (
        (128, 128, 4096),
        (512, 512, 512),
        (1024, 1024, 1024),
        (2048, 2048, 2048),
        (4096, 4096, 4096),
        (8192, 8192, 8192),
        (2304, 1536, 8192),
        (256, 8192, 1024),
        (8192, 256, 8192),
        (4096, 11008, 256),
        (640, 640, 64),
        (3072, 768, 128),
    )
]
KERNELS = [Kernel("", str(shape), shape, 0, 1.0) for shape in SHAPES]
KERNELS += [Kernel("", "copy", None, size, 1.0) for size in (2**26, 2**28, 2**30)]


def test_parameters_that_made_times_are_found() -> None:
    tiles = {"units": 108, "fill": 150, "load": 24}
    truth = {
        "npu.compute.efficiency.gemm": 0.83,
        "npu.compute.kernel_overhead": "5 us",
        "npu.compute.tiles": tiles,
    }
    truth |= {f"npu.compute.memory_efficiency.{kind}": 0.8 for kind in STREAMS}
    kernels = made(truth, KERNELS)
    fit = calibrate_kernels("dgx-a100", kernels, BARE)
    found = {parameter.key.removeprefix("npu.compute."): parameter for parameter in fit.parameters}
    assert fit.error(lambda r: r.fitted_us) < 1
    assert found["kernel_overhead"].fitted == pytest.approx(5, rel=0.05)
    assert found["memory_efficiency"].fitted == pytest.approx(0.8, rel=0.02)
    assert found["efficiency.gemm"].fitted == pytest.approx(0.83, rel=0.05)
    assert all(each.low <= each.fitted <= each.high for each in found.values())
    # A time five times too long stands out and moves little.
    odd = [
        replace(kernel, measured_us=kernel.measured_us * (5 if at == 4 else 1))
        for at, kernel in enumerate(kernels)
    ]
    again = calibrate_kernels("dgx-a100", odd, BARE)
    assert [r.kernel.what for r in again.residuals if r.outlier] == [KERNELS[4].what]
    after = [math.log(r.fitted_us / r.kernel.measured_us) for r in again.residuals if not r.outlier]
    assert max(map(abs, after)) < 0.1


def test_too_few_shapes_leave_what_the_platform_has() -> None:
    fit = calibrate_kernels(
        "dgx-a100", made({"npu.compute.efficiency.gemm": 0.7}, KERNELS[5:7]), BARE
    )
    (parameter,) = fit.parameters
    assert parameter.key == "npu.compute.efficiency.gemm"
    assert parameter.fitted == pytest.approx(0.7, rel=0.01)
    assert set(fit.settings) == {"npu.compute.efficiency.gemm"}
    assert any(
        "2 shapes determine 1 parameters; unchanged: "
        "kernel_overhead, tiles.fill_depth, tiles.load_cost" in note
        for note in fit.open
    )
    assert any("no memory bandwidth was measured" in note for note in fit.open)


def test_what_training_keeps_of_a_rate_is_not_fitted() -> None:
    """Kernels were timed by themselves, so that a platform's `sustained` changes no fit, and stays
    as it was."""
    truth: dict[str, object] = {"npu.compute.efficiency.gemm": 0.7}
    kernels = made({**truth, "npu.compute.sustained": 1}, KERNELS[5:7])
    half: dict[str, object] = {**BARE, "npu.compute.sustained": 0.5}
    fit = calibrate_kernels("dgx-a100", kernels, half)
    assert fit.parameters[0].fitted == pytest.approx(0.7, rel=0.01)
    assert "npu.compute.sustained" not in fit.settings


def test_what_kernels_do_not_need_stays_as_it_was() -> None:
    """Large multiplications tell one efficiency; where they end and how they load is not in
    them."""
    shapes = [
        kernel for kernel in KERNELS if kernel.shape is not None and min(kernel.shape[1:4]) >= 4096
    ]
    kernels = made({"npu.compute.efficiency.gemm": 0.7}, [*shapes, *shapes, *shapes, *shapes])
    fit = calibrate_kernels("dgx-a100", kernels)
    same = {p.key.removeprefix("npu.compute.") for p in fit.parameters if p.fitted == p.given}
    assert {"tiles.fill_depth", "tiles.load_cost"} <= same
    assert any("unchanged from dgx-a100" in note for note in fit.open)


@pytest.mark.parametrize("rate", ["1e308", "1e-300"])
def test_bandwidths_that_take_no_time_are_refused(tmp_path: Path, rate: str) -> None:
    path = tmp_path / "m.csv"
    path.write_text(f"op,TBps\ncopy,{rate}\nadd,1.70\n")
    with pytest.raises(InputError, match=f'"{rate}" makes copy'):
        read_kernels(str(path))


def test_streams_alone_determine_the_memory_only() -> None:
    truth = {f"npu.compute.memory_efficiency.{kind}": 0.6 for kind in STREAMS}
    fit = calibrate_kernels("dgx-a100", made(truth, KERNELS[-3:]), BARE)
    assert [parameter.key for parameter in fit.parameters] == ["npu.compute.memory_efficiency"]
    assert fit.parameters[0].fitted == pytest.approx(0.6, rel=0.01)
    assert any("no matrix multiplication was measured" in note for note in fit.open)


def test_memory_faster_than_the_platforms_is_doubted() -> None:
    fast = [replace(kernel, measured_us=kernel.bytes / 2e12 * 1e6) for kernel in KERNELS[-3:]]
    fit = calibrate_kernels("dgx-a100", fast, BARE)
    assert any("memory_efficiency is at its limit" in note for note in fit.open)


def test_npus_whose_multiprocessors_nobody_told() -> None:
    fit = calibrate_kernels(
        "tpu-v6e-pod", [replace(kernel, measured_us=5000) for kernel in KERNELS[3:9]], BARE
    )
    assert any(
        "no tiles" in note and "npu.compute.tiles.multiprocessors" in note for note in fit.open
    )
    assert not any("tiles" in key for key in fit.settings)


@pytest.mark.parametrize(
    ("settings", "kernel", "said"),
    [
        (
            {"npu.compute": "recorded"},
            KERNELS[0],
            r"npu.compute: recorded has nothing to fit to kernels",
        ),
        (
            BARE,
            Kernel("", "", (1, 64, 64, 64, 1), 0, 1.0),
            r"npu.compute.peak_by_type.fp8: .* 8 bits were measured",
        ),
        (
            BARE,
            Kernel("", "", (1, 64, 64, 64, 4), 0, 1.0),
            r"npu.compute.peak_by_type.fp32: .* 32 bits were measured",
        ),
    ],
)
def test_what_can_not_be_fitted_is_refused(
    settings: dict[str, object], kernel: Kernel, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        calibrate_kernels("dgx-a100", [kernel], settings)


BABEL = """BabelStream
Version: 5.0
Precision: double
Array size: 268.4 MB (=0.3 GB)
Function    MBytes/sec  Min (sec)   Max         Average
Copy        1610000.000 0.00033     0.00040     0.00039
Triad       1700000.000 0.00047     0.00060     0.00050
"""


@pytest.mark.parametrize(
    ("text", "copied", "triad"),
    [
        (BABEL, 2 * 268.4e6, 3 * 268.4e6),
        ("op,GB/s\ncopy,1610\ntriad,1700\n", 2 * 2**28, 3 * 2**28),
        ("Op,TBps,bytes\nCopy,1.61,1000000\nTriad,1.7,3000000\n", 1e6, 3e6),
        ("op,bytes,us\ncopy,1610000,1\ntriad,1700000,1\n", 1.61e6, 1.7e6),
        (
            "function,num_times,n_elements,sizeof,max_mbytes_per_sec,min_runtime\n"
            "Copy,100,1000,8,1610000,0.1\nTriad,100,1000,8,1700000,0.1\n",
            16000,
            24000,
        ),
        ('[{"op": "copy", "GBps": 1610}, {"op": "triad", "GBps": 1700}]', 2 * 2**28, 3 * 2**28),
    ],
)
def test_every_way_to_write_bandwidth_is_read(
    tmp_path: Path, text: str, copied: float, triad: float
) -> None:
    path = tmp_path / "memory"
    path.write_text(text)
    found = read_kernels(str(path))
    assert found is not None
    assert [kernel.bytes for kernel in found.kernels] == [round(copied), round(triad)]
    rates = [kernel.bytes / kernel.measured_us * 1e6 for kernel in found.kernels]
    assert rates == pytest.approx([1.61e12, 1.7e12], rel=1e-3)


def test_bad_rows_are_named(tmp_path: Path) -> None:
    path = tmp_path / "memory.csv"
    path.write_text("op,GBps\ncopy,fast\nadd,-3\ntriad,1700\n")
    with pytest.raises(InputError) as caught:
        read_kernels(str(path))
    assert [problem.place for problem in caught.value.problems] == ["line 2", "line 3"]
    with pytest.raises(InputError, match="No such file"):
        read_kernels(str(tmp_path / "nothing"))


@pytest.mark.parametrize(
    "text", ["", "hello\n", "a,b\n1,2\n", "{", "[1, 2]", "3", "# 8 Rank\n 1024 256 float sum\n"]
)
def test_other_text_is_no_table_of_kernels(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x"
    path.write_text(text)
    assert read_kernels(str(path)) is None


def test_the_verb_takes_logs_and_tables_together(armillary: Armillary, tmp_path: Path) -> None:
    published(tmp_path, "A100 (ND A100 v4)")
    (tmp_path / "babel.txt").write_text(BABEL)
    lines = [
        f"{size} {size // 4} float sum -1 {time} {size / time / 1e3:.2f} 0 0"
        for size, time in ((2**20, 45.0), (2**24, 130.0), (2**28, 2000.0))
    ]
    head = "".join(f"#  Rank {rank} Pid 1 on n device {rank}\n" for rank in range(8))
    (tmp_path / "all_reduce.log").write_text(head + "\n".join(lines) + "\n")
    arguments = (
        "kernels.csv",
        "babel.txt",
        "all_reduce.log",
        "-p",
        "dgx-a100-80gb",
        "-o",
        "mine.yml",
    )
    run = armillary("calibrate", *arguments, "--plot", "fit.svg", "--json", "-", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout)
    assert (len(result["points"]), len(result["kernels"])) == (3, 12)
    assert {kernel["kind"] for kernel in result["kernels"]} == {"multiplication", "stream"}
    keys = {parameter["key"] for parameter in result["parameters"]}
    assert {
        "npu.compute.efficiency.gemm",
        "npu.compute.memory_efficiency",
        "library.call_overhead",
    } <= keys
    mine = arm.Platform.load(tmp_path / "mine.yml")
    assert "its library and NPU calibrated on kernels.csv, babel.txt, all_reduce.log" in mine.source
    compute = mine.describe()["npu"]["compute_settings"]
    assert 0 < compute["efficiency_ppm"]["gemm"] < 10**6
    memory = {parameter["key"]: parameter["fitted"] for parameter in result["parameters"]}
    fitted = round(memory["npu.compute.memory_efficiency"] * 10**6)
    assert compute["memory_efficiency_ppm"]["normalization"] == pytest.approx(fitted, abs=100)
    assert (tmp_path / "fit.svg").read_text().startswith("<svg")
    shown = armillary("calibrate", "kernels.csv", "-p", "dgx-a100-80gb", cwd=tmp_path)
    assert shown.returncode == 0 and "8192 x 8192 x 8192, 16 bits" in shown.stdout


def test_a_kernel_alone_takes_what_a_step_of_it_takes() -> None:
    """The bench times each kernel as the simulator would, without the host's launch."""
    platform = arm.Platform.load(
        "dgx-h100", {**FP8, "npu.compute.kernel_overhead": "3 us", "npu.launch": "100 us"}
    )
    kernels = [
        *KERNELS,
        Kernel("", "fp8", (2, 1024, 512, 256, 1), 0, 1.0),
        Kernel("", "lookup", None, 2**26, 1.0, "embedding"),
    ]
    workloads = []
    for kernel in kernels:
        program = _core.Program()
        if kernel.shape is None:
            program.compute("kernel", [], operations=0, bytes=kernel.bytes, kernel=kernel.kind)
        else:
            batch, m, n, k, width = kernel.shape
            program.gemm("kernel", [], m=m, n=n, k=k, batch=batch, width=width)
        workloads.append(alone("kernel", program, platform.npus))
    found = Bench(tuple(kernels), platform, 132).times({})
    assert found == times(workloads, platform.changed(ALONE)._core)
    (copied,) = Bench(
        (Kernel("", "copy", None, 1_555_000_000, 1.0),),
        arm.Platform.load("dgx-a100", {**BARE, "npu.compute.kernel_overhead": "3 us"}),
        None,
    ).times({})
    assert copied == pytest.approx(1003, abs=0.01)

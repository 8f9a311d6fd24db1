"""What an NPU is told of launches and kernels, through the Python face: read, shown, overridden,
refused."""

from __future__ import annotations

import re
from typing import Any

import pytest
from conftest import Armillary
from hypothesis import given
from hypothesis import strategies as st

from armillary import InputError, Platform, simulate
from armillary.workload import Program, Workload

BASE = (
    "topology: Ring(2)\nlinks: {bandwidth: 1 GB/s, latency: 0 ns}\nscheduler: "
    "{endpoint_delay: 0 ns}\n"
)
LAUNCHES = ("kernel", "per_member", "send", "receive")
TILES = ("multiprocessors", "fill_depth", "load_cost")
FULL = """npu:
  peak: 1 TFLOPS
  launch: 80 us
  compute:
    comm_overlap_slowdown: 15 %
    kernel_overhead: 3 us
    peak_by_type: {fp4: 4 TFLOPS, fp8: 2 TFLOPS, fp32: 500 GFLOPS}
    efficiency_by_type: {fp4: 40 %, fp8: 0.5}
    tiles: {multiprocessors: 132, fill_depth: 128, load_cost: 16}
"""


def compute(platform: Platform) -> dict[str, Any]:
    settings: dict[str, Any] = platform.describe()["npu"]["compute_settings"]
    return settings


def test_what_is_written_is_described() -> None:
    npu = Platform.parse(BASE + FULL).describe()["npu"]
    assert npu["launch"] == {
        "kernel_ps": 80_000_000,
        "per_member_ps": 0,
        "send_ps": 80_000_000,
        "receive_ps": 0,
    }
    assert npu["compute"] == "roofline"
    found = npu["compute_settings"]
    assert found["comm_overlap_slowdown_ppm"] == 150_000
    assert found["kernel_overhead_ps"] == 3_000_000
    rates = {"fp4": 4 * 10**12, "fp8": 2 * 10**12, "fp32": 5 * 10**11}
    assert found["peak_by_type_flops"] == rates
    assert found["efficiency_by_type_ppm"] == {"fp4": 400_000, "fp8": 500_000, "fp32": None}
    assert found["tiles"] == {"multiprocessors": 132, "fill_depth": 128, "load_cost": 16}


@given(
    launch=st.tuples(*[st.integers(0, 10**12)] * 4),
    start=st.integers(0, 10**12),
    slowdown=st.integers(0, 10**6 - 1),
    rates=st.tuples(st.integers(1, 10**12), st.integers(1, 10**12)),
    tiles=st.tuples(st.integers(1, 65_536), st.integers(0, 65_536), st.integers(0, 1024)),
)
def test_what_is_set_is_shown_and_reads_back(
    launch: tuple[int, int, int, int],
    start: int,
    slowdown: int,
    rates: tuple[int, int],
    tiles: tuple[int, int, int],
) -> None:
    settings = {
        "npu.launch": {key: f"{value} ps" for key, value in zip(LAUNCHES, launch, strict=True)},
        "npu.compute.kernel_overhead": f"{start} ps",
        "npu.compute.comm_overlap_slowdown": f"{slowdown / 10**6:.6f}",
        "npu.compute.peak_by_type.fp8": f"{rates[0]} MFLOPS",
        "npu.compute.peak_by_type.fp32": f"{rates[1]} MFLOPS",
    } | {f"npu.compute.tiles.{key}": value for key, value in zip(TILES, tiles, strict=True)}
    platform = Platform.parse(BASE + FULL, settings=settings)
    assert tuple(platform.describe()["npu"]["launch"][f"{key}_ps"] for key in LAUNCHES) == launch
    found = compute(platform)
    assert found["kernel_overhead_ps"] == start
    assert found["comm_overlap_slowdown_ppm"] == slowdown
    by_type = {"fp4": 4 * 10**12, "fp8": rates[0] * 10**6, "fp32": rates[1] * 10**6}
    assert found["peak_by_type_flops"] == by_type
    assert tuple(found["tiles"][key] for key in TILES) == tiles
    again = Platform.parse(platform.to_yaml())
    assert again.describe() == platform.describe()


def test_defaults_are_short() -> None:
    shown = Platform.parse(BASE + "npu: {peak: 1 TFLOPS}\n").to_yaml()
    assert "  compute: roofline\n" in shown
    assert "  launch: 0 ns\n" in shown
    assert not any(word in shown for word in ("slowdown", "peak_by_type", "tiles"))


@pytest.mark.parametrize(
    ("key", "value", "said", "allowed"),
    [
        ("npu.launch", "80", 'time "80" has no unit', "ps, ns, us, ms or s"),
        ("npu.launch", "-1 us", 'time "-1 us" is negative', "ps, ns, us, ms or s"),
        ("npu.launch", "3 GB", 'time "3 GB" has the unknown unit "GB"', "ps, ns, us, ms or s"),
        (
            "npu.peak.fp8",
            "3 TFLOPS",
            '"npu.peak" is "1 TFLOPS", not a mapping',
            "a key of a mapping",
        ),
        (
            "npu.lanch",
            "1 us",
            'unknown key "lanch"; did you mean "launch"?',
            "name, compute, peak, launch, memory",
        ),
        ("npu.compute.kernel_overhead", "3", 'time "3" has no unit', "ps, ns, us, ms or s"),
        ("npu.compute.comm_overlap_slowdown", 1, "1 leaves kernels no speed", "from 0 to below 1"),
        ("npu.compute.comm_overlap_slowdown", -1, 'ratio "-1" is negative', "percentage"),
        (
            "npu.compute.peak_by_type.fp8",
            "0 TFLOPS",
            'compute rate "0 TFLOPS" is zero',
            "above zero",
        ),
        ("npu.compute.peak_by_type.fp32", "5 GB/s", 'has the unknown unit "GB/s"', "TFLOPS"),
        (
            "npu.compute.peak_by_type.fp6",
            "5 TFLOPS",
            'unknown key "fp6"; did you mean "fp4"?',
            "fp4, fp8, fp32",
        ),
        (
            "npu.compute.peak_by_type",
            "5 TFLOPS",
            '"5 TFLOPS" is not a mapping',
            "a mapping with fp4, fp8, fp32",
        ),
        ("npu.compute.tiles.multiprocessors", 0, "0 is not allowed", "1 to 65536"),
        ("npu.compute.tiles.multiprocessors", 1.5, "1.5 is not allowed", "1 to 65536"),
        ("npu.compute.tiles.fill_depth", -1, "-1 is not allowed", "0 to 65536"),
        ("npu.compute.tiles.load_cost", 1025, "1025 is not allowed", "0 to 1024"),
        (
            "npu.compute.tiles.depth",
            1,
            'unknown key "depth"',
            "multiprocessors, fill_depth, load_cost",
        ),
        ("npu.compute.tiles", "big", '"big" is not a mapping', "a mapping with multiprocessors"),
    ],
)
def test_refused(key: str, value: object, said: str, allowed: str) -> None:
    with pytest.raises(InputError) as caught:
        Platform.parse(BASE + FULL, settings={key: value})
    (problem,) = caught.value.problems
    assert problem.place == f"--set {key}"
    assert said in problem.message
    assert allowed in problem.help


def test_the_command_line_sets_and_refuses(armillary: Armillary) -> None:
    shown = armillary(
        "platform",
        "show",
        "dgx-h100",
        "--set",
        "npu.launch=80 us",
        "--set",
        "npu.compute.comm_overlap_slowdown=50 %",
    )
    assert shown.returncode == 0, shown.stderr
    assert re.search(r"  launch: 80 us +# --set\n", shown.stdout)
    assert re.search(r"    comm_overlap_slowdown: 0.5 +# --set\n", shown.stdout)
    refused = armillary("platform", "show", "dgx-h100", "--set", "npu.launch=soon")
    assert refused.returncode == 2
    assert "npu.launch" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_times_by_hand() -> None:
    """A kernel of each width: start + 2 m n k / rate, begun when launched; another beside a
    collective at 85 %."""
    program = Program()
    first = program.gemm("a", [], m=1000, n=1000, k=1000, width=1)
    second = program.gemm("b", [first], m=1000, n=1000, k=1000, width=2)
    third = program.gemm("c", [second], m=1000, n=1000, k=1000, width=4)
    program.collective("sum", [third], "all_reduce", 10**8)
    program.gemm("d", [third], m=1000, n=1000, k=1000, width=2)
    workload = Workload.listed("by hand", [program], [0, 0], {})
    plain = Platform.parse(
        BASE
        + FULL.replace("    tiles: {multiprocessors: 132, fill_depth: 128, load_cost: 16}\n", "")
    )
    # 2e9 operations: 2 (half of the peak), 2 and 4 ms; the collective takes 100 ms.
    us = simulate(workload, plain).report["classes"][0]["compute_ns"] / 1e3
    assert us == pytest.approx(2003 + 2003 + 4003 + 2003 / 0.85, rel=1e-9)
    slow = plain.changed({"npu.launch": "10 ms"})
    # Each is begun as it is launched, 10, 20, 30 ms, the collective at 40, and d at 50.
    step = simulate(workload, slow.changed({"links[0].bandwidth": "100 GB/s"})).step_time_ns / 1e3
    assert step == pytest.approx(50_000 + 2003, rel=1e-9)


@pytest.mark.parametrize(
    ("launch", "said"),
    [
        ("{member: 3}", 'time "3" has no unit'),
        ("{kernels: 3 us}", 'unknown key "kernels"; did you mean "kernel"?'),
        ("{send: -1 us, member: 1 GB}", 'time "-1 us" is negative'),
    ],
)
def test_launches_of_their_own_refused(launch: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        Platform.parse(f"{BASE}npu: {{launch: {launch}}}\n")
    assert said in "; ".join(problem.message for problem in caught.value.problems)
    assert all(
        problem.place.startswith("line 4") or "npu.launch" in problem.place
        for problem in caught.value.problems
    )

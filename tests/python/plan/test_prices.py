"""Prices of planner and roofline: the durations that a simulated step gives to the same work, for
any keys of the platform."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import usually

import armillary as arm
from armillary.cli.app import main
from armillary.explain import dlrm_parts
from armillary.model import Model
from armillary.model.dlrm import parse
from armillary.plan.costs import Rates, Sizes, hosted, platform_rates, ways
from armillary.plan.roofline import roofline
from armillary.units import NS_PER_S, PS_PER_NS
from armillary.workload.program import Program

NPU = """
topology: Ring({npus})
links: {{bandwidth: 100 GB/s, latency: 1 us}}
npu:
  peak: 10 TFLOPS
  memory: {{bandwidth: 500 GB/s, capacity: 80 GB}}
remote_memory: {{model: zero_infinity, cpu: {{bandwidth: 31 GB/s}}, nvme: {{bandwidth: 3 GB/s}}}}
"""
KERNELS = ("other", "gemm", "elementwise", "embedding", "embedding_update", "optimizer")
share = st.integers(5, 100).map(lambda percent: percent / 100)


def by_kernel(part: str) -> st.SearchStrategy[dict[str, object]]:
    keys = {f"npu.compute.{part}.{kernel}": share for kernel in KERNELS}
    return st.fixed_dictionaries({}, optional=keys)


COMPUTE = st.builds(
    lambda *parts: {key: value for part in parts for key, value in part.items()},
    by_kernel("efficiency"),
    by_kernel("memory_efficiency"),
    st.fixed_dictionaries(
        {},
        optional={
            "npu.compute.speedup": st.sampled_from([0.5, 0.75, 2, 3.5]),
            "npu.compute.kernel_overhead": st.integers(0, 50).map("{} us".format),
            "npu.compute.row_access": st.sampled_from(["0 B", "32 B", "96 B"]),
            "npu.compute.sustained": share,
            "npu.compute.peak_by_type.fp8": st.integers(5, 40).map("{} TFLOPS".format),
            "npu.compute.peak_by_type.fp32": st.integers(1, 10).map("{} TFLOPS".format),
            "npu.compute.efficiency_by_type.fp8": share,
            "npu.compute.efficiency_by_type.fp32": share,
            "npu.compute.tiles": st.fixed_dictionaries(
                {"multiprocessors": st.integers(1, 128), "load_cost": st.integers(0, 300)}
            ),
            "npu.peak": st.integers(1, 100).map("{} TFLOPS".format),
            "npu.memory.bandwidth": st.integers(1, 4000).map("{} GB/s".format),
            "npu.memory.latency": st.integers(0, 5).map("{} us".format),
        },
    ),
)
SYSTOLIC = {
    "npu.compute.model": "systolic",
    "npu.compute.rows": 64,
    "npu.compute.columns": 32,
    "npu.compute.dataflow": "weight_stationary",
    "npu.compute.clock": "900 MHz",
}
ANY = st.one_of(COMPUTE, st.sampled_from([SYSTOLIC, {**SYSTOLIC, "npu.compute.speedup": 3}]))
"""Settings of a platform that change how long kernels and accesses to memory last."""

size = st.integers(1, 2**30)
side = st.integers(1, 4096)
OPERATIONS = st.one_of(
    st.tuples(
        st.just("compute"),
        st.fixed_dictionaries(
            {"operations": size, "bytes": size, "kernel": st.sampled_from(KERNELS)}
        ),
    ),
    st.tuples(
        st.just("gemm"),
        st.fixed_dictionaries(
            {"m": side, "n": side, "k": side, "width": st.sampled_from([1, 2, 4])},
            optional={"grouped": st.booleans(), "batch": st.integers(1, 8)},
        ),
    ),
    st.tuples(
        st.just("lookup"),
        st.fixed_dictionaries(
            {"operations": size, "bytes": size, "rows": st.integers(0, 2**20)},
            optional={"update": st.booleans()},
        ),
    ),
    st.tuples(
        st.just("memory"),
        st.fixed_dictionaries(
            {"bytes": size, "reach": st.sampled_from(["local", "host", "disk"])},
            optional={"store": st.booleans()},
        ),
    ),
)


def machine(npus: int, changes: dict[str, Any]) -> arm.Platform:
    return arm.Platform.parse(NPU.format(npus=npus), settings=changes)


@settings(max_examples=usually(30, 600), deadline=None)
@given(changes=ANY, drawn=st.lists(OPERATIONS, min_size=1, max_size=6))
def test_an_operation_has_the_time_of_a_simulated_step(
    changes: dict[str, Any], drawn: list[tuple[str, dict[str, Any]]]
) -> None:
    platform, together = machine(1, changes), Program()
    expected = []
    for at, (kind, what) in enumerate(drawn):
        getattr(together, kind)(f"op{at}", [], **what)
        alone = Program()
        getattr(alone, kind)("op", [], **what)
        step = arm.simulate(arm.Workload.listed("one", [alone], [0], {}), platform)
        expected.append((f"op{at}", round(step.step_time_ns * PS_PER_NS)))
    assert platform.times(together) == expected


def model(*tables: dict[str, int]) -> Model:
    fields = {
        "dense_features": 16,
        "bottom": [64, 32],
        "interaction": {"kind": "concat"},
        "top": [128, 1],
        "tables": list(tables),
    }
    return Model("drawn", "dlrm", fields)


TABLE = st.fixed_dictionaries(
    {
        "rows": st.integers(64, 10**6),
        "dim": st.sampled_from([16, 32, 64, 256]),
        "pooling": st.integers(1, 40),
    }
)
OPTIMIZER = st.sampled_from(["rowwise_adagrad", "adagrad", "sgd"])


def of_kernels(found: arm.Result) -> float:
    """Seconds of the kernels on tables, the sum of all ranks."""
    update = "embedding.weight_gradient"
    names = ("embedding.forward", update, f"{update}.optimizer")
    rows = (row for row in found.report["operations"] if row["name"] in names)
    return sum(row["total_ns"] for row in rows) / NS_PER_S


def without_messages(rates: Rates) -> Rates:
    free: Any = dict.fromkeys(
        ("all_to_all", "reduce_scatter", "all_gather", "all_reduce", "within", "across"), 0.0
    )
    return replace(rates, **free, latencies={})


@settings(max_examples=usually(30, 600), deadline=None)
@given(
    changes=COMPUTE,
    table=TABLE,
    optimizer=OPTIMIZER,
    fused=st.booleans(),
    scheme=st.sampled_from(["table", "row", "data"]),
)
def test_a_plan_pays_for_kernels_what_a_step_does(
    changes: dict[str, Any], table: dict[str, int], optimizer: str, fused: bool, scheme: str
) -> None:
    """One table, on one rank of two, by rows or copied on both. A rank without a table starts its
    kernels, too."""
    platform, made = machine(2, changes), model(table)
    options = {
        "optimizer": optimizer,
        "fused": fused,
        "table_precision": "fp32",
        "precision": "fp16",
        "gradient_precision": "fp16",
    }
    step = arm.simulate(
        arm.workload.dlrm(made, dp=2, local_batch=64, sharding=scheme, **options), platform
    )
    sizes = Sizes(2, 2, 64, 4, 2, 2, 2, 8, optimizer, fused)
    rates = without_messages(platform_rates(platform, 2))
    (way,) = (w for w in ways(parse(made).tables[0], sizes, rates) if w.scheme == scheme)
    ranks = 1 if scheme == "table" else 2
    starts = ranks * (rates.fixed(sizes) + rates.once([way.scheme], sizes))
    if scheme == "table":
        starts += of_kernels_without_a_table(platform)
    assert ranks * way.costs[0] + starts == pytest.approx(of_kernels(step), rel=1e-6, abs=2e-11)


def of_kernels_without_a_table(platform: arm.Platform) -> float:
    """Cost of the rank without a table: a lookup and an update of nothing."""
    program = Program()
    for update in (False, True):
        program.lookup("", [], operations=0, bytes=0, rows=0, update=update)
    return sum(time_ps for _, time_ps in platform.times(program)) / 1e12


def test_fused_tables_wait_for_the_memory_once() -> None:
    """2 x 5 us for a lookup and an update, whatever the number of tables."""
    tables = [{"rows": 1000, "dim": 64, "pooling": 8}] * 7
    quick, slow = (
        arm.plan(model(*tables), machine(2, changes), simulate=False, schemes=["table"])
        for changes in ({}, {"npu.memory.latency": "5 us"})
    )
    assert slow.highest - quick.highest == pytest.approx(10e-6, abs=1e-11)
    assert slow.bound - quick.bound == pytest.approx(10e-6, abs=1e-11)


@settings(max_examples=usually(12, 250), deadline=None)
@given(
    changes=ANY,
    tables=st.lists(TABLE, min_size=1, max_size=4),
    optimizer=OPTIMIZER,
    fused=st.booleans(),
    elementwise=st.booleans(),
    precision=st.sampled_from(["fp8", "bf16", "tf32"]),
)
def test_a_roofline_has_the_kernels_of_the_simulated_step(
    changes: dict[str, Any],
    tables: list[dict[str, int]],
    optimizer: str,
    fused: bool,
    elementwise: bool,
    precision: str,
) -> None:
    platform, made = machine(1, changes), model(*tables)
    options: dict[str, Any] = {
        "dp": 1,
        "local_batch": 128,
        "sharding": "table",
        "optimizer": optimizer,
        "fused": fused,
        "elementwise": elementwise,
        "precision": precision,
    }
    step = arm.simulate(arm.workload.dlrm(made, **options), platform)
    expected: Any = dlrm_parts.roofline(step.report)["parts"]
    found = roofline(made, platform, **options)
    for name, time_ns in expected.items():
        assert getattr(found, name) == pytest.approx(time_ns / NS_PER_S, rel=1e-9), name
    assert found.lookup > 0 < found.top_backward


def test_the_efficiency_of_a_width_moves_the_roofline() -> None:
    """Products of 1 byte at 0.1 or 0.9 of their peak; operations limit them at this batch. The top
    MLP's two layers of 2 x 128 x (32 + 2 x 2 / 2) and 2 x 128 operations a sample; the second one
    is bound by memory."""
    made = model({"rows": 1000, "dim": 32, "pooling": 1})
    times = {}
    for reached in (0.1, 0.9):
        changes = {"npu.compute.efficiency_by_type.fp8": reached, "npu.peak": "1 TFLOPS"}
        platform = machine(1, {**changes, "npu.memory.bandwidth": "100000 GB/s"})
        options: dict[str, Any] = {"dp": 1, "local_batch": 4096, "precision": "fp8"}
        times[reached] = roofline(made, platform, **options).top_forward
    assert times[0.1] / times[0.9] == pytest.approx(9, rel=1e-4)


COMMAND = ["plan", "dlrm-small", "-p", "dgx-a100", "--ranks", "8", "--schemes", "table"]


def plan(tmp_path: Path, *changes: str) -> dict[str, Any]:
    out = tmp_path / "plan.json"
    sets = [word for change in changes for word in ("--set", change)]
    assert main([*COMMAND, *sets, "--json", str(out)]) == 0
    found: dict[str, Any] = json.loads(out.read_text("utf-8"))
    return found


def test_half_the_compute_doubles_what_kernels_cost_in_a_plan(tmp_path: Path) -> None:
    """Messages keep their cost. `docs/models/compute.md`: every duration of NPU compute is divided
    by the speedup."""
    half, one, two, four = (
        plan(tmp_path, f"npu.compute.speedup={by}")["greatest_load"] for by in (0.5, 1, 2, 4)
    )
    assert half - one == pytest.approx(2 * (one - two), rel=1e-6)
    assert one - two == pytest.approx(2 * (two - four), rel=1e-6)
    assert two - four > 1e-6


@pytest.mark.parametrize(
    "change",
    [
        "npu.compute.kernel_overhead=100 us",
        "npu.compute.row_access=512 B",
        "npu.compute.memory_efficiency.embedding=0.1",
        "npu.compute.memory_efficiency.embedding_update=0.1",
        "npu.compute.efficiency.embedding_update=0.00001",
        "npu.memory.bandwidth=300 GB/s",
    ],
)
def test_slower_kernels_make_a_plan_slower(tmp_path: Path, change: str) -> None:
    before, after = plan(tmp_path)["greatest_load"], plan(tmp_path, change)["greatest_load"]
    assert after > 1.02 * before


@pytest.mark.parametrize("change", ["npu.compute=recorded", "scheduler.replay_only=true"])
def test_recorded_kernels_are_refused_with_a_way_out(
    change: str, capsys: pytest.CaptureFixture[str]
) -> None:
    key, value = change.split("=")
    with pytest.raises(SystemExit, match=r"^2$"):
        main([*COMMAND, "--set", change])
    said = capsys.readouterr().err
    assert "no recorded duration" in said and key in said
    assert "allowed: " in said and "Traceback" not in said
    platform = arm.Platform.load("dgx-a100", {key: value}, npus=8)
    with pytest.raises(arm.InputError, match="no recorded duration"):
        roofline("dlrm-small", platform, dp=8)
    assert arm.plan("dlrm-small", platform, cost="volume").highest > 0


def test_a_host_behind_cxl_has_the_rate_of_its_flits() -> None:
    """A flit of 68 bytes carries 64 (CXL 2.0): a byte costs 68 / 64 of what the link does."""
    text = """
topology: Ring(2)
links: {bandwidth: 10 GB/s, latency: 1 us}
npu: {peak: 1 TFLOPS, memory: {bandwidth: 20 GB/s, capacity: 300 MB}}
remote_memory: {model: cxl, sharing: per_npu, bandwidth: 64 GB/s, latency: 200 ns, flit: 68}
"""
    rates = platform_rates(arm.Platform.parse(text), 2)
    assert rates.host == pytest.approx(68 / 64 / 64e9, rel=1e-3)
    table, sizes = (
        parse(model({"rows": 100, "dim": 64, "pooling": 16})).tables[0],
        Sizes(2, 2, 1024, 4, 4, 4, 4, 8, "rowwise_adagrad"),
    )
    whole = ways(table, sizes, rates)[0]
    away = hosted(whole, table, sizes, rates, 0.0)
    assert away.costs[0] - whole.costs[0] == pytest.approx(2 * 100 * (64 * 4 + 4) * rates.host)


def test_rows_of_a_node_are_added_up_at_the_rate_of_its_links() -> None:
    """Nodes of 4 ranks at 200 GB/s, and 10 GB/s between two of them, in Eq. 1: a rank sends 3 / 4
    of its pooled rows within the node, and half of a quarter across."""
    text = """
topology: Switch(4)_Switch(2)
links:
  - {bandwidth: 200 GB/s, per: npu, latency: 1 ns}
  - {bandwidth: 10 GB/s, per: npu, latency: 1 ns}
npu: {peak: 1 TFLOPS, memory: {bandwidth: 100000 GB/s, capacity: 80 GB}}
"""
    made = model({"count": 2, "rows": 10000, "dim": 256, "pooling": 1})
    options: dict[str, Any] = {"sharding": "table_row", "ranks_per_node": 4}
    parts = roofline(made, arm.Platform.parse(text), dp=8, local_batch=4096, **options)
    each = 8 * 4096 * 256 * 4
    expected = each * 3 / 4 / 200e9 + each / 4 / 2 / 10e9
    assert parts.all_to_all_forward == pytest.approx(expected, rel=0.02)
    assert parts.all_to_all_backward == pytest.approx(expected, rel=0.02)

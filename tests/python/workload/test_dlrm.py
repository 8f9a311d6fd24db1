"""Recommendation models against published sizes; volumes, operations and memory in closed form."""

from __future__ import annotations

import re

import pytest

import armillary as arm
from armillary.errors import InputError
from armillary.model.dlrm import parse
from armillary.model.files import Model, load_model
from armillary.workload import Summary, Workload
from armillary.workload.dlrm import dlrm


@pytest.mark.parametrize(
    ("name", "parameters", "dense"),
    [
        # rows of Criteo Terabyte as MLPerf caps them, layers of facebookresearch/dlrm and torchrec
        ("dlrm-mlperf", 187_767_399 * 128 + 2_368_897, 171_392 + 2_197_505),
        (
            "dlrm-dcnv2",
            204_184_588 * 128 + 16_044_545,
            171_392 + 3 * (2 * 3456 * 512 + 3456) + 5_245_953,
        ),
        # HOTI 2020 Table V; "57M (MLP layers)" in ASTRA-sim 2.0, Table III
        ("dlrm-hoti", 64 * 10_000_000 * 64 + 57_411_584, 57_411_584),
    ],
)
def test_published_parameters(name: str, parameters: int, dense: int) -> None:
    model = parse(load_model(name))
    assert (model.parameters, model.dense_parameters) == (parameters, dense)


def test_hoti_prints_these_weight_matrices() -> None:
    """Section IV: top layer 0 is 16.2 MB, layers 1 to 10 are 8 MB each, of 16 bits; MB are 2^20
    there."""
    sizes = [layer.parameters * 2 / 2**20 for layer in parse(load_model("dlrm-hoti")).top]
    assert sizes[0] == 16.25
    assert sizes[1:11] == [8.0] * 10
    assert len(sizes) == 12


@pytest.mark.parametrize(
    ("name", "parameters", "mflops", "tables", "dims", "pooling", "layers", "size", "batch"),
    [  # Neo and ZionEX, Table 3
        ("dlrm-neo-a", "793B", 638, 1000, (4, 93, 384), 15, 20, 3375, 512),
        ("dlrm-neo-f", "12000B", 5, 10, (256, 256, 256), 20, 7, 490, 512),
        ("dlrm-neo-i", "332B", 60, 100, (92, 92, 92), 70, 43, 682, 2048),
    ],
)
def test_neo_table_3(
    name: str,
    parameters: str,
    mflops: int,
    tables: int,
    dims: tuple[int, int, int],
    pooling: int,
    layers: int,
    size: int,
    batch: int,
) -> None:
    model = parse(load_model(name))
    widths = [table.dim for table in model.tables]
    assert f"{model.parameters / 1e9:.0f}B" == parameters
    assert round(3 * model.operations / 2 / 1e6) == mflops  # multiply-and-adds, with backward
    assert len(model.tables) == tables
    assert (min(widths), sum(widths) / len(widths), max(widths)) == dims
    assert {table.pooling for table in model.tables} == {pooling}
    assert len(model.dense) == layers
    assert round(sum(layer.outputs for layer in model.dense) / layers) == size
    assert model.local_batch == batch


def summary(workload: Workload) -> Summary:
    found = workload.summary
    assert found is not None
    return found


def volumes(workload: Workload, index: int = 0) -> dict[tuple[str, str], tuple[int, int]]:
    entry = summary(workload).classes[index]
    return {(volume.group, volume.kind): (volume.count, volume.bytes) for volume in entry.volumes}


N, B, W = 4, 32, 4
SMALL = {
    "dense_features": 6,
    "bottom": [8, 4],
    "interaction": {"kind": "dot"},
    "top": [16, 1],
    "local_batch": B,
    "tables": [
        {"name": "big", "count": 4, "rows": 4000, "dim": 4, "pooling": 3},
        {"name": "wide", "count": 4, "rows": 500, "dim": 4},
    ],
}
"""Eight tables, dot products of 9 features: the top MLP reads 4 + 36."""

DENSE = (6 * 8 + 8) + (8 * 4 + 4) + (40 * 16 + 16) + (16 + 1)
MATRICES = 2 * B * (6 * 8 + 8 * 4 + 40 * 16 + 16)
DOTS = 2 * B * 9 * 9 * 4


def small(**options: object) -> Workload:
    return dlrm(Model("small", "dlrm", SMALL), **{"dp": N, "sharding": "table", **options})


def test_table_wise() -> None:
    found = volumes(small())
    assert found[("", "all_reduce")] == (4, DENSE * 4)
    assert found[("pooled", "all_to_all")] == (
        2,
        2 * N * B * (2 * 4) * W,
    )  # two tables of 4 on each of 4 NPUs
    assert found[("inputs", "all_to_all")] == (2, B * 8 * 4 + B * 4 * (3 + 1) * 8)
    assert set(found) == {("", "all_reduce"), ("pooled", "all_to_all"), ("inputs", "all_to_all")}
    assert ("inputs", "all_to_all") not in volumes(small(flow="hoti"))


def test_column_wise_sends_indices_to_every_shard() -> None:
    found = volumes(small(sharding="column", column_shards=2))
    assert found[("pooled", "all_to_all")] == (2, 2 * N * B * (4 * 2) * W)
    assert found[("inputs", "all_to_all")] == (2, 2 * (B * 8 * 4 + B * 4 * (3 + 1) * 8))


def test_row_wise() -> None:
    found = volumes(small(sharding="row"))
    assert found[("pooled", "reduce_scatter")] == (1, N * B * 8 * 4 * W)
    assert found[("pooled", "all_gather")] == (1, B * 8 * 4 * W)
    assert found[("inputs", "all_to_all")] == (
        2,
        B * 8 * N * 4 + B * 4 * (3 + 1) * 8,
    )  # lengths to all, indices to one
    assert ("pooled", "all_to_all") not in found


def test_row_wise_in_nodes() -> None:
    found = volumes(small(sharding="table_row", ranks_per_node=2))
    assert found[("node", "reduce_scatter")] == (1, N * B * 16 * W)  # four tables of 4 a node
    assert found[("rail", "all_to_all")] == (2, 2 * (N * B * 16 * W // 2))
    assert found[("node", "all_gather")] == (1, N * B // 2 * 16 * W)


def test_data_parallel_tables() -> None:
    found = volumes(small(sharding="data"))
    assert found[("copies", "all_reduce")] == (1, (4 * 4000 + 4 * 500) * 4 * 4)
    assert set(found) == {("", "all_reduce"), ("copies", "all_reduce")}


def test_auto_copies_what_is_smaller_than_its_messages() -> None:
    """2 rows x 4 bytes <= 32 samples x 8 bytes, so up to 32 rows."""
    tables = [{"rows": 32, "dim": 4}, {"rows": 33, "dim": 4}, *[{"rows": 999, "dim": 4}] * 7]
    workload = dlrm(Model("m", "dlrm", {**SMALL, "tables": tables}), dp=N)
    assert summary(workload).notes[0].startswith("tables: 8 table, 1 data;")


def test_quantised_messages() -> None:
    found = volumes(small(messages="forward=bf16"))
    assert found[("pooled", "all_to_all")] == (2, N * B * 8 * (2 + 4))


def test_operations_and_memory() -> None:
    workload = small(passes=2, flow="neo")
    entry = summary(workload).classes[0]
    elements = N * B * (3 + 1) * 4  # of a table of each kind: rows read and added
    first = 2 * B * 6 * 8  # of the first layer nobody needs an input gradient
    assert entry.operations == 3 * MATRICES - first + 3 * DOTS + 3 * elements
    rows = 4000 + 500
    assert entry.memory.weights == (rows * 4 + DENSE) * 4
    assert entry.memory.optimizer == rows * 4
    assert entry.memory.gradients == DENSE * 4
    assert summary(small(optimizer="adagrad")).classes[0].memory.optimizer == rows * 4 * 4


def test_column_wise_optimizer_keeps_a_row_of_state_for_each_shard() -> None:
    """Neo, section 4: independent row-wise updates bring one value for each shard of a row."""
    whole, halves = small(), small(sharding="column", column_shards=2)
    state = [
        sum(entry.ranks * entry.memory.optimizer for entry in summary(w).classes)
        for w in (whole, halves)
    ]
    assert state == [4 * 18000, 2 * 4 * 18000]


def test_model_f_fits_as_the_paper_says() -> None:
    """Section 8.5: 96 TB with 32 bits and state of every element, about 24 TB with 16 bits and
    state of every row."""

    def terabytes(**options: object) -> float:
        entries = summary(dlrm("dlrm-neo-f", dp=128, sharding="row", **options)).classes
        return (
            sum(entry.ranks * (entry.memory.weights + entry.memory.optimizer) for entry in entries)
            / 1e12
        )

    assert terabytes(table_precision="fp32", optimizer="adagrad") == pytest.approx(96, rel=1e-3)
    assert terabytes(table_precision="fp16") == pytest.approx(24 + 4 * 12 / 256, rel=1e-3)


def test_pipelining_hides_the_inputs() -> None:
    """With two passes the second batch's input exchange runs beside the first one's top MLP."""
    platform = arm.Platform.load("zionex")
    serial, piped = (
        arm.simulate(dlrm("dlrm-neo-a", dp=128, passes=3, pipeline=each), platform).step_time_ns
        for each in (False, True)
    )
    inputs = arm.simulate(dlrm("dlrm-neo-a", dp=128, passes=3, flow="hoti"), platform).step_time_ns
    assert inputs < piped < serial


def test_the_first_npu_does_the_bottom_for_all() -> None:
    """As NVIDIA's PyTorch example lays it out: no table on the first NPU, eight over the three
    others."""
    workload = small(bottom="first", flow="hoti")
    found = {volume.kind: volume for volume in summary(workload).classes[0].volumes}
    top = (40 * 16 + 16) + (16 + 1)
    assert (found["all_reduce"].count, found["all_reduce"].bytes) == (2, top * 4)
    assert (found["all_to_all"].count, found["all_to_all"].bytes) == (2, 2 * N * B * (3 * 4) * W)
    first, *others = summary(workload).classes
    tops, bottoms = 2 * B * (40 * 16 + 16), 2 * N * B * (6 * 8 + 8 * 4)
    assert first.operations == 3 * (tops + bottoms + DOTS) - 2 * N * B * 6 * 8
    assert sum(entry.ranks for entry in others) == N - 1
    assert all(entry.memory.weights < first.memory.weights + 3 * 4000 * 4 * 4 for entry in others)
    assert first.memory.weights == DENSE * 4


def test_elementwise_kernels_move_their_tensors() -> None:
    """Where nothing but memory limits, the time that elementwise kernels add is their bytes over
    its bandwidth."""
    settings = {
        "npus": 1,
        "npu.compute": "roofline",
        "npu.memory.bandwidth": "1 GB/s",
        "npu.peak": "1000 PFLOPS",
    }
    platform = arm.Platform.load("dgx-a100", settings)
    plain, more = (
        arm.simulate(small(dp=1, elementwise=each), platform).step_time_ns for each in (False, True)
    )
    outputs, features = B * (8 + 4 + 16 + 1), B * 9 * 4
    moved = (2 + 3) * outputs * W + 2 * 2 * features * W + DENSE * (8 + 4)
    assert more - plain == pytest.approx(moved, rel=1e-6)  # bytes at 1 GB/s are ns


EVERY = ("table", "column", "row", "table_row", "data", "auto")


@pytest.mark.parametrize("sharding", EVERY)
@pytest.mark.parametrize("name", ["dlrm-hoti", "dlrm-neo-i"])
def test_every_sharding_runs(name: str, sharding: str) -> None:
    workload = dlrm(name, dp=16, ranks_per_node=4, sharding=sharding, passes=2)
    result = arm.simulate(
        workload, arm.Platform.load("zionex", settings={"topology": "Switch(4)_Switch(4)"})
    )
    found = summary(workload)
    assert sum(entry.ranks for entry in found.classes) == 16
    assert found.flops == sum(entry.ranks * entry.operations for entry in found.classes)
    assert result.step_time_ns > 2 * found.flops / 16 / 312e12 * 1e9 * 0.5


def refused(**options: object) -> list[str]:
    with pytest.raises(InputError) as caught:
        small(**options)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"global_batch": 70},
            r"global_batch: 70 samples are not divisible by 4 NPUs \(allowed: 68, 72\)",
        ),
        ({"global_batch": 64, "local_batch": 16}, "global_batch: given together with local_batch"),
        (
            {"plan": "plan.yml", "sharding": "row"},
            r"sharding: given together with plan, which says how each table is split",
        ),
        (
            {"sharding": "column", "column_shards": 3},
            r"3 column shards do not divide .* 4 \(allowed: 1, 2, 4\)",
        ),
        (
            {"sharding": "row", "dp": 1000},
            r"fewer rows than 1,000 NPUs in 4 tables: wide0 has 500 .*up to 500 NPUs",
        ),
        (
            {"sharding": "table_row", "ranks_per_node": 3},
            r"nodes of 3 don't divide 4 NPUs \(allowed: 1, 2, 4\)",
        ),
        (
            {"sharding": "diagonal"},
            "unknown scheme 'diagonal' .*table, column, row, table_row, data, auto",
        ),
        (
            {"capacity": 50000},
            r"NPU 0 holds 90000 bytes .* more than 50000 \(allowed: at least 8 NPUs",
        ),
        (
            {"bottom": "first", "sharding": "row"},
            "sharding row puts tables on the NPU of the bottom MLP",
        ),
        (
            {"bottom": "first", "dp": 1},
            r"1 NPU: none is left for the tables \(allowed: shared, or dp from 2\)",
        ),
        (
            {"bottom": "first", "dp": 10},
            "8 shards of tables for 9 NPUs besides the first one .*dp up to 9",
        ),
        ({"bottom": "last"}, r"unknown bottom 'last' \(allowed: shared, first\)"),
        ({"flow": "moat", "passes": 0}, "passes: 0 is not a count"),
        ({"local_batch": 10**10}, "local_batch: 10000000000 is too much"),
        (
            {"table_precision": "fp12"},
            "table_precision: unknown precision 'fp12' .*fp32, tf32, fp16",
        ),
        ({"messages": "forward=fp16,forward=fp32"}, "'forward' is named twice"),
    ],
)
def test_what_cannot_work_is_refused(options: dict[str, object], said: str) -> None:
    found = refused(**options)
    assert any(re.search(said, problem) for problem in found), found


def test_bad_models_are_all_named() -> None:
    def said(**fields: object) -> list[str]:
        with pytest.raises(InputError) as caught:
            parse(Model("bad", "dlrm", {**SMALL, **fields}))
        return [str(problem).split(": ")[1] for problem in caught.value.problems]

    assert said(
        tables=[{"rows": 0, "dim": 8, "colour": 1}], interaction={"kind": "dots"}, bottom="8"
    ) == ["tables[0].colour", "tables[0].rows", "bottom", "interaction.kind"]
    assert said(interaction={"kind": "dot"}, bottom=[9]) == ["interaction.kind"]
    assert said(interaction={"kind": "given", "rank": 3}) == ["interaction.rank", "interaction.out"]

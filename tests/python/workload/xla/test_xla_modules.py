"""Modules that JAX compiled, against XLA's own counts and against collectives that were counted by
hand. `make peers` compiles them again."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from peer_records import answers

import armillary as arm
from armillary.workload import Model, transformer
from armillary.workload.xla import ImportedModule, Options, import_hlo, text
from armillary.workload.xla.costs import product
from armillary.workload.xla.steps import Exchange, Permute, Steps, read

DATA = ROOT / "tests/python/data/xla"
MODULES: dict[str, dict[str, Any]] = answers("xla")["modules"]
SHAPE = re.compile(r"([a-z]+)(\d+)\[(\d*(?:,\d+)*)\]")
LOOPS = {name for name, each in MODULES.items() if "loop of" in each} | {"random_1"}
COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
NETWORKS = ("analytical", "link", "flow", "packet")


@cache
def content(name: str, kind: str = "txt") -> bytes:
    """A file of a module."""
    return gzip.decompress((DATA / f"{name}.{kind}.gz").read_bytes())


@cache
def imported(name: str, kind: str = "txt") -> ImportedModule:
    """A module, imported."""
    return import_hlo(name, content(name, kind), Options())


def steps(name: str, kind: str = "txt") -> Steps:
    """The steps of a module."""
    module = text.read(content(name, kind).decode())
    assert module.entry is not None
    return read(module, module.entry, {})


def reduced(name: str) -> int:
    """Elements of all results of all-reduces, which XLA counts as operations: by the text."""
    found = 0
    for line in content(name).decode().splitlines():
        if " all-reduce(" in line:
            for _, _, dims in SHAPE.findall(line.split(" all-reduce(")[0]):
                count = 1
                for each in dims.split(","):
                    count *= int(each or 1)
                found += count
    return found


def test_there_are_thirty_modules_of_every_kind() -> None:
    assert len(MODULES) >= 30
    assert {each["devices"] for each in MODULES.values()} >= {1, 2, 4, 8, 16, 32, 64}
    kinds = {kind for each in MODULES.values() for kind, *_ in each["collectives"]}
    assert kinds == {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send"}


@pytest.mark.parametrize("name", MODULES)
def test_operations_are_those_of_cost_analysis(name: str) -> None:
    """Where nothing loops. XLA counts a custom call as minus one operation, and the additions of
    an all-reduce, which belong to the collective here."""
    covered, recorded = imported(name).covered, MODULES[name]
    customs = covered.computed.get("custom calls")
    additions = reduced(name) - (customs.count if customs else 0)
    if name in LOOPS:
        assert covered.operations + additions > recorded["flops"]
    else:
        assert covered.operations + additions == recorded["flops"]
        assert covered.transcendentals == recorded["transcendentals"]


@pytest.mark.parametrize("name", sorted(MODULES.keys() - LOOPS - {"numbers_1"}))
def test_bytes_are_those_of_cost_analysis(name: str) -> None:
    """Without those of collectives and the pointers of tuples, which XLA counts too."""
    module = text.read(content(name).decode())
    assert module.entry is not None
    entry = module.computations[module.entry]
    others = 0
    for each in entry.instructions:
        operands = sum(one.shape.bytes for one in entry.operands(each))
        if each.opcode == "tuple":
            others += 8 * len(each.shape.parts)
        elif each.opcode in COLLECTIVES:
            others += operands + each.shape.bytes
        elif each.opcode == "partition-id":
            others += each.shape.bytes
    assert imported(name).covered.bytes + others == MODULES[name]["bytes"]


def exchanged(made: Steps, devices: int) -> Counter[tuple[str, int, int]]:
    """Bytes of a rank by kind, ranks of a group and distance of two neighbors in it."""
    found: Counter[tuple[str, int, int]] = Counter()
    for step in made.steps:
        if isinstance(step, Exchange):
            groups = made.families[step.family]
            assert sorted(rank for group in groups for rank in group) == list(range(devices))
            distances = {group[1] - group[0] for group in groups}
            assert len(distances) == 1
            found[step.kind, len(groups[0]), distances.pop()] += step.bytes
        elif isinstance(step, Permute):
            source, target = made.pairs[step.pairs][0]
            found["send", 2, target - source] += step.bytes
    return found


def by_hand(name: str) -> Counter[tuple[str, int, int]]:
    """The same, counted by hand."""
    expected: Counter[tuple[str, int, int]] = Counter()
    for kind, size, ranks, distance in MODULES[name]["collectives"]:
        expected[kind, ranks, distance] += size
    return expected


@pytest.mark.parametrize("name", MODULES)
def test_collectives_are_those_counted_by_hand(name: str) -> None:
    devices = MODULES[name]["devices"]
    assert exchanged(steps(name), devices) == by_hand(name)
    assert imported(name).workload.ranks == devices


@pytest.mark.parametrize("name", sorted(path.name[:-13] for path in DATA.glob("*.split.txt.gz")))
def test_a_module_that_is_not_scheduled_has_the_same_products_and_collectives(name: str) -> None:
    """Before optimization, each sum is one collective, and each instruction one kernel."""
    devices = MODULES[name]["devices"]
    made = steps(name, "split.txt")
    assert exchanged(made, devices) == by_hand(name)
    found = [imported(name, kind) for kind in ("split.txt", "txt")]
    assert [each.covered.scheduled for each in found] == [False, True]
    assert found[0].workload.ranks == devices
    if "products" in found[0].covered.computed:
        products = [each.covered.computed["products"].operations for each in found]
        assert products[0] == pytest.approx(products[1], rel=0.02)
    times = [arm.simulate(each.workload, "dgx-h100", npus=devices).step_time_ns for each in found]
    assert min(times) > 0


@pytest.mark.parametrize("name", sorted(each for each in MODULES if "loop of" in MODULES[each]))
def test_a_loop_is_the_same_as_the_program_without_it(name: str) -> None:
    """Products and collectives are equal one by one; the loop counts and slices in addition."""
    flat = MODULES[name]["loop of"]
    loop, other = imported(name).covered, imported(flat).covered
    assert loop.computed["products"].operations == other.computed["products"].operations
    assert loop.collectives == other.collectives
    assert loop.transcendentals == other.transcendentals
    assert loop.operations == pytest.approx(other.operations, rel=0.02)


@pytest.mark.parametrize("name", sorted(path.name[:-10] for path in DATA.glob("*.hlo.pb.gz")))
def test_text_and_protobuf_are_the_same_workload(name: str, tmp_path: Path) -> None:
    one = imported(name)
    other = imported(name, "hlo.pb")
    assert one.covered.computed == other.covered.computed
    assert one.covered.collectives == other.covered.collectives
    one.workload.write(tmp_path / "text")
    other.workload.write(tmp_path / "proto")
    for path in (tmp_path / "text").glob("*.et"):
        assert path.read_bytes() == (tmp_path / "proto" / path.name).read_bytes()
    buffers = (name, content(name, "buffers.txt"))
    held = import_hlo(name, content(name), Options(), buffers)
    assert held.covered.peak_bytes == other.covered.peak_bytes
    summary = held.workload.summary
    assert summary is not None
    assert summary.memory == held.covered.peak_bytes != 0


@pytest.mark.parametrize(("data", "tensor"), [(2, 4), (4, 2)])
def test_products_and_collectives_are_those_of_our_own_model(
    data: int, tensor: int, tmp_path: Path
) -> None:
    """Layers of a transformer that are cut as Megatron cuts them, against a stage in the middle of
    our model: matrices one by one, fused or not, and bytes of collectives. Ours are of 2 bytes."""
    shape = {"layers": 8, "hidden": 256, "heads": 8, "ffn": 512, "sequence": 64}
    others = {"vocabulary": 64, "norm": "rms", "bias": False, "dropout": False, "tied": False}
    model = Model("recorded", "transformer", {**shape, **others})
    ours = transformer(
        model, tp=tensor, dp=data, pp=4, micro_batch=8 // data, global_batch=8, attention="unfused"
    )
    ours.write(tmp_path / "ours")
    wanted = Counter(
        (batch, *sorted((m, n)), k)
        for batch, m, n, k, _ in (
            map(int, said.split(b","))
            for said in re.findall(
                rb"gemm\(([\d,]*)\)", (tmp_path / "ours/program.1.et").read_bytes()
            )
        )
    )
    name = f"decoder_{data}_{tensor}"
    found: Counter[tuple[int, ...]] = Counter()
    for computation in text.read(content(name).decode()).computations:
        for each in computation.instructions:
            if each.opcode == "dot":
                made = product(each, computation.operands(each))
                assert made is not None
                found[made.batch, *sorted((made.m, made.n)), made.k] += 1
    assert found == wanted
    assert found.total() == 36
    summary, other = ours.summary, imported(name).workload.summary
    assert summary is not None
    assert other is not None
    reduced = {each.group: each.bytes for each in summary.classes[1].volumes}
    theirs = sorted(each.bytes for each in other.classes[0].volumes)
    assert theirs == sorted((2 * reduced["dp"], 2 * reduced["tp"]))


@pytest.mark.parametrize(
    "name", ["both_2_4", "fsdp_4", "pipeline_4_loop", "experts_4", "strided_4_2"]
)
def test_every_network_runs_it(name: str) -> None:
    found = imported(name).workload
    times = [
        arm.simulate(found, "dgx-h100", npus=found.ranks, backend=each).step_time_ns
        for each in NETWORKS
    ]
    assert min(times) > 0
    assert max(times) < 2 * min(times)

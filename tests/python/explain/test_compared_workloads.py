"""Workloads next to each other, operation by operation, against counts of theory."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from conftest import Armillary

import armillary as arm
from armillary.errors import InputError
from armillary.workload import Model, Program, transformer

MODEL = {"layers": 3, "hidden": 64, "heads": 4, "ffn": 128, "sequence": 32, "vocabulary": 256}


def made(chance: random.Random) -> tuple[arm.Workload, dict[str, int]]:
    """A workload of four ranks that two programs share, and what it has by name."""
    counts = {name: chance.randint(1, 5) for name in ("gemm", "all_reduce", "kernel")}
    programs = []
    for number in range(2):
        program = Program()
        last: list[int] = []
        for name, count in counts.items():
            for _ in range(count):
                if name == "gemm":
                    node = program.gemm("a", last, m=8, n=16 * (number + 1), k=4, batch=1, width=2)
                elif name == "all_reduce":
                    node = program.collective("b", last, name, 1024, "group")
                else:
                    node = program.compute("c", last, operations=5, bytes=7, kernel="elementwise")
                last = [node]
        programs.append(program)
    groups = {"group": [0, 1, 2, 3]}
    return arm.Workload.listed("drawn", programs, [0, 0, 0, 1], groups), counts


@pytest.mark.parametrize("seed", range(5))
def test_numbers_are_those_of_all_ranks(seed: int) -> None:
    chance = random.Random(seed)
    (one, a), (other, b) = made(chance), made(chance)
    [pair] = arm.compare(one, other).data["pairs"]
    found = {(row["m"], row["n"]): (row["a"], row["b"]) for row in pair["products"]}
    assert found == {
        (8, 16): (3 * a["gemm"], 3 * b["gemm"]),
        (8, 32): (a["gemm"], b["gemm"]),
    }
    assert pair["collectives"] == [
        {
            "kind": "all_reduce",
            "bytes": 1024,
            "ranks": 4,
            "distance": 1,
            "a": 4 * a["all_reduce"],
            "b": 4 * b["all_reduce"],
        }
    ]
    [kernels] = pair["kernels"]
    assert kernels["a_bytes"] == 4 * 7 * a["kernel"]
    assert kernels["b_operations"] == 4 * 5 * b["kernel"]


@pytest.mark.parametrize("seed", range(5))
def test_kernels_differ_by_any_number(seed: int) -> None:
    """Kernels differ by runs, operations or bytes: the verdict names the kind, and its rows come
    first."""
    chance = random.Random(seed)
    kinds = ("attention", "elementwise", "normalization", "other")
    base = {kind: [chance.randint(1, 9) for _ in range(3)] for kind in kinds}
    other = {kind: [*numbers] for kind, numbers in base.items()}
    changed = sorted(chance.sample(sorted(base), chance.randint(0, 4)))
    numbers = {kind: chance.randrange(3) for kind in changed}
    for kind, at in numbers.items():
        other[kind][at] *= 4
    found = arm.compare(_kernels(base), _kernels(other), names=["one", "two"])
    verdict = found.page.verdict
    rows = [row["kind"] for row in found.data["pairs"][0]["kernels"]]
    assert rows == [*changed, *(kind for kind in sorted(base) if kind not in changed)]
    assert ("All other kernels (4 kinds) are equal." in verdict) == (not changed)
    # More runs also have more operations and bytes.
    names = [["count", "operations", "bytes"], ["operations"], ["bytes"]]
    said = [
        f"{kind} ({', '.join(f'{name} +300.0 %' for name in names[numbers[kind]])})"
        for kind in changed
    ]
    more = [f"{len(said) - 3} more"] if len(said) > 3 else []
    if changed:
        verb = "differs" if len(changed) == 1 else "differ"
        named = ", ".join(said[:3] + more)
        wanted = f"Of 4 kinds of other kernels, {len(changed)} {verb}: {named}."
        assert verdict.endswith(wanted)


def _kernels(runs: dict[str, list[int]]) -> arm.Workload:
    """A rank that runs kernels by kind: how often, operations and bytes of each."""
    program = Program()
    for kind, (count, operations, size) in runs.items():
        for _ in range(count):
            program.compute("a", [], operations=operations, bytes=size, kernel=kind)
    return arm.Workload.listed("kernels", [program], [0], {})


def test_a_window_differs_by_operations_alone(tmp_path: Path, armillary: Armillary) -> None:
    """Attention over a window runs as often and moves the same bytes."""
    for name, more in (("full", {}), ("near", {"window": 8})):
        transformer(Model("small", "transformer", MODEL | more)).write(tmp_path / name)
    run = armillary("compare", str(tmp_path / "full"), str(tmp_path / "near"))
    text = " ".join(run.stdout.split())
    assert "kinds of other kernels, 1 differs: attention (operations -" in text


def test_what_differs_is_named(tmp_path: Path, armillary: Armillary) -> None:
    """Sequence parallelism has other collectives and the same products, but for the loss."""
    model = Model("small", "transformer", MODEL)
    for name, sp in (("plain", False), ("cut", True)):
        transformer(model, tp=4, sp=sp).write(tmp_path / name)
    run = armillary("compare", str(tmp_path / "plain"), str(tmp_path / "cut"), "--json", "-")
    found = json.loads(run.stdout)
    assert found["schema"] == "armillary.workload-comparison/1"
    [pair] = found["pairs"]
    assert all(row["a"] == row["b"] for row in pair["products"])
    kinds = {row["kind"] for row in pair["collectives"] if not row["a"]}
    assert kinds == {"all_gather", "reduce_scatter"}
    text = armillary("compare", str(tmp_path / "plain"), str(tmp_path / "cut")).stdout
    assert "are equal. Of" in text.replace("\n", " ")


def test_other_ranks_are_a_warning() -> None:
    model = Model("small", "transformer", MODEL)
    found = arm.compare(transformer(model, dp=2), transformer(model, dp=4), names=["two", "four"])
    assert found.data["warnings"] == ["four: 4 ranks, but 2 ranks in two"]


def test_workloads_stand_by_themselves(tmp_path: Path) -> None:
    workload, _ = made(random.Random(1))
    other = tmp_path / "result.json"
    other.write_text("{}", "utf-8")
    with pytest.raises(InputError, match="one workload"):
        arm.compare(workload)
    with pytest.raises(InputError, match="is not a workload as others are"):
        arm.compare(workload, str(other))
    with pytest.raises(InputError, match="is not a workload as others are"):
        arm.compare(str(other), workload)

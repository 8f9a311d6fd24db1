"""Ranks on a ring, or on both sides of a pipeline with two directions, do the same with other
peers: one of them stands for all, and the report is that of simulating each."""

from __future__ import annotations

import contextlib
import random
import warnings
from collections.abc import Sequence
from pathlib import Path

import pytest
from thorough import usually

import armillary as arm
from armillary.workload import Program, Workload, build, mesh
from armillary.workload.plan import StagePlan
from armillary.workload.schedule import Pass
from armillary.workload.stage import Builder, rings

_PLATFORMS = ("dgx-h100-16n", "dgx-a100-16n", "a3high-16n")


def _drawn(rng: random.Random) -> tuple[Workload, int, str]:
    """A step of a layout with rings or two directions, its number of ranks, and its options."""
    while True:
        tp, cp, pp, dp = (rng.choice(of) for of in ((1, 2, 8), (1, 2, 4), (1, 2, 4), (1, 2, 4)))
        if tp * cp * pp * dp > 32 or cp * pp == 1:
            continue
        model = rng.choice(("llama-3-8b", "mixtral-8x7b"))
        options: dict[str, object] = {"tp": tp, "sp": tp > 1, "cp": cp, "pp": pp, "dp": dp}
        options |= {"zero": rng.choice((0, 1, 2, 3)), "global_batch": dp * max(2 * pp, 2)}
        options |= {"seq": rng.choice((512, 4096))}
        if cp > 1:
            options["cp_comm_type"] = "p2p"
        if pp > 1:
            options["schedule"] = rng.choice(("dualpipe", "1f1b", "zb-h1"))
        if model == "mixtral-8x7b":
            options["ep"] = rng.choice([n for n in (1, 2, 4) if dp % n == 0])
        with contextlib.suppress(arm.InputError):
            return build(model, **options), tp * cp * pp * dp, f"{model} {options}"


@pytest.mark.parametrize("seed", range(usually(8, 200)))
def test_folded_steps_are_those_of_all_ranks(seed: int) -> None:
    """Every number of the report is the same. On fair flows, chains of equal length may name
    another rank as the one that they wait for, so detail is left out there."""
    rng = random.Random(seed)
    workload, ranks, layout = _drawn(rng)
    platform = arm.Platform.of(rng.choice(_PLATFORMS), npus=ranks)
    backend = rng.choice(("analytical", "link", "flow"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one, other = (
            arm.simulate(
                workload, platform, backend=backend, fold=fold, detail=backend != "flow"
            ).report
            for fold in (True, False)
        )
    assert one == other, (layout, platform.name, backend)


def _apart(plan: StagePlan, stage: int, passes: Sequence[Pass]) -> list[Program]:
    """The programs of the ranks of a stage, each built operation by operation."""
    every = rings(plan.at.par)
    built = {ring: Builder(plan, stage, passes, ring).build() for ring in every}
    return [built[ring] for ring in every]


@pytest.mark.parametrize("seed", range(usually(4, 100)))
def test_programs_with_other_peers_are_those_built_apart(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of both workloads are equal, and so are their reports."""
    shared, ranks, layout = _drawn(random.Random(seed))
    monkeypatch.setattr(mesh, "build_stage", _apart)
    apart, _, _ = _drawn(random.Random(seed))
    found = []
    for name, workload in (("shared", shared), ("apart", apart)):
        workload.write(tmp_path / name)
        files = {file.name: file.read_bytes() for file in (tmp_path / name).iterdir()}
        platform = arm.Platform.of("dgx-h100-16n", npus=ranks)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append((files, arm.simulate(workload, platform, detail=True).report))
    assert found[0] == found[1], layout


def test_two_peers_never_become_one() -> None:
    """A finished program takes no operation, and no other program has one rank for two of its."""
    program = Program()
    program.send("to the next", [], 1, 8)
    program.recv("from the one before", [], -1, 8)
    other = program.with_peers({1: -7})
    assert (len(other), other.volumes) == (2, program.volumes)
    with pytest.raises(ValueError, match="become the same rank"):
        program.with_peers({1: -1})
    with pytest.raises(ValueError, match="without a program"):
        Program(None, {1: 2})
    with pytest.raises(ValueError, match="finished"):
        other.metadata("more", [])


def _classes(workload: Workload, ranks: int) -> int:
    platform = arm.Platform.of("dgx-h100", npus=ranks)
    found: int = arm.simulate(workload, platform).report["symmetry"]["classes"]
    return found


def test_a_ring_within_one_switch_has_one_class() -> None:
    """All ranks send to the next one over the same kind of link."""
    assert _classes(build("llama-3-8b", cp=8, cp_comm_type="p2p", global_batch=1), 8) == 1


def test_both_sides_of_a_pipeline_are_alike() -> None:
    """DualPipe's stages s and pp - 1 - s hold the same layers and mirror each other's passes (the
    schedule's definition: arXiv:2412.19437, figure 5)."""
    options = {"pp": 4, "dp": 2, "schedule": "dualpipe", "global_batch": 16}
    assert _classes(build("llama-3-8b", **options), 8) == 2

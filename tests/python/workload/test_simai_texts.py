"""Texts of SimAI's dialect: real files, and bytes and groups of drawn first lines by a reader of
their own."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from conftest import ROOT, Armillary
from thorough import usually

import armillary as arm
from armillary.errors import InputError

DATA = ROOT / "tests/python/data/simai"
KINDS = {
    "ALLREDUCE": "all_reduce",
    "ALLGATHER": "all_gather",
    "REDUCESCATTER": "reduce_scatter",
    "ALLTOALL": "all_to_all",
}
COMPUTE, UPDATE = 100_000, 50_000
"""ns of each computation and each update."""
PASSES = ("forward", "input_gradient", "weight_gradient")


def free(npus: int) -> arm.Platform:
    """A network whose time is at most some ns."""
    settings = {"scheduler.endpoint_delay": "0 ns", "scheduler.chunks": "1"}
    return arm.Platform(
        f"Switch({npus})", bandwidth="1000000 TB/s", latency="0 ns", settings=settings
    )


def volumes(workload: arm.Workload) -> Counter[tuple[int, str]]:
    """Bytes by members of the group and kind."""
    found = Counter[tuple[int, str]]()
    for _, _, members, kind, _, size in workload._core.volumes():
        found[len(members), kind] += size
    return found


def text(
    model: int, experts: int, copies: int, rows: list[list[tuple[str, int]]], order: list[int]
) -> str:
    keys = [
        f"model_parallel_NPU_group: {model}",
        f"ep: {experts}",
        "pp: 1",
        "vpp: 4",
        "ga: 2",
        f"all_gpus: {model * experts * copies}",
        "checkpoints: 0",
        "checkpoint_initiates: 0",
    ]
    lines = [" ".join(["HYBRID_TRANSFORMER_FWD_IN_BCKWD", *(keys[place] for place in order)])]
    lines.append(str(len(rows)))
    for number, row in enumerate(rows):
        parts = "\t".join(f"{COMPUTE}\t{word}\t{size}" for word, size in row)
        lines.append(f"layer{number}\t-1\t{parts}\t{UPDATE}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("seed", range(usually(12, 200)))
def test_bytes_and_groups(seed: int, tmp_path: Path) -> None:
    """Each collective's bytes on rank 0, by the size of its group; the step without a network is
    the chain of all computations and updates."""
    draw = random.Random(seed)
    model, experts, copies = (draw.randint(1, 4) for _ in range(3))
    size = {"": (model, experts * copies), "_EP": (experts,) * 2, "_DP_EP": (copies,) * 2}
    words = ["NONE", *(f"{kind}{reach}" for kind in KINDS for reach in size)]
    rows = [
        [(draw.choice(words), draw.randint(1, 10**9)) for _ in PASSES]
        for _ in range(draw.randint(1, 6))
    ]
    path = tmp_path / "t.txt"
    path.write_text(text(model, experts, copies, rows, draw.sample(range(8), 8)))
    npus = model * experts * copies
    expected, chain = Counter[tuple[int, str]](), 0
    for row in rows:
        for pass_, (word, amount) in zip(PASSES, row, strict=True):
            kind, _, reach = word.partition("_")
            members = size[f"_{reach}" if reach else ""][pass_ == "weight_gradient"]
            chain += COMPUTE
            if kind in KINDS and members > 1:
                part = -(-amount // members) if kind == "ALLGATHER" else amount
                expected[members, KINDS[kind]] += part
                # The update of a weight's gradient passes while the loop goes on.
                chain += UPDATE * (pass_ != "weight_gradient")
    workload = arm.load(str(path), free(npus))
    report = arm.simulate(workload, free(npus))
    assert volumes(workload) == expected
    assert chain <= report.step_time_ns <= 1.01 * (chain + UPDATE * len(rows))


def test_a_real_model() -> None:
    """Llama 7B of AICB: every collective of the file but the broadcast, with its size and group."""
    path = DATA / "aicb_llama7b_tp2.txt"
    workload = arm.load(str(path), free(8))
    expected = Counter[tuple[int, str]]()
    for line in path.read_text().splitlines()[2:]:
        words = line.split()
        for column, members in ((3, 2), (6, 2), (9, 4)):
            kind, amount = words[column], int(words[column + 1])
            if kind in KINDS:
                part = amount // members if kind == "ALLGATHER" else amount
                expected[members, KINDS[kind]] += part
    assert volumes(workload) == expected
    warnings = arm.simulate(workload, free(8)).warnings
    assert any("a collective of the text is not part of its training loop" in w for w in warnings)


def test_a_real_micro_benchmark(armillary: Armillary) -> None:
    path = DATA / "simai_micro_all_reduce.txt"
    assert arm.load(str(path)).ranks == 8
    ran = armillary("run", path, "-p", "dgx-h100")
    assert ran.returncode == 0, ran.stderr
    ran = armillary("run", path, "-p", "dgx-h100", "--npus", "16")
    assert ran.returncode == 2
    assert "all_gpus is 8, and the platform has 16 NPUs" in ran.stderr


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("pp: 1", "pp: 12"), "the text has no pipeline"),
        (("ep: 1", "ep: 3"), "doesn't divide"),
        (("ALLREDUCE", "ALLTOALL_TP"), "ALLTOALL_TP"),
        (("checkpoints: 0", "checkpoints: 1 0"), "SimAI repeats no forward pass"),
        (("all_gpus: 8", "all_gpus: 0"), "all_gpus is 0"),
    ],
)
def test_refused(change: tuple[str, str], said: str, tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_text((DATA / "simai_micro_all_reduce.txt").read_text().replace(*change))
    with pytest.raises(InputError, match=said):
        arm.load(str(path), free(8))
